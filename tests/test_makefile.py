"""`make` says in one sentence what it needs and what it could not do; `.ci/run` ends with what
came of the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import CHECKOUT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
OUTER = {"GNUMAKEFLAGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
# runs what it is given by -c as another version would
OLDER = f"""#!/bin/sh
exec '{sys.executable}' -c 'import sys; sys.version_info = (3, 10, 13); exec(sys.argv[2])' "$@"
"""


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what comes of it in this checkout, as from a shell: also where a `make` runs the
    tests, which says so to those below it."""
    ours = {name: value for name, value in os.environ.items() if name not in OUTER}
    command = ["make", *arguments]
    return subprocess.run(
        command, cwd=CHECKOUT, env=ours, capture_output=True, text=True, timeout=60, check=False
    )


def set_up(python: Path | str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make serve` would do in a fresh checkout."""
    return make("--dry-run", "serve", f"PYTHON={python}", f"VENV={folder / 'venv'}")


@pytest.mark.parametrize("there", [True, False], ids=["an older Python", "no Python"])
def test_without_a_python_that_is_new_enough_make_says_so_in_a_sentence(
    tmp_path: Path, there: bool
) -> None:
    python = tmp_path / "python3.11"
    if there:
        python.write_text(OLDER)
        python.chmod(0o755)
    done = set_up(python, tmp_path)
    assert done.returncode == 2
    assert "memsvc needs Python 3.11 or newer; set PYTHON=..." in done.stderr
    assert len(f"{done.stdout}{done.stderr}".splitlines()) == 1


def test_with_a_python_that_is_named_make_sets_up_with_that(tmp_path: Path) -> None:
    done = set_up(sys.executable, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{sys.executable} -m venv {tmp_path / 'venv'}" in done.stdout


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        ("No known vulnerabilities found", 0, "no known vulnerabilities"),
        ("Dependency not found on PyPI and could not be audited: anyio", 0, "skipped"),
        ("requests.exceptions.ConnectionError: no route to host", 1, "skipped"),
        (
            "Found 1 known vulnerability in 1 package; others could not be audited",
            1,
            "Found 1 known vulnerability",
        ),
        ("unrecognized arguments", 2, "unrecognized arguments"),
    ],
)
def test_an_audit_that_could_not_be_made_is_skipped_by_name_and_one_that_finds_something_fails(
    tmp_path: Path, answer: str, status: int, told: str
) -> None:
    index = tmp_path / "uv"
    index.write_text(f"#!/bin/sh\necho '{answer}'\nexit {status}\n")
    index.chmod(0o755)
    done = make("audit", f"UV={index}")
    assert done.stdout.startswith(f"requirements.lock: {told}")
    assert (done.returncode == 0) is (told in {"skipped", "no known vulnerabilities"})


@pytest.mark.parametrize(
    ("lines", "status", "closing"),
    [
        (
            "== 9 passed, 2 skipped, 4 deselected in 2.50s ==\n= 4 passed in 61.00s (0:01:01) =",
            0,
            "13 passed, 2 skipped in 63.50s",
        ),
        (
            "== 9 passed in 2.50s ==\n== 1 failed, 3 passed, 1 error in 1.00s ==",
            2,
            "1 failed, 12 passed, 1 errors in 3.50s",
        ),
        (
            "== 1 failed, 8 passed, 1 warning in 2.50s ==",
            2,
            "1 failed, 8 passed, 1 warnings in 2.50s",
        ),
        ("no tests ran in 0.10s", 0, "no tests ran in 0.10s"),
        ("== 9 passed in 2.50s ==\nKilled", 2, "the tests did not all run: see above"),
        ("ruff check", 2, "the tests did not all run: see above"),
    ],
)
def test_what_decides_over_a_change_ends_with_the_sum_of_both_parts_of_the_suite(
    tmp_path: Path, lines: str, status: int, closing: str
) -> None:
    stand_in = tmp_path / "make"
    stand_in.write_text(f"#!/bin/sh\necho '{lines}'\nexec test \"$* {status}\" = 'test-all 0'\n")
    stand_in.chmod(0o755)
    command, around = (
        [str(CHECKOUT / ".ci/run")],
        os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    done = subprocess.run(
        command, env=around, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == closing
    assert (done.returncode == 0) is (status == 0)
