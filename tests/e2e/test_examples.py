"""What the documentation shows runs as it stands: the agent's loop, the README's sample, the
snippets for hosts."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import httpx
import pytest

from memsvc.settings import Settings, load
from tests.e2e.host import hosting
from tests.e2e.process import CHECKOUT, Served, environment, free_port
from tests.e2e.samples import OPERATIONS, QUICKSTART, README, blocks, fenced, filled
from tests.e2e.sdk import connected, used
from tests.endpoints import Call, Fault, Provider, provider

pytestmark = pytest.mark.slow

KEY = "key-of-the-examples"
AGENT = CHECKOUT / "docs/examples/agent.py"
PAGES = (README, QUICKSTART, OPERATIONS)


class Listener(Provider):
    """A model that says how it is known to travel, writes a note when it is asked to, and calls a
    tool wrongly."""

    def _written(self, call: Call, fault: Fault) -> dict[str, Any]:
        items = call.body["input"]
        last = items[-1]
        if last.get("type") == "function_call_output":
            return self._says(f"noted: {last['output']}")
        question = (
            last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
        )
        if question.startswith("Note: ") and call.body["tools"]:
            note = {
                "project": "default",
                "path": "/note.md",
                "content": question.removeprefix("Note: "),
            }
            asked = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "file_write"}
            return {"output": [asked | {"arguments": json.dumps(note)}]}
        if question == "Garble." and call.body["tools"]:
            return {
                "output": [
                    {
                        "type": "function_call",
                        "call_id": "c2",
                        "name": "file_write",
                        "arguments": "{",
                    }
                ]
            }
        known = "trains to planes" in json.dumps(items[:-1])
        return self._says("By train, as ever." if known else "How do you like to travel?")

    @staticmethod
    def _says(text: str) -> dict[str, Any]:
        return {
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": text}],
                }
            ]
        }


@pytest.fixture
async def model() -> AsyncIterator[Provider]:
    async with provider(Listener) as model:
        yield model


@asynccontextmanager
async def agent(memory_url: str, model: Provider, *arguments: str) -> AsyncIterator[Process]:
    """The example as somebody starts it."""
    around = {
        "MEMSVC_URL": memory_url,
        "MEMSVC_API_KEY": KEY,
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "sk-1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(AGENT),
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=os.environ | around,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: Process, question: str) -> str:
    """The agent's answer to one line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{question}\n".encode())
    return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()


async def ended(process: Process) -> str:
    """What was on stderr of an agent that has no more questions."""
    assert process.stdin is not None
    process.stdin.close()
    _, complaints = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return complaints.decode()


@pytest.mark.anyio
async def test_the_agent_recalls_what_was_said_and_lets_the_model_write_files(
    shared: Served, model: Provider
) -> None:
    async with agent(shared.url, model, "--user", "ada", "--session", "one") as process:
        assert await said(process, "I prefer trains to planes.") == "How do you like to travel?"
        assert (await said(process, "Note: Vienna in May")).startswith("noted: ")
        assert (await said(process, "Garble.")).startswith("noted: the arguments are not JSON")
        assert await ended(process) == ""
    async with agent(shared.url, model, "--user", "ada", "--session", "two") as process:
        assert await said(process, "Do I prefer trains or planes?") == "By train, as ever."
        assert await ended(process) == ""
    async with connected(shared.url, KEY) as client:
        note = await used(client, "file_read", project="default", path="/note.md")
    assert note["content"] == "Vienna in May"
    assert turns_stored(shared, "one") == 3


@pytest.mark.anyio
async def test_the_agent_answers_while_memory_is_away_and_stores_those_turns_later(
    shared: Served, model: Provider
) -> None:
    port = free_port()
    async with agent(f"http://127.0.0.1:{port}", model, "--session", "outage") as process:
        assert await said(process, "I prefer trains to planes.") == "How do you like to travel?"
        async with relayed(port, shared.port):
            await said(process, "And what about boats?")
            complaints = await ended(process)
    assert complaints.startswith("memory: ")
    assert "not stored" not in complaints
    assert turns_stored(shared, "outage") == 2


@pytest.mark.anyio
async def test_a_model_that_is_away_is_told_in_a_line_that_names_the_cause(
    shared: Served, model: Provider
) -> None:
    model.url = f"http://127.0.0.1:{free_port()}"
    async with agent(shared.url, model, "--session", "mute") as process:
        assert process.stdin is not None
        process.stdin.write(b"Hello?\n")
        complaints = await ended(process)
    assert complaints.startswith("no answer: ")
    assert "sub-exception" not in complaints


def turns_stored(shared: Served, session: str) -> int:
    """How many turns a session has."""
    headers = {"Authorization": f"Bearer {KEY}"}
    address = f"{shared.url}/api/tools/memory_list_turns"
    answer = httpx.post(address, json={"session_id": session}, headers=headers, timeout=60)
    return len({item["turn_id"] for item in answer.raise_for_status().json()["items"]})


@asynccontextmanager
async def relayed(port: int, to: int) -> AsyncIterator[None]:
    """Lets what comes to one port through to another one."""

    async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while block := await source.read(65536):
            sink.write(block)
        sink.close()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(copied(reader, ahead), copied(behind, writer))

    async with await asyncio.start_server(through, "127.0.0.1", port, family=socket.AF_INET):
        yield


@pytest.mark.anyio
async def test_the_sample_of_the_readme_recalls(shared: Served, tmp_path: Path) -> None:
    (sample,) = blocks(README, "python")
    heard = tmp_path / "heard.json"
    here = filled(sample, shared.url, "key-of-a-reader")
    model = (
        f"import json\ndef my_model(prompt): open({str(heard)!r},"
        " 'w').write(json.dumps(prompt)); return 'Fine.'\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", model + here)
    assert await asyncio.wait_for(process.wait(), 60) == 0
    assert "I prefer trains to planes" in heard.read_text()


def commands_of(page: str) -> list[str]:
    """The commands of the page's blocks for a shell, a line each, in order; without those of
    make."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("make ")]


def test_the_commands_of_the_readme_work_in_their_order(tmp_path: Path) -> None:
    """A newcomer copies one after the other: each succeeds, and says something unless it only
    prepares the next."""
    with Served(tmp_path / ".memsvc") as served:
        key = (tmp_path / ".memsvc/api-key").read_text().strip()
        around = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        (sample,) = blocks(README, "python")
        model = "def my_model(prompt): return 'Fine.'\n"
        sample, *lines = (filled(text, served.url, key) for text in (sample, *commands_of(README)))
        subprocess.run([sys.executable, "-c", model + sample], env=around, check=True, timeout=60)
        script = "".join(f"{line}\nprintf '\\n--- %s\\n' $?\n" for line in lines)
        ran = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=around,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    outputs = re.split(r"\n--- (\d+)\n", ran.stdout)
    assert len(outputs) == 2 * len(lines) + 1, ran.stderr
    for line, said, status in zip(lines, outputs[::2], outputs[1::2], strict=False):
        assert status == "0", (line, said, ran.stderr)
        assert said.strip() or line.startswith("export ") or ">" in line, (line, ran.stderr)


@pytest.mark.parametrize("page", PAGES)
def test_every_snippet_is_well_formed(page: str) -> None:
    snippets = fenced(page)
    assert snippets
    for language, code in snippets:
        match language:
            case "json":
                assert isinstance(json.loads(code), dict)
            case "toml":
                assert tomllib.loads(code)
            case "yaml":
                assert load_settings(code)
            case "python":
                compile(code, page, "exec")
            case _:
                assert language in {"sh", "text"}


def load_settings(code: str) -> Settings:
    """The settings of a file with these lines."""
    with NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(code)
        file.flush()
        return load(Path(file.name), {})


def configured(page: str) -> list[dict[str, Any]]:
    """The servers that a page's snippets configure in hosts."""
    written = [json.loads(code) for code in blocks(page, "json")]
    written += [tomllib.loads(code) for code in blocks(page, "toml")]
    members = ("mcpServers", "servers", "mcp_servers")
    return [each[name]["memsvc"] for each in written for name in members if name in each]


@pytest.mark.anyio
async def test_every_server_that_a_page_configures_in_a_host_answers(
    shared: Served, data_folder: Path
) -> None:
    addressed, started = [], []
    for page in (README, QUICKSTART):
        for server in configured(page):
            (started if "command" in server else addressed).append(server)
    assert (len(addressed), len(started)) == (5, 2)
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
        async with httpx.AsyncClient(headers=sent, timeout=60) as http:
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
    assert turns_stored(shared, "governed") == 1


def test_the_commands_of_the_operations_page_purge(tmp_path: Path) -> None:
    around = environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    outputs = []
    with Served(tmp_path / ".memsvc") as served:
        items = {"input_items": [{"role": "user", "content": "Hello."}], "output_items": []}
        address, headers = f"{served.url}/api/tools/", {"Authorization": f"Bearer {KEY}"}
        for session in ("s1", "s2"):
            body = {"session_id": session, **items}
            done = httpx.post(f"{address}memory_after_turn", json=body, headers=headers, timeout=60)
            assert done.json()["stored_items"] == 1
        reached = {"MEMSVC_URL": served.url, "MEMSVC_API_KEY": KEY}
        *of_session, of_tenant = commands_of(OPERATIONS)
        of_tenant = of_tenant.replace("HEX", sha256(KEY.encode()).hexdigest())
        for command, where in [*((each, reached) for each in of_session), (of_tenant, {})]:
            shell = ["bash", "-c", command]
            ran = subprocess.run(
                shell, cwd=tmp_path, env=around | where, capture_output=True, text=True, timeout=60, check=False
            )  # fmt: skip
            assert ran.returncode == 0, (command, ran.stderr)
            outputs.append(ran.stdout)
        left = [turns_stored(served, session) for session in ("s1", "s2")]
    counted, *receipts = outputs
    assert "nothing was deleted; to delete it, add --confirm 's1'" in counted
    assert ["\ncomplete: " in receipt for receipt in receipts] == [True, True]
    assert left == [0, 0]
