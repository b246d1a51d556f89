"""Everything that the administration of a tenant publishes, assembled."""

from collections.abc import Collection

from memsvc.administration.archive_restore import FileQuotas
from memsvc.administration.archive_tools import ArchiveOptions, ArchiveTransfer
from memsvc.administration.call_tools import CallLogReader, JobTools
from memsvc.administration.key_tools import KeyTools
from memsvc.administration.purge import Purge
from memsvc.administration.tenant_keys import TenantKeys
from memsvc.administration.usage_tools import EffectiveLimits, LimitReader, UsageTools
from memsvc.core.ports import Clock
from memsvc.core.tool_methods import tools_of
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
    nouns = (
        tenant_archives,
        KeyTools(TenantKeys(database, clock), clock),
        CallLogReader(database, clock, calls_kept_days),
        JobTools(database, clock),
        LimitReader(effective_limits),
        Purge(database, clock, owners, settle_s=settle_s),
        UsageTools(database, clock, calls_per_day, file_quotas.stored),
    )
    return Published(
        tools=[tool for noun in nouns for tool in tools_of(noun)],
        jobs=[],
        archives=tenant_archives,
    )
