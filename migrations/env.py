"""Runs the revisions on the connection that `memsvc.store.migrate` opened, inside its transaction."""

from typing import Any

from alembic import context

from memsvc.store.schema import metadata


def _record(*, step: Any, **_: Any) -> None:
    context.config.attributes["applied"].append(step.up_revision_id)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_server_default=True,
    on_version_apply=_record,
)
with context.begin_transaction():
    context.run_migrations()
