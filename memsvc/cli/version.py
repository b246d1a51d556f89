"""Command `memsvc version`."""

import json
from typing import Annotated

from typer import Option

from memsvc.package_files import version


def version_command(
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Print the version."""
    print(json.dumps({"version": version()}) if as_json else f"memsvc {version()}")
