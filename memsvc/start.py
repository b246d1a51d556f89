"""Where the command begins: a bridge at once, and everything else with the whole command line."""

import os
import sys

from memsvc.variables import URL_VARIABLE


def main() -> None:
    """Run what was typed. `memsvc stdio` with a server elsewhere needs the bridge alone; the rest is slow to load."""
    if sys.argv[1:] == ["stdio"] and os.environ.get(URL_VARIABLE):
        from memsvc import bridge  # noqa: PLC0415 - not for the command line

        bridge.main()
        return
    from memsvc.cli import main as command  # noqa: PLC0415 - not for a bridge

    command.main()


def structured_memory() -> None:
    """The command `structured-memory`, which is `memsvc structured-memory`."""
    from memsvc.cli import main as command  # noqa: PLC0415 - not for a bridge

    command.main(command.loaded("structured-memory"))
