"""All that the administration of a tenant publishes, put together."""

from memsvc.core.ports import Clock
from memsvc.core.tools import Published
from memsvc.store.database import Database


def published(database: Database, clock: Clock) -> Published:
    """The administrative tools."""
    return Published(tools=[], jobs=[])
