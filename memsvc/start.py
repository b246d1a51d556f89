"""Entry point of the command: loads a bridge at once, or the whole command line."""

import os
import sys

from memsvc.variables import URL_VARIABLE


def main() -> None:
    """Run the command line; a remote `memsvc stdio` loads the bridge alone, as the rest is slow."""
    if sys.argv[1:] == ["stdio"] and os.environ.get(URL_VARIABLE):
        from memsvc import bridge  # noqa: PLC0415 - not for the command line

        bridge.main()
        return
    from memsvc.cli import main as command  # noqa: PLC0415 - not for a bridge

    command.main()


def structured_memory() -> None:
    """Run the command `structured-memory`, which is `memsvc structured-memory`."""
    from memsvc.cli import main as command  # noqa: PLC0415 - not for a bridge

    command.main(command.loaded("structured-memory"))
