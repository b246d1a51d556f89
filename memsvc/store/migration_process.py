"""Process that migrates for a server.

Its input is on standard input, its result on standard output.
"""

import asyncio
import sys

import orjson

from memsvc.core.errors import MemsvcError
from memsvc.store.migrate import migrate


def main() -> None:
    """Migrate as `revisions.migrate_in_process` requests."""
    request = orjson.loads(sys.stdin.buffer.read())
    try:
        applied = asyncio.run(
            migrate(
                request["admin_url"],
                request["app_role"],
                app_password=request["app_password"],
                statement_timeout_ms=request["statement_timeout_ms"],
            )
        )
        result: dict[str, object] = {"applied": applied}
    except MemsvcError as error:
        result = error.body()
    sys.stdout.buffer.write(orjson.dumps(result))


if __name__ == "__main__":
    main()
