"""`memsvc purge` and `memsvc usage`, as an operator types them: on a server, and on the database
itself."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Served, on, typed
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

KEY = "key-of-the-operator"


def told(shared: Served, *arguments: str) -> Any:
    done = typed(*arguments, "--json", MEMSVC_URL=shared.url, MEMSVC_API_KEY=KEY)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_purge_of_an_unknown_name_says_so(shared: Served) -> None:
    purge = ("purge", "user", "adda", "--project", "default")
    for confirmed in (["--dry-run"], ["--confirm", "adda"]):
        done = typed(*purge, *confirmed, MEMSVC_URL=shared.url, MEMSVC_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        nothing = "nothing was found of this user; check the name and the project\n"
        assert done.stdout.endswith(nothing)
        assert ("complete: purge" in done.stdout) == ("--confirm" in confirmed)
        assert "to delete this data" not in done.stdout


def test_a_path_and_then_a_tenant_are_counted_purged_and_gone(
    shared: Served, shared_urls: DatabaseUrls, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("words")
        done = typed(
            "files",
            "put",
            f"/notes/{name}",
            str(tmp_path / name),
            MEMSVC_URL=shared.url,
            MEMSVC_API_KEY=KEY,
        )
        assert done.returncode == 0, done.stderr
    before = told(shared, "usage", "--project", "*")
    assert before["total"]["files"] == 2
    path = ("purge", "path", "/notes/a", "--project", "default")
    assert told(shared, *path, "--dry-run")["counts"]["files"] == 1
    refused = typed(*path, MEMSVC_URL=shared.url, MEMSVC_API_KEY=KEY)
    assert refused.returncode == 1
    assert "confirm" in refused.stderr
    receipt = told(shared, *path, "--confirm", "/notes/a")
    assert receipt["complete"]
    assert told(shared, "usage", "--project", "default")["total"]["files"] == 1
    tenant = hashlib.sha256(KEY.encode()).hexdigest()
    whole = ("purge", "tenant", "--tenant", tenant, "--keys")
    shown = typed(*whole, "--dry-run", **on(shared_urls))
    assert shown.returncode == 0, shown.stderr
    assert f"--confirm '{tenant}'" in shown.stdout
    gone = typed(*whole, "--confirm", tenant, "--json", **on(shared_urls))
    assert gone.returncode == 0, gone.stderr
    assert json.loads(gone.stdout)["counts"]["tenants"] == 1
    assert told(shared, "usage", "--project", "*")["total"]["files"] == 0


def test_unknown_tenant_is_an_error_and_nothing_is_stored_for_it(data_folder: Path) -> None:
    here, nobody = ("--data-dir", str(data_folder)), "ab" * 32
    for command in (
        ("purge", "user", "ada", "--project", "p", "--confirm", "ada"),
        ("purge", "tenant", "--keys", "--confirm", nobody),
        ("jobs", "list"),
        ("audit",),
        ("maintain",),
        ("shadow-report",),
    ):
        done = typed(*command, "--tenant", nobody, *here)
        assert done.returncode == 1, command
        assert done.stderr.startswith("Error: this tenant does not exist in the database"), command
        assert "memsvc key list" in done.stderr
    assert nobody not in typed("key", "list", *here).stdout


def test_tenants_are_listed_with_keys_and_usage(data_folder: Path, tmp_path: Path) -> None:
    here = ("--data-dir", str(data_folder))
    made = json.loads(typed("key", "create", "--label", "counted", "--json", *here).stdout)
    tenant = made["key"]["tenant"]
    second = typed("key", "create", "--label", "second", "--tenant", tenant, *here)
    assert second.returncode == 0, second.stderr
    (tmp_path / "a.md").write_text("12345")
    put = ("files", "put", str(tmp_path / "a.md"), "/a.md", *here)
    assert typed(*put, MEMSVC_API_KEY=made["text"]).returncode == 0
    listed = typed("tenants", *here)
    assert listed.returncode == 0, listed.stderr
    head, *rows = (line.split("\t") for line in listed.stdout.splitlines())
    [row] = (dict(zip(head, row, strict=True)) for row in rows if row[0] == tenant)
    assert (row["keys"], row["files"], row["file_bytes"]) == ("counted,second", "1", "5")
    body = json.loads(typed("tenants", "--json", *here).stdout)["tenants"]
    assert [one["tenant"] for one in body] == [row[0] for row in rows]


def test_what_makes_no_sense_is_refused() -> None:
    for arguments in (
        ("session", "s", "--project", "*", "--tenant", "0" * 64),
        ("session", "s"),
        ("project", "--project", "p", "--keys"),
        ("planet", "--project", "p", "--tenant", "0" * 64),
    ):
        done = typed("purge", *arguments)
        assert done.returncode == 1, done.stdout
        assert done.stderr.startswith("Error: ")
