"""Registry of API keys and tenants; only the SHA-256 of a key is stored, its text is seen once.

The id of a tenant of open mode is the SHA-256 of its unlisted key.
"""

import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from memsvc.core.errors import MemsvcError, conflict, not_found
from memsvc.core.frozen import frozen
from memsvc.core.scope import ALL_PERMISSIONS, ALL_PROJECTS, TENANT_BYTES, Permission, Scope
from memsvc.store.changes import CHANNEL
from memsvc.store.database import Database, Row, Tx
from memsvc.store.locks import KEYS_LOCK
from memsvc.store.tables import TABLES, Archive

KEY_PREFIX = "msk_"
NO_KEY: Final = "the key does not exist"
LIST_KEYS: Final = "list the keys with `memsvc key list`"
_MESSAGE_PREFIX = b"memsvc key "


@frozen
class ApiKey:
    """Listed key: its tenant, its permissions, and until when it is valid."""

    key_id: UUID
    tenant: bytes = field(repr=False)
    label: str
    permissions: frozenset[Permission]
    projects: frozenset[str] | None
    hidden_tools: frozenset[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    toolsets: frozenset[str] = frozenset()
    user_id: str = ""

    def is_valid(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@frozen
class NewKey:
    """New key, with the text that is shown this once and stored nowhere."""

    text: str = field(repr=False)
    key: ApiKey


def new_text() -> str:
    """Return the text of a new key."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def hash_key(text: str) -> bytes:
    """Return the hash that identifies a key; in open mode this is its tenant too."""
    return hashlib.sha256(text.encode("utf-8")).digest()


def change_of(key_hash: bytes) -> str:
    """Return the message (`store/changes`) that announces a change of a key."""
    return hashlib.sha256(_MESSAGE_PREFIX + key_hash).hexdigest()


COLUMNS = (
    "key_id, tenant, label, permissions, projects, hidden_tools, created_at, expires_at,"
    " revoked_at, last_used_at, toolsets, user_id"
)
_NOTIFY = (
    f"pg_notify('{CHANNEL}', encode(sha256('\\x{_MESSAGE_PREFIX.hex()}'::bytea ||"
    " key_hash), 'hex'))"
)


def with_notify(change: str) -> str:
    """Return a statement that changes keys, notifies every process, and returns all columns."""
    return (
        f"WITH changed AS ({change} RETURNING key_hash, {COLUMNS}) SELECT {COLUMNS}, {_NOTIFY}"
        " FROM changed"
    )


def key_of_row(row: Row) -> ApiKey:
    """Return the key of a row of all columns."""
    fields = {name: row[name] for name in COLUMNS.split(", ")}
    return ApiKey(
        **fields
        | {
            "permissions": frozenset(map(Permission, row["permissions"])),
            "projects": None if row["projects"] is None else frozenset(row["projects"]),
            "hidden_tools": frozenset(row["hidden_tools"]),
            "toolsets": frozenset(row["toolsets"]),
        }
    )


async def create_key(  # noqa: PLR0913 - one for each column
    database: Database | Tx,
    label: str,
    now: datetime,
    *,
    tenant: bytes | None = None,
    permissions: Iterable[Permission] = ALL_PERMISSIONS,
    projects: Iterable[str] | None = None,
    hidden_tools: Iterable[str] = (),
    expires_at: datetime | None = None,
    toolsets: Iterable[str] = (),
    user_id: str = "",
) -> NewKey:
    """Create a key for a tenant; without one, for a new tenant of 32 random bytes.

    In a transaction that `change_keys` began, or by itself.
    """
    text = new_text()
    tenant = secrets.token_bytes(TENANT_BYTES) if tenant is None else tenant
    await remember_tenant(database, tenant, now)
    [row] = await _registry(database)(
        f"""
        INSERT INTO api_keys (key_hash, key_id, tenant, label, permissions, projects, hidden_tools,
            created_at, expires_at, toolsets, user_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        RETURNING {COLUMNS}
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
        sorted(toolsets),
        user_id,
    )
    return NewKey(text, key_of_row(row))


def _registry(database: Database | Tx) -> Callable[..., Awaitable[list[Row]]]:
    return database.unbound if isinstance(database, Tx) else database.registry


async def find_key(database: Database, key_hash: bytes) -> ApiKey | None:
    """Return the listed key with this hash, revoked and expired ones included.

    None when no such key was ever listed.
    """
    rows = await database.registry(f"SELECT {COLUMNS} FROM api_keys WHERE key_hash = $1", key_hash)
    return key_of_row(rows[0]) if rows else None


async def find_keys(database: Database, hash_list: Iterable[bytes]) -> dict[bytes, ApiKey]:
    """Return those of these keys that were ever listed, by their hashes."""
    rows = await database.registry(
        f"SELECT key_hash, {COLUMNS} FROM api_keys WHERE key_hash = ANY ($1::bytea[])",
        list(hash_list),
    )
    return {row["key_hash"]: key_of_row(row) for row in rows}


async def list_keys(database: Database, tenant: bytes | None = None) -> list[ApiKey]:
    """Return the keys of a tenant, or of all, oldest first."""
    rows = await database.registry(
        f"""
        SELECT {COLUMNS} FROM api_keys WHERE $1::bytea IS NULL OR tenant = $1 ORDER BY created_at,
            key_id
        """,
        tenant,
    )
    return [key_of_row(row) for row in rows]


async def list_tenants(database: Database) -> list[bytes]:
    """Return every tenant that was ever seen."""
    rows = await database.registry("SELECT tenant FROM tenants ORDER BY tenant")
    return [row["tenant"] for row in rows]


async def is_known(database: Database, tenant: bytes) -> bool:
    """Return whether a tenant is registered."""
    return bool(await database.registry("SELECT 1 FROM tenants WHERE tenant = $1", tenant))


def unknown_tenant() -> MemsvcError:
    """Return the error for a tenant that does not exist."""
    return not_found("this tenant does not exist in the database", recovery=LIST_KEYS)


async def revoke_key(database: Database, key_id: UUID, now: datetime) -> ApiKey:
    """Revoke a key for good; revoking it again changes nothing. NOT_FOUND without such a key."""
    rows = await database.registry(
        with_notify("UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE key_id = $1"),
        key_id,
        now,
    )
    return _changed(rows)


def _changed(rows: list[Row]) -> ApiKey:
    if not rows:
        raise not_found(NO_KEY, recovery=LIST_KEYS)
    return key_of_row(rows[0])


async def rotate_key(
    database: Database, key_id: UUID, now: datetime, *, old_until: datetime
) -> NewKey:
    """Create a key with all permissions of another one, which is valid until `old_until` at most.

    One statement, so that there is never neither or, after the overlap, both. NOT_FOUND without
    such a key, CONFLICT where it is no longer valid.
    """
    text = new_text()
    rows = await database.registry(
        f"""
        WITH old AS (
            UPDATE api_keys SET expires_at = least(expires_at, $2)
            WHERE key_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)
            RETURNING key_hash, tenant, label, permissions, projects, hidden_tools, toolsets,
                user_id
        ), made AS (
            INSERT INTO api_keys (key_hash, key_id, tenant, label, permissions, projects,
                hidden_tools, toolsets, user_id, created_at)
            SELECT $4, $5, tenant, label, permissions, projects, hidden_tools, toolsets, user_id, $3
            FROM old RETURNING {COLUMNS}
        )
        SELECT made.*, told.* FROM made CROSS JOIN (SELECT {_NOTIFY} FROM old) AS told
        """,
        key_id,
        old_until,
        now,
        hash_key(text),
        uuid4(),
    )
    if rows:
        return NewKey(text, key_of_row(rows[0]))
    if not await database.registry("SELECT 1 FROM api_keys WHERE key_id = $1", key_id):
        raise not_found(NO_KEY, recovery=LIST_KEYS)
    raise conflict(
        "this key is revoked or expired",
        recovery="create another key with `memsvc key create --tenant`",
    )


async def set_tenant(database: Database, key_id: UUID, tenant: bytes) -> ApiKey:
    """Bind a key to an existing tenant's data from now on. NOT_FOUND when either was never seen."""
    if not await is_known(database, tenant):
        raise unknown_tenant()
    rows = await database.registry(
        with_notify("UPDATE api_keys SET tenant = $2 WHERE key_id = $1"), key_id, tenant
    )
    return _changed(rows)


async def set_last_used(database: Database, uses: Mapping[UUID, datetime]) -> None:
    """Store when keys were last used, many at a time.

    An earlier time never replaces a later one.
    """
    if not uses:
        return
    key_ids = sorted(uses)
    await database.registry(
        """
        UPDATE api_keys AS k SET last_used_at = u.used_at
        FROM unnest($1::uuid[], $2::timestamptz[]) AS u (key_id, used_at)
        WHERE k.key_id = u.key_id AND (k.last_used_at IS NULL OR k.last_used_at < u.used_at)
        """,
        key_ids,
        [uses[key_id] for key_id in key_ids],
    )


async def remember_tenant(database: Database | Tx, tenant: bytes, now: datetime) -> bool:
    """Store a tenant; return True the first time that it is seen."""
    rows = await _registry(database)(
        "INSERT INTO tenants (tenant, created_at) VALUES ($1, $2) ON CONFLICT DO NOTHING"
        " RETURNING tenant",
        tenant,
        now,
    )
    return bool(rows)


async def count_keys(database: Database, tenant: bytes) -> dict[str, int]:
    """Return the number of a tenant's rows in the registry, by table."""
    (row,) = await database.registry(
        """
        SELECT (SELECT count(*) FROM api_keys WHERE tenant = $1) AS api_keys,
               (SELECT count(*) FROM tenants WHERE tenant = $1) AS tenants
        """,
        tenant,
    )
    return dict(row)


async def forget_tenant(database: Database, tenant: bytes) -> dict[str, int]:
    """Remove every key of a tenant, and the tenant itself; return the number of rows by table."""
    keys = await database.registry(with_notify("DELETE FROM api_keys WHERE tenant = $1"), tenant)
    gone = await database.registry("DELETE FROM tenants WHERE tenant = $1 RETURNING tenant", tenant)
    return {"api_keys": len(keys), "tenants": len(gone)}


@frozen
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
        raise not_found(NO_KEY, recovery=LIST_KEYS)

    async def put(self, key: ApiKey) -> ApiKey:
        """Store all values of a key but when it was made and last used."""
        [row] = await self.tx.unbound(
            with_notify(
                """
                UPDATE api_keys SET label = $3, permissions = $4, projects = $5, hidden_tools = $6,
                    expires_at = $7, revoked_at = $8, toolsets = $9, user_id = $10
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
            sorted(key.toolsets),
            key.user_id,
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


_ANY_ROW: Final = " UNION ALL ".join(
    f"SELECT 1 FROM {name} WHERE tenant = $1"
    for name, table in TABLES.items()
    if name not in ("calls", "recalls", "job_refs", "embeddings")
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
