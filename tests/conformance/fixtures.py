"""Definition of a fixture, and those that need no input: content, errors, progress, schemas."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, ElicitRequestFormParams, ElicitResult
from pydantic import ConfigDict

from memsvc.core.errors import invalid
from memsvc.core.scope import Permission
from memsvc.core.tools import Arguments, ProgressCallback, Result, Tool, ToolContext
from memsvc.gateway.mcp.answer_streams import STREAM_AFTER_S
from memsvc.gateway.mcp.request import Context
from tests.conformance.schemas import HEADERS_SCHEMA, SCHEMA_2020_12

IMAGE: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmM"
    "IQAAAABJRU5ErkJggg=="
)
"""One pixel, as PNG."""
AUDIO: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="
"""One sample of silence, as WAV."""
STEP_S: Final = 0.15
"""Seconds between two notifications of a fixture; longer than progress is throttled."""

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FixtureCall:
    """A call of a fixture: its context, its request, its progress, and what asks its user."""

    context: Context
    call: CallToolRequestParams
    progress: ProgressCallback
    elicit: Callable[[ElicitRequestFormParams], Awaitable[ElicitResult]]

    @property
    def arguments(self) -> dict[str, Any]:
        return self.call.arguments or {}


@dataclass(frozen=True, slots=True)
class Fixture:
    """A tool of the suite.

    A protocol error is returned, not raised: it is an answer, and not a failure of ours.
    """

    name: str
    description: str
    answer: Callable[[FixtureCall], Awaitable[Answer | MCPError]]
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


class FixtureArguments(Arguments):
    """Any arguments of the suite; each fixture's own schema describes them."""

    model_config = ConfigDict(extra="allow")


class FixtureResult(Result):
    """Result of a fixture: content of the protocol, which no other surface has."""


def tool_of(fixture: Fixture) -> Tool:
    """Return the fixture as a tool of the catalogue."""

    async def run(context: ToolContext, args: FixtureArguments) -> FixtureResult:
        del context, args
        raise invalid("a fixture of the conformance suite answers over MCP alone")

    return Tool(
        name=fixture.name,
        title=fixture.name,
        description=fixture.description,
        arguments=FixtureArguments,
        result=FixtureResult,
        run=run,
        toolset="agent",
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
    )


def text(*lines: str) -> Answer:
    """Return a result of texts."""
    return {"content": [{"type": "text", "text": line} for line in lines], "resultType": "complete"}


def embedded(uri: str, mime_type: str, content: str) -> dict[str, Any]:
    """Return a resource within content."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": content}}


def image() -> dict[str, Any]:
    """Return the image, as content."""
    return {"type": "image", "data": IMAGE, "mimeType": "image/png"}


def _constant(**result: Any) -> Callable[[FixtureCall], Awaitable[Answer]]:
    async def answer(_: FixtureCall) -> Answer:
        return {"resultType": "complete", **result}

    return answer


async def _with_progress(call: FixtureCall) -> Answer:
    for done in (0, 50, 100):
        call.progress.report(done, 100, f"step {done} of 100")
        await asyncio.sleep(STEP_S)
    return text("Three steps were told of.")


async def _with_logging(call: FixtureCall) -> Answer:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log_line(call.context, line)
        await asyncio.sleep(STEP_S / 3)
    return text("Three lines were logged.")


async def _with_reconnect(_: FixtureCall) -> Answer:
    await asyncio.sleep(STREAM_AFTER_S + STEP_S)
    return text("Reconnection test completed")


async def log_line(context: Context, line: str) -> None:
    """Send a log line to the client, in the response to its request.

    Only where the client accepts any.
    """
    session = context.session
    await session.send_log_message(  # type: ignore[deprecated] # the suite asks for it
        "info", line, related_request_id=context.request_id
    )


def fixtures() -> list[Fixture]:
    """Return the fixtures that need no input from the client."""
    simple = "This is a simple text response for testing."
    failure = "This tool intentionally returns an error for testing"
    mixed = embedded(
        "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
    )
    plain = embedded(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."
    )
    audio = {"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}
    mixed_content = [{"type": "text", "text": "Multiple content types test:"}, image(), mixed]
    error_content = [{"type": "text", "text": failure}]
    return [
        Fixture(
            "test_simple_text",
            "Answers a text.",
            _constant(content=[{"type": "text", "text": simple}]),
        ),
        Fixture("test_image_content", "Answers an image.", _constant(content=[image()])),
        Fixture("test_audio_content", "Answers a sound.", _constant(content=[audio])),
        Fixture("test_embedded_resource", "Answers a resource.", _constant(content=[plain])),
        Fixture(
            "test_multiple_content_types",
            "Answers a text, an image, a resource.",
            _constant(content=mixed_content),
        ),
        Fixture(
            "test_error_handling",
            "Answers an error.",
            _constant(content=error_content, isError=True),
        ),
        Fixture("test_tool_with_progress", "Tells of its progress.", _with_progress),
        Fixture("test_tool_with_logging", "Logs three lines to the client.", _with_logging),
        Fixture(
            "test_logging_tool", "Logs three lines to the client, if it takes any.", _with_logging
        ),
        Fixture(
            "test_reconnection",
            "Takes so long that its answer is a stream, which can be resumed.",
            _with_reconnect,
        ),
        Fixture(
            "json_schema_2020_12_tool",
            "Has a schema of many words.",
            _constant(content=[]),
            SCHEMA_2020_12,
        ),
        Fixture(
            "test_custom_headers",
            "Has arguments that are headers too.",
            _constant(content=[]),
            HEADERS_SCHEMA,
        ),
    ]
