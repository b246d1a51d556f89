"""Options by which a command of this machine gets its settings."""

from collections.abc import Callable

from memsvc.cli.options import settings_of
from memsvc.cli.tool_client import Config, DataDir, with_options
from memsvc.settings import Settings


def using_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose first parameter is the settings, which its options name."""
    return with_options(function, _settings_of_options)


def _settings_of_options(config: Config = None, data_dir: DataDir = None) -> Settings:
    return settings_of(config, data_dir=data_dir)
