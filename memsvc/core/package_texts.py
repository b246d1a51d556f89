"""Texts that are packaged beside the code: prompts and guides."""

from importlib.resources import files


def package_text(package: str, name: str) -> str:
    """Return a text file of a package."""
    return files(package).joinpath(name).read_text("utf-8")
