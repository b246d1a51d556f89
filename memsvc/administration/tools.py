"""Everything that the administration of a tenant publishes, assembled."""

from collections.abc import Collection

from memsvc.administration.archive_restore import FileQuotas
from memsvc.administration.archive_tools import ArchiveOptions, ArchiveTransfer, archive_tools
from memsvc.administration.call_hours_tool import call_hours_tool
from memsvc.administration.call_tools import CallLogReader, call_tools
from memsvc.administration.job_tools import job_tools
from memsvc.administration.key_tools import key_tools
from memsvc.administration.limit_tools import EffectiveLimits, limits_tool
from memsvc.administration.purge import Purge
from memsvc.administration.purge_tools import purge_tools
from memsvc.administration.tenant_keys import TenantKeys
from memsvc.administration.tenant_usage import TenantUsage
from memsvc.administration.usage_tools import usage_tools
from memsvc.core.ports import Clock
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.store.ownership import Owners


def published(  # noqa: PLR0913 - one name a part, most of them by keyword
    database: Database,
    clock: Clock,
    *,
    archives: ArchiveOptions,
    file_quotas: FileQuotas,
    known_jobs: Collection[str],
    sweep_jobs: Collection[str],
    calls_kept_days: int,
    owners: Owners,
    calls_per_day: int,
    effective_limits: EffectiveLimits,
    settle_s: float,
) -> Published:
    """Return the administrative tools.

    `known_jobs` are the jobs of all other parts, `sweep_jobs` those of them that a restore queues.
    The call log lists `calls_kept_days` back, 0 for all of it. `owners` know what belongs to whom,
    `calls_per_day` limits the model calls of a tenant, `effective_limits` returns its other limits.
    `settle_s` is how long batched writes may be pending.
    """
    tenant_archives = ArchiveTransfer(
        database, clock, archives, file_quotas, known_jobs=known_jobs, sweep_jobs=sweep_jobs
    )
    tools = [
        *key_tools(TenantKeys(database, clock), clock),
        *call_tools(CallLogReader(database, clock, calls_kept_days)),
        call_hours_tool(database, clock),
        *job_tools(database, clock),
        limits_tool(effective_limits),
        *purge_tools(Purge(database, clock, owners, settle_s=settle_s)),
        *usage_tools(TenantUsage(database, clock, calls_per_day, file_quotas.stored)),
    ]
    return Published(
        tools=[*archive_tools(tenant_archives), *tools], jobs=[], archives=tenant_archives
    )
