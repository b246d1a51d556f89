"""Where commands act: on the server that was named, or on the data folder, and nowhere else."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memsvc.cli.main import EXAMPLES
from memsvc.hosts.hook_files import HookFiles
from tests.e2e.process import Served, typed
from tests.styles.turns.folders import canonical

pytestmark = pytest.mark.slow

NOWHERE = "http://127.0.0.1:9"
SERVERS = {"serve", "stdio", "structured-memory", "elfmem serve"}
"""What makes a memory in order to serve it, or is a bridge."""
OTHERS = {"install", "hook"}
"""What writes to a host."""
STORING = {
    "files put", "memories add", "notebook write", "whiteboard update", "remember", "key create",
    "migrate", "worker", "db restore", "embeddings use", "embeddings off", "reranker use",
    "reranker off",
}  # fmt: skip
"""Commands that create the data folder where no server is named."""
LOCAL_ONLY = {
    "worker", "migrate", "db archive", "db backup", "db restore", "db distribute", "key adopt",
    "embeddings use", "embeddings off", "reranker use", "reranker off", "maintain", "tenants",
}  # fmt: skip
"""Commands, as in the examples, that no server can run."""

KEY = "key-of-places"


def example(path: str) -> list[str]:
    """The words of an example, without options that name a place."""
    words = shlex.split(EXAMPLES[path])
    for option in ("--data-dir", "--url", "--config"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return [*path.split(), *words]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which commands are typed by somebody without any settings."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.mark.parametrize("path", sorted(EXAMPLES.keys() - SERVERS - OTHERS))
def test_no_command_creates_anything_where_a_server_is_named(path: str, empty: Path) -> None:
    done = typed(*example(path), MEMSVC_URL=NOWHERE, MEMSVC_API_KEY=KEY)
    assert [*empty.iterdir()] == []
    if path in LOCAL_ONLY:
        assert done.returncode == 1
        assert f"this command cannot run over the server at {NOWHERE}" in done.stderr
        assert "--data-dir" in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.keys() - SERVERS - OTHERS - STORING))
def test_command_that_only_reads_creates_no_folder(path: str, empty: Path) -> None:
    done = typed(*example(path), MEMSVC_API_KEY=KEY)
    assert [*empty.iterdir()] == []
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("path", ["jobs list", "turns ls", "recall", "key list", "usage"])
def test_folder_without_a_memory_is_refused_with_a_way_out(path: str, empty: Path) -> None:
    refused = typed(*example(path))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{empty}/.memsvc does not contain a database" in refused.stderr
    assert "memsvc serve" in refused.stderr


def test_refusal_has_a_code_where_json_is_asked_for(empty: Path) -> None:
    refused = typed("maintain", "--check", "--json", MEMSVC_URL=NOWHERE)
    assert json.loads(refused.stderr)["code"] == "INVALID_ARGUMENT"
    refused = typed("jobs", "list", "--json")
    assert json.loads(refused.stderr)["code"] == "NOT_FOUND"


def test_folder_or_database_that_is_named_counts_more_than_the_server(
    data_folder: Path, empty: Path
) -> None:
    away = {"MEMSVC_URL": NOWHERE, "MEMSVC_API_KEY": KEY}
    listed = typed("jobs", "list", "--data-dir", str(data_folder), **away)
    assert listed.returncode == 0, listed.stderr
    assert typed("migrate", "--data-dir", str(data_folder), **away).returncode == 0
    named = typed("migrate", MEMSVC_DATA_DIR=str(data_folder), **away)
    assert named.returncode == 0, named.stderr
    assert (
        "did not answer" in typed("jobs", "list", MEMSVC_DATA_DIR=str(data_folder), **away).stderr
    )


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def memsvc(shared: Served, empty: Path) -> Command:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return typed(*arguments, MEMSVC_URL=shared.url, MEMSVC_API_KEY=KEY)

    return command


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sessions_are_imported_and_maintained_by_the_server(
    memsvc: Command, shared: Served, tmp_path: Path
) -> None:
    for name, text in canonical().items():
        path = tmp_path / "old/memory/s1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    old = str(tmp_path / "old")
    dry = answer(memsvc("import", old, "--project", "moved", "--dry-run", "--json"))
    assert dry["sessions"]["s1"]["counts"]["turns"] == 2
    assert "turns\t2" in memsvc("import", old, "--project", "moved").stdout.splitlines()
    again = answer(memsvc("import", old, "--project", "moved", "--json"))
    assert again["sessions"]["s1"]["counts"]["turns_already_here"] == 2
    assert "s1" in memsvc("turns", "ls", "--project", "moved").stdout
    [done] = answer(memsvc("maintain", "--project", "moved", "--json"))["projects"]
    assert (done["project"], done["sessions"]) == ("moved", 1)
    every = answer(memsvc("maintain", "--json"))["projects"]
    assert "moved" in [one["project"] for one in every]
    assert memsvc("maintain", "--project", "moved").stdout.count("\n") == 1


def test_jobs_are_those_of_the_key_of_the_server(memsvc: Command) -> None:
    listed = memsvc("jobs", "list")
    assert listed.stdout.splitlines()[0].split("\t")[0] == "id"
    assert "tenant" not in listed.stdout
    assert isinstance(answer(memsvc("jobs", "list", "--json")), list)
    refused = memsvc("jobs", "retry", "999999999")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "the job does not exist" in refused.stderr


def test_server_that_compares_no_turns_is_named_as_the_reason(memsvc: Command) -> None:
    refused = memsvc("shadow-report")
    assert refused.returncode == 1
    assert "settings.mcp.memory.shadow.enabled" in refused.stderr


def test_audit_is_of_what_the_key_of_the_server_stored(memsvc: Command) -> None:
    for project in ("audited", "other"):
        answer(memsvc("memories", "add", "ida", "I like tea.", "--project", project, "--json"))
    report = answer(memsvc("audit", "--project", "audited", "--json"))
    assert report["entries"] == {"memories": 1}
    assert answer(memsvc("audit", "--json"))["entries"]["memories"] == 2
    shown = memsvc("audit", "--project", "audited", "--max-share", "0").stdout
    assert shown.splitlines()[0] == "entries\t1"
    nothing = memsvc("audit", "--project", "mistyped")
    assert (nothing.returncode, nothing.stdout) == (1, "")


def test_file_to_import_is_refused_with_the_commands_that_read_files(
    memsvc: Command, tmp_path: Path
) -> None:
    file = tmp_path / "mem0.json"
    file.write_text("[]")
    refused = memsvc("import", str(file))
    assert refused.returncode == 1
    assert f"{file} is a file" in refused.stderr
    assert "memsvc restore FILE" in refused.stderr
    assert "memsvc audit FILE" in refused.stderr


HOSTS = ("claude-code", "codex", "cursor", "gemini", "vscode", "windsurf", "claude-desktop")


@pytest.fixture
def repository(shared: Served, empty: Path) -> Path:
    """A repository whose user installed memsvc in every host."""
    subprocess.run(["git", "init", "-q", str(empty)], check=True, timeout=60)
    for host in HOSTS:
        done = typed("install", host, MEMSVC_URL=shared.url, MEMSVC_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    return empty


def doctor() -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(typed("doctor", "--json").stdout)}


def status(repository: Path) -> str:
    command = ["git", "-C", str(repository), "status", "--short"]
    return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout


def test_doctor_calls_the_server_as_each_installed_host_does(
    repository: Path, shared: Served
) -> None:
    found = doctor()
    assert all(one["ok"] for one in found.values()), found
    called = [
        one
        for one in found.values()
        if "a test call with the host's configuration took" in one["found"]
    ]
    assert len(called) == len(HOSTS)
    assert found["waiting turns"]["found"] == "none"
    assert "database" not in found
    assert status(repository) == ""


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        (lambda text: text.replace(KEY, ""), "host"),
        (lambda text: text.replace("/mcp", "/elsewhere"), "host"),
        (lambda text: re.sub(r":\d+/mcp", ":9/mcp", text), "no answer from"),
        (lambda text: re.sub(r":\d+/mcp", ":99999/mcp", text), "is not the URL of a server"),
        (lambda _: "{", "cannot be read"),
        (lambda _: "{}", "no longer contains any memsvc configuration"),
    ],
    ids=["key", "path", "away", "port", "torn", "removed"],
)
def test_doctor_finds_a_host_that_cannot_reach_the_server(
    repository: Path, spoilt: Callable[[str], str], told: str
) -> None:
    file = Path.home() / ".claude.json"
    file.write_text(spoilt(file.read_text("utf-8")), "utf-8")
    sick = {name: one for name, one in doctor().items() if not one["ok"]}
    assert [*sick] == [f"host {file}"]
    assert told in f"{sick[f'host {file}']}"
    assert sick[f"host {file}"]["recovery"]
    assert status(repository) == ""


def test_doctor_counts_the_turns_that_wait_while_the_server_is_away(repository: Path) -> None:
    hooks = HookFiles({"HOME": str(Path.home())})
    hooks.spool({"turn": "one"})
    hooks.spool({"turn": "two"})
    assert doctor()["waiting turns"]["found"].startswith(
        "2 turns have not been sent yet, the oldest for"
    )
    away = typed("doctor", "--url", NOWHERE)
    assert away.returncode == 1
    assert f"no answer from {NOWHERE}" in away.stdout
    assert "start the server with `memsvc serve`" in away.stdout
    assert status(repository) == ""


def test_doctor_with_neither_server_nor_host_says_that_there_is_no_memory(empty: Path) -> None:
    found = doctor()
    assert [name for name, one in found.items() if not one["ok"]] == ["database"]
    assert "memsvc serve" in found["database"]["recovery"]
    assert [*empty.iterdir()] == []


def test_doctor_fills_in_the_variables_of_a_shared_configuration(
    repository: Path, shared: Served
) -> None:
    hosts = {"MEMSVC_URL": shared.url, "MEMSVC_API_KEY": KEY}
    assert typed("install", "gemini", "--scope", "project", **hosts).returncode == 0
    name = f"host {repository}/.gemini/settings.json"
    with_key = json.loads(typed("doctor", "--json", MEMSVC_API_KEY=KEY).stdout)
    assert next(one for one in with_key if one["name"] == name)["ok"]
    without = doctor()[name]
    assert (without["ok"], without["found"]) == (False, "MEMSVC_API_KEY is not set")


def test_key_of_another_server_is_not_sent_to_the_one_that_is_named(
    repository: Path, shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str | None] = []
    get = httpx2.AsyncClient.get

    async def noted(client: httpx2.AsyncClient, path: str) -> httpx2.Response:
        sent.append(client.headers.get("Authorization"))
        return await get(client, path)

    monkeypatch.setattr(httpx2.AsyncClient, "get", noted)
    typed("doctor", "--url", NOWHERE)
    assert set(sent) == {None}
    sent.clear()
    typed("doctor")
    assert set(sent) == {f"Bearer {KEY}"}
