"""API keys of a tenant, managed by one of them: none can grant more than it may itself."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from memsvc.core.errors import (
    MemsvcError,
    conflict,
    invalid,
    not_found,
    permission_denied,
    quota_exceeded,
)
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller, Permission
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.store.keys import ApiKey, KeyChanges, NewKey, change_keys

KEYS_MAX = 1000
"""Valid keys that a tenant may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProperties:
    """Properties requested for a key; None keeps each, or for a new key copies the caller's."""

    label: str | None = None
    permissions: frozenset[Permission] | None = None
    projects: frozenset[str] | None = None
    all_projects: bool = False
    hidden_tools: frozenset[str] | None = None
    expires_at: datetime | None = None
    never_expires: bool = False
    toolsets: frozenset[str] | None = None


@frozen
class TenantKeys:
    """Management of a tenant's keys for a caller.

    The caller cannot change keys that may more than itself. If it is confined to projects, it sees
    only keys confined to some of these.
    """

    database: Database
    clock: Clock

    async def list_keys(self, caller: Caller) -> list[ApiKey]:
        """Return the keys visible to the caller, oldest first, revoked and expired ones too."""
        tenant_keys = await keys.list_keys(self.database, caller.tenant)
        return [key for key in tenant_keys if _is_within(key.projects, caller.projects)]

    async def create(self, caller: Caller, properties: KeyProperties) -> NewKey:
        """Create a key of the caller's tenant, with the caller's rights unless less is requested.

        It does not outlive the caller's key. PERMISSION_DENIED for more than that.
        """
        now = self.clock.now()
        _check_expiry(properties, now)
        key_grant = _with_defaults(
            properties,
            permissions=caller.permissions,
            projects=caller.projects,
            expires_at=None,
            toolsets=caller.toolsets,
        )
        key_grant = replace(
            key_grant,
            hidden_tools=key_grant.hidden_tools | caller.hidden_tools,
            expires_at=caller.expires_at
            if properties.expires_at is None
            else properties.expires_at,
        )
        _check_grant(caller, key_grant)
        _check_end(caller, key_grant.expires_at)
        async with change_keys(self.database, caller.tenant) as changes:
            _check_capacity(changes, now)
            return await _add(changes, key_grant, now)

    async def rotate(
        self, caller: Caller, key_id: UUID, overlap: timedelta
    ) -> tuple[NewKey, ApiKey]:
        """Create a key with the permissions of another one, and return both.

        The new key lives as long as the caller's; the old one stays valid until the overlap is
        over, if it was valid that long. CONFLICT where the old key is invalid already, and as in
        `revoke`: a caller that expires makes a key that does too.
        """
        now = self.clock.now()
        async with change_keys(self.database, caller.tenant) as changes:
            old = _managed(caller, changes, key_id)
            if not old.is_valid(now):
                raise conflict("this key was revoked or has expired", recovery="make another")
            _check_capacity(changes, now)
            created = await _add(
                changes, replace(_grant_of(old), expires_at=caller.expires_at), now
            )
            until = now + overlap
            expires_at = until if old.expires_at is None else min(until, old.expires_at)
            others = [key for key in changes.keys if key.key_id != old.key_id]
            if _is_manager(old, now) and not _any_manager((created.key, *others), now):
                raise _last_manager("make another such key first, or rotate this one by itself")
            return created, await changes.put(replace(old, expires_at=expires_at))

    async def revoke(self, caller: Caller, key_id: UUID, *, even_last: bool) -> ApiKey:
        """Revoke a key and return it.

        CONFLICT when no other would be left to manage keys permanently, unless `even_last`.
        """
        now = self.clock.now()
        async with change_keys(self.database, caller.tenant) as changes:
            key = _managed(caller, changes, key_id)
            if key.revoked_at is not None:
                return key
            return await _put(changes, key, replace(key, revoked_at=now), now, even_last=even_last)

    async def update(
        self, caller: Caller, key_id: UUID, properties: KeyProperties, *, even_last: bool
    ) -> ApiKey:
        """Change a key, except its text, and return it.

        PERMISSION_DENIED for more than the caller may, CONFLICT as in `revoke`, and for a revoked
        key.
        """
        now = self.clock.now()
        _check_expiry(properties, now)
        async with change_keys(self.database, caller.tenant) as changes:
            key = _managed(caller, changes, key_id)
            if key.revoked_at is not None:
                raise conflict("this key was revoked, for good", recovery="make another")
            key_grant = _with_defaults(
                properties,
                label=key.label,
                permissions=key.permissions,
                projects=key.projects,
                hidden_tools=key.hidden_tools,
                expires_at=key.expires_at,
                toolsets=key.toolsets,
            )
            key_grant = replace(
                key_grant, hidden_tools=key_grant.hidden_tools | caller.hidden_tools
            )
            _check_grant(caller, key_grant)
            if key_grant.expires_at != key.expires_at:
                _check_end(caller, key_grant.expires_at)
            updated = replace(
                key,
                label=key_grant.label,
                permissions=key_grant.permissions,
                projects=key_grant.projects,
                hidden_tools=key_grant.hidden_tools,
                expires_at=key_grant.expires_at,
                toolsets=key_grant.toolsets,
            )
            return await _put(changes, key, updated, now, even_last=even_last)


@frozen
class _KeyGrant:
    """Rights and properties of a key."""

    label: str
    permissions: frozenset[Permission]
    projects: frozenset[str] | None
    hidden_tools: frozenset[str]
    expires_at: datetime | None
    toolsets: frozenset[str]


def _grant_of(key: ApiKey) -> _KeyGrant:
    return _KeyGrant(
        key.label, key.permissions, key.projects, key.hidden_tools, key.expires_at, key.toolsets
    )


def _with_defaults(
    properties: KeyProperties,
    *,
    permissions: frozenset[Permission],
    projects: frozenset[str] | None,
    expires_at: datetime | None,
    toolsets: frozenset[str],
    label: str = "key",
    hidden_tools: frozenset[str] = frozenset(),
) -> _KeyGrant:
    """Return the requested properties, with defaults for those that are not requested."""
    allowed_projects = projects if properties.projects is None else properties.projects
    expiry = expires_at if properties.expires_at is None else properties.expires_at
    return _KeyGrant(
        label=label if properties.label is None else properties.label,
        permissions=permissions if properties.permissions is None else properties.permissions,
        projects=None if properties.all_projects else allowed_projects,
        hidden_tools=hidden_tools if properties.hidden_tools is None else properties.hidden_tools,
        expires_at=None if properties.never_expires else expiry,
        toolsets=toolsets if properties.toolsets is None else properties.toolsets,
    )


def _is_within(projects: frozenset[str] | None, bounds: frozenset[str] | None) -> bool:
    return bounds is None or (projects is not None and projects <= bounds)


def _check_expiry(properties: KeyProperties, now: datetime) -> None:
    if properties.expires_at is not None and properties.expires_at <= now:
        raise invalid("expires_at must be in the future")


def _check_grant(caller: Caller, key_grant: _KeyGrant) -> None:
    """Raise PERMISSION_DENIED for rights that the caller does not have."""
    if missing := sorted(key_grant.permissions - caller.permissions):
        raise _not_allowed(f"the {missing[0]} permission, which it has not")
    if not _is_within(key_grant.projects, caller.projects):
        raise _not_allowed("projects that it may not touch")
    if not key_grant.hidden_tools >= caller.hidden_tools:
        raise _not_allowed("tools that are hidden from it")


def _check_end(caller: Caller, expires_at: datetime | None) -> None:
    if caller.expires_at is not None and (expires_at is None or expires_at > caller.expires_at):
        raise _not_allowed("a longer life than its own")


def _not_allowed(what: str) -> MemsvcError:
    return permission_denied(f"a key cannot give, or manage a key that has, {what}")


def _managed(caller: Caller, changes: KeyChanges, key_id: UUID) -> ApiKey:
    """Return a key that the caller may change.

    NOT_FOUND where it is invisible to the caller, PERMISSION_DENIED where the key may more than the
    caller.
    """
    key = changes.find(key_id)
    if not _is_within(key.projects, caller.projects):
        raise not_found("there is no such key")
    _check_grant(caller, _grant_of(key))
    return key


def _check_capacity(changes: KeyChanges, now: datetime) -> None:
    if sum(key.is_valid(now) for key in changes.keys) >= KEYS_MAX:
        raise quota_exceeded(f"a tenant may have {KEYS_MAX} keys", recovery="revoke some")


async def _add(changes: KeyChanges, key_grant: _KeyGrant, now: datetime) -> NewKey:
    return await changes.add(
        key_grant.label,
        now,
        permissions=key_grant.permissions,
        projects=key_grant.projects,
        hidden_tools=key_grant.hidden_tools,
        expires_at=key_grant.expires_at,
        toolsets=key_grant.toolsets,
    )


async def _put(
    changes: KeyChanges, old: ApiKey, new: ApiKey, now: datetime, *, even_last: bool
) -> ApiKey:
    """Write a key; CONFLICT if it was the last that manages keys permanently and no longer is."""
    others = (key for key in changes.keys if key.key_id != old.key_id)
    if not even_last and _is_manager(old, now) and not _any_manager((new, *others), now):
        raise _last_manager("make another such key first, or say even_last: true")
    return await changes.put(new)


def _last_manager(recovery: str) -> MemsvcError:
    return conflict(
        "this is the tenant's last key that may manage its keys, touch all projects and does not"
        " expire",
        recovery=recovery,
    )


def _any_manager(keys_of_tenant: Iterable[ApiKey], now: datetime) -> bool:
    return any(_is_manager(key, now) for key in keys_of_tenant)


def _is_manager(key: ApiKey, now: datetime) -> bool:
    """Return whether a key may manage all others permanently."""
    return (
        key.is_valid(now)
        and key.expires_at is None
        and key.projects is None
        and Permission.ADMIN in key.permissions
        and not any(name.startswith("keys_") for name in key.hidden_tools)
    )
