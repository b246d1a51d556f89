"""The knowledge tools alone over standard input and output: a drop-in for the elfmem server."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from memsvc.core.tools import Published
from memsvc.package_files import default_config
from memsvc.runtime import published
from memsvc.serve_stdio import run
from memsvc.settings import ALL_LISTED, load
from memsvc.stdio_app import ServerProfile
from memsvc.styles.knowledge.guide import guide

SERVER_NAME: Final = "elfmem"
PREFIX: Final = "elfmem_"


def serve(data_dir: Path, config: Path | None) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT.

    The environment is ignored, so that a folder is served in the same way everywhere.
    """
    settings = load(
        config or default_config(), {}, data_dir=data_dir, log_level="warning", settings=ALL_LISTED
    )
    run(settings, None, ServerProfile(guide(None), SERVER_NAME, _published))


def _published(*args: Any, **kwargs: Any) -> Published:
    result = published(*args, **kwargs)
    return replace(
        result,
        tools=[tool for tool in result.tools if tool.name.startswith(PREFIX)],
        prompts=(),
        guides=(),
        completions={},
    )
