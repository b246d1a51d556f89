"""Process that migrates for a server.

Its input is on standard input, its result on standard output.
"""

import asyncio
import sys

import orjson

from memsvc.core.errors import MemsvcError
from memsvc.store.migrate import migrate


def main() -> None:
    """Migrate as `revisions.migrate_apart` requests."""
    asked = orjson.loads(sys.stdin.buffer.read())
    try:
        applied = asyncio.run(
            migrate(
                asked["admin_url"],
                asked["app_role"],
                app_password=asked["app_password"],
                statement_timeout_ms=asked["statement_timeout_ms"],
            )
        )
        told: dict[str, object] = {"applied": applied}
    except MemsvcError as error:
        told = error.body()
    sys.stdout.buffer.write(orjson.dumps(told))


if __name__ == "__main__":
    main()
