"""`memsvc export` and `memsvc restore`, on a data folder and through a server."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.e2e.process import Served, run, typed

pytestmark = pytest.mark.slow


def test_a_data_folder_moves_through_an_archive_to_a_server(
    data_folder: Path, shared: Served, tmp_path: Path
) -> None:
    here, archive = data_folder, tmp_path / "memory.tar.gz"
    note = tmp_path / "note.md"
    note.write_text("The heron nests. " * 40_000)
    stored = typed("files", "put", "/note.md", str(note), "--data-dir", str(here))
    assert stored.returncode == 0, stored.stderr
    said = run("export", str(archive), "--project", "default", "--data-dir", str(here))
    assert said.returncode == 0, said.stderr
    assert said.stdout == f"{archive.stat().st_size} bytes written to {archive}\n"
    told = typed("calls", "--tool", "archive_export", "--json", "--data-dir", str(here))
    assert [call["status"] for call in json.loads(told.stdout)["calls"]] == ["success"]
    with tarfile.open(archive, "r:gz") as tar:
        assert "projects/default/files/note.md" in tar.getnames()
    known = typed("restore", "--check", str(archive), "--data-dir", str(here))
    assert (known.returncode, known.stdout.split("\t")[0]) == (0, "default"), known.stderr
    assert "the project is not empty" in known.stdout
    key = {"MEMSVC_API_KEY": "key-of-another-tenant"}
    checked = typed("restore", "--check", str(archive), "--url", shared.url, **key)
    assert (checked.returncode, checked.stdout.split("\t")[:2]) == (
        0,
        ["default", "the archive can be restored"],
    )
    done = typed("restore", str(archive), "--into", "birds", "--url", shared.url, **key)
    assert (done.returncode, done.stdout.split("\t")[:2]) == (0, ["birds", "restored"]), done.stderr
    read = typed("files", "cat", "/note.md", "--project", "birds", "--url", shared.url, **key)
    assert read.stdout == note.read_text()
    (tmp_path / "broken.tar").write_bytes(archive.read_bytes()[:-30])
    refused = typed("restore", str(tmp_path / "broken.tar"), "--url", shared.url, **key)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: the archive cannot be decompressed")
    nothing = typed(
        "export", str(tmp_path / "no.tar"), "--project", "none", "--url", shared.url, **key
    )
    assert (nothing.returncode, nothing.stderr) == (1, "Error: there is no data to export\n")
    assert not list(tmp_path.glob("no.tar*"))


def test_what_import_cannot_take_says_what_can(tmp_path: Path) -> None:
    archive = tmp_path / "memory.tar"
    archive.write_bytes(b"x")
    said = typed("import", str(archive), "--tenant", "00" * 32, "--data-dir", str(tmp_path / "d"))
    assert said.returncode == 1
    assert "memsvc restore" in said.stderr
