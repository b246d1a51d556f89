"""Command `memsvc version`."""

from memsvc.package_files import version


def version_command() -> None:
    """Print the version."""
    print(f"memsvc {version()}")
