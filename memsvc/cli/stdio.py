"""Command `memsvc stdio`: a server that hosts start as a process, or a bridge to a server."""

import os
import sys
from typing import Annotated

from typer import Exit, Option

from memsvc import bridge, serve_stdio
from memsvc.cli.options import settings_of
from memsvc.cli.tool_client import Config, DataDir
from memsvc.core.errors import Code, MemsvcError
from memsvc.variables import KEY_VARIABLE, URL_VARIABLE

REFUSED_STATUS = 2

LogLevel = Annotated[
    str,
    Option(
        envvar="MEMSVC_LOG_LEVEL",
        help="Minimum level of the log messages written to standard error.",
    ),
]


def stdio(
    config: Config = None,
    data_dir: DataDir = None,
    log_level: LogLevel = "warning",
    tools: Annotated[
        str,
        Option(
            help="Toolsets to list for the client, separated by commas, such as agent,knowledge."
            " Use `all` to list every toolset."
        ),
    ] = "",
) -> None:
    """Serve MCP over standard input and output, using the embedded or the configured PostgreSQL.

    The server uses the key in MEMSVC_API_KEY or, if that is not set, the first key of the data
    folder. If MEMSVC_URL is set, every message is forwarded to that server with the key in
    MEMSVC_API_KEY."""
    if os.environ.get(URL_VARIABLE):
        bridge.main(tools)
        return
    listed = {"mcp": {"toolset": tools}} if tools else {}
    settings = settings_of(config, data_dir=data_dir, log_level=log_level, settings=listed)
    key = os.environ.get(KEY_VARIABLE, "").strip() or None
    try:
        serve_stdio.run(settings, key)
    except MemsvcError as error:
        if error.code is not Code.PERMISSION_DENIED:
            raise
        print(f"Error: {error.message}", f"Recovery: {error.recovery}", sep="\n", file=sys.stderr)
        raise Exit(REFUSED_STATUS) from None
