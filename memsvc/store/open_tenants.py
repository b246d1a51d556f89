"""Tenants of open mode, whose id is the SHA-256 of their unlisted key."""

from collections.abc import Collection
from datetime import datetime
from typing import Final
from uuid import uuid4

from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.store.database import Database
from memsvc.store.tables import EMBEDDINGS, TABLES, Archive

_ANY_ROW: Final = " UNION ALL ".join(
    f"SELECT 1 FROM {name} WHERE tenant = $1"
    for name, table in TABLES.items()
    if name not in ("calls", "recalls", "job_refs", EMBEDDINGS)
    and isinstance(table.archive, Archive)
    and table.of_project
)
"""Rows of anything but a tenant's calls: one without any of these holds nothing."""


async def list_open_tenants(database: Database) -> list[bytes]:
    """Return the tenants whose own key is not listed and that were made with no listed key.

    Those are tenants of open mode, and of tokens, whose hash is no key's.
    """
    rows = await database.registry(
        """
        SELECT tenant FROM tenants AS t
        WHERE NOT EXISTS (SELECT 1 FROM api_keys WHERE key_hash = t.tenant)
          AND NOT EXISTS (SELECT 1 FROM api_keys AS k WHERE k.tenant = t.tenant
              AND k.created_at = t.created_at)
        ORDER BY tenant
        """
    )
    return [row["tenant"] for row in rows]


async def has_data(database: Database, tenant: bytes) -> bool:
    """Return whether a tenant has stored data other than about its calls."""
    async with database.begin_tenant(Scope(tenant, ALL_PROJECTS), read_only=True) as tx:
        return await tx.fetchval(f"{_ANY_ROW} LIMIT 1") is not None


async def list_key(
    database: Database,
    tenant: bytes,
    label: str,
    permissions: Collection[Permission],
    now: datetime,
) -> int:
    """List the key whose hash a tenant is; return 0 where another process has."""
    made = await database.registry(
        """
        INSERT INTO api_keys (key_hash, key_id, tenant, label, permissions, hidden_tools,
            created_at)
        VALUES ($1, $2, $1, $3, $4, '{}', $5) ON CONFLICT (key_hash) DO NOTHING RETURNING key_id
        """,
        tenant,
        uuid4(),
        label,
        sorted(permissions),
        now,
    )
    return len(made)
