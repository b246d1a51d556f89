"""The commands that bring memory in and look after it, as an operator runs them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from tests.e2e.process import Served, call, environment, typed
from tests.styles.turns.folders import canonical, jsonl, legacy, turn

pytestmark = pytest.mark.slow

KEY = "the-key-of-a-client"


def lay_out(root: Path, sessions: dict[str, dict[str, str]]) -> Path:
    """Write session folders."""
    for session, files in sessions.items():
        for name, text in files.items():
            path = root / "memory" / session / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return root


def command(data: Path, *arguments: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
    return typed(*arguments, "--data-dir", str(data), MEMSVC_API_KEY=key)


def answered(data: Path, *arguments: str) -> Any:
    done = command(data, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return orjson.loads(done.stdout)


def test_packed_days_are_read_and_packed_nonsense_is_told(
    data_folder: Path, tmp_path: Path
) -> None:
    data = data_folder
    folder = lay_out(tmp_path / "old", {"s1": canonical()})
    archive = folder / "memory/s1/events/archive/2025/12/31"
    archive.mkdir(parents=True)
    older = jsonl(turn("t-1", "before the new year", "indeed", at="2025-12-31T09:00:00Z"))
    (archive / "log-20251231.jsonl.zst").write_bytes(zstandard.compress(older.encode()))
    (archive / "log-20251230.jsonl.zst").write_bytes(b"nonsense")
    [done] = answered(data, "import", str(folder))["sessions"].values()
    assert done["counts"]["turns"] == 3
    assert done["broken"] == [
        {
            "file": "events/archive/2025/12/31/log-20251230.jsonl.zst",
            "line": 0,
            "why": "the zstd archive is damaged or not complete",
        }
    ]
    assert answered(data, "maintain", "--check")["differences"] == 0


async def test_folders_come_in_are_recalled_by_a_client_and_stay_as_their_files_say(
    data_folder: Path, tmp_path: Path
) -> None:
    data = data_folder
    folder = lay_out(tmp_path / "old", {"s1": canonical(), "s2": legacy()})
    dry = answered(data, "import", str(folder), "--dry-run")
    assert {name: one["counts"]["turns"] for name, one in dry["sessions"].items()} == {
        "s1": 2,
        "s2": 2,
    }
    done = answered(data, "import", str(folder))
    assert done["sessions"] == dry["sessions"]
    again = answered(data, "import", str(folder))
    assert again["sessions"]["s1"]["counts"]["turns_already_here"] == 2
    assert answered(data, "maintain", "--check")["differences"] == 0
    with Served(data, "--host", "127.0.0.1") as server:
        found = await call(
            server.url, KEY, "memory_before_turn", session_id="s2", current_input="What is my name?"
        )
        assert "grace" in str(found)
        nobody = await call(
            server.url,
            "another-key",
            "memory_before_turn",
            session_id="s2",
            current_input="My name?",
        )
        assert "grace" not in str(nobody)
    assert answered(data, "maintain", "--rebuild")["differences"] == 0
    assert answered(data, "maintain", "--all", "--check")["differences"] == 0
    told = command(data, "maintain", "--check")
    assert "all derived data matches the files" in told.stdout


def test_what_is_odd_in_a_folder_is_told_and_not_followed(
    data_folder: Path, tmp_path: Path
) -> None:
    data, outside = data_folder, tmp_path / "outside.jsonl"
    outside.write_text(jsonl(turn("stolen", "secret", "secret")), "utf-8")
    broken = canonical() | {"log.jsonl": '{"torn'}
    folder = lay_out(tmp_path / "old", {"s1": broken, "%73%31": {"log.jsonl": "{}"}})
    refused = command(data, "import", str(folder))
    assert refused.returncode == 1
    assert "not a valid session id" in refused.stderr
    one = folder / "memory" / "s1"
    (one / "context.jsonl").symlink_to(outside)
    done = command(data, "import", str(one), "--session", "renamed")
    assert done.returncode == 0, done.stderr
    assert "renamed: log.jsonl:1: the line is not a JSON object" in done.stderr
    assert "skipped context.jsonl: it is a symbolic link" in done.stderr
    assert "turns\t2" in done.stdout.splitlines()
    assert "torn" not in done.stdout + done.stderr


def test_a_key_that_opens_nothing_imports_nothing_and_is_never_shown(
    data_folder: Path, tmp_path: Path
) -> None:
    data = data_folder
    folder = lay_out(tmp_path / "old", {"s1": canonical()})
    listed = {"MEMSVC_AUTH__MODE": "listed", "MEMSVC_API_KEY": KEY}
    refused = typed("import", str(folder), "--data-dir", str(data), **listed)
    assert refused.returncode == 1
    assert "this API key is unknown" in refused.stderr
    assert KEY not in refused.stdout + refused.stderr
    missing = command(data, "import", str(tmp_path / "nowhere"))
    assert (missing.returncode, missing.stdout) == (1, "")


@pytest.mark.parametrize("kills", [2])
def test_an_import_that_is_killed_again_and_again_ends_as_one_that_was_not(
    data_folder: Path, tmp_path: Path, kills: int
) -> None:
    data = data_folder
    many = jsonl([line for at in range(3000) for line in turn(f"t{at}", f"word{at}", "ok")])
    folder = lay_out(tmp_path / "old", {"s1": {"log.jsonl": many}})
    for _ in range(kills):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "memsvc",
                "import",
                str(folder),
                "--data-dir",
                str(data),
                "--json",
            ],
            env=environment(MEMSVC_API_KEY=KEY),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(2.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    done = answered(data, "import", str(folder))["sessions"]["s1"]["counts"]
    assert done.get("turns", 0) + done.get("turns_already_here", 0) == 3000
    assert (
        answered(data, "maintain", "--check", "--project", "default", "--session", "s1")[
            "differences"
        ]
        == 0
    )


def test_the_shadow_report_of_a_project_that_compared_nothing_says_so(data_folder: Path) -> None:
    for how in ([], ["--json"]):
        done = command(data_folder, "shadow-report", *how)
        assert (done.returncode, done.stdout) == (1, "")
        assert "no turns of this project have been compared" in done.stderr
