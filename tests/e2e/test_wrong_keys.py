"""A wrong key is refused by every way in, and never opens an empty memory; a key is made where the
others are used."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.e2e.conftest import copied
from tests.e2e.process import Served, run, typed

pytestmark = pytest.mark.slow

SHIPPED = {"MEMSVC_AUTH__MODE": ""}


@pytest.fixture(scope="module")
def data_dir(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(migrated, tmp_path_factory.mktemp("keys") / "data")


@pytest.fixture(scope="module")
def served(data_dir: Path) -> Iterator[Served]:
    with Served(data_dir, **SHIPPED) as served:
        yield served


def test_each_way_in_refuses_a_wrong_key_and_a_server_names_no_path(
    served: Served, data_dir: Path
) -> None:
    file = str(data_dir / "api-key")
    at_server = {"MEMSVC_URL": served.url} | SHIPPED
    in_folder = {"MEMSVC_DATA_DIR": str(data_dir)} | SHIPPED
    for place in (at_server, in_folder):
        for key, command in (
            ("tpyo", ["remember", "Tests come first"]),
            ("YOUR_KEY", ["turns", "ls"]),
        ):
            refused = typed(*command, MEMSVC_API_KEY=key, **place)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert "the first key of a data folder is in its file api-key" in refused.stderr
            assert file not in refused.stderr
            assert ("placeholder" in refused.stderr) is (key == "YOUR_KEY")
        examined = typed("doctor", MEMSVC_API_KEY="tpyo", **place)
        assert examined.returncode == 1
        assert "FAIL  key: this API key is unknown, revoked or expired" in examined.stdout
        assert (file in examined.stdout) is (place is in_folder)
    answer = httpx2.post(f"{served.url}/console/sign-in", data={"key": "msk_wrong"})
    assert answer.status_code == 403
    assert str(data_dir) not in answer.text
    stdio = run("stdio", "--data-dir", str(data_dir), MEMSVC_API_KEY="bad", **SHIPPED)
    assert stdio.returncode == 2
    assert file in stdio.stderr


def test_a_key_is_made_at_the_server_that_the_environment_names(
    served: Served, data_dir: Path, tmp_path: Path
) -> None:
    first = (data_dir / "api-key").read_text().strip()
    fresh = tmp_path / "fresh"
    place = {"MEMSVC_URL": served.url, "MEMSVC_DATA_DIR": str(fresh)} | SHIPPED
    made = typed("key", "create", "--label", "where", MEMSVC_API_KEY=first, **place)
    assert made.returncode == 0, made.stderr
    key, _, tenant, where = (line.split(None, 1) for line in made.stdout.splitlines())
    assert tenant[1].endswith(", whose data the key can access")
    assert where == ["created", f"at {served.url}"]
    assert typed("turns", "ls", MEMSVC_API_KEY=key[1], **place).returncode == 0
    assert "\twhere\t" in typed("key", "list", MEMSVC_API_KEY=key[1], **place).stdout
    assert typed("key", "adopt", "00000000-0000-0000-0000-000000000000", **place).returncode == 1
    assert not fresh.exists()
    here = typed("key", "create", "--data-dir", str(data_dir), **place).stdout.splitlines()
    assert here[-2] == f"created in data folder {data_dir}"
    assert here[-1].startswith("This tenant is new and has no data.")
    named = tmp_path / "named.yaml"
    named.write_text(f"data_dir: {fresh}\n")
    there = typed(
        "key", "create", "--config", str(named), **{**place, "MEMSVC_DATA_DIR": str(data_dir)}
    ).stdout.splitlines()
    assert there[-2] == f"created in data folder {data_dir}"
