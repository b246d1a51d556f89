"""The installed version of this package."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version


def version() -> str:
    """Return the version; `0` where the package is run without being installed."""
    try:
        return installed_version("memsvc")
    except PackageNotFoundError:
        return "0"
