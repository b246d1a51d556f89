"""Entry point of the command: loads a bridge or a hook at once, or the whole command line."""

import os
import sys

from memsvc.variables import URL_VARIABLE

HOOK_WORDS = 5
"""Words of `memsvc hook EVENT --host HOST`, as `memsvc install` writes it."""


def main() -> None:
    """Run the command line; a remote `memsvc stdio` and hooks load little, as the rest is slow."""
    if sys.argv[1:] == ["stdio"] and os.environ.get(URL_VARIABLE):
        from memsvc import bridge  # noqa: PLC0415 - not for the command line

        bridge.main()
        return
    if sys.argv[1:2] == ["hook"] and sys.argv[3:4] == ["--host"] and len(sys.argv) == HOOK_WORDS:
        from memsvc.hosts import hook  # noqa: PLC0415 - a host waits for it

        hook.run_hook(sys.argv[2], sys.argv[4])
        return
    from memsvc.cli import main as command  # noqa: PLC0415 - not for a bridge

    command.main()


def structured_memory() -> None:
    """Run the command `structured-memory`, which is `memsvc structured-memory`."""
    from memsvc.cli import main as command  # noqa: PLC0415 - not for a bridge

    command.main(command.loaded("structured-memory"))
