"""Command `memsvc version`."""

from memsvc.core.version import version


def version_command() -> None:
    """Print the version."""
    print(f"memsvc {version()}")
