"""The tools about API keys: keys_list, keys_create, keys_rotate, keys_revoke, keys_update."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, StringConstraints, field_validator, model_validator

from memsvc.administration.tenant_keys import KeyProperties, TenantKeys
from memsvc.core.paths import check_project
from memsvc.core.ports import Clock
from memsvc.core.scope import ALL_PROJECTS, Caller, Permission
from memsvc.core.timestamp import Timestamp
from memsvc.core.tools import Arguments, CallerFunction, Result, Tool
from memsvc.store.keys import ApiKey, NewKey

OVERLAP_HOURS = 24.0
Label = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$"
    ),
]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
ProjectName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=128)]


class KeysArguments(Arguments):
    """Arguments of every tool about keys: keys concern the tenant, so all of its projects."""

    project: str = Field(ALL_PROJECTS, description="not looked at: keys are the tenant's")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        if value.strip() not in ("", ALL_PROJECTS):
            check_project(value.strip())
        return ALL_PROJECTS


class _KeyProperties(KeysArguments):
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

    @field_validator("projects")
    @classmethod
    def _projects(cls, value: list[str] | None) -> list[str] | None:
        return None if value is None else [check_project(name) for name in value]

    def properties(
        self, *, all_projects: bool = False, never_expires: bool = False
    ) -> KeyProperties:
        """Return the properties requested for the key."""
        return KeyProperties(
            label=self.label,
            permissions=None if self.permissions is None else frozenset(self.permissions),
            projects=None if self.projects is None else frozenset(self.projects),
            all_projects=all_projects,
            hidden_tools=None if self.hidden_tools is None else frozenset(self.hidden_tools),
            expires_at=self.expires_at,
            never_expires=never_expires,
        )


class CreateKeyArguments(_KeyProperties):
    pass


class KeyByIdArguments(KeysArguments):
    key_id: UUID = Field(description="the key, by the id that keys_list shows")


class RotateKeyArguments(KeyByIdArguments):
    overlap_hours: float = Field(
        OVERLAP_HOURS, ge=0, le=8760, description="how long the old key goes on opening"
    )


class RevokeKeyArguments(KeyByIdArguments):
    even_last: bool = Field(
        False, description="also where no other key could manage the tenant's keys for good"
    )


class UpdateKeyArguments(_KeyProperties):
    key_id: UUID = Field(description="the key, by the id that keys_list shows")
    all_projects: bool = Field(False, description="confine it to no projects any longer")
    never_expires: bool = Field(False, description="let it end no longer")
    even_last: bool = Field(
        False, description="also where no other key could manage the tenant's keys for good"
    )

    @model_validator(mode="after")
    def _one_or_the_other(self) -> "UpdateKeyArguments":
        if self.all_projects and self.projects is not None:
            raise ValueError("say projects or all_projects, not both")
        if self.never_expires and self.expires_at is not None:
            raise ValueError("say expires_at or never_expires, not both")
        return self


class ListedKey(Result):
    key_id: UUID = Field(
        description="what the key is known by; not the key itself, which is stored nowhere"
    )
    label: str = Field(description="what the call log shows for it")
    state: Literal["valid", "expired", "revoked"] = Field(description="whether it opens anything")
    permissions: list[Permission] = Field(description="what it may do")
    projects: list[str] | None = Field(description="the projects that it is confined to; null: all")
    hidden_tools: list[str] = Field(description="tools that are not there for it")
    created_at: datetime = Field(description="when it was made")
    expires_at: datetime | None = Field(description="when it ends; null: never")
    revoked_at: datetime | None = Field(description="when it was revoked; null: it was not")
    last_used_at: datetime | None = Field(
        description="when it was last used, half a minute late; null: never"
    )
    is_yours: bool = Field(description="whether it is the key of this call")


class KeysListResult(Result):
    keys: list[ListedKey] = Field(description="the keys, oldest first")


class KeyResult(Result):
    key: ListedKey = Field(description="the key as it is now")


class NewKeyResult(Result):
    text: str = Field(description="the new key itself: shown this once and stored nowhere")
    key: ListedKey = Field(description="what the new key may")


class RotateKeyResult(NewKeyResult):
    old: ListedKey = Field(description="the old key, with the time at which it ends")


class KeyTools:
    """Functions of the tools."""

    def __init__(self, keys: TenantKeys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    async def list(self, caller: Caller, args: KeysArguments) -> KeysListResult:
        del args
        return KeysListResult(
            keys=[self._listed(caller, key) for key in await self._keys.list_keys(caller)]
        )

    async def create(self, caller: Caller, args: CreateKeyArguments) -> NewKeyResult:
        created = await self._keys.create(caller, args.properties())
        return NewKeyResult(text=created.text, key=self._listed(caller, created.key))

    async def rotate(self, caller: Caller, args: RotateKeyArguments) -> RotateKeyResult:
        created: NewKey
        created, old = await self._keys.rotate(
            caller, args.key_id, timedelta(hours=args.overlap_hours)
        )
        return RotateKeyResult(
            text=created.text, key=self._listed(caller, created.key), old=self._listed(caller, old)
        )

    async def revoke(self, caller: Caller, args: RevokeKeyArguments) -> KeyResult:
        return KeyResult(
            key=self._listed(
                caller, await self._keys.revoke(caller, args.key_id, even_last=args.even_last)
            )
        )

    async def update(self, caller: Caller, args: UpdateKeyArguments) -> KeyResult:
        properties = args.properties(
            all_projects=args.all_projects, never_expires=args.never_expires
        )
        key = await self._keys.update(caller, args.key_id, properties, even_last=args.even_last)
        return KeyResult(key=self._listed(caller, key))

    def _listed(self, caller: Caller, key: ApiKey) -> ListedKey:
        is_valid = key.is_valid(self._clock.now())
        return ListedKey(
            key_id=key.key_id,
            label=key.label,
            state="revoked" if key.revoked_at is not None else "valid" if is_valid else "expired",
            permissions=sorted(key.permissions),
            projects=None if key.projects is None else sorted(key.projects),
            hidden_tools=sorted(key.hidden_tools),
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            last_used_at=key.last_used_at,
            is_yours=key.key_id == caller.key_id,
        )


def _tool(run: Callable[[Caller, Any], Awaitable[Result]], **rest: Any) -> Tool:
    """Return a tool with what all of these have in common."""
    return Tool(
        run=CallerFunction(run),
        permission=Permission.ADMIN,
        logged=frozenset({"project", "key_id"}),
        spans_projects=True,
        is_admin=True,
        **rest,
    )


def key_tools(keys: TenantKeys, clock: Clock) -> list[Tool]:
    """Return the tools of this module."""
    run = KeyTools(keys, clock)
    return [
        _tool(
            name="keys_list",
            title="List API keys",
            description="List the tenant's API keys: what each may, until when, and when it was"
            " last used.",
            arguments=KeysArguments,
            result=KeysListResult,
            run=run.list,
            read_only=True,
            idempotent=True,
        ),
        _tool(
            name="keys_create",
            title="Make an API key",
            description="Make an API key of the same tenant, which may no more than yours. It is"
            " shown this once.",
            arguments=CreateKeyArguments,
            result=NewKeyResult,
            run=run.create,
            read_only=False,
            idempotent=False,
        ),
        _tool(
            name="keys_rotate",
            title="Rotate an API key",
            description="Make a key that may what another may, and let that one end when an"
            " overlap is over.",
            arguments=RotateKeyArguments,
            result=RotateKeyResult,
            run=run.rotate,
            read_only=False,
            idempotent=False,
            destructive=True,
        ),
        _tool(
            name="keys_revoke",
            title="Revoke an API key",
            description="Let an API key open nothing any more, at once and for good.",
            arguments=RevokeKeyArguments,
            result=KeyResult,
            run=run.revoke,
            read_only=False,
            idempotent=True,
            destructive=True,
        ),
        _tool(
            name="keys_update",
            title="Change an API key",
            description="Change the label, rights or end of an API key; its text stays. What is"
            " not given stays.",
            arguments=UpdateKeyArguments,
            result=KeyResult,
            run=run.update,
            read_only=False,
            idempotent=True,
            destructive=True,
        ),
    ]
