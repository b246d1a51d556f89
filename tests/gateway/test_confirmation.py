"""Dispatch asks before every tool that removes something for good, and runs none that is not agreed
to."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller, Permission
from memsvc.core.tools import CallOutcome, Tool, ToolContext, removes_nothing
from memsvc.gateway.dispatch import REMOVALS_MAX, Catalogue, Dispatch
from tests.contract.catalogue import EXAMPLES, TOOLS
from tests.fakes import FakeClock, RecordingMeter, unlimited
from tests.gateway.conftest import Recorded

pytestmark = pytest.mark.anyio

REMOVING: dict[str, dict[str, Any]] = {
    "file_rename": {"overwrite": True},
    "memory": {"command": "delete"},
    "tenant_settle_job": {"action": "drop"},
    "tenant_purge": {"dry_run": False, "confirm": "canary-31"},
    "mcp_pipe": {"steps": [{"id": "a", "tool": "memories_delete_all", "args": {"user_id": "u"}}]},
}
"""Arguments with which tools remove something, where those of their examples do not."""
KEPT: dict[str, dict[str, Any]] = {
    "file_rename": {"overwrite": False},
    "memory": {"command": "view"},
    "tenant_settle_job": {"action": "retry"},
    "tenant_purge": {"dry_run": True},
    "memory_forget": {"dry_run": True},
    "mcp_pipe": {"steps": [{"id": "a", "tool": "file_rename", "args": {"from_path": "/a"}}]},
}
PATH = {"project": "default", "path": "/a"}
DESTRUCTIVE = sorted(name for name, tool in TOOLS.items() if tool.destructive)
REMOVERS = [name for name in DESTRUCTIVE if TOOLS[name].removes is not removes_nothing]
STOPPED = MemsvcError(Code.CONFLICT, "it ran")


class User:
    """A user who agrees or not, what was asked, and with what the tool ran."""

    def __init__(self, *, agrees: bool) -> None:
        self.agrees = agrees
        self.asked: list[str] = []
        self.ran: list[ToolContext] = []

    async def ask(self, text: str) -> None:
        self.asked.append(text)
        if not self.agrees:
            raise MemsvcError(Code.NOT_ACCEPTED, "no")

    async def call(self, name: str, /, **changes: Any) -> CallOutcome:
        async def run(context: ToolContext, _: Any) -> Any:
            self.ran.append(context)
            raise STOPPED

        tools: list[Tool] = [replace(tool, run=run) for tool in TOOLS.values()]
        clock, meter = FakeClock(), RecordingMeter()
        dispatch = Dispatch(
            Catalogue(tools), Recorded(meter, clock), meter, clock, unlimited(meter)
        )
        caller = Caller(b"\x01" * 32, "test", frozenset(Permission))
        example = {} if name == "mcp_pipe" else EXAMPLES[name]
        return await dispatch.call(
            caller, name, example | changes, surface="test", request_id="r", elicit=self.ask
        )


@pytest.mark.parametrize("name", REMOVERS)
async def test_every_tool_that_removes_is_asked_about_first(name: str) -> None:
    user = User(agrees=False)
    refused = await user.call(name, **REMOVING.get(name, {}))
    assert refused.body["code"] == "NOT_ACCEPTED"
    assert (len(user.asked), user.ran) == (1, [])
    assert "canary-31" not in user.asked[0]
    user = User(agrees=True)
    assert (await user.call(name, **REMOVING.get(name, {}))).error is STOPPED
    assert (len(user.asked), [context.accepted for context in user.ran]) == (1, [True])


@pytest.mark.parametrize("name", [name for name in DESTRUCTIVE if name in KEPT])
async def test_nobody_is_asked_where_nothing_goes(name: str) -> None:
    user = User(agrees=False)
    assert (await user.call(name, **KEPT[name])).error is STOPPED
    assert (user.asked, [context.accepted for context in user.ran]) == ([], [False])


def test_what_keeps_versions_is_all_that_is_not_asked_about() -> None:
    assert set(DESTRUCTIVE) - set(REMOVERS) == {
        "file_restore_version",
        "restore_document",
        "whiteboard_restore",
    }


async def test_the_user_is_shown_what_goes_and_no_content() -> None:
    user = User(agrees=False)
    await user.call("memory_forget", query="canary-31", turn_ids=["t"], fact_ids=["canary-31"])
    await user.call(
        "tenant_purge", dry_run=False, level="user", name="ada", project="p", confirm=None
    )
    forget, purge = user.asked
    assert "canary-31" not in forget
    assert purge == ("Purge data; project: p; level: user; name: ada; dry_run: False")


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        ({"steps": [{"parallel": [{"tool": "file_delete", "args": PATH}]}]}, ["/a"]),
        ({"steps": [{"pipe": {"steps": [{"tool": " keys_revoke "}]}}]}, []),
        ({"steps": [{"tool": "memory_forget", "args": {"query": "${vars.q}"}}]}, ["Forget"]),
        ({"steps": [{"tool": "memory_forget", "args": {"query": "about x"}}]}, []),
        ({"steps": [{"tool": "memory_forget", "args": {"turn_ids": {"$ref": "vars.t"}}}]}, ["For"]),
        ({"steps": [{"tool": "file_restore_version", "args": {"path": "${vars.p}"}}]}, []),
        ({"steps": [{"tool": "file_read", "args": {"tool": "file_delete"}}]}, []),
        ({"steps": [{"tool": "none"}, 7, None]}, []),
        ({"steps": [{"tool": "file_delete", "args": PATH}] * 30}, ["and 10 more"]),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
async def test_a_pipeline_is_asked_about_as_a_whole(
    spec: dict[str, Any], asked: list[str], as_text: bool
) -> None:
    user = User(agrees=False)
    outcome = await user.call("mcp_pipe", spec=orjson.dumps(spec).decode() if as_text else spec)
    assert outcome.body["code"] == ("NOT_ACCEPTED" if asked else "CONFLICT")
    assert len(user.asked) == bool(asked)
    for text in asked:
        assert text in user.asked[0]
        assert user.asked[0].count("\n") <= REMOVALS_MAX


async def test_a_spec_that_is_no_json_removes_nothing() -> None:
    user = User(agrees=False)
    assert (await user.call("mcp_pipe", spec="{")).error is STOPPED
