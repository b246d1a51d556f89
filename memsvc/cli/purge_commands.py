"""Purge on the database itself, for an operator who names the tenant."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memsvc.adapters.clock import SystemClock
from memsvc.administration.purge import Purge
from memsvc.administration.purge_tools import PurgeArguments, PurgeTools
from memsvc.cli.options import settings_of, tenant_of, with_database
from memsvc.core.errors import invalid
from memsvc.core.scope import Scope
from memsvc.core.validation_messages import validation_message
from memsvc.store import keys as registry
from memsvc.store.database import Database
from memsvc.tool_registry import owners, settle_s


def run_purge(
    tenant: str,
    project: str,
    args: dict[str, Any],
    *,
    keys: bool,
    config: Path | None,
    data_dir: Path | None,
) -> dict[str, Any]:
    """Return what tenant_purge answers, without a key.

    With `keys` those of the tenant are removed last, and counted.
    """
    owner = tenant_of(tenant)
    try:
        arguments = PurgeArguments.model_validate({"project": project} | args)
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid(f"{'.'.join(map(str, first['loc']))} {validation_message(first)}") from error

    settings = settings_of(config, data_dir=data_dir)

    async def work(database: Database) -> dict[str, Any]:
        clock = SystemClock()
        tools = PurgeTools(
            Purge(database, clock, owners(database, clock), settle_s=settle_s(settings))
        )
        result = await tools.purge(Scope(owner, arguments.project), arguments)
        body = result.model_dump(mode="json")
        if keys:
            forget = registry.count_keys if arguments.dry_run else registry.forget_tenant
            body["counts"] |= await forget(database, owner)
        return body

    return with_database(settings, work)
