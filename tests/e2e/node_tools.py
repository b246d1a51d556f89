"""Node and the packages that are tested against: in the folder that MEMSVC_TEST_NODE_MODULES names,
or in the checkout. `npm install node@22 @modelcontextprotocol/conformance @modelcontextprotocol/sdk
@modelcontextprotocol/client` fills one."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.process import CHECKOUT

VARIABLE = "MEMSVC_TEST_NODE_MODULES"
NODE_MIN = 22
LONG_S = 500.0


@cache
def folder() -> Path:
    """The folder that has node_modules, and nothing that says it is there."""
    return Path(os.environ.get(VARIABLE, CHECKOUT))


def installed(package: str) -> str | None:
    """The version of a package there; None where it is not."""
    described = folder() / "node_modules" / package / "package.json"
    return str(json.loads(described.read_text())["version"]) if described.exists() else None


@cache
def node() -> str | None:
    """A node that is new enough."""
    own = folder() / "node_modules" / "node" / "bin" / "node"
    for each in (str(own) if own.exists() else None, shutil.which("node")):
        if each is not None and _version(each) >= NODE_MIN:
            return each
    return None


def _version(program: str) -> int:
    told = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=30, check=False
    ).stdout
    major = told.strip().removeprefix("v").partition(".")[0]
    return int(major) if major.isdigit() else 0


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skips where node or one of the packages is not there, and says so."""
    missing = [package for package in packages if installed(package) is None]
    if node() is None:
        missing.insert(0, f"node {NODE_MIN}")
    where = f"set {VARIABLE} to a folder whose node_modules has it"
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}: {where}")


def run_node(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a script came to."""
    program = node()
    assert program is not None
    return subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=LONG_S, check=False
    )
