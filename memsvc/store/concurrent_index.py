"""Concurrent creation of indexes on tables that are in use."""

from typing import Any

from alembic import op
from sqlalchemy import text


def build(name: str, table: str, columns: list[str], **options: Any) -> None:
    """Build an index concurrently, for a revision, where indexes come before other changes.

    Earlier statements of the revision are committed. An existing index stays, unless it is invalid,
    as an interrupted build leaves it: that is built again. A build waits for every older
    transaction, and nobody waits for it: it has the time that a whole migration has.
    """
    context = op.get_context()
    assert context.config is not None
    with context.autocommit_block():
        connection = op.get_bind()
        before = connection.scalar(text("SELECT current_setting('lock_timeout')"))
        connection.exec_driver_sql(
            f"SET lock_timeout = '{context.config.attributes['lock_timeout_ms']}ms'"
        )
        invalid = (
            "SELECT true FROM pg_index WHERE indexrelid = to_regclass(:name) AND NOT indisvalid"
        )
        try:
            if connection.scalar(text(invalid), {"name": name}):
                op.drop_index(name, table, postgresql_concurrently=True)
            op.create_index(
                name, table, columns, postgresql_concurrently=True, if_not_exists=True, **options
            )
        finally:
            connection.exec_driver_sql(f"SET lock_timeout = '{before}'")
