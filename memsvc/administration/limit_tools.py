"""The tool that lists the effective limits of a tenant: tenant_limits."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import admin_tool, result

Kind = Literal["retention", "quota", "rate"]


@result
class TenantLimit:
    kind: Annotated[
        Kind, "how long something is kept, how much of it there may be, or how often it may be"
    ]
    setting: Annotated[str, "the setting of the server, whose name ends with the unit"]
    value: Annotated[int | float, "its value"]
    about: Annotated[str, "what it says"]


@result
class TenantLimits:
    limits: Annotated[Sequence[TenantLimit], "what is in force for you"]


EffectiveLimits = Callable[[bytes], Sequence[TenantLimit]]
"""Returns the effective limits of a tenant."""


class LimitReader:
    """Reads the effective limits of a tenant."""

    def __init__(self, effective_limits: EffectiveLimits) -> None:
        self._effective_limits = effective_limits

    @admin_tool(
        "tenant_limits",
        title="Tell what holds",
        needs=Permission.READ,
        project="any: the same holds for all projects",
    )
    async def limits(self, scope: Scope) -> TenantLimits:
        """Tell how long things are kept, how much there may be and how often you may call.

        That is as the server is configured. What a project or a session says otherwise is not in
        it."""
        return TenantLimits(self._effective_limits(scope.tenant))
