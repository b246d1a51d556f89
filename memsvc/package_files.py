"""Paths of the files that ship beside the code, in a checkout and an installed wheel alike."""

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent


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
