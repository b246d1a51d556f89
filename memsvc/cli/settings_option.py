"""Where a command finds the memory: on a server, or in a data folder or database."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memsvc.cli.options import check_database, settings_of
from memsvc.cli.tool_client import (
    CommandTarget,
    Config,
    DataDir,
    Url,
    run_calls,
    server_of,
    with_options,
)
from memsvc.core.errors import invalid
from memsvc.core.frozen import frozen
from memsvc.core.scope import ALL_PROJECTS
from memsvc.settings import Settings
from memsvc.variables import DATA_DIR_VARIABLE, URL_VARIABLE


@frozen
class CommandPlace:
    """The memory that a command works on: that of a server or of a database."""

    server: str | None
    config: Path | None = None
    data_dir: Path | None = None

    def call(self, tool: str, *, project: str = ALL_PROJECTS, **arguments: Any) -> dict[str, Any]:
        """Return the result of a tool call on the server, or in the data folder or database."""
        target = CommandTarget(self.server, project, self.config, self.data_dir)
        return asyncio.run(run_calls(target, lambda call: call(tool, **arguments)))

    def settings(self, *, create: bool = False) -> Settings:
        """Return the settings of a command that opens the data folder or the database itself.

        Raises INVALID_ARGUMENT if a server was named but no database, and NOT_FOUND if the data
        folder does not have a database yet, unless the command may `create` one."""
        settings = settings_of(self.config, data_dir=self.data_dir)
        is_typed = self.server != os.environ.get(URL_VARIABLE)
        has_folder = bool(settings.database.url or os.environ.get(DATA_DIR_VARIABLE))
        if self.server and (is_typed or not has_folder):
            raise invalid(
                f"this command cannot run over the server at {self.server}; it needs direct"
                " access to the data folder or the database",
                recovery="run the command without --url; name the data folder with --data-dir,"
                " or set database.url to the URL of the database",
            )
        return settings if create else check_database(settings)


def place_of(url: Url = None, config: Config = None, data_dir: DataDir = None) -> CommandPlace:
    """Return the place that a command's options name."""
    return CommandPlace(server_of(url, data_dir, config), config, data_dir)


def using_place(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose first parameter is the place that its options name."""
    return with_options(function, place_of)


def settings_option(config: Config = None, data_dir: DataDir = None) -> Settings:
    """Return the settings of a command that needs an existing database."""
    return place_of(os.environ.get(URL_VARIABLE), config, data_dir).settings()


def new_settings_option(config: Config = None, data_dir: DataDir = None) -> Settings:
    """Return the settings of a command that may create the database."""
    return place_of(os.environ.get(URL_VARIABLE), config, data_dir).settings(create=True)
