"""The tool that lists the effective limits of a tenant: tenant_limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import AllProjectsArguments, Result, Tool

Kind = Literal["retention", "quota", "rate"]


@dataclass(frozen=True, slots=True)
class TenantLimit:
    """Effective setting: its path in the configuration, its value and its description.

    The value is in the unit that the setting's name ends with.
    """

    kind: Kind
    setting: str
    value: float
    description: str


EffectiveLimits = Callable[[bytes], Sequence[TenantLimit]]
"""Returns the effective limits of a tenant."""


class LimitsArguments(AllProjectsArguments):
    project: str = Field(ALL_PROJECTS, description="any: the same holds for all projects")


class EffectiveLimit(Result):
    kind: Kind = Field(
        description="how long something is kept, how much of it there may be, or how often it may"
        " be"
    )
    setting: str = Field(description="the setting of the server, whose name ends with the unit")
    value: int | float = Field(description="its value")
    about: str = Field(description="what it says")


class LimitsResult(Result):
    limits: list[EffectiveLimit] = Field(description="what is in force for you")


def limits_tool(effective_limits: EffectiveLimits) -> Tool:
    """Return the tool tenant_limits."""

    async def limits(scope: Scope, args: LimitsArguments) -> LimitsResult:
        del args
        return LimitsResult(
            limits=[
                EffectiveLimit(
                    kind=limit.kind,
                    setting=limit.setting,
                    value=limit.value,
                    about=limit.description,
                )
                for limit in effective_limits(scope.tenant)
            ]
        )

    return Tool(
        name="tenant_limits",
        title="Tell what holds",
        description="Tell how long things are kept, how much there may be of them and how often"
        " you may call, as the server is configured. What a project or a session says"
        " otherwise is not in it.",
        arguments=LimitsArguments,
        result=LimitsResult,
        run=limits,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=frozenset({"project"}),
        spans_projects=True,
        is_admin=True,
    )
