"""Tools of no style, through which the gateway is tested."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller, Permission, Scope
from memsvc.core.tools import Arguments, Result, Tool, ToolContext
from memsvc.gateway.dispatch import Catalogue

CANARY = "canary-7f3a91"
CALLER = Caller(tenant=b"\x01" * 32, key_label="test")


class Part(BaseModel):
    """A part with a title of its own."""

    title: str
    tags: tuple[str, int] | None = None


class EchoArguments(Arguments):
    session_id: str = "default"
    turn_id: str = ""
    count: Annotated[int, Field(ge=0, le=10)] = 0
    text: str = ""
    items: Annotated[list[Any], Field(default_factory=list)]
    parts: Annotated[list[Part], Field(default_factory=list)]
    first: Part | None = None


class EchoResult(Result):
    project: str
    text: str
    items: list[Any]
    parts: list[Part]


class NoArguments(Arguments):
    pass


async def echo(scope: Scope, arguments: EchoArguments) -> EchoResult:
    return EchoResult(
        project=scope.project, text=arguments.text, items=arguments.items, parts=arguments.parts
    )


async def crash(_: Scope, arguments: EchoArguments) -> EchoResult:
    raise RuntimeError(f"while storing {arguments.text} {CANARY}")


async def refuse(_: Scope, __: EchoArguments) -> EchoResult:
    raise MemsvcError(
        Code.RESOURCE_BUSY, "somebody else is at it", retry_after_s=0.5, recovery="wait"
    )


async def garble(_: Scope, __: EchoArguments) -> EchoResult:
    return EchoResult(project="p", text="\ud800" + CANARY, items=[], parts=[])


def tool(name: str, function: Any, *, takes: tuple[str, ...] = ("scope",), **changes: Any) -> Tool:
    """A tool whose function gets these members of the call's context, and then the arguments."""

    async def run(context: ToolContext, arguments: EchoArguments) -> Any:
        return await function(*(getattr(context, member) for member in takes), arguments)

    whole: dict[str, Any] = {
        "name": name,
        "title": name.title(),
        "description": f"To {name}",
        "arguments": EchoArguments,
        "result": EchoResult,
        "run": run,
        "permission": Permission.READ,
        "read_only": True,
        "idempotent": True,
        "logged": frozenset({"project", "session_id", "turn_id"}),
    }
    return Tool(**(whole | changes))


def catalogue() -> Catalogue:
    return Catalogue(
        [
            tool("echo", echo, counter="mcp_memory_before_turn_total"),
            tool("crash", crash),
            tool(
                "refuse",
                refuse,
                counter="mcp_memory_after_turn_total",
                duration_ms="mcp_memory_after_turn_duration_ms",
            ),
            tool("garble", garble),
            tool("write", echo, permission=Permission.WRITE, read_only=False),
            tool("disabled", echo),
        ]
    )
