"""Hooks of hosts against a served memory, by the payloads that hosts send."""

import io
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import patch

import anyio.to_thread
import asyncpg
import pytest
import structlog

from memsvc.hosts import hook
from memsvc.start import main
from tests.gateway.served import Service, served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls

ALLERGY = "I'm allergic to peanuts."
AWAY = (
    "memsvc is unreachable (ConnectionRefusedError): {} waiting to be stored; nothing is recalled."
    " Run `memsvc doctor` for details."
)


class HostSession:
    """One session of a host, whose hooks use a folder of their own."""

    def __init__(self, folder: Path, host: str = "claude-code") -> None:
        self.folder = folder
        self.host = host
        self.url = "http://127.0.0.1:9"
        self.key = "key-one"
        self.session = "6f1d"
        self.transcript = folder / "transcript.jsonl"

    async def hook(self, event: str, **payload: Any) -> tuple[Any, str]:
        """What a hook answers, and what it says on stderr."""
        session = "conversation_id" if self.host == "cursor" else "session_id"
        given = {session: self.session, "cwd": str(self.folder)} | payload
        if self.host in ("claude-code", "codex"):
            given["transcript_path"] = str(self.transcript)
        return await anyio.to_thread.run_sync(self._run, event, json.dumps(given).encode())

    def _run(self, event: str, payload: bytes) -> tuple[Any, str]:
        variables = {
            "MEMSVC_URL": self.url,
            "MEMSVC_API_KEY": self.key,
            "MEMSVC_USER": "ada",
            "MEMSVC_HOOKS_DIR": str(self.folder / "hooks"),
        }
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, variables),
            patch.object(sys, "argv", ["memsvc", "hook", event, "--host", self.host]),
            patch.object(os, "_exit") as ended,
            patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(payload))),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            main()
        ended.assert_called_once_with(0)
        return json.loads(out.getvalue() or "null"), err.getvalue()

    def write(self, *lines: dict[str, Any]) -> None:
        """Append to the transcript, as Claude Code does."""
        with self.transcript.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def waiting(self) -> int:
        """How many turns wait in the spool, whose files only their owner may read."""
        files = [*(self.folder / "hooks").rglob("*.json")]
        assert {file.stat().st_mode & 0o777 for file in files} <= {0o600}
        return sum(file.parent.name == "spool" for file in files)


def said(turn: str, role: str, text: str) -> dict[str, Any]:
    """A line of a transcript of Claude Code."""
    content = text if role == "user" else [{"type": "text", "text": text}]
    line = {"type": role, "message": {"role": role, "content": content}}
    return line | ({"promptId": turn} if role == "user" else {})


def notice(answer: Any) -> str:
    """The line that a host shows the person, of an answer that has nothing else."""
    assert answer is None or set(answer) == {"systemMessage"}
    return str(answer["systemMessage"]) if answer else ""


@pytest.fixture
def host(tmp_path: Path) -> HostSession:
    return HostSession(tmp_path)


@pytest.fixture
async def service(
    database_urls: DatabaseUrls, admin: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Service]:
    """A server whose log does not go to the standard output of hooks, which wait for it."""
    monkeypatch.setattr(hook, "WAIT_S", 30)
    with structlog.testing.capture_logs():
        async with served(database_urls, admin) as service:
            yield service


@asynccontextmanager
async def reached(service: Service, *hosts: HostSession) -> AsyncIterator[None]:
    """The server is up for these hosts; afterwards connections are refused."""
    async with wired(service.app) as url:
        for host in hosts:
            host.url = url
        yield


async def stored(service: Service, session: str) -> list[tuple[str, str, str]]:
    """Turn, role and text of each item of a session, oldest first."""
    async with service.http() as http:
        answer = await http.post("/api/tools/memory_list_turns", json={"session_id": session})
    items = answer.json()["items"]
    return [(item["turn_id"], item["role"], item["text"]) for item in reversed(items)]


async def test_what_is_said_in_one_session_is_told_in_the_next(
    service: Service, host: HostSession
) -> None:
    async with reached(service, host):
        assert await host.hook("session-start", source="startup") == (None, "")
        await host.hook("prompt", prompt=ALLERGY, prompt_id="p1")
        assert await host.hook("stop", prompt_id="p1", last_assistant_message="Noted!") == (
            None,
            "",
        )
        host.session = "7a2e"
        started, _ = await host.hook("session-start", source="startup")
        asked, _ = await host.hook("prompt", prompt="What should I cook?", prompt_id="p2")
    assert await stored(service, "claude-code-6f1d") == [
        ("p1", "user", ALLERGY),
        ("p1", "assistant", "Noted!"),
    ]
    for answer, event in ((started, "SessionStart"), (asked, "UserPromptSubmit")):
        output = answer["hookSpecificOutput"]
        assert output["hookEventName"] == event
        assert "peanuts" in output["additionalContext"]
        assert "untrusted" in output["additionalContext"]
    assert (
        '"recent_sessions":[{"session":"claude-code-6f1d"'
        in (started["hookSpecificOutput"]["additionalContext"])
    )


async def test_sessions_of_several_users_are_not_told_in_others_nor_others_in_them(
    service: Service, host: HostSession
) -> None:
    async def say(session: str, user: str, text: str) -> None:
        turn = {"session_id": session, "user_id": user, "turn_id": f"{user}-{text[:2]}"}
        items = [{"role": "user", "content": text}]
        async with service.http() as http:
            await http.post("/api/tools/memory_after_turn", json=turn | {"input_items": items})

    async with reached(service, host):
        await say("alone", "ada", "I keep bees in Zanzibar.")
        for user, text in (("bo", "Good morning."), ("ada", "We keep hens in Lima.")):
            await say("claude-code-7a2e", user, text)
        started, _ = await host.hook("session-start", source="startup")
        told = started["hookSpecificOutput"]["additionalContext"]
        assert ("Zanzibar" in told, "Lima" in told) == (True, False)
        host.session = "7a2e"
        for text in ("We keep goats.", "Good night."):
            shared, _ = await host.hook("session-start", source="resume")
            assert "Zanzibar" not in str(shared)
            await say("claude-code-7a2e", "bo", text)


async def test_a_server_that_dies_in_the_middle_loses_nothing_and_doubles_nothing(
    service: Service, host: HostSession
) -> None:
    async with reached(service, host):
        await host.hook("prompt", prompt="We use PostgreSQL.", prompt_id="p1")
    told, fault = await host.hook("stop", prompt_id="p1", last_assistant_message="Good.")
    assert (notice(told), fault) == (AWAY.format("1 turn"), "memsvc: ConnectionRefusedError\n")
    assert await host.hook("prompt", prompt="And Citus.", prompt_id="p2") == (None, fault)
    assert host.waiting() == 1
    async with reached(service, host):
        kept = (host.folder / "hooks/spool").iterdir().__next__()
        content = kept.read_text()
        await host.hook("stop", prompt_id="p2", last_assistant_message="Both?")
        assert host.waiting() == 0
        kept.write_text(content)  # a hook that was ended after its answer, before it noted that
        await host.hook("stop", prompt_id="p2", last_assistant_message="Another answer.")
        assert host.waiting() == 0
    assert [text for _, _, text in await stored(service, "claude-code-6f1d")] == [
        "We use PostgreSQL.",
        "Good.",
        "And Citus.",
        "Both?",
    ]


async def test_no_prompt_waits_a_second_for_a_server_that_does_not_answer(
    host: HostSession,
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        host.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        began = monotonic()
        answer, fault = await host.hook("prompt", prompt="hello", prompt_id="p1")
        assert monotonic() - began < 1
    assert "memsvc is slow (the server took too long): 0 turns waiting" in notice(answer)
    assert fault.count("\n") == 1


async def test_the_transcript_fills_in_turns_that_no_stop_told_of(
    service: Service, host: HostSession
) -> None:
    async with reached(service, host):
        host.write(said("p0", "user", "Before memory."), said("p0", "assistant", "Yes."))
        await host.hook("prompt", prompt="One.", prompt_id="p1")
        host.write(said("p1", "user", "One."), said("p1", "assistant", "Interrupted."))
        host.write(said("p2", "user", "Two."), said("p2", "assistant", "No hook ran."))
        host.write(said("p2", "user", "summary") | {"isCompactSummary": True})
        await host.hook("pre-compact", trigger="auto")
        host.write(said("p3", "user", "Three."))
        await host.hook("prompt", prompt="Three.", prompt_id="p3")
        await host.hook("stop", prompt_id="p3", last_assistant_message="Last.")
        await host.hook("pre-compact", trigger="auto")
    assert await stored(service, "claude-code-6f1d") == [
        ("p1", "user", "One."),
        ("p1", "assistant", "Interrupted."),
        ("p2", "user", "Two."),
        ("p2", "assistant", "No hook ran."),
        ("p3", "user", "Three."),
        ("p3", "assistant", "Last."),
    ]


async def test_each_host_tells_its_turns_in_its_own_words(service: Service, tmp_path: Path) -> None:
    wrapped = "<hook_context>\nrecalled\n</hook_context>\n\nhello"
    rows: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
        "codex": (
            {"prompt": "hello", "turn_id": "t1"},
            [{"turn_id": "t1", "last_assistant_message": "Hi."}],
            "t1",
        ),
        "cursor": (
            {"prompt": "hello", "generation_id": "g1"},
            [
                {"generation_id": "g1", "hook_event_name": "afterAgentResponse", "text": "Hi."},
                {"generation_id": "g1", "hook_event_name": "stop", "status": "completed"},
            ],
            "g1",
        ),
        "gemini": (
            {"prompt": wrapped},
            [{"prompt": wrapped, "prompt_response": "Hi."}] * 2,
            "6f1d-",
        ),
        "opencode": (
            {"prompt": "hello", "turn_id": "m1"},
            [{"turn_id": "m1", "answer": "Hi."}],
            "m1",
        ),
    }
    hosts = {name: HostSession(tmp_path / name, name) for name in rows}
    async with reached(service, *hosts.values()):
        for name, (prompt, stops, _) in rows.items():
            assert await hosts[name].hook("prompt", **prompt) == (None, ""), name
            for stop in stops:
                assert await hosts[name].hook("stop", **stop) == (None, ""), name
            assert hosts[name].waiting() == 0
    for name, (_, _, turn_id) in rows.items():
        found = await stored(service, f"{name}-6f1d")
        assert [(role, text) for _, role, text in found] == [
            ("user", "hello"),
            ("assistant", "Hi."),
        ], name
        assert all(turn.startswith(turn_id) for turn, _, _ in found), name


async def test_an_outage_and_its_end_are_each_shown_once_a_session(
    service: Service, host: HostSession
) -> None:
    started, _ = await host.hook("session-start", source="startup")
    assert notice(started) == AWAY.format("0 turns")
    for turn in ("p1", "p2"):
        assert (await host.hook("prompt", prompt=f"We use {turn}.", prompt_id=turn))[0] is None
        assert (await host.hook("stop", prompt_id=turn, last_assistant_message="Ok."))[0] is None
    resumed, _ = await host.hook("session-start", source="resume")
    assert resumed is None
    away = host.url
    async with reached(service, host):
        await host.hook("prompt", prompt="We use p3.", prompt_id="p3")
        stopped, _ = await host.hook("stop", prompt_id="p3", last_assistant_message="Ok.")
    assert stopped is None
    host.url = away
    assert (await host.hook("prompt", prompt="We use p4.", prompt_id="p4"))[0] is None


async def test_the_first_answer_after_an_outage_says_what_was_stored(
    service: Service, host: HostSession
) -> None:
    for turn in ("p1", "p2"):
        await host.hook("prompt", prompt=f"We use {turn}.", prompt_id=turn)
        await host.hook("stop", prompt_id=turn, last_assistant_message="Ok.")
    async with reached(service, host):
        same, _ = await host.hook("prompt", prompt="Hm.", prompt_id="p3")
        assert same["systemMessage"] == "memsvc is back: 2 turns stored."
        stopped, _ = await host.hook("stop", prompt_id="p3", last_assistant_message="Ok.")
        assert stopped is None


async def test_a_session_that_starts_after_an_outage_says_what_was_stored(
    service: Service, host: HostSession
) -> None:
    await host.hook("prompt", prompt="We use Citus.", prompt_id="p1")
    await host.hook("stop", prompt_id="p1", last_assistant_message="Ok.")
    away = host.url
    async with reached(service, host):
        for session, expected in (("7a2e", "memsvc is back: 1 turn stored."), ("8b3f", None)):
            host.session = session
            started, _ = await host.hook("session-start", source="startup")
            assert (started or {}).get("systemMessage") == expected
    host.url, host.session = away, "7a2e"
    again, _ = await host.hook("prompt", prompt="Hm.", prompt_id="p2")
    assert notice(again) == AWAY.format("0 turns")


async def test_a_key_that_is_refused_is_an_outage_and_a_busy_server_is_none(
    service: Service, host: HostSession
) -> None:
    async with reached(service, host):
        with patch.object(hook.MemoryCalls, "__call__") as call:
            call.side_effect = hook.CallError("RATE_LIMITED", lasts=False)
            assert await host.hook("prompt", prompt="One.", prompt_id="p1") == (
                None,
                "memsvc: RATE_LIMITED\n",
            )
        host.key = ""
        refused, _ = await host.hook("prompt", prompt="Two.", prompt_id="p2")
    assert "memsvc rejects the API key (PERMISSION_DENIED)" in notice(refused)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("claude-code", "systemMessage"),
        ("codex", "systemMessage"),
        ("gemini", "systemMessage"),
        ("opencode", "notice"),
        ("cursor", ""),
    ],
)
async def test_each_host_is_given_the_outage_as_it_shows_lines(
    name: str, member: str, tmp_path: Path
) -> None:
    started, _ = await HostSession(tmp_path, name).hook("session-start", prompt="")
    assert started == ({member: AWAY.format("0 turns")} if member else None)
