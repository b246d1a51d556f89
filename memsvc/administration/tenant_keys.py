"""API keys of a tenant, managed by one of them: none can grant more than it may itself."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AfterValidator, Field, StringConstraints

from memsvc.core.errors import (
    MemsvcError,
    conflict,
    invalid,
    not_found,
    permission_denied,
    quota_exceeded,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_project
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Caller, Permission
from memsvc.core.timestamp import Timestamp
from memsvc.core.tools import TenantArguments, Toolset
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.store.keys import ApiKey, KeyChanges, NewKey, change_keys

KEYS_MAX = 1000
"""Valid keys that a tenant may have."""


Label = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$"
    ),
]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
ProjectName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=128),
    AfterValidator(check_project),
]
PROJECT_IGNORED: Final = "not looked at: keys are the tenant's"
KEY_ID: Final = "the key, by the id that keys_list shows"
EVEN_LAST: Final = "also where no other key could manage the tenant's keys for good"


# a docstring of these two would be listed with the tools
class KeyProperties(TenantArguments):
    # properties requested for a key; None keeps each, or for a new key copies the caller's

    project: str = Field(ALL_PROJECTS, description=PROJECT_IGNORED)
    label: Label | None = Field(None, description="what the call log shows for the key")
    permissions: list[Permission] | None = Field(
        None, min_length=1, max_length=3, description="what it may do; none that your key lacks"
    )
    projects: list[ProjectName] | None = Field(
        None, min_length=1, max_length=100, description="confine it to these projects"
    )
    hidden_tools: list[ToolName] | None = Field(
        None,
        max_length=500,
        description="tools that are not there for it, by name; all that your key hides are among"
        " them",
    )
    expires_at: Timestamp | None = Field(None, description="when it ends; not later than your key")
    toolsets: list[Toolset] | None = Field(
        None,
        max_length=20,
        description="what its clients list unless they ask for others; empty: what the settings"
        " say",
    )

    def of(self, key: ApiKey, caller: Caller) -> ApiKey:
        """Return a key with these properties, without the tools that are hidden from the caller."""
        sets = ("permissions", "projects", "hidden_tools", "toolsets")
        given: dict[str, Any] = {
            name: value if name not in sets else frozenset(value)
            for name in ("label", "expires_at", *sets)
            if (value := getattr(self, name)) is not None
        }
        key = replace(key, **given)
        return replace(key, hidden_tools=key.hidden_tools | caller.hidden_tools)


class KeyUpdate(KeyProperties):
    key_id: UUID = Field(description=KEY_ID)
    all_projects: bool = Field(False, description="confine it to no projects any longer")
    never_expires: bool = Field(False, description="let it end no longer")
    even_last: bool = Field(False, description=EVEN_LAST)

    def of(self, key: ApiKey, caller: Caller) -> ApiKey:
        """Return the key as it will be."""
        key = super().of(key, caller)
        return replace(
            key,
            projects=None if self.all_projects else key.projects,
            expires_at=None if self.never_expires else key.expires_at,
        )


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
        like_caller = ApiKey(
            UUID(int=0),
            caller.tenant,
            "key",
            caller.permissions,
            caller.projects,
            caller.hidden_tools,
            now,
            caller.expires_at,
            None,
            None,
            caller.toolsets,
        )
        key = properties.of(like_caller, caller)
        _check_grant(caller, key)
        _check_end(caller, key.expires_at)
        async with change_keys(self.database, caller.tenant) as changes:
            _check_capacity(changes, now)
            return await _add(changes, key, now)

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
            created = await _add(changes, replace(old, expires_at=caller.expires_at), now)
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

    async def update(self, caller: Caller, update: KeyUpdate) -> ApiKey:
        """Change a key, except its text, and return it.

        PERMISSION_DENIED for more than the caller may, CONFLICT as in `revoke`, and for a revoked
        key.
        """
        now = self.clock.now()
        _check_expiry(update, now)
        async with change_keys(self.database, caller.tenant) as changes:
            key = _managed(caller, changes, update.key_id)
            if key.revoked_at is not None:
                raise conflict("this key was revoked, for good", recovery="make another")
            updated = update.of(key, caller)
            _check_grant(caller, updated)
            if updated.expires_at != key.expires_at:
                _check_end(caller, updated.expires_at)
            return await _put(changes, key, updated, now, even_last=update.even_last)


def _is_within(projects: frozenset[str] | None, bounds: frozenset[str] | None) -> bool:
    return bounds is None or (projects is not None and projects <= bounds)


def _check_expiry(properties: KeyProperties, now: datetime) -> None:
    if properties.expires_at is not None and properties.expires_at <= now:
        raise invalid("expires_at must be in the future")


def _check_grant(caller: Caller, key: ApiKey) -> None:
    """Raise PERMISSION_DENIED for rights that the caller does not have."""
    if missing := sorted(key.permissions - caller.permissions):
        raise _not_allowed(f"the {missing[0]} permission, which it has not")
    if not _is_within(key.projects, caller.projects):
        raise _not_allowed("projects that it may not touch")
    if not key.hidden_tools >= caller.hidden_tools:
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
    _check_grant(caller, key)
    return key


def _check_capacity(changes: KeyChanges, now: datetime) -> None:
    if sum(key.is_valid(now) for key in changes.keys) >= KEYS_MAX:
        raise quota_exceeded(f"a tenant may have {KEYS_MAX} keys", recovery="revoke some")


async def _add(changes: KeyChanges, key: ApiKey, now: datetime) -> NewKey:
    return await changes.add(
        key.label,
        now,
        permissions=key.permissions,
        projects=key.projects,
        hidden_tools=key.hidden_tools,
        expires_at=key.expires_at,
        toolsets=key.toolsets,
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
