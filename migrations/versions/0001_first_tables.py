"""The registry, the call log, files in blocks, the index, facts, turn guards and sessions."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

Name = sa.Text(collation="C")


def _column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, **({"nullable": False} | options))


def _moment(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _tenant_table(
    name: str, *columns: sa.Column[Any], key: tuple[str, ...], **options: Any
) -> None:
    op.create_table(
        name,
        _column("tenant", sa.LargeBinary()),
        _column("project", Name),
        *columns,
        sa.PrimaryKeyConstraint("tenant", "project", *key, **options),
    )


def upgrade() -> None:
    _registry()
    _files()
    _index()
    _turns()


def _registry() -> None:
    op.create_table(
        "tenants",
        _column("tenant", sa.LargeBinary()),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.create_table(
        "api_keys",
        _column("key_hash", sa.LargeBinary()),
        _column("key_id", sa.UUID()),
        _column("tenant", sa.LargeBinary()),
        _column("label", sa.Text()),
        _column("permissions", sa.ARRAY(sa.Text())),
        _column("projects", sa.ARRAY(sa.Text()), nullable=True),
        _column("hidden_tools", sa.ARRAY(sa.Text())),
        _moment("created_at"),
        _moment("expires_at", nullable=True),
        _moment("revoked_at", nullable=True),
        _moment("last_used_at", nullable=True),
        sa.PrimaryKeyConstraint("key_hash"),
        sa.UniqueConstraint("key_id"),
    )
    op.create_index("api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "calls",
        _column("tenant", sa.LargeBinary()),
        _moment("called_at"),
        _column("call", sa.UUID()),
        _column("project", Name),
        _column("surface", sa.String(16)),
        _column("tool", sa.Text()),
        _column("key_label", sa.Text()),
        _column("status", sa.String(16)),
        _column("code", sa.Text(), nullable=True),
        _column("duration_ms", sa.REAL()),
        _column("arguments", JSONB()),
        _column("request_id", sa.Text()),
        sa.PrimaryKeyConstraint("tenant", "called_at", "call"),
    )


def _files() -> None:
    _tenant_table("projects", _column("size_bytes", sa.BigInteger()), _moment("created_at"), key=())
    _tenant_table(
        "files",
        _column("incarnation", sa.UUID()),
        _column("path", Name),
        _column("revision", sa.BigInteger()),
        _column("stream", sa.BigInteger()),
        _column("size_bytes", sa.BigInteger()),
        _column("is_text", sa.Boolean()),
        _column("owner", sa.Text()),
        _moment("created_at"),
        _moment("updated_at"),
        _moment("deleted_at", nullable=True),
        key=("incarnation",),
    )
    op.create_index(
        "files_path",
        "files",
        ["tenant", "project", "path"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    _tenant_table(
        "streams",
        _column("incarnation", sa.UUID()),
        _column("first_revision", sa.BigInteger()),
        _column("stream", sa.BigInteger()),
        key=("incarnation", "first_revision"),
    )
    _tenant_table(
        "blocks",
        _column("stream", sa.BigInteger()),
        _column("start", sa.BigInteger()),
        _column("revision", sa.BigInteger()),
        _moment("created_at"),
        _column("content", sa.LargeBinary()),
        key=("stream", "start"),
    )


def _index() -> None:
    _tenant_table(
        "books",
        _column("book", sa.BigInteger()),
        _column("name", sa.Text()),
        _column("analyser", sa.SmallInteger()),
        _column("next_entry", sa.Integer()),
        _column("entries", sa.Integer()),
        _column("length", sa.BigInteger()),
        key=("book",),
    )
    _tenant_table(
        "entries",
        _column("book", sa.BigInteger()),
        _column("entry", sa.Integer()),
        _column("ref", sa.Text()),
        _column("role", sa.Text(), server_default=""),
        _column("speaker", sa.Text(), server_default=""),
        _moment("said_at"),
        _column("digest", sa.BigInteger()),
        _column("asks", sa.Boolean()),
        _column("length", sa.SmallInteger()),
        _column("tokens", sa.Integer()),
        _column("stream", sa.BigInteger()),
        _column("start", sa.BigInteger()),
        _column("size_bytes", sa.Integer()),
        _column("text", sa.Text()),
        key=("book", "entry"),
    )
    _tenant_table(
        "postings",
        _column("book", sa.BigInteger()),
        _column("term", Name),
        _column("segment", sa.Integer()),
        _column("hits", sa.ARRAY(sa.BigInteger())),
        key=("book", "term", "segment"),
    )


def _turns() -> None:
    _tenant_table(
        "facts",
        _column("book", sa.BigInteger()),
        _column("entry", sa.Integer()),
        _column("record", sa.Text()),
        _column("fact_id", sa.Text()),
        _column("key", sa.Text()),
        _column("slot", sa.Text()),
        _column("value", sa.Text()),
        _column("cues", sa.Text()),
        _column("tier", sa.String(2)),
        _column("confidence", sa.REAL()),
        _column("state", sa.String(16)),
        _moment("valid_from"),
        _moment("valid_to", nullable=True),
        _moment("expires_at", nullable=True),
        _column("superseded_by", sa.Text(), nullable=True),
        _column("evidence", JSONB()),
        key=("book", "entry"),
    )
    op.create_index(
        "facts_active",
        "facts",
        ["tenant", "project", "book", "fact_id", "key", "slot"],
        unique=True,
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index(
        "facts_expiry",
        "facts",
        ["tenant", "project", "book", "expires_at"],
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    _tenant_table(
        "guards",
        _column("session", Name),
        _column("turn", Name),
        _column("done", sa.Boolean()),
        _column("token", sa.UUID()),
        _column("fingerprint", sa.LargeBinary()),
        _column("first_entry", sa.Integer()),
        _column("result", JSONB(), nullable=True),
        _moment("claimed_at"),
        key=("session", "turn"),
    )
    _tenant_table(
        "sessions",
        _column("session", Name),
        _column("user_id", sa.Text()),
        _column("latest_turn", sa.Text()),
        _column("turns", sa.Integer()),
        _column("context_start", sa.Integer()),
        _column("counters", JSONB()),
        _moment("created_at"),
        _moment("updated_at"),
        _moment("last_maintenance_at", nullable=True),
        key=("session",),
    )


def downgrade() -> None:
    for table in (
        *("sessions", "guards", "facts"),
        *("postings", "entries", "books"),
        *("blocks", "streams", "files", "projects"),
        *("calls", "api_keys", "tenants"),
    ):
        op.drop_table(table)
