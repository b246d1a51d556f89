"""What reaches stderr: JSON, and nothing that could hold content."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from memsvc.gateway.logs import configure_logging
from tests.gateway.catalogue import CANARY
from tests.gateway.conftest import OutOfReach, Running


@pytest.fixture
def lines() -> Iterator[io.BytesIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    file = io.BytesIO()
    configure_logging("info", file)
    structlog.configure(cache_logger_on_first_use=False)
    yield file
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


def told(lines: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def fail() -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        raise RuntimeError(f"because of {CANARY}") from error


def test_an_exception_is_told_by_types_and_places(lines: io.BytesIO) -> None:
    try:
        fail()
    except RuntimeError:
        structlog.get_logger("memsvc.x").error("it failed", exc_info=True)
    [line] = told(lines)
    assert (line["event"], line["level"], line["error"]) == ("it failed", "error", "RuntimeError")
    assert line["at"][-1] == "RuntimeError"
    assert "ValueError" in line["at"]
    assert any(place.endswith(" fail") for place in line["at"])
    assert CANARY not in repr(line)


def test_a_library_is_told_by_its_place_unless_its_messages_are_about_itself(
    lines: io.BytesIO,
) -> None:
    for name in ("mcp.server.x", "asyncio", "httpx2", "asyncpg"):
        logging.getLogger(name).warning(f"Invalid header: {CANARY}")
        logging.getLogger(name).error("Invalid value: %s", CANARY, exc_info=ValueError(CANARY))
    warnings.warn(CANARY, UserWarning, stacklevel=1)
    logging.getLogger("uvicorn.error").error(
        "Exception in ASGI application\n%s", CANARY, exc_info=ValueError(CANARY)
    )
    logging.getLogger("uvicorn.access").info("GET /?apikey=%s", CANARY)
    events = told(lines)
    assert CANARY not in lines.getvalue().decode()
    assert len(events) == 10
    assert events[0]["event"].startswith("mcp.server.x:")
    assert events[1]["error"] == "ValueError"
    assert events[-1]["event"] == "Exception in ASGI application"


@pytest.mark.anyio
async def test_a_request_that_fails_outside_a_tool_is_500_in_the_one_shape(
    running: Running, lines: io.BytesIO
) -> None:
    class Broken(OutOfReach):
        async def registry(self, *_: Any) -> list[Any]:
            raise RuntimeError(CANARY)

    async with running(database=Broken()) as gateway, gateway.http() as http:
        answer = await http.post("/mcp", json={}, headers={"X-Request-ID": "abc"})
    assert answer.status_code == 500
    assert {name: answer.json()[name] for name in ("code", "message", "retryable")} == {
        "code": "INTERNAL_ERROR",
        "message": "internal error",
        "retryable": False,
    }
    assert (answer.headers["x-request-id"], answer.json()["request_id"]) == ("abc", "abc")
    failed = next(line for line in told(lines) if line["event"] == "a request failed")
    assert (failed["request_id"], failed["error"]) == ("abc", "RuntimeError")
    assert CANARY not in lines.getvalue().decode() + answer.text
