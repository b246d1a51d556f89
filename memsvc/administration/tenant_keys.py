"""API keys of a tenant, managed by one of them: none can grant more than it may itself."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, Literal
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
from memsvc.core.paths import check_identifier, check_project
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Caller, Permission
from memsvc.core.timestamp import Timestamp
from memsvc.core.tool_methods import admin_tool, result
from memsvc.core.tools import TenantArguments, Toolset
from memsvc.core.validation_messages import suggest_name
from memsvc.store import keys
from memsvc.store.database import Database
from memsvc.store.keys import ApiKey, KeyChanges, NewKey, change_keys, create_key

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
PROJECT_IGNORED: Final = "ignored: keys belong to the tenant"
KEY_ID: Final = "id of the key, as in keys_list"
EVEN_LAST: Final = "proceed even if no other permanent key is able to manage the tenant's keys"
OVERLAP_HOURS: Final = 24.0
TOOLS_HINT: Final = "docs/tools.md lists all tools"
UserName = Annotated[str, AfterValidator(lambda value: check_identifier(value.strip(), "user_id"))]
KeyId = Annotated[UUID, KEY_ID]
key_tool = partial(
    admin_tool,
    needs=Permission.ADMIN,
    base=TenantArguments,
    project=PROJECT_IGNORED,
    logs=("key_id",),
)


# a docstring of these two would be listed with the tools
class KeyProperties(TenantArguments):
    # properties requested for a key; None keeps each, or for a new key copies the caller's

    project: str = Field(ALL_PROJECTS, description=PROJECT_IGNORED)
    label: Label | None = Field(None, description="name that identifies the key in the call log")
    permissions: list[Permission] | None = Field(
        None,
        min_length=1,
        max_length=3,
        description="permissions of the key, limited to those of your own key",
    )
    projects: list[ProjectName] | None = Field(
        None, min_length=1, max_length=100, description="restrict the key to these projects"
    )
    hidden_tools: list[ToolName] | None = Field(
        None,
        max_length=500,
        description="names of tools to hide from the key; must include all tools that are hidden"
        " from your own key",
    )
    expires_at: Timestamp | None = Field(
        None, description="time when the key expires; not later than the expiry of your own key"
    )
    toolsets: list[Toolset] | None = Field(
        None,
        max_length=20,
        description="toolsets listed by default for clients that use this key; empty: the server's"
        " default",
    )
    user_id: UserName | None = Field(
        None,
        description="user that the key is bound to: calls with the key use this user by default and"
        " cannot name another",
    )

    def of(self, key: ApiKey) -> ApiKey:
        """Return a key with these properties."""
        sets = ("permissions", "projects", "hidden_tools", "toolsets")
        given: dict[str, Any] = {
            name: value if name not in sets else frozenset(value)
            for name in ("label", "expires_at", "user_id", *sets)
            if (value := getattr(self, name)) is not None
        }
        return replace(key, **given)


class KeyUpdate(KeyProperties):
    key_id: UUID = Field(description=KEY_ID)
    all_projects: bool = Field(False, description="remove the key's restriction to projects")
    any_user: bool = Field(False, description="remove the key's binding to a user")
    never_expires: bool = Field(False, description="remove the expiry of the key")
    even_last: bool = Field(False, description=EVEN_LAST)

    def of(self, key: ApiKey) -> ApiKey:
        """Return the key as it will be."""
        key = super().of(key)
        return replace(
            key,
            projects=None if self.all_projects else key.projects,
            user_id="" if self.any_user else key.user_id,
            expires_at=None if self.never_expires else key.expires_at,
        )


@result
class ListedKey:
    key_id: Annotated[UUID, "id of the key; the key itself is not stored"]
    label: Annotated[str, "name that identifies the key in the call log"]
    state: Annotated[Literal["valid", "expired", "revoked"], "whether the key can be used"]
    permissions: Annotated[list[Permission], "permissions"]
    projects: Annotated[
        list[str] | None, "projects that the key is restricted to; null: all projects"
    ]
    hidden_tools: Annotated[list[str], "tools that are hidden from the key"]
    created_at: Annotated[datetime, "creation time"]
    expires_at: Annotated[datetime | None, "time when the key expires; null: never"]
    revoked_at: Annotated[datetime | None, "time when the key was revoked; null: not revoked"]
    last_used_at: Annotated[
        datetime | None, "time of last use, recorded with a short delay; null: never used"
    ]
    is_yours: Annotated[bool, "whether this is the key of the current call"]
    toolsets: Annotated[
        list[str],
        "toolsets that clients with this key list by default; empty: the server's default",
    ]
    tenant: Annotated[str, "tenant whose data the key can access"]
    user_id: Annotated[str, 'user that the key is bound to; "": the key is not bound to a user']


@result
class KeyList:
    keys: Annotated[list[ListedKey], "keys, oldest first"]


@result
class KeyChange:
    key: Annotated[ListedKey, "the key after the change"]


@result
class CreatedKey:
    text: Annotated[str, "the new key itself; it is returned only once and is not stored"]
    key: Annotated[ListedKey, "the new key's properties"]


@result
class RotatedKey(CreatedKey):
    old: Annotated[ListedKey, "properties of the old key, including when it expires"]


@frozen
class KeyTools:
    """The tools over a tenant's keys.

    The caller cannot change keys that may more than itself. If it is confined to projects, it sees
    only keys confined to some of these. `tool_names` returns the names that a key may hide.
    """

    database: Database
    clock: Clock
    tool_names: Callable[[], Collection[str]]

    @key_tool("keys_list", "List API keys", read_only=True, idempotent=True)
    async def list_keys(self, caller: Caller) -> KeyList:
        """List the tenant's API keys with their permissions, expiry and last use."""
        tenant_keys = await keys.list_keys(self.database, caller.tenant)
        visible = [key for key in tenant_keys if _is_within(key.projects, caller.projects)]
        return KeyList([self._listed(caller, key) for key in visible])

    @key_tool("keys_create", "Create an API key")
    async def create(self, caller: Caller, properties: KeyProperties) -> CreatedKey:
        """Create an API key for the same tenant. It cannot exceed the permissions of your own key.

        The key is returned only once."""
        now = self.clock.now()
        _check_expiry(properties, now)
        self._check_hidden(properties, caller.hidden_tools)
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
            caller.user,
        )
        key = properties.of(like_caller)
        _check_grant(caller, key)
        _check_end(caller, key.expires_at)
        async with change_keys(self.database, caller.tenant) as changes:
            _check_capacity(changes, now)
            created = await _add(changes, key, now)
        return CreatedKey(created.text, self._listed(caller, created.key))

    # The new key lives as long as the caller's; the old one stays valid until the overlap is over,
    # if it was valid that long. CONFLICT where the old key is invalid already, and as in `revoke`:
    # a caller that expires makes a key that does too.
    @key_tool("keys_rotate", "Rotate an API key", destructive=True)
    async def rotate(
        self,
        caller: Caller,
        key_id: KeyId,
        overlap_hours: Annotated[
            float, Field(ge=0, le=8760), "how long the old key stays valid, in hours"
        ] = OVERLAP_HOURS,
    ) -> RotatedKey:
        """Create a key with the same permissions; the old key expires after `overlap_hours`."""
        now = self.clock.now()
        async with change_keys(self.database, caller.tenant) as changes:
            old = _managed(caller, changes, key_id)
            if not old.is_valid(now):
                raise conflict("this key is revoked or expired", recovery="create another key")
            _check_capacity(changes, now)
            created = await _add(changes, replace(old, expires_at=caller.expires_at), now)
            until = now + timedelta(hours=overlap_hours)
            expires_at = until if old.expires_at is None else min(until, old.expires_at)
            _check_last_manager(
                changes, old, created.key, now, "call keys_rotate with this key itself"
            )
            old = await changes.put(replace(old, expires_at=expires_at))
        return RotatedKey(
            created.text, self._listed(caller, created.key), self._listed(caller, old)
        )

    # CONFLICT when no other would be left to manage keys permanently, unless `even_last`
    @key_tool("keys_revoke", "Revoke an API key", idempotent=True, destructive=True)
    async def revoke(
        self, caller: Caller, key_id: KeyId, even_last: Annotated[bool, EVEN_LAST] = False
    ) -> KeyChange:
        """Revoke an API key, at once and for good."""
        now = self.clock.now()
        async with change_keys(self.database, caller.tenant) as changes:
            key = _managed(caller, changes, key_id)
            if key.revoked_at is None:
                revoked = replace(key, revoked_at=now)
                key = await _put(changes, key, revoked, now, even_last=even_last)
        return KeyChange(self._listed(caller, key))

    # PERMISSION_DENIED for more than the caller may, CONFLICT as in `revoke`, and for a revoked key
    @key_tool("keys_update", "Change an API key", idempotent=True, destructive=True)
    async def update(self, caller: Caller, update: KeyUpdate) -> KeyChange:
        """Change the label, permissions or expiry of an API key. Omitted values are kept."""
        if update.all_projects and update.projects is not None:
            raise invalid("pass either projects or all_projects, not both")
        if update.never_expires and update.expires_at is not None:
            raise invalid("pass either expires_at or never_expires, not both")
        now = self.clock.now()
        _check_expiry(update, now)
        async with change_keys(self.database, caller.tenant) as changes:
            key = _managed(caller, changes, update.key_id)
            if key.revoked_at is not None:
                raise conflict(
                    "this key is revoked, which cannot be undone", recovery="create another key"
                )
            self._check_hidden(update, key.hidden_tools)
            updated = update.of(key)
            _check_grant(caller, updated)
            if updated.expires_at != key.expires_at:
                _check_end(caller, updated.expires_at)
            key = await _put(changes, key, updated, now, even_last=update.even_last)
        return KeyChange(self._listed(caller, key))

    def _check_hidden(self, properties: KeyProperties, old: Iterable[str]) -> None:
        """Raise INVALID_ARGUMENT for an unknown tool, unless it was hidden before.

        Another version of memsvc may have had it."""
        if properties.hidden_tools:
            check_tools(properties.hidden_tools, {*self.tool_names(), *old})

    def _listed(self, caller: Caller, key: ApiKey) -> ListedKey:
        return listed_key(key, self.clock.now(), caller.key_id)


def check_tools(names: Iterable[str], known: Collection[str]) -> None:
    """Raise INVALID_ARGUMENT for an unknown tool, with the nearest known names.

    The error only repeats a name that is near a known one: another one may be a secret."""
    for number, name in enumerate(names):
        if name not in known:
            near = suggest_name(name, known)
            where = f"unknown tool {name}" if near else f"hidden tool {number + 1} is unknown"
            raise invalid(where, recovery=near or TOOLS_HINT)


def listed_key(key: ApiKey, now: datetime, own_id: UUID | None) -> ListedKey:
    """Return the listed fields of a key; `own_id` is the id of the key that asks."""
    is_valid = key.is_valid(now)
    return ListedKey(
        key.key_id,
        key.label,
        "revoked" if key.revoked_at is not None else "valid" if is_valid else "expired",
        sorted(key.permissions),
        None if key.projects is None else sorted(key.projects),
        sorted(key.hidden_tools),
        key.created_at,
        key.expires_at,
        key.revoked_at,
        key.last_used_at,
        key.key_id == own_id,
        sorted(key.toolsets),
        key.tenant.hex(),
        key.user_id,
    )


def _is_within(projects: frozenset[str] | None, bounds: frozenset[str] | None) -> bool:
    return bounds is None or (projects is not None and projects <= bounds)


def _check_expiry(properties: KeyProperties, now: datetime) -> None:
    if properties.expires_at is not None and properties.expires_at <= now:
        raise invalid("expires_at must be in the future")


def _check_grant(caller: Caller, key: ApiKey) -> None:
    """Raise PERMISSION_DENIED for rights that the caller does not have."""
    if missing := sorted(key.permissions - caller.permissions):
        raise _not_allowed(f"the {missing[0]} permission, which your own key lacks")
    if not _is_within(key.projects, caller.projects):
        raise _not_allowed("access to projects that your own key cannot use")
    if caller.user not in ("", key.user_id):
        raise _not_allowed("access to another user's data")
    if not key.hidden_tools >= caller.hidden_tools:
        raise _not_allowed("access to tools that are hidden from your own key")


def _check_end(caller: Caller, expires_at: datetime | None) -> None:
    if caller.expires_at is not None and (expires_at is None or expires_at > caller.expires_at):
        raise _not_allowed("a later expiry than that of your own key")


def _not_allowed(what: str) -> MemsvcError:
    return permission_denied(f"your key cannot create or manage a key with {what}")


def _managed(caller: Caller, changes: KeyChanges, key_id: UUID) -> ApiKey:
    """Return a key that the caller may change.

    NOT_FOUND where it is invisible to the caller, PERMISSION_DENIED where the key may more than the
    caller.
    """
    key = changes.find(key_id)
    if not _is_within(key.projects, caller.projects):
        raise not_found("the key does not exist", recovery="list the keys with keys_list")
    _check_grant(caller, key)
    return key


def _check_capacity(changes: KeyChanges, now: datetime) -> None:
    if sum(key.is_valid(now) for key in changes.keys) >= KEYS_MAX:
        raise quota_exceeded(
            f"a tenant can have at most {KEYS_MAX} valid keys",
            recovery="revoke keys that are no longer needed",
        )


async def _add(changes: KeyChanges, key: ApiKey, now: datetime) -> NewKey:
    names = ("permissions", "projects", "hidden_tools", "expires_at", "toolsets", "user_id")
    return await create_key(
        changes.tx,
        key.label,
        now,
        tenant=changes.tx.scope.tenant,
        **{name: getattr(key, name) for name in names},
    )


async def _put(
    changes: KeyChanges, old: ApiKey, new: ApiKey, now: datetime, *, even_last: bool
) -> ApiKey:
    """Write a key; CONFLICT if it was the last that manages keys permanently and no longer is."""
    if not even_last:
        _check_last_manager(changes, old, new, now, "pass even_last: true")
    return await changes.put(new)


def _check_last_manager(
    changes: KeyChanges, old: ApiKey, new: ApiKey, now: datetime, alternative: str
) -> None:
    """Raise CONFLICT if `old` manages keys permanently, and neither `new` nor another key does."""
    others = (key for key in changes.keys if key.key_id != old.key_id)
    if _is_manager(old, now) and not any(_is_manager(key, now) for key in (new, *others)):
        raise conflict(
            "this is the tenant's last permanent key that can manage keys and use all projects;"
            " after the change, the tenant would have no such key",
            recovery="create another permanent key that can manage keys and use all projects, or"
            f" {alternative}",
        )


def _is_manager(key: ApiKey, now: datetime) -> bool:
    """Return whether a key may manage all others permanently."""
    return (
        key.is_valid(now)
        and key.expires_at is None
        and key.projects is None
        and Permission.ADMIN in key.permissions
        and not any(name.startswith("keys_") for name in key.hidden_tools)
    )
