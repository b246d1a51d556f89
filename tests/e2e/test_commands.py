"""The commands that use a memory: against a server, and against a data folder. What an executable
adds to them, how it starts and how it ends, is tested with it."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from memsvc.cli.main import COMMANDS, commands, loaded
from memsvc.package_files import version
from tests.e2e.process import Served, environment, run, typed
from tests.waiting import until

pytestmark = pytest.mark.slow

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def memsvc(shared: Served) -> Command:
    def command(
        *arguments: str, key: str = "key-of-the-commands"
    ) -> subprocess.CompletedProcess[str]:
        return typed(*arguments, MEMSVC_URL=shared.url, MEMSVC_API_KEY=key)

    return command


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def elfmem(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from memsvc.cli.elfmem import main; main()", *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_help_names_every_command_and_each_has_a_help_of_its_own() -> None:
    told = said(run("--help"))
    assert [name for name in COMMANDS if name not in told] == []
    for name in COMMANDS:
        helped = CliRunner().invoke(commands, [name, "--help"])
        assert "Usage" in helped.output, name


def test_the_help_of_every_command_shows_the_double_brackets_of_its_text() -> None:
    written = {}
    for name in COMMANDS:
        group = loaded(name)
        for one in getattr(group, "commands", {"": group}).values():
            path = [name, *([one.name] if one is not group else [])]
            text = (getattr(one.callback, "__doc__", None) or "").replace(r"\[", "[")
            written[tuple(path)] = re.findall(r"\[\[\w+\]\]", text)
    assert written["notebook", "write"] == ["[[link]]"]
    for path, marked in written.items():
        if marked:
            for shown in ([*path, "--help"], [path[0], "--help"]):
                assert all(one in CliRunner().invoke(commands, shown).output for one in marked), (
                    shown
                )


def test_the_version_is_an_option_too() -> None:
    assert said(run("--version")) == said(run("version")) == f"memsvc {version()}\n"


def test_structured_memory_is_called_by_its_own_name() -> None:
    start = (
        "import sys; sys.argv[0] = 'structured-memory'; from memsvc.start import"
        " structured_memory as s; s()"
    )
    command = [sys.executable, "-c", start, "--help"]
    helped = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert "Usage: structured-memory [OPTIONS]" in helped.stdout


def test_an_error_is_json_where_the_answer_would_be() -> None:
    failed = run("turns", "ls", "--json", "--url", "http://127.0.0.1:9")
    assert (failed.returncode, failed.stdout) == (1, "")
    told = json.loads(failed.stderr)
    assert (told["code"], told["retryable"]) == ("UNAVAILABLE", True)
    assert "recovery" in told


def test_files_are_put_listed_read_found_moved_and_removed(memsvc: Command, tmp_path: Path) -> None:
    source = tmp_path / "note.md"
    source.write_bytes("The ferry to Oshima leaves at noon. メモ\n".encode() * 3)
    assert "bytes written" in said(memsvc("files", "put", str(source), "/trip/note.md"))
    assert said(memsvc("files", "cat", "/trip/note.md")).encode() == source.read_bytes()
    assert said(memsvc("files", "cat", "/trip/note.md", "--json")).encode() == source.read_bytes()
    listed = answer(memsvc("files", "ls", "/", "--depth", "2", "--json"))["entries"]
    assert [entry["path"] for entry in listed] == ["/trip", "/trip/note.md"]
    found = answer(memsvc("files", "search", "ferry to Oshima", "--json"))["chunks"]
    assert found[0]["file_path"] == "/trip/note.md"
    score, path, _ = said(memsvc("files", "search", "ferry to Oshima")).split("\t")
    assert (score, path) == (str(round(found[0]["score"], 4)), "/trip/note.md")
    assert said(memsvc("files", "mv", "/trip/note.md", "/trip/ferry.md")) == "1 moved\n"
    refused = memsvc("files", "rm", "/trip")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: the directory is not empty\nRecovery: ")
    assert said(memsvc("files", "rm", "-r", "/trip")) == "1 deleted\n"


def test_what_is_not_there_is_named(memsvc: Command) -> None:
    for missing in (
        ("files", "cat", "/no/such.md"),
        ("files", "ls", "/no/such.md"),
        ("turns", "show", "no-such"),
    ):
        refused = memsvc(*missing)
        assert refused.returncode == 1
        assert missing[-1] in refused.stderr
    nothing = memsvc("files", "ls", "--project", "mistyped")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr == "Nothing found in project mistyped.\n"


def test_another_key_sees_nothing_of_it(memsvc: Command, tmp_path: Path) -> None:
    source = tmp_path / "secret.md"
    source.write_text("for me alone")
    said(memsvc("files", "put", "/mine/secret.md", str(source)))
    assert memsvc("files", "cat", "/mine/secret.md", key="another-key").returncode == 1
    assert (
        answer(memsvc("files", "search", "for me alone", "--json", key="another-key"))["chunks"]
        == []
    )


def test_knowledge_is_remembered_recalled_rated_and_curated(memsvc: Command) -> None:
    stored = answer(
        memsvc("remember", "The user prefers dark mode", "--tags", "ui, taste", "--json")
    )
    assert stored["status"] == "created"
    assert said(memsvc("remember", "The user prefers dark mode")).startswith("Duplicate")
    assert "dark mode" in said(memsvc("recall", "which mode does the user prefer"))
    recalled = answer(memsvc("recall", "which mode does the user prefer", "--json"))
    assert {"text", "frame_name", "cached", "blocks"} <= recalled.keys()
    assert said(memsvc("outcome", stored["block_id"], "0.9")).startswith("Outcome recorded")
    assert "health" in answer(memsvc("status", "--json"))
    assert "archived" in answer(memsvc("curate", "--json"))
    waiting = f"{stored['block_id']}\tinbox\tThe user prefers dark mode [taste, ui]\n"
    assert said(memsvc("knowledge", "inbox")) == waiting
    assert said(memsvc("knowledge", "ls")) == waiting
    assert said(memsvc("knowledge", "dream")).startswith("Consolidated 1: ")
    idle = "No pending blocks — nothing to consolidate."
    assert said(memsvc("knowledge", "dream")) == f"{idle}\n"
    told = answer(memsvc("knowledge", "dream", "--json"))
    assert (told["status"], told["message"]) == ("idle", idle)
    assert said(memsvc("knowledge", "forget", stored["block_id"]))
    assert "dark mode" not in said(memsvc("recall", "which mode does the user prefer"))


def test_an_identity_is_recalled_whole_unless_somebody_says_how_much_of_it(
    memsvc: Command, shared: Served
) -> None:
    headers = {"Authorization": "Bearer key-of-an-identity"}
    for principle in ("think", "listen", "ask", "test", "measure", "rest", "laugh"):
        block = {"content": f"I {principle} first.", "tags": ["self/constitutional"]}
        httpx2.post(
            f"{shared.url}/api/tools/elfmem_remember", json=block, headers=headers
        ).raise_for_status()
    key = {"key": "key-of-an-identity"}
    assert len(answer(memsvc("recall", "", "--frame", "self", "--json", **key))["blocks"]) == 7
    assert (
        len(
            answer(memsvc("recall", "", "--frame", "self", "--top-k", "2", "--json", **key))[
                "blocks"
            ]
        )
        == 2
    )


def test_blocks_are_edited_consolidated_connected_and_disconnected(memsvc: Command) -> None:
    texts = ("The kiln is fired on Mondays", "Glazes are mixed in the cellar")
    one, other = (answer(memsvc("remember", text, "--json"))["block_id"] for text in texts)
    said(memsvc("knowledge", "edit", one, "The kiln is fired on Tuesdays"))
    assert "Tuesdays" in said(memsvc("knowledge", "inbox"))
    assert said(memsvc("knowledge", "dream")).startswith("Consolidated")
    assert "cellar" in said(memsvc("knowledge", "ls"))
    assert answer(memsvc("knowledge", "connect", one, other, "--json"))["action"] == "created"
    assert answer(memsvc("knowledge", "disconnect", one, other, "--json"))["action"] == "removed"


def test_what_was_is_listed_and_brought_back(memsvc: Command, tmp_path: Path) -> None:
    source = tmp_path / "plan.md"
    for text in ("# First\n\n## North\n\nCold.\n\n## South\n\nWarm.\n", "# Second\n"):
        source.write_text(text)
        said(memsvc("files", "put", "/past/plan.md", str(source)))
        said(memsvc("notebook", "write", "root", str(source), "--project", "past"))
    assert len(said(memsvc("files", "versions", "/past/plan.md")).splitlines()) == 1
    history = answer(memsvc("notebook", "history", "--project", "past", "--json"))["versions"]
    said(memsvc("notebook", "restore", "root", history[0]["version"], "--project", "past"))
    assert said(memsvc("notebook", "read", "--project", "past")).startswith("# First")
    assert "north" in said(memsvc("notebook", "split", "root", "--project", "past")).lower()
    for decision in ("We decided to meet in Nara.", "We decided to meet in Kobe instead."):
        said(memsvc("whiteboard", "update", "bo", "trip", decision))
    versions = answer(memsvc("whiteboard", "history", "bo", "trip", "--json"))["versions"]
    assert (
        said(memsvc("whiteboard", "restore", "bo", "trip", versions[-1]["version"])) == "restored\n"
    )
    assert "Nara" in said(memsvc("whiteboard", "show", "bo", "trip"))


@pytest.mark.parametrize("second", ["note.md", "-", "absolute"])
def test_file_put_in_the_order_of_older_versions_is_stored(
    shared: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    (tmp_path / "note.md").write_text("said once")
    monkeypatch.chdir(tmp_path)
    source = str(tmp_path / "note.md") if second == "absolute" else second
    done = fed("said once", ["files", "put", "/older/order.md", source], shared, monkeypatch)
    assert done == "9 bytes written to /older/order.md\n"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["remember", "-"], ["knowledge", "inbox"]),
        (["memories", "add", "zoe", "-"], ["memories", "ls", "zoe"]),
        (["whiteboard", "update", "zoe", "trip", "-"], ["whiteboard", "show", "zoe", "trip"]),
        (["files", "put", "-", "/typed/in.md"], ["files", "cat", "/typed/in.md"]),
        (["notebook", "write", "root", "-"], ["notebook", "read"]),
    ],
    ids=" ".join,
)
def test_text_given_as_a_dash_is_that_of_standard_input(
    shared: Served, monkeypatch: pytest.MonkeyPatch, written: list[str], read: list[str]
) -> None:
    fed("I am a vegetarian.\n", written, shared, monkeypatch)
    assert "vegetarian" in fed("", read, shared, monkeypatch)


def fed(text: str, arguments: list[str], server: Served, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a command prints that reads this text from standard input."""
    monkeypatch.setenv("MEMSVC_URL", server.url)
    monkeypatch.setenv("MEMSVC_API_KEY", "key-of-standard-input")
    done = CliRunner().invoke(commands, arguments, input=text)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_memory_is_updated_and_its_history_keeps_the_old_text(memsvc: Command) -> None:
    [added] = answer(memsvc("memories", "add", "ute", "I am a vegetarian.", "--json"))["results"]
    assert said(memsvc("memories", "update", "ute", added["id"], "Is a vegan")) == "Is a vegan\n"
    assert "Is a vegan" in said(memsvc("memories", "ls", "ute"))
    assert added["memory"] in said(memsvc("memories", "history", "ute", added["id"]))


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("time", ["yesterday", "2026-01-31", "12:00"])
def test_time_that_cannot_be_read_is_refused_with_the_forms_of_a_time(
    memsvc: Command, option: str, time: str
) -> None:
    refused = memsvc("calls", option, time)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"Error: {option[2:]} must be an RFC 3339 time, such as 2026-01-31T12:00:00Z, or"
    )
    assert memsvc("calls", option, "2026-01-31T12:00:00Z").returncode == 0


def logged(memsvc: Command, tool: str) -> None:
    """Wait until a call of this tool is in the call log, which is written in batches."""
    asyncio.run(until(lambda: tool in said(memsvc("calls"))))


def test_calls_beyond_the_limit_are_announced(memsvc: Command) -> None:
    for _ in range(2):
        said(memsvc("status"))
    logged(memsvc, "elfmem_status")
    note = "There may be more calls: list them with a higher --limit.\n"
    assert memsvc("calls", "--limit", "1").stderr == note
    assert memsvc("calls", "--limit", "1", "--json").stderr == ""


def test_calls_and_usage_that_match_nothing_say_so_with_the_nearest_names(memsvc: Command) -> None:
    said(memsvc("status"))
    logged(memsvc, "elfmem_status")
    for options, near in (
        (["calls", "--tool", "none-such"], ""),
        (["calls", "--tool", "elfmem_statsu"], "; did you mean elfmem_status?"),
        (["calls", "--tool", "elfmem_status", "--project", "defualt"], "; did you mean default?"),
        (["usage", "--project", "none-such"], ""),
    ):
        done = memsvc(*options)
        assert (done.returncode, done.stderr) == (0, f"Nothing found{near}\n")
    assert memsvc("calls", "--tool", "none-such", "--json").stderr == ""


def test_usage_of_all_projects_ends_with_their_sum(memsvc: Command, tmp_path: Path) -> None:
    source, key = tmp_path / "a.md", {"key": "key-of-usage"}
    source.write_text("12345")
    for project in ("red", "blue"):
        said(memsvc("files", "put", str(source), "/a.md", "--project", project, **key))
    head, *rows = (
        line.split("\t") for line in said(memsvc("usage", "--project", "*", **key)).splitlines()
    )
    projects = [row for row in rows if row[0] != "(total)"]
    assert {"red", "blue"} <= {row[0] for row in projects}
    assert rows[-1][0] == "(total)"
    for column in range(1, len(head)):
        assert int(rows[-1][column]) == sum(int(row[column]) for row in projects), head[column]
    alone = said(memsvc("usage", "--project", "red", **key)).splitlines()
    assert [line.split("\t")[0] for line in alone] == ["project", "red"]


def test_turns_are_shown_with_the_time_at_which_they_were_said(
    memsvc: Command, shared: Served
) -> None:
    said_at = "2024-05-06T07:08:09+02:00"
    turn = {
        "session_id": "late",
        "turn_id": "t1",
        "input_items": [
            {"role": "user", "content": "It rained.", "metadata": {"occurred_at": said_at}}
        ],
        "output_items": [{"role": "assistant", "content": "Noted."}],
    }
    headers = {"Authorization": "Bearer key-of-late-turns"}
    httpx2.post(
        f"{shared.url}/api/tools/memory_after_turn", json=turn, headers=headers
    ).raise_for_status()
    shown = said(memsvc("turns", "show", "late", key="key-of-late-turns"))
    first, second = shown.splitlines()
    assert first.split("\t")[0] == said_at
    assert not second.startswith("2024")
    latest = memsvc("turns", "show", "late", "--last", "1", key="key-of-late-turns")
    assert latest.stdout == f"{second}\n"
    assert latest.stderr == "There are older items: show them with a --last higher than 1.\n"
    body = answer(memsvc("turns", "show", "late", "--last", "1", "--json", key="key-of-late-turns"))
    assert body["has_more"]
    whole = memsvc("turns", "show", "late", "--last", "2", key="key-of-late-turns")
    assert (whole.stdout, whole.stderr) == (shown, "")


def test_guide_of_an_unknown_operation_lists_those_that_there_are() -> None:
    for done in (typed("guide", "nosuch"), elfmem("guide", "nosuch")):
        assert (done.returncode, done.stdout) == (2, "")
        assert "Unknown method 'nosuch'" in done.stderr
        assert "remember" in done.stderr
    assert typed("guide", "recall").returncode == 0


def test_a_wrong_signal_is_told_with_its_code_of_exit(memsvc: Command) -> None:
    refused = memsvc("outcome", "0123456789abcdef", "1.5")
    assert refused.returncode == 1
    assert "signal must be in [0.0, 1.0], got 1.5" in refused.stderr


def test_memories_are_added_found_traced_and_removed(memsvc: Command) -> None:
    added = answer(
        memsvc("memories", "add", "alex", "My name is Alex and I am a vegetarian.", "--json")
    )["results"]
    assert {one["event"] for one in added} == {"ADD"}
    assert "vegetarian" in said(memsvc("memories", "ls", "alex"))
    assert "vegetarian" in said(memsvc("memories", "search", "alex", "is the user a vegetarian"))
    assert "ADD" in said(memsvc("memories", "history", "alex", added[0]["id"]))
    said(memsvc("memories", "rm", "alex", added[0]["id"]))
    said(memsvc("memories", "rm", "alex", "--all"))
    assert answer(memsvc("memories", "ls", "alex", "--json"))["results"] == []
    assert memsvc("memories", "rm", "alex").returncode == 1


def test_the_notebook_is_written_read_and_shown_as_a_tree(memsvc: Command, tmp_path: Path) -> None:
    source = tmp_path / "root.md"
    source.write_text("# Home\n\n[[garden]] [[house]]\n")
    assert (
        said(memsvc("notebook", "write", "root", str(source)))
        == "Succeeded\nCreated: garden, house\n"
    )
    assert said(memsvc("notebook", "tree")) == "root:\n- garden\n- house\n"
    assert said(memsvc("notebook", "read", "garden")) == "# garden\n"
    said(memsvc("notebook", "edit", "garden", "# garden", "# Garden\n\nRoses by the wall."))
    assert "Roses" in said(memsvc("notebook", "search", "roses"))
    said(memsvc("notebook", "mv", "garden", "house"))
    assert said(memsvc("notebook", "tree")) == "root:\n- house:\n  - garden\n"
    assert said(memsvc("notebook", "history", "garden"))
    unknown = memsvc("notebook", "read", "nowhere")
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (1, "Error: id: not found")


def test_a_whiteboard_takes_in_what_was_said(memsvc: Command) -> None:
    said(memsvc("whiteboard", "update", "alice", "plan", "We decided to ship on Friday."))
    assert "Friday" in said(memsvc("whiteboard", "show", "alice", "plan"))
    assert "plan" in said(memsvc("whiteboard", "ls"))
    assert said(memsvc("whiteboard", "history", "alice", "plan"))
    assert said(memsvc("whiteboard", "rm", "alice", "plan")) == "deleted\n"
    assert said(memsvc("whiteboard", "show", "alice", "plan")).strip() == ""


def test_a_session_is_shown_with_its_facts_and_what_it_recalls(
    memsvc: Command, shared: Served
) -> None:
    turn = {
        "session_id": "trip/1",
        "turn_id": "t1",
        "input_items": [{"role": "user", "content": "My dog is called Bruno."}],
        "output_items": [{"role": "assistant", "content": "A fine name."}],
    }
    headers = {"Authorization": "Bearer key-of-the-commands"}
    response = httpx2.post(f"{shared.url}/api/tools/memory_after_turn", json=turn, headers=headers)
    assert response.status_code == 200, response.text
    later = turn | {"session_id": "a later one"}
    assert (
        httpx2.post(
            f"{shared.url}/api/tools/memory_after_turn", json=later, headers=headers
        ).status_code
        == 200
    )
    assert [line.split("\t")[1] for line in said(memsvc("turns", "ls")).splitlines()] == [
        "session",
        "a later one",
        "trip/1",
    ]
    shown = said(memsvc("turns", "show", "trip/1"))
    assert [line.split("\t")[1:] for line in shown.splitlines()] == [
        ["t1", "user", "My dog is called Bruno."],
        ["t1", "assistant", "A fine name."],
    ]
    listed = said(memsvc("turns", "facts", "trip/1"))
    assert "Bruno" in listed
    [record] = [line.split()[-1] for line in listed.splitlines() if "Bruno" in line]
    assert "Brunello" in said(memsvc("turns", "correct", "trip/1", record, "--value", "Brunello"))
    past = said(memsvc("turns", "facts", "trip/1", "--past"))
    assert "superseded" in past
    assert "Bruno" in said(memsvc("turns", "correct", "trip/1", record, "--restore"))
    assert "Bruno" in said(memsvc("turns", "recall", "trip/1", "What is my dog called?"))
    assert memsvc("turns", "show", "no such session").returncode == 1


def test_the_doctor_finds_a_server_well_and_a_wrong_address_not(memsvc: Command) -> None:
    assert all(one["ok"] for one in answer(memsvc("doctor", "--json")))
    sick = typed("doctor", "--url", "http://127.0.0.1:9")
    assert sick.returncode == 1
    assert "FAIL" in sick.stdout


def test_a_server_that_is_not_there_is_an_error_with_a_way_out() -> None:
    lost = run("files", "ls", MEMSVC_URL="http://127.0.0.1:9")
    assert lost.returncode == 1
    assert lost.stderr.startswith("Error: the server at http://127.0.0.1:9 did not answer")
    assert "Recovery: " in lost.stderr


@pytest.mark.parametrize(
    "url", ["localhost:8080", "http://127.0.0.1:99999", "ftp://127.0.0.1", "http://"]
)
def test_an_address_that_is_none_is_told_in_two_lines(url: str) -> None:
    lost = typed("files", "ls", "--url", url)
    assert (lost.returncode, lost.stdout) == (1, "")
    assert (
        lost.stderr
        == f"Error: {url} is not the URL of a server\nRecovery: use a URL such as http://127.0.0.1:8080\n"
    )


def test_bytes_that_are_no_text_are_told_in_a_line(memsvc: Command) -> None:
    refused = memsvc("remember", "caf\udce9")
    assert (refused.returncode, refused.stderr) == (
        1,
        "Error: command-line arguments must be UTF-8 text\n",
    )
    refused = memsvc("status", key="clé")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (
        1,
        "Error: the value of MEMSVC_API_KEY is not a valid key",
    )


def test_new_key_is_printed_with_the_tenant_whose_data_it_opens(
    memsvc: Command, data_folder: Path
) -> None:
    mine = answer(memsvc("key", "create", "--label", "by-server", "--json"))
    listed = answer(memsvc("key", "list", "--json"))["keys"]
    assert {one["tenant"] for one in listed} == {mine["key"]["tenant"]}
    assert f"tenant  {mine['key']['tenant']}, whose data the key can access" in said(
        memsvc("key", "create")
    )
    here = ("--data-dir", str(data_folder))
    new = json.loads(said(typed("key", "create", "--json", *here)))
    assert new["key"]["tenant"] != mine["key"]["tenant"]
    same = said(typed("key", "create", "--tenant", new["key"]["tenant"], *here))
    assert f"tenant  {new['key']['tenant']}, whose data the key can access" in same
    assert "This tenant is new" not in same
    assert "This tenant is new and has no data." in said(typed("key", "create", *here))
    chosen = said(typed("key", "create", "--tenant", "ab" * 32, *here))
    assert "This tenant is new and has no data." in chosen
    rows = json.loads(said(typed("key", "list", "--json", *here)))["keys"]
    assert [one["tenant"] for one in rows[:2]] == [new["key"]["tenant"]] * 2
    assert mine["key"].keys() - {"is_yours"} == rows[0].keys()


def test_list_of_keys_shows_what_a_key_may_do(memsvc: Command) -> None:
    bound = answer(
        memsvc(
            *("key", "create", "--label", "bound", "--user", "ada", "--permission", "read"),
            *("--hide-tool", "file_read", "--hide-tool", "file_list", "--expires-days", "2"),
            "--json",
        )
    )["key"]
    rows = [line.split("\t") for line in said(memsvc("key", "list")).splitlines()]
    [row] = [row for row in rows if row[0] == bound["key_id"]]
    assert row[1:7] == ["bound", "valid", "read", "all", "ada", "file_list,file_read"]
    assert row[7] == bound["expires_at"][:16].replace("T", " ")


@pytest.mark.parametrize("option", ["--user", "--project"])
def test_key_for_an_empty_name_is_refused(memsvc: Command, option: str) -> None:
    before = said(memsvc("key", "list"))
    assert memsvc("key", "create", option, "").returncode
    assert said(memsvc("key", "list")) == before


@pytest.mark.slow
def test_a_key_is_rotated_and_both_open_meanwhile(data_folder: Path) -> None:
    data_dir = data_folder
    with Served(data_dir) as served:
        old = dict(
            line.split(None, 1) for line in run_in(data_dir, "key", "create").splitlines()[:1]
        )["key"]
        key_id = run_in(data_dir, "key", "list").splitlines()[-1].split("\t")[0]
        new = run_in(data_dir, "key", "rotate", key_id).splitlines()[0].split(None, 1)[1]
        for key in (old, new):
            opened = httpx2.get(
                f"{served.url}/api/tools", headers={"Authorization": f"Bearer {key}"}
            )
            assert opened.status_code == 200
        sure = run_in(data_dir, "key", "rotate", key_id, "--overlap-hours", "0")
        assert "the old key expires" in sure
    again = typed("key", "rotate", key_id, "--data-dir", str(data_dir))
    assert (again.returncode, again.stderr.splitlines()[0]) == (
        1,
        "Error: this key is revoked or expired",
    )


def run_in(data_dir: Path, *arguments: str) -> str:
    return said(typed(*arguments, "--data-dir", str(data_dir)))


@pytest.mark.slow
def test_key_that_hides_an_unknown_tool_is_not_created(memsvc: Command, data_folder: Path) -> None:
    here = ("--data-dir", str(data_folder))
    keys = said(typed("key", "list", *here))
    for done in (
        memsvc("key", "create", "--hide-tool", "file_wriet"),
        typed("key", "create", "--hide-tool", "file_wriet", *here),
    ):
        assert done.returncode == 1
        assert "unknown tool file_wriet" in done.stderr
        assert "did you mean file_write" in done.stderr
    assert said(typed("key", "list", *here)) == keys
    listed = answer(typed("key", "create", "--hide-tool", "file_write", "--json", *here))
    assert listed["key"]["hidden_tools"] == ["file_write"]


def test_elfmem_keeps_its_knowledge_in_a_folder(data_folder: Path) -> None:
    folder = str(data_folder)
    assert said(elfmem("remember", "Tests come first", "--db", folder)).startswith("Stored block")
    elsewhere = {"MEMSVC_URL": "http://127.0.0.1:9", "MEMSVC_API_KEY": "key-of-a-server"}
    assert "Tests come first" in said(
        elfmem("recall", "what comes first", ELFMEM_DB=folder, **elsewhere)
    )
    assert json.loads(said(elfmem("status", "--json", ELFMEM_DB=folder)))["inbox_count"] == 1


@pytest.mark.slow
def test_a_data_folder_that_is_named_counts_more_than_a_server_in_the_environment(
    data_folder: Path,
) -> None:
    away, folder = {"MEMSVC_URL": "http://127.0.0.1:9"}, ("--data-dir", str(data_folder))
    assert said(run("turns", "ls", *folder, **away)) == ""
    assert "settings" in typed("doctor", *folder, **away).stdout
    assert "did not answer" in typed("turns", "ls", "--url", "http://127.0.0.1:9", *folder).stderr


def test_elfmem_says_which_database_it_lacks_and_guides_without_one(tmp_path: Path) -> None:
    lacking = elfmem("remember", "anything")
    assert lacking.returncode == 1
    assert lacking.stderr == "Error: --db is required (or set ELFMEM_DB env var)\n"
    (tmp_path / "agent.db").write_bytes(b"SQLite format 3\0")
    assert elfmem("status", "--db", str(tmp_path / "agent.db")).returncode == 1
    assert "learn" in said(elfmem("guide", "learn"))
    assert answer(elfmem("guide", "learn", "--json")) == {
        "text": said(elfmem("guide", "learn")).rstrip("\n")
    }
    told = said(elfmem("--help"))
    assert all(
        name in told
        for name in ("remember", "recall", "status", "outcome", "curate", "guide", "serve")
    )
