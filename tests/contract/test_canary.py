"""A secret in any argument reaches no log line, no row of the call log, no metric, no trace and no
error."""

import io
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.options import TracingOptions
from memsvc.adapters.tokens import O200kCounter
from memsvc.adapters.tracing import opened_tracer
from memsvc.core.scope import Scope
from memsvc.gateway.metrics import Metrics
from memsvc.store.database import Database
from tests.collector import collecting
from tests.contract.catalogue import EXAMPLES, TOOLS, message
from tests.door import Door, open_door
from tests.fakes import FakeClock

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SECRET = "xyzzy-sk-4f9a1c"


def everywhere(value: Any) -> Iterator[Any]:
    """The value with the secret in one of its strings at a time, and as one."""
    match value:
        case str():
            yield f"{value} {SECRET}"
            yield SECRET
        case list():
            for at, inner in enumerate(value):
                yield from (
                    [*value[:at], changed, *value[at + 1 :]] for changed in everywhere(inner)
                )
        case dict():
            for name, inner in value.items():
                yield from (value | {name: changed} for changed in everywhere(inner))
            yield value | {SECRET: 1}
        case _:
            yield SECRET


def planted(tool: str) -> Iterator[dict[str, Any]]:
    """Calls that hold the secret in an argument that is not one of those that the tool says it
    logs."""
    example = EXAMPLES[tool]
    for name in TOOLS[tool].arguments.model_fields:
        if name in TOOLS[tool].logged:
            wrong: list[Any] = [[SECRET], {"a": SECRET}, {SECRET: "a"}]
        else:
            wrong = [
                *everywhere(example.get(name, "")),
                [SECRET],
                {"a": SECRET},
                {SECRET: "a"},
                [message(SECRET)],
                [[SECRET]],
            ]
            wrong += [
                {"type": SECRET},
                [{"role": SECRET, "content": SECRET}],
                [{"type": "message", "content": [SECRET]}],
            ]
            wrong += [
                SECRET + "\ud800",
                SECRET + "\x00",
                [message(SECRET + "\x00")],
                [{"id": [SECRET]}],
            ]
        yield from (example | {name: value} for value in wrong)
        yield {key: value for key, value in example.items() if key != name} | {
            "conversation_items": [SECRET]
        }
    yield example | {SECRET: SECRET}
    yield example | {"surplus": {"deep": [SECRET]}}


@pytest.mark.parametrize("tool", TOOLS)
async def test_what_a_call_holds_is_told_nowhere(
    database: Database,
    clock: FakeClock,
    tokens: O200kCounter,
    scope: Scope,
    admin: asyncpg.Connection,
    log_lines: io.BytesIO,
    tool: str,
) -> None:
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(collecting())
        options = TracingOptions(endpoint=collector.url, queue_max=1_000_000)
        tracer = await stack.enter_async_context(opened_tracer(options, metrics, "0"))
        door = open_door(database, clock, tokens, metrics, scope, tracer=tracer)
        metrics.add_tools(door.dispatch.catalogue)
        await tell(door, tool)
    traced = b"".join(collector.bodies)
    assert SECRET.encode() not in traced
    assert scope.tenant not in traced
    assert scope.tenant.hex().encode() not in traced
    assert {f"call {tool}", "call unknown"} <= {span.name for span in collector.spans}
    rows = [row[0] for row in await admin.fetch("SELECT c::text FROM calls AS c")]
    assert len(rows) > 20
    told = {
        "log": log_lines.getvalue().decode(),
        "calls": "\n".join(rows),
        "metrics": metrics.text().decode(),
    }
    for place, text in told.items():
        assert tool in text, place
        assert SECRET not in text, (
            place,
            next(line for line in text.splitlines() if SECRET in line)[:300],
        )


async def tell(door: Door, tool: str) -> None:
    """Call a tool with the secret in every place that an argument has, and one that is named by the
    secret."""
    codes = set()
    for name in ("memory_after_turn", "file_write"):
        await door(name, **EXAMPLES[name])
    for arguments in planted(tool):
        outcome = await door.dispatch.call(
            door.caller, tool, arguments, surface="test", request_id="r"
        )
        codes.add(outcome.body.get("code"))
        # an unknown name is told to whoever sent it, and a pipe tells what its steps came to, by
        # their ids
        if outcome.error is not None and SECRET not in arguments and tool != "mcp_pipe":
            assert SECRET not in outcome.text
    await door.dispatch.call(door.caller, SECRET, {"a": SECRET}, surface="test", request_id="r")
    await door.dispatch.call_log.flush()
    assert "INTERNAL_ERROR" not in codes
    assert "INVALID_ARGUMENT" in codes


async def test_a_refused_call_leaves_no_error_in_the_log(call: Door, log_lines: io.BytesIO) -> None:
    await call("file_write", project="p", path="/f", content="x")
    await call.refuses(
        "ALREADY_EXISTS", "file_write", project="p", path="/f", content="x", create_only=True
    )
    await call.refuses("NOT_FOUND", "file_delete", project="p", path="/nothing")
    await call.refuses("IS_DIRECTORY", "file_read", project="p", path="/")
    lines = log_lines.getvalue().decode().splitlines()
    assert len(lines) >= 4
    assert [line for line in lines if '"level":"error"' in line] == []
