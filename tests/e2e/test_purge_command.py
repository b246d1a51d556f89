"""`memsvc purge` and `memsvc usage`, as an operator types them: on a server, and on the database itself."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.e2e.process import Served, run

pytestmark = pytest.mark.xdist_group("purge")
KEY = "key-of-the-operator"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("purge") / "data") as served:
        yield served


@pytest.fixture
def folder(served: Served) -> Path:
    """The data folder of the server."""
    command = cast(list[str], served.process.args)
    return Path(command[command.index("--data-dir") + 1])


def told(served: Served, *arguments: str) -> Any:
    done = run(*arguments, "--json", MEMSVC_URL=served.url, MEMSVC_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_path_and_then_a_tenant_are_counted_purged_and_gone(served: Served, folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("words")
        done = run("files", "put", f"/notes/{name}", str(tmp_path / name), MEMSVC_URL=served.url, MEMSVC_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    before = told(served, "usage", "--project", "*")
    assert before["total"]["files"] == 2
    path = ("purge", "path", "/notes/a", "--project", "default")
    assert told(served, *path, "--dry-run")["counts"]["files"] == 1
    refused = run(*path, MEMSVC_URL=served.url, MEMSVC_API_KEY=KEY)
    assert refused.returncode == 1
    assert "confirm" in refused.stderr
    receipt = told(served, *path, "--confirm", "/notes/a")
    assert receipt["complete"]
    assert told(served, "usage", "--project", "default")["total"]["files"] == 1
    tenant = hashlib.sha256(KEY.encode()).hexdigest()
    whole = ("purge", "tenant", "--tenant", tenant, "--data-dir", str(folder), "--keys")
    shown = run(*whole, "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert f"--confirm '{tenant}'" in shown.stdout
    gone = run(*whole, "--confirm", tenant, "--json")
    assert gone.returncode == 0, gone.stderr
    assert json.loads(gone.stdout)["counts"]["tenants"] == 1
    assert told(served, "usage", "--project", "*")["total"]["files"] == 0


def test_what_makes_no_sense_is_refused() -> None:
    for arguments in (
        ("session", "s", "--project", "*", "--tenant", "0" * 64),
        ("session", "s"),
        ("project", "--project", "p", "--keys"),
        ("planet", "--project", "p", "--tenant", "0" * 64),
    ):
        done = run("purge", *arguments)
        assert done.returncode == 1, done.stdout
        assert done.stderr.startswith("Error: ")
