"""`memsvc audit`, as an operator types it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memsvc.cli.main import commands
from tests.e2e.process import typed

pytestmark = pytest.mark.slow


def test_an_export_is_counted_and_a_bound_decides_the_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    texts = ["Ada likes tea", "ada likes tea", "The password is hunter2"]
    path.write_text(json.dumps([{"id": str(at), "memory": text} for at, text in enumerate(texts)]))
    done = typed("audit", str(path), "--max-share", "0.7")
    assert done.returncode == 0, done.stderr
    assert "exact\t1\t33.33%" in done.stdout
    assert "tea" not in done.stdout
    assert "secret\t2\t" in done.stdout
    done = typed("audit", str(path), "--max-share", "0.01", "--show", "--json")
    assert done.returncode == 1, done.stderr
    body = json.loads(done.stdout)
    assert (body["junk"], body["findings"]["never_recalled"]) == (2, None)
    assert {"finding": "secret", "id": "2", "like": "", "text": "The password is [secret]"} in body[
        "found"
    ]


def test_export_given_as_a_dash_is_that_of_standard_input() -> None:
    export = json.dumps([{"id": "1", "memory": "Ada likes tea"}])
    done = CliRunner().invoke(commands, ["audit", "-"], input=export)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("entries\t1")


def test_what_is_stored_is_read_in_the_data_folder(data_folder: Path) -> None:
    done = typed("audit", "--data-dir", str(data_folder), MEMSVC_API_KEY="a-key-of-nobody-here")
    assert done.returncode == 1
    assert "does not contain any entries that can be recalled" in done.stderr
