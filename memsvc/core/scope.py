"""The caller of a request, and the tenant and project whose data it may touch."""

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from hashlib import blake2b
from uuid import UUID

from memsvc.core.frozen import frozen

TENANT_BYTES = 32
DEFAULT_PROJECT = "default"
"""Project of a call that names none."""
DEFAULT_SESSION = "default"
"""Session of a call that names neither a session nor a user."""
ALL_PROJECTS = "*"
"""Project of a call that spans all projects; no project has this name."""


class Permission(StrEnum):
    """Permission of a key; each tool requires one."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


ALL_PERMISSIONS = frozenset(Permission)


@frozen
class Scope:
    """The tenant and project whose data is touched.

    The first argument of everything that touches data.

    Where the project is `*`, it means all of the tenant's projects, or those of
    `allowed_projects`. The caller's key hides all tools that read of `hidden_toolsets`: their
    memory must not reach the caller through other tools either. `key_user` is the user to whom the
    key is bound, if any."""

    tenant: bytes
    project: str
    allowed_projects: frozenset[str] | None = None
    hidden_toolsets: frozenset[str] = frozenset()
    key_user: str = ""

    def __post_init__(self) -> None:
        if len(self.tenant) != TENANT_BYTES:
            raise ValueError(f"a tenant id must have {TENANT_BYTES} bytes, not {len(self.tenant)}")

    def digest(self, *words: str, size: int) -> bytes:
        """Return a hash of so many bytes over the scope and words, which reveals neither."""
        named = (self.tenant, *(word.encode() for word in (self.project, *words)))
        whole = b"".join(len(word).to_bytes(4, "big") + word for word in named)
        return blake2b(whole, digest_size=size).digest()

    @property
    def projects(self) -> frozenset[str] | None:
        """Return the projects in scope; None for all of the tenant's."""
        return self.allowed_projects if self.project == ALL_PROJECTS else frozenset({self.project})


def tenant_digits(tenant: bytes) -> str:
    """Return the digits by which logs and `limits.rates.tenants` name a tenant."""
    return tenant.hex()[:8]


OPEN_LABEL = "open"
"""The label of keys that are not listed, each of which opens a tenant where `auth.mode` says so."""


@frozen
class ConnectionDefaults:
    """Project and user of the calls of a connection that name none; "" for those of the key.

    `has_hooks` where hooks of the same host recall before each turn and store after it."""

    project: str = ""
    user: str = ""
    has_hooks: bool = False


NO_CONNECTION = ConnectionDefaults()


@frozen
class Caller:
    """An authenticated caller.

    `projects` and `hidden_tools` restrict the key; None means all projects. `key_id` is None
    without a listed key. A key that is bound to a `user` may name no other. `toolsets` are listed
    for it unless it requests others. `connection` is what its request says of all of its calls.
    `surface_hidden_tools` are not offered where the caller calls, whatever its key may do. These
    three and `expires_at` do not count for equality."""

    tenant: bytes
    key_label: str
    permissions: frozenset[Permission] = ALL_PERMISSIONS
    projects: frozenset[str] | None = None
    hidden_tools: frozenset[str] = frozenset()
    key_id: UUID | None = None
    expires_at: datetime | None = field(default=None, compare=False)
    toolsets: frozenset[str] = field(default=frozenset(), compare=False)
    surface_hidden_tools: frozenset[str] = field(default=frozenset(), compare=False)
    user: str = ""
    connection: ConnectionDefaults = field(default=NO_CONNECTION, compare=False)

    @property
    def own(self) -> dict[str, str]:
        """Return the project and the user_id of calls that name none, as far as there are any.

        They are those of the connection, else of the key."""
        only = next(iter(self.projects)) if self.projects and len(self.projects) == 1 else ""
        own = {}
        if project := self.connection.project or only:
            own["project"] = project
        if user := self.connection.user or self.user:
            own["user_id"] = user
        return own

    def is_offered(self, permission: Permission) -> bool:
        """Return whether tools that need this permission are listed.

        For an OAuth token all are, because its client can request more scopes."""
        return permission in self.permissions or self.key_id is None

    def can_access(self, project: str) -> bool:
        """Return whether the key is not confined to other projects."""
        return self.projects is None or project in self.projects
