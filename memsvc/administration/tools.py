"""Everything that the administration of a tenant publishes, assembled."""

from collections.abc import Collection

from memsvc.administration.archives import ArchiveOptions, Archives, archive_tools
from memsvc.administration.call_hours_tool import call_hours_tool
from memsvc.administration.call_tools import CallListing, call_tools
from memsvc.administration.job_tools import job_tools
from memsvc.administration.key_tools import key_tools
from memsvc.administration.keys import Keys
from memsvc.administration.limit_tools import InForce, limits_tool
from memsvc.administration.purge_tools import purge_tools
from memsvc.administration.purging import Purging
from memsvc.administration.restoring import Allowed
from memsvc.administration.usage import Usage
from memsvc.administration.usage_tools import usage_tools
from memsvc.core.ports import Clock
from memsvc.core.tools import Published
from memsvc.store.belongings import Owners
from memsvc.store.database import Database


def published(  # noqa: PLR0913 - one name a part, most of them by keyword
    database: Database,
    clock: Clock,
    *,
    archives: ArchiveOptions,
    allowed: Allowed,
    known_jobs: Collection[str],
    sweeps: Collection[str],
    calls_kept_days: int,
    owners: Owners,
    calls_a_day: int,
    in_force: InForce,
    settle_s: float,
) -> Published:
    """Return the administrative tools.

    `known_jobs` are the jobs of all other parts, `sweeps` those of them that a restore queues. The
    call log lists `calls_kept_days` back, 0 for all of it. `owners` know what belongs to whom,
    `calls_a_day` limits the model calls of a tenant, `in_force` returns its other limits.
    `settle_s` is how long batched writes may be pending.
    """
    kept = Archives(database, clock, archives, allowed, known_jobs=known_jobs, sweeps=sweeps)
    affairs = [
        *key_tools(Keys(database, clock), clock),
        *call_tools(CallListing(database, clock, calls_kept_days)),
        call_hours_tool(database, clock),
        *job_tools(database, clock),
        limits_tool(in_force),
        *purge_tools(Purging(database, clock, owners, settle_s=settle_s)),
        *usage_tools(Usage(database, clock, calls_a_day, allowed.stored)),
    ]
    return Published(tools=[*archive_tools(kept), *affairs], jobs=[], archives=kept)
