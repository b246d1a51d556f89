"""Claude Code and Codex remember by the hooks that `memsvc install` wrote, and nothing is lost,
doubled or held up when the server is killed. `make test-hosts` installs both."""

import asyncio
import json
import os
import re
import subprocess
import sys
import uuid
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import pytest

from memsvc.hosts.hook_files import project_of
from tests.e2e.process import Served, environment, free_port, on, typed
from tests.e2e.samples import QUICKSTART, blocks, filled
from tests.endpoints import provider
from tests.hosts.host_model import HostModel
from tests.servers import DatabaseUrls

FOLDER = os.environ.get("MEMSVC_TEST_HOSTS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOLDER is None, reason="make test-hosts runs it: it installs the hosts"),
]
KEY, USER, PROJECT = "key-of-the-hosts", "ada", "trial"
DELAY_S_MAX = 1.0
PROMPT_S_MAX = 60
KILLED_AT, STARTED_AT = "My sword is called Durendal.", "What is my tortoise called?"
SESSIONS: list[list[tuple[str, str]]] = [
    # what is said, and what memory has to add to it
    [
        ("My bicycle is called Rosinante.", ""),
        ("My boat is called Nautilus.", ""),
        ("My cat is called Behemoth.", ""),
        ("My dog is called Bendico.", ""),
        ("My horse is called Bucephalus.", ""),
        ("My parrot is called Loulou.", ""),
        ("My tortoise is called Achilles.", ""),
    ],
    [
        ("What is my bicycle called?", "Rosinante"),
        ("My sledge is called Rosebud.", ""),
        (KILLED_AT, ""),
        ("My ship is called Pequod.", ""),
        ("My hammer is called Mjolnir.", ""),
        (STARTED_AT, "Achilles"),
        ("My car is called Herbie.", ""),
    ],
    [
        ("What is my sword called?", "Durendal"),
        ("What is my ship called?", "Pequod"),
        ("My robot is called Marvin.", ""),
        ("What is my hammer called?", "Mjolnir"),
        ("What is my cat called?", "Behemoth"),
        ("What is my car called?", "Herbie"),
    ],
]


class CommandLine:
    """A host in a home of its own, whose hooks say how long they took."""

    def __init__(self, name: str, home: Path, model: HostModel) -> None:
        self.name = name
        self._home = home
        self._model = model
        self._took = home / "took.txt"
        (home / "work").mkdir(parents=True)

    def install(self, url: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
        """Configure the model, and then memory, by a `memsvc` that is timed."""
        if self.name == "codex":
            (self._home / ".codex").mkdir()
            (self._home / ".codex/config.toml").write_text(
                'model = "fake"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
                f'base_url = "{self._model.url}"\nenv_key = "FAKE_KEY"\nwire_api = "responses"\n'
            )
        program = self._home / "bin/memsvc"
        program.parent.mkdir()
        program.write_text(
            f"#!/bin/sh\nbegan=$(date +%s%N)\n'{sys.executable}' -m memsvc \"$@\"\n"
            f"echo $2 $(($(date +%s%N) - began)) >>'{self._took}'\n"
        )
        program.chmod(0o755)
        where = {"HOME": str(self._home), "MEMSVC_URL": url, "MEMSVC_API_KEY": KEY}
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(program.with_name("python")))
            done = typed("install", self.name, "--user", USER, *options, **where)
        assert done.returncode == 0, done.stderr

    async def prompt(self, session: str, text: str, *options: str) -> str:
        """Say something in a session, or in a new one; the session's id."""
        if self.name == "codex":
            command = ["exec", *(["resume"] if session else []), "--json", "--skip-git-repo-check"]
            command += ["--dangerously-bypass-hook-trust", *([session] if session else []), text]
        else:
            known, session = session, session or str(uuid.uuid4())
            command = ["-p", "--resume" if known else "--session-id", session, text]
            command += options
        program = Path(str(FOLDER), "node_modules/.bin", self.name.removesuffix("-code"))
        process = await asyncio.create_subprocess_exec(
            str(program),
            *command,
            cwd=self._home / "work",
            env=environment(
                HOME=str(self._home),
                FAKE_KEY="sk-fake",
                ANTHROPIC_BASE_URL=self._model.url.removesuffix("/v1"),
                ANTHROPIC_API_KEY="sk-ant-fake",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                DISABLE_TELEMETRY="1",
                ENABLE_TOOL_SEARCH="false",  # a script has no use for tools that are found first
            ),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(), PROMPT_S_MAX)
        assert process.returncode == 0, (text, output, errors)
        assert self._model.says in output.decode(), (text, output, errors)
        return session or str(json.loads(output.splitlines()[0])["thread_id"])

    def took_s(self, event: str) -> list[float]:
        """How long the host waited for each hook of an event."""
        lines = (line.split() for line in self._took.read_text().splitlines())
        return [int(nanoseconds) / 1e9 for name, nanoseconds in lines if name == event]


@pytest.fixture
async def model() -> AsyncIterator[HostModel]:
    async with provider(HostModel) as model:
        yield model


async def called(url: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool, called over REST."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        answer = await http.post(f"{url}/api/tools/{tool}", json=arguments)
    return dict(answer.raise_for_status().json())


async def items(url: str, session: str) -> list[tuple[str, str]]:
    """Role and text of everything that is stored of a session, oldest first."""
    asked = {"project": PROJECT, "session_id": session, "limit": 200}
    found = (await called(url, "memory_list_turns", **asked))["items"]
    return [(item["role"], item["text"]) for item in reversed(found)]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["claude-code", "codex"])
async def test_twenty_prompts_are_stored_once_and_recalled_though_the_server_is_killed(
    name: str,
    database_urls: DatabaseUrls,
    tmp_path: Path,
    model: HostModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve() -> Served:
        return Served(tmp_path / "data", "--port", port, **on(database_urls))

    port = str(free_port())
    servers = [await asyncio.to_thread(serve)]
    host = CommandLine(name, tmp_path / "home", model)
    host.install(servers[0].url, monkeypatch, "--project", PROJECT)
    expected: dict[str, list[tuple[str, str]]] = {}
    recalled: dict[str, str] = {}
    try:
        for prompts in SESSIONS:
            session, said = "", []
            for prompt, known in prompts:
                if prompt == STARTED_AT:
                    servers.append(await asyncio.to_thread(serve))
                model.says, model.calls = f"Answer to: {prompt}", []
                model.asked = servers[0].process.kill if prompt == KILLED_AT else lambda: None
                session = await host.prompt(session, prompt)
                said += [("user", prompt), ("assistant", model.says)]
                if known:
                    recalled[known] = json.dumps([call.body for call in model.calls])
            expected[f"{name}-{session}"] = said
        stored = {session: await items(servers[-1].url, session) for session in expected}
    finally:
        for server in servers:
            server.process.kill()
            server.process.wait(60)
    assert stored == expected
    assert sum(map(len, stored.values())) == 2 * 20
    for known, request in recalled.items():
        assert "<memory_reference>" in request
        assert f"called {known}" in request
    starts_s, prompts_s = host.took_s("session-start"), host.took_s("prompt")
    print(f"{name}: prompts waited {median(prompts_s):.3f} s, at most {max(prompts_s):.3f} s")
    assert len(prompts_s) == 20
    assert max(starts_s + prompts_s) < DELAY_S_MAX


HOME, PHONE = "I live in Bremen.", "My phone number is +49 421 5550199."
ASKED_HOME, ASKED_PHONE = "Which city do I live in?", "What is my phone number?"
WRITING = ("memory_correct_fact", "memory_forget")


def named(tool: str) -> str:
    return f"mcp__memsvc__{tool}"


def corrected(listed: str) -> dict[str, Any]:
    """The arguments that correct where the user lives, of the list of facts."""
    [home] = [fact for fact in json.loads(listed)["facts"] if "Bremen" in fact["value"]]
    return {"record_id": home["record_id"], "value": "Kiel"}


@pytest.mark.anyio
async def test_calls_of_the_model_change_what_the_next_prompt_is_told_and_store_nothing_twice(
    database_urls: DatabaseUrls,
    tmp_path: Path,
    model: HostModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripts: dict[str, list[tuple[str, Any]]] = {
        "That is wrong, put it right.": [
            ("memory_list_facts", lambda _: {}),
            ("memory_correct_fact", corrected),
        ],
        "Forget my phone number.": [
            ("memory_forget", lambda _: {"query": "phone number", "dry_run": False})
        ],
        "What do you know about me?": [("memory_profile", lambda _: {})],
    }
    prompts = [HOME, "That is wrong, put it right.", ASKED_HOME]
    prompts += [PHONE, ASKED_PHONE, "Forget my phone number.", "What do you know about me?"]
    host = CommandLine("claude-code", tmp_path / "home", model)
    work = tmp_path / "home/work"
    (work / ".git").mkdir()
    told: dict[str, str] = {}
    results: dict[str, list[str]] = {}
    # nobody is there to be asked
    variables = on(database_urls) | {"MEMSVC_LIMITS__CONFIRM_S_MAX": "0"}
    with Served(tmp_path / "data", **variables) as server:
        host.install(server.url, monkeypatch)

        async def say(prompt: str) -> None:
            model.says, model.calls, model.results = f"Noted ({len(told)}).", [], []
            model.script = [(named(tool), made) for tool, made in scripts.get(prompt, ())]
            allowed = ["--allowedTools", ",".join(map(named, WRITING))]
            await host.prompt("", prompt, *allowed)
            assert model.script == []
            told[prompt] = json.dumps(model.calls[0].body)
            results[prompt] = model.results

        for prompt in prompts:
            await say(prompt)
        before = told[ASKED_PHONE]
        await say(ASKED_PHONE)
        project = project_of(str(work))
        sessions = await called(server.url, "memory_list_sessions", project=project)
        elsewhere = await called(server.url, "memory_list_sessions")
    assert "Kiel" in told[ASKED_HOME]
    assert "5550199" in before
    assert "5550199" not in told[ASKED_PHONE]
    [profile] = results["What do you know about me?"]
    assert "Kiel" in profile
    assert "5550199" not in profile
    assert "Bremen" not in profile
    assert f"project {project}, user {USER}" in told[ASKED_HOME]
    assert [session["turns"] for session in sessions["sessions"]] == [1] * (len(prompts) + 1)
    assert {session["user_id"] for session in sessions["sessions"]} == {USER}
    assert elsewhere["sessions"] == []


def test_the_commands_of_the_quick_start_connect_claude_code(tmp_path: Path) -> None:
    commands = [code for code in blocks(QUICKSTART, "sh") if "claude mcp add" in code]
    memsvc = f"{Path(sys.executable).parent}:{FOLDER}/node_modules/.bin"
    with Served(tmp_path / "data") as server:
        for number, command in enumerate(filled(code, server.url, KEY) for code in commands):
            home = tmp_path / str(number)
            home.mkdir()
            listed = subprocess.run(
                ["bash", "-ec", f"{command}\nclaude mcp list"],
                cwd=home,
                env=environment(HOME=str(home), PATH=f"{memsvc}:{os.environ['PATH']}"),
                capture_output=True,
                text=True,
                timeout=PROMPT_S_MAX,
                check=True,
            )
            assert re.search("^memsvc: .* Connected$", listed.stdout, re.M), listed.stdout
    assert number == 1
