"""Who is calling and whose data a call may touch."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

TENANT_BYTES = 32
DEFAULT_PROJECT = "default"
"""The project of a call that names none."""
ALL_PROJECTS = "*"
"""The project of a call that spans all projects; no project has this name."""


class Permission(StrEnum):
    """What a key may do; a tool names the one that it needs."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


ALL_PERMISSIONS = frozenset(Permission)


@dataclass(frozen=True, slots=True)
class Scope:
    """The tenant and project whose data is touched; the first argument of everything that touches data.

    Where the project is `*`, all of the tenant's projects are meant, or those of `confined_to`.
    """

    tenant: bytes
    project: str
    confined_to: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if len(self.tenant) != TENANT_BYTES:
            raise ValueError(f"a tenant is {TENANT_BYTES} bytes, not {len(self.tenant)}")

    @property
    def projects(self) -> frozenset[str] | None:
        """The projects that are meant; None for all of the tenant's."""
        return self.confined_to if self.project == ALL_PROJECTS else frozenset({self.project})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was authenticated. `projects` and `hidden_tools` narrow what the key may see; None means all projects.
    `key_id` is None for whoever came without a listed key. Until when one is let in makes nobody another caller."""

    tenant: bytes
    key_label: str
    permissions: frozenset[Permission] = ALL_PERMISSIONS
    projects: frozenset[str] | None = None
    hidden_tools: frozenset[str] = frozenset()
    key_id: UUID | None = None
    expires_at: datetime | None = field(default=None, compare=False)

    def may_touch(self, project: str) -> bool:
        """True when the key is not confined to other projects."""
        return self.projects is None or project in self.projects
