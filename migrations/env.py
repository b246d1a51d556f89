"""Runs the revisions on the connection that `memsvc.store.migrate` opened, each in a transaction
unless one is open."""

from typing import Any

from alembic import context

from memsvc.store import policies


def _record(*, ctx: Any, step: Any, **_: Any) -> None:
    """Note that a revision was applied, and close its tables before anybody sees them."""
    policies.secure(ctx.connection)
    context.config.attributes["applied"].append(step.up_revision_id)


context.configure(
    connection=context.config.attributes["connection"],
    on_version_apply=_record,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
