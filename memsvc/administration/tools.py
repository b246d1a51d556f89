"""Everything that the administration of a tenant publishes, and the tools about API keys."""

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from memsvc.administration.archive_restore import FileQuotas
from memsvc.administration.archive_tools import ArchiveOptions, ArchiveTransfer
from memsvc.administration.purge import Purge
from memsvc.administration.tenant_keys import (
    EVEN_LAST,
    KEY_ID,
    PROJECT_IGNORED,
    KeyProperties,
    KeyUpdate,
    TenantKeys,
)
from memsvc.administration.usage_tools import (
    CallLogReader,
    EffectiveLimits,
    JobTools,
    LimitReader,
    UsageTools,
)
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller, Permission
from memsvc.core.tool_methods import admin_tool, result, tools_of
from memsvc.core.tools import Published, TenantArguments
from memsvc.store.database import Database
from memsvc.store.keys import ApiKey
from memsvc.store.ownership import Owners

OVERLAP_HOURS = 24.0
KeyId = Annotated[UUID, KEY_ID]
key_tool = partial(
    admin_tool,
    needs=Permission.ADMIN,
    base=TenantArguments,
    project=PROJECT_IGNORED,
    logs=("key_id",),
)


@result
class ListedKey:
    key_id: Annotated[UUID, "what the key is known by; not the key itself, which is stored nowhere"]
    label: Annotated[str, "what the call log shows for it"]
    state: Annotated[Literal["valid", "expired", "revoked"], "whether it opens anything"]
    permissions: Annotated[list[Permission], "what it may do"]
    projects: Annotated[list[str] | None, "the projects that it is confined to; null: all"]
    hidden_tools: Annotated[list[str], "tools that are not there for it"]
    created_at: Annotated[datetime, "when it was made"]
    expires_at: Annotated[datetime | None, "when it ends; null: never"]
    revoked_at: Annotated[datetime | None, "when it was revoked; null: it was not"]
    last_used_at: Annotated[
        datetime | None, "when it was last used, half a minute late; null: never"
    ]
    is_yours: Annotated[bool, "whether it is the key of this call"]
    toolsets: Annotated[list[str], "what its clients list; empty: what the settings say"]


@result
class KeyList:
    keys: Annotated[list[ListedKey], "the keys, oldest first"]


@result
class KeyChange:
    key: Annotated[ListedKey, "the key as it is now"]


@result
class CreatedKey:
    text: Annotated[str, "the new key itself: shown this once and stored nowhere"]
    key: Annotated[ListedKey, "what the new key may"]


@result
class RotatedKey(CreatedKey):
    old: Annotated[ListedKey, "the old key, with the time at which it ends"]


@frozen
class KeyTools:
    """The tools over a tenant's keys."""

    keys: TenantKeys
    clock: Clock

    @key_tool("keys_list", title="List API keys", read_only=True, idempotent=True)
    async def list_keys(self, caller: Caller) -> KeyList:
        """List the tenant's API keys: what each may, until when, and when it was last used."""
        return KeyList([self._listed(caller, key) for key in await self.keys.list_keys(caller)])

    @key_tool("keys_create", title="Make an API key")
    async def create(self, caller: Caller, properties: KeyProperties) -> CreatedKey:
        """Make an API key of the same tenant, which may no more than yours.

        It is shown this once."""
        created = await self.keys.create(caller, properties)
        return CreatedKey(created.text, self._listed(caller, created.key))

    @key_tool("keys_rotate", title="Rotate an API key", destructive=True)
    async def rotate(
        self,
        caller: Caller,
        key_id: KeyId,
        overlap_hours: Annotated[
            float, Field(ge=0, le=8760), "how long the old key goes on opening"
        ] = OVERLAP_HOURS,
    ) -> RotatedKey:
        """Make a key that may what another may, and let that one end when an overlap is over."""
        created, old = await self.keys.rotate(caller, key_id, timedelta(hours=overlap_hours))
        return RotatedKey(
            created.text, self._listed(caller, created.key), self._listed(caller, old)
        )

    @key_tool("keys_revoke", title="Revoke an API key", idempotent=True, destructive=True)
    async def revoke(
        self, caller: Caller, key_id: KeyId, even_last: Annotated[bool, EVEN_LAST] = False
    ) -> KeyChange:
        """Let an API key open nothing any more, at once and for good."""
        return KeyChange(
            self._listed(caller, await self.keys.revoke(caller, key_id, even_last=even_last))
        )

    @key_tool("keys_update", title="Change an API key", idempotent=True, destructive=True)
    async def update(self, caller: Caller, update: KeyUpdate) -> KeyChange:
        """Change the label, rights or end of an API key; its text and what is not given stay."""
        if update.all_projects and update.projects is not None:
            raise invalid("arguments say projects or all_projects, not both")
        if update.never_expires and update.expires_at is not None:
            raise invalid("arguments say expires_at or never_expires, not both")
        return KeyChange(self._listed(caller, await self.keys.update(caller, update)))

    def _listed(self, caller: Caller, key: ApiKey) -> ListedKey:
        is_valid = key.is_valid(self.clock.now())
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
            key.key_id == caller.key_id,
            sorted(key.toolsets),
        )


def published(  # noqa: PLR0913 - one name a part, most of them by keyword
    database: Database,
    clock: Clock,
    *,
    archives: ArchiveOptions,
    file_quotas: FileQuotas,
    known_jobs: Collection[str],
    sweep_jobs: Collection[str],
    calls_kept_days: int,
    owners: Owners,
    calls_per_day: int,
    effective_limits: EffectiveLimits,
    settle_s: float,
) -> Published:
    """Return the administrative tools.

    `known_jobs` are the jobs of all other parts, `sweep_jobs` those of them that a restore queues.
    The call log lists `calls_kept_days` back, 0 for all of it. `owners` know what belongs to whom,
    `calls_per_day` limits the model calls of a tenant, `effective_limits` returns its other limits.
    `settle_s` is how long batched writes may be pending.
    """
    tenant_archives = ArchiveTransfer(
        database, clock, archives, file_quotas, known_jobs=known_jobs, sweep_jobs=sweep_jobs
    )
    tool_sets = (
        tenant_archives,
        KeyTools(TenantKeys(database, clock), clock),
        CallLogReader(database, clock, calls_kept_days),
        JobTools(database, clock),
        LimitReader(effective_limits),
        Purge(database, clock, owners, settle_s=settle_s),
        UsageTools(database, clock, calls_per_day, file_quotas.stored),
    )
    return Published(
        tools=[tool for tool_set in tool_sets for tool in tools_of(tool_set)],
        jobs=[],
        archives=tenant_archives,
    )
