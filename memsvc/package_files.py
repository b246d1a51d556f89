"""The installed package: its version, and paths of the files that ship beside the code."""

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final


def version() -> str:
    """Return the version; `0` where the package is run without being installed."""
    try:
        return installed_version("memsvc")
    except PackageNotFoundError:
        return "0"


PACKAGE: Final = Path(__file__).resolve().parent


def own_program() -> list[str]:
    """Return the command that starts this program, from wherever it is run."""
    program = Path(sys.executable).with_name("memsvc")
    return [str(program)] if program.exists() else [sys.executable, "-m", "memsvc"]


def migrations_dir() -> Path:
    """Return the alembic script folder: env.py and versions/."""
    return _package_path("migrations")


def default_config() -> Path:
    """Return the YAML file with every setting at its default."""
    return _package_path("config") / "memsvc.yaml"


def _package_path(name: str) -> Path:
    # The wheel carries the repository's top-level folders inside the package, under a leading
    # underscore.
    installed = PACKAGE / f"_{name}"
    return installed if installed.is_dir() else PACKAGE.parent / name
