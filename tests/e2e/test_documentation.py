"""Every block of code that a page shows runs as a reader copies it, and prints what the page says."""

import json
import os
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

import httpx2
import pytest
from typer import BadParameter
from typer.main import get_command

from memsvc.cli.main import commands
from memsvc.gateway.schemas import input_schema
from memsvc.runtime import all_published
from memsvc.settings import Settings, keys, load
from tests.e2e.host import hosting
from tests.e2e.process import CHECKOUT, Served, environment
from tests.e2e.samples import (
    HOSTS,
    OPERATIONS,
    QUICKSTART,
    README,
    TASKS,
    TUTORIAL,
    Step,
    blocks,
    commands_of,
    fenced,
    filled,
    is_shown,
    steps,
)
from tests.e2e.sdk import connected, used

KEY = "key-of-the-pages"
FOLLOWED = (README, TUTORIAL, QUICKSTART, HOSTS, OPERATIONS, "docs/rest.md")
ALL = sorted(
    str(page.relative_to(CHECKOUT))
    for page in (*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").glob("*.md"))
    if page.name != "CHANGELOG.md"
)
NOT_RUN: Final = {
    r"make\b": "the test starts the server itself; the other targets are what CI runs",
    r"pip install\b": "needs the internet: `make test-clients` runs it",
    r"python docs/examples/agent\.py\b": "needs a model: test_examples.py gives it one",
    r"claude\b": "needs Claude Code: `make test-hosts` runs it",
    r"memsvc service (install|status|remove)\b": "would change this machine: test_service.py does it",
    r"(journalctl|loginctl)\b": "needs systemd",
}
"""Commands of followed pages that the tests leave out, and why."""


def runnable(code: str) -> str:
    """Return a block without the commands that are not run."""
    lines = code.splitlines(keepends=True)
    return "".join(line for line in lines if not any(re.match(each, line) for each in NOT_RUN))


def follow(todo: list[Step], served: Served, folder: Path) -> list[tuple[Step, str]]:
    """Do what a page says in one shell in this folder, beside a server whose data folder is in it.

    Return each step with its output. A command that fails ends it."""
    key = (folder / ".memsvc/api-key").read_text().strip()
    programs = Path(sys.executable).parent
    (folder / ".venv").symlink_to(programs.parent)
    script = "set -eo pipefail\n"
    for number, step in enumerate(todo):
        for name, code in step.files.items():
            script += f"cat >{name} <<'END OF FILE'\n{filled(code, served.url, key)}END OF FILE\n"
        script += f"{filled(runnable(step.code), served.url, key)}\nprintf '\\n--- {number}\\n'\n"
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(
            PATH=f"{programs}:{os.environ['PATH']}", HOME=str(folder), MEMSVC_AUTH__MODE=""
        ),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
    outputs = re.split(r"\n--- \d+\n", ran.stdout)
    return list(zip(todo, outputs, strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_page_can_be_followed_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    shipped = {"MEMSVC_EMBEDDINGS__PROVIDER": "bundled", "MEMSVC_AUTH__MODE": ""}
    with Served(folder / ".memsvc", **shipped) as served:
        done = follow(steps(page), served, folder)
    for step, output in done:
        printed = served.greeting if step.code.startswith("make serve") else output
        expected = filled(step.output, served.url, "")
        assert is_shown(printed, expected), f"{step.code}\nprints\n{printed}\nnot\n{expected}"


@pytest.mark.parametrize("page", ALL)
def test_commands_and_options_that_a_page_names_exist(page: str) -> None:
    """Also those that no test runs."""
    for words in commands_of(page):
        command: Any = get_command(commands)
        context, rest = command.make_context("memsvc", words or ["version"]), words
        while rest and hasattr(command, "resolve_command"):
            name, command, rest = command.resolve_command(context, rest)
            if rest or not hasattr(command, "resolve_command"):
                with suppress(BadParameter):  # an argument that the page leaves out or stands for
                    context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", ALL)
def test_settings_that_a_page_names_exist(page: str) -> None:
    known = [path for path, _ in keys()]
    sections = {path.partition(".")[0] for path in known if "." in path}
    text = (CHECKOUT / page).read_text("utf-8")
    named = re.findall(r"`([a-z_]+(?:\.[a-z_0-9]+)+)[`:]", text)
    assert [
        name
        for name in named
        if name.partition(".")[0] in sections
        and not name.endswith((".json", ".py"))
        and not any(path == name or path.startswith(f"{name}.") for path in known)
    ] == []


def test_tools_that_the_page_of_tasks_names_exist() -> None:
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", (CHECKOUT / TASKS).read_text("utf-8"), re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    tools = all_published().tools
    arguments = {name for tool in tools for name in input_schema(tool)["properties"]}
    assert named
    assert named <= {tool.name for tool in tools} | arguments


@pytest.mark.parametrize("page", ALL)
def test_every_snippet_is_well_formed(page: str) -> None:
    for language, code in fenced(page):
        match language:
            case "json":
                assert isinstance(json.loads(code), dict)
            case "toml":
                assert tomllib.loads(code)
            case "yaml":
                assert load_settings(code)
            case "python":
                compile(code, page, "exec")
            case "sh":
                subprocess.run(["bash", "-n", "-c", code], check=True, timeout=60)
            case _:
                assert language == "text"


def load_settings(code: str) -> Settings:
    """Return the settings of a file with these lines."""
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(code)
        file.flush()
        return load(Path(file.name), {})


def configured(page: str) -> list[dict[str, Any]]:
    """Return the servers that a page's snippets configure in hosts."""
    written = [json.loads(code) for code in blocks(page, "json")]
    written += [tomllib.loads(code) for code in blocks(page, "toml")]
    members = ("mcpServers", "servers", "mcp_servers")
    return [each[name]["memsvc"] for each in written for name in members if name in each]


@pytest.mark.slow
@pytest.mark.anyio
async def test_every_server_that_a_page_configures_in_a_host_answers(
    shared: Served, data_folder: Path
) -> None:
    addressed, started = [], []
    for page in (QUICKSTART, HOSTS):
        for server in configured(page):
            (started if "command" in server else addressed).append(server)
    assert (len(addressed), len(started)) == (4, 2)
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for server in addressed:
        url = server.get("url") or server["httpUrl"]
        variable = server.get("bearer_token_env_var")  # that of the key
        headers = server.get("headers") or {
            "Authorization": f"Bearer {'YOUR_KEY' * bool(variable)}"
        }
        key = headers["Authorization"].replace("${input:memsvc-key}", "YOUR_KEY")
        assert key == "Bearer YOUR_KEY"
        sent = {
            "Authorization": filled(key, "", KEY),
            "Accept": "application/json, text/event-stream",
        }
        async with httpx2.AsyncClient(headers=sent, timeout=60) as http:
            answer = await http.post(filled(url, shared.url, ""), json=listed)
        assert "memory_before_turn" in answer.raise_for_status().text
    for server in started:
        arguments = [each.replace("/home/me/.memsvc", str(data_folder)) for each in server["args"]]
        variables = {
            name: filled(value, "", KEY).replace("https://memory.example", shared.url)
            for name, value in server.get("env", {}).items()
        }
        assert server["command"] == "memsvc"
        async with hosting(*arguments, **variables) as host:
            await host.shake_hands()
            assert "memory_before_turn" in json.dumps(await host.ask("tools/list"))


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_policy_of_the_operations_page_is_a_sessions(shared: Served) -> None:
    (policy,) = blocks(OPERATIONS, "json")
    about = {"session_id": "governed", "turn_id": "t1"}
    async with connected(shared.url, KEY) as client:
        for text in (policy, policy.replace('"store": true', '"store": false')):
            file = {"project": "default", "path": "/memory/governed/meta/policy.json"}
            await used(client, "file_write", **file, content=text, mode="TRUNCATE")
            said = [{"role": "user", "content": f"Hello, {about['turn_id']}."}]
            await used(client, "memory_after_turn", **about, input_items=said, output_items=[])
            about["turn_id"] = "t2"
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as http:
        address = f"{shared.url}/api/tools/memory_list_turns"
        answer = await http.post(address, json={"session_id": "governed"})
    assert {item["turn_id"] for item in answer.raise_for_status().json()["items"]} == {"t1"}
