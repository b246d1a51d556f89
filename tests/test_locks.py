"""What is installed is what was locked: one version of each, checked against its hash, from no
address of its own."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock")
PINNED = re.compile(r"([a-z0-9][a-z0-9.-]*)==(\S+)( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def locked(name: str) -> dict[tuple[str, str], str]:
    """The version of each package of a lock, under the marker of where it is for; what is neither a
    pin, a hash of one, nor a comment is a fault."""
    versions: dict[tuple[str, str], str] = {}
    hashed: set[tuple[str, str]] = set()
    at = ("", "")
    for line in (ROOT / name).read_text("utf-8").splitlines():
        if found := PINNED.fullmatch(line):
            at = (found[1], found[3] or "")
            assert at not in versions, f"{at} is locked twice"
            versions[at] = found[2]
        elif HASH.fullmatch(line):
            hashed.add(at)
        else:
            assert re.match(r"\s*(#|$)", line), line
    assert hashed == versions.keys()
    return versions


def wanted(*lists: list[object]) -> set[str]:
    """The names of requirements, as locks spell them."""
    named = [
        re.split(r"[\[<>=!~; ]", one)[0] for each in lists for one in each if isinstance(one, str)
    ]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in named}


@pytest.mark.parametrize("name", LOCKS)
def test_every_version_is_pinned_and_every_download_checked(name: str) -> None:
    assert len(locked(name)) > 30


def test_the_locks_agree_and_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    serving, developing = (locked(name) for name in LOCKS)
    assert serving.items() <= developing.items()
    assert wanted(project["project"]["dependencies"]) <= {name for name, _ in serving}
    assert wanted(*project["dependency-groups"].values()) <= {name for name, _ in developing}


@pytest.mark.parametrize("name", [*LOCKS, "pyproject.toml", "Makefile"])
def test_packages_come_from_where_the_machine_is_told_and_from_no_address_of_ours(
    name: str,
) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(
        r"--(extra-)?index-url|--find-links|--trusted-host|git\+|https?://(?!docs\.|keepachangelog)",
        text,
    )
