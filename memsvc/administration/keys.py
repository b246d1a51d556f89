"""API keys of a tenant, managed by one of them: none can grant more than it may itself."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from memsvc.core.errors import Code, MemsvcError, invalid
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller, Permission
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.store.key_changes import KeyChanges, changing
from memsvc.store.keys import ApiKey, NewKey

KEYS_MAX = 1000
"""Valid keys that a tenant may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Properties requested for a key; None keeps each, or for a new key copies the caller's."""

    label: str | None = None
    permissions: frozenset[Permission] | None = None
    projects: frozenset[str] | None = None
    all_projects: bool = False
    hidden_tools: frozenset[str] | None = None
    expires_at: datetime | None = None
    never_expires: bool = False


class Keys:
    """Management of a tenant's keys for a caller.

    The caller cannot change keys that may more than itself. If it is confined to projects, it sees
    only keys confined to some of these.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def listed(self, caller: Caller) -> list[ApiKey]:
        """Return the keys visible to the caller, oldest first, revoked and expired ones too."""
        found = await keys.list_keys(self._database, caller.tenant)
        return [key for key in found if _is_within(key.projects, caller.projects)]

    async def create(self, caller: Caller, wanted: Wanted) -> NewKey:
        """Create a key of the caller's tenant, with the caller's rights unless less is requested.

        It does not outlive the caller's key. PERMISSION_DENIED for more than that.
        """
        now = self._clock.now()
        _check_expiry(wanted, now)
        made = _wanted_of(wanted, permissions=caller.permissions, projects=caller.projects, expires_at=None)
        made = replace(
            made,
            hidden_tools=made.hidden_tools | caller.hidden_tools,
            expires_at=caller.expires_at if wanted.expires_at is None else wanted.expires_at,
        )
        _check_rights(caller, made)
        _check_end(caller, made.expires_at)
        async with changing(self._database, caller.tenant) as changes:
            _check_room(changes, now)
            return await _added(changes, made, now)

    async def rotate(self, caller: Caller, key_id: UUID, overlap: timedelta) -> tuple[NewKey, ApiKey]:
        """Create a key with the permissions of another one, and return both.

        The new key lives as long as the caller's; the old one stays valid until the overlap is
        over, if it was valid that long. CONFLICT where the old key is invalid already, and as in
        `revoke`: a caller that expires makes a key that does too.
        """
        now = self._clock.now()
        async with changing(self._database, caller.tenant) as changes:
            old = _managed(caller, changes, key_id)
            if not old.opens(now):
                raise MemsvcError(Code.CONFLICT, "this key was revoked or has expired", recovery="make another")
            _check_room(changes, now)
            made = await _added(changes, replace(_rights_of(old), expires_at=caller.expires_at), now)
            until = now + overlap
            ends = until if old.expires_at is None else min(until, old.expires_at)
            others = [key for key in changes.keys if key.key_id != old.key_id]
            if _is_steward(old, now) and not _any_steward((made.key, *others), now):
                raise _last("make another such key first, or rotate this one by itself")
            return made, await changes.put(replace(old, expires_at=ends))

    async def revoke(self, caller: Caller, key_id: UUID, *, even_last: bool) -> ApiKey:
        """Revoke a key and return it.

        CONFLICT when no other would be left to manage keys permanently, unless `even_last`.
        """
        now = self._clock.now()
        async with changing(self._database, caller.tenant) as changes:
            key = _managed(caller, changes, key_id)
            if key.revoked_at is not None:
                return key
            return await _put(changes, key, replace(key, revoked_at=now), now, even_last=even_last)

    async def update(self, caller: Caller, key_id: UUID, wanted: Wanted, *, even_last: bool) -> ApiKey:
        """Change a key, except its text, and return it.

        PERMISSION_DENIED for more than the caller may, CONFLICT as in `revoke`, and for a revoked
        key.
        """
        now = self._clock.now()
        _check_expiry(wanted, now)
        async with changing(self._database, caller.tenant) as changes:
            key = _managed(caller, changes, key_id)
            if key.revoked_at is not None:
                raise MemsvcError(Code.CONFLICT, "this key was revoked, for good", recovery="make another")
            rights = _wanted_of(
                wanted,
                label=key.label,
                permissions=key.permissions,
                projects=key.projects,
                hidden_tools=key.hidden_tools,
                expires_at=key.expires_at,
            )
            rights = replace(rights, hidden_tools=rights.hidden_tools | caller.hidden_tools)
            _check_rights(caller, rights)
            if rights.expires_at != key.expires_at:
                _check_end(caller, rights.expires_at)
            new = replace(
                key,
                label=rights.label,
                permissions=rights.permissions,
                projects=rights.projects,
                hidden_tools=rights.hidden_tools,
                expires_at=rights.expires_at,
            )
            return await _put(changes, key, new, now, even_last=even_last)


@dataclass(frozen=True, slots=True)
class _Rights:
    """Rights and properties of a key."""

    label: str
    permissions: frozenset[Permission]
    projects: frozenset[str] | None
    hidden_tools: frozenset[str]
    expires_at: datetime | None


def _rights_of(key: ApiKey) -> _Rights:
    return _Rights(key.label, key.permissions, key.projects, key.hidden_tools, key.expires_at)


def _wanted_of(
    wanted: Wanted,
    *,
    permissions: frozenset[Permission],
    projects: frozenset[str] | None,
    expires_at: datetime | None,
    label: str = "key",
    hidden_tools: frozenset[str] = frozenset(),
) -> _Rights:
    """Return the requested properties, with defaults for those that are not requested."""
    named = projects if wanted.projects is None else wanted.projects
    ends = expires_at if wanted.expires_at is None else wanted.expires_at
    return _Rights(
        label=label if wanted.label is None else wanted.label,
        permissions=permissions if wanted.permissions is None else wanted.permissions,
        projects=None if wanted.all_projects else named,
        hidden_tools=hidden_tools if wanted.hidden_tools is None else wanted.hidden_tools,
        expires_at=None if wanted.never_expires else ends,
    )


def _is_within(projects: frozenset[str] | None, bounds: frozenset[str] | None) -> bool:
    return bounds is None or (projects is not None and projects <= bounds)


def _check_expiry(wanted: Wanted, now: datetime) -> None:
    if wanted.expires_at is not None and wanted.expires_at <= now:
        raise invalid("expires_at must be in the future")


def _check_rights(caller: Caller, rights: _Rights) -> None:
    """Raise PERMISSION_DENIED for rights that the caller does not have."""
    if missing := sorted(rights.permissions - caller.permissions):
        raise _more(f"the {missing[0]} permission, which it has not")
    if not _is_within(rights.projects, caller.projects):
        raise _more("projects that it may not touch")
    if not rights.hidden_tools >= caller.hidden_tools:
        raise _more("tools that are hidden from it")


def _check_end(caller: Caller, expires_at: datetime | None) -> None:
    if caller.expires_at is not None and (expires_at is None or expires_at > caller.expires_at):
        raise _more("a longer life than its own")


def _more(what: str) -> MemsvcError:
    return MemsvcError(Code.PERMISSION_DENIED, f"a key cannot give, or manage a key that has, {what}")


def _managed(caller: Caller, changes: KeyChanges, key_id: UUID) -> ApiKey:
    """Return a key that the caller may change.

    NOT_FOUND where it is invisible to the caller, PERMISSION_DENIED where the key may more than the
    caller.
    """
    key = changes.find(key_id)
    if not _is_within(key.projects, caller.projects):
        raise MemsvcError(Code.NOT_FOUND, "there is no such key")
    _check_rights(caller, _rights_of(key))
    return key


def _check_room(changes: KeyChanges, now: datetime) -> None:
    if sum(key.opens(now) for key in changes.keys) >= KEYS_MAX:
        raise MemsvcError(Code.QUOTA_EXCEEDED, f"a tenant may have {KEYS_MAX} keys", recovery="revoke some")


async def _added(changes: KeyChanges, rights: _Rights, now: datetime) -> NewKey:
    return await changes.add(
        rights.label,
        now,
        permissions=rights.permissions,
        projects=rights.projects,
        hidden_tools=rights.hidden_tools,
        expires_at=rights.expires_at,
    )


async def _put(changes: KeyChanges, old: ApiKey, new: ApiKey, now: datetime, *, even_last: bool) -> ApiKey:
    """Write a key; CONFLICT if it was the last that manages keys permanently and no longer is."""
    others = (key for key in changes.keys if key.key_id != old.key_id)
    if not even_last and _is_steward(old, now) and not _any_steward((new, *others), now):
        raise _last("make another such key first, or say even_last: true")
    return await changes.put(new)


def _last(recovery: str) -> MemsvcError:
    return MemsvcError(
        Code.CONFLICT,
        "this is the tenant's last key that may manage its keys, touch all projects and does not expire",
        recovery=recovery,
    )


def _any_steward(keys_of_tenant: Iterable[ApiKey], now: datetime) -> bool:
    return any(_is_steward(key, now) for key in keys_of_tenant)


def _is_steward(key: ApiKey, now: datetime) -> bool:
    """Return whether a key may manage all others permanently."""
    return (
        key.opens(now)
        and key.expires_at is None
        and key.projects is None
        and Permission.ADMIN in key.permissions
        and not any(name.startswith("keys_") for name in key.hidden_tools)
    )
