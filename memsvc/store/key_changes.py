"""Changes of the keys of a tenant under an exclusive lock.

What is decided by looking at them still holds when it is written.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.store.database import Database, Tx
from memsvc.store.keys import COLUMNS, ApiKey, NewKey, hash_key, key_of_row, new_text, with_notify
from memsvc.store.locks import KEYS_LOCK


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """Keys of a tenant as they were read, and their changes.

    Every process is notified at the commit.
    """

    tx: Tx
    keys: tuple[ApiKey, ...]

    def find(self, key_id: UUID) -> ApiKey:
        """Return the tenant's key of this id; NOT_FOUND without one."""
        for key in self.keys:
            if key.key_id == key_id:
                return key
        raise MemsvcError(Code.NOT_FOUND, "there is no such key")

    async def add(
        self,
        label: str,
        now: datetime,
        *,
        permissions: Iterable[Permission],
        projects: Iterable[str] | None,
        hidden_tools: Iterable[str],
        expires_at: datetime | None,
    ) -> NewKey:
        """Create a key of the tenant."""
        text = new_text()
        tenant = self.tx.scope.tenant
        await self.tx.unbound(
            "INSERT INTO tenants (tenant, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            tenant,
            now,
        )
        [row] = await self.tx.unbound(
            f"""
            INSERT INTO api_keys (key_hash, key_id, tenant, label, permissions, projects,
                hidden_tools, created_at,
                                  expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING {COLUMNS}
            """,
            hash_key(text),
            uuid4(),
            tenant,
            label,
            sorted(permissions),
            None if projects is None else sorted(projects),
            sorted(hidden_tools),
            now,
            expires_at,
        )
        return NewKey(text, key_of_row(row))

    async def put(self, key: ApiKey) -> ApiKey:
        """Store all values of a key but when it was made and last used."""
        [row] = await self.tx.unbound(
            with_notify(
                """
                UPDATE api_keys SET label = $3, permissions = $4, projects = $5, hidden_tools = $6,
                    expires_at = $7,
                    revoked_at = $8
                WHERE tenant = $1 AND key_id = $2
                """
            ),
            self.tx.scope.tenant,
            key.key_id,
            key.label,
            sorted(key.permissions),
            None if key.projects is None else sorted(key.projects),
            sorted(key.hidden_tools),
            key.expires_at,
            key.revoked_at,
        )
        return key_of_row(row)


@asynccontextmanager
async def change_keys(database: Database, tenant: bytes) -> AsyncIterator[KeyChanges]:
    """Lock the keys of a tenant; commit the changes when the block ends, or none.

    RESOURCE_BUSY when somebody else changes them for too long.
    """
    async with database.begin(Scope(tenant, ALL_PROJECTS), locks=[KEYS_LOCK]) as tx:
        rows = await tx.unbound(
            f"SELECT {COLUMNS} FROM api_keys WHERE tenant = $1 ORDER BY created_at, key_id", tenant
        )
        yield KeyChanges(tx, tuple(map(key_of_row, rows)))
