"""The knowledge tools alone over standard input and output: a drop-in for the elfmem server."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from memsvc.core.tools import Published
from memsvc.loading import load
from memsvc.publishing import published
from memsvc.resources import default_config
from memsvc.serve_stdio import run
from memsvc.stdio_app import Face
from memsvc.styles.knowledge.guide import guide

SERVER_NAME: Final = "elfmem"
PREFIX: Final = "elfmem_"


def serve(data_dir: Path, config: Path | None) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT.

    The environment is ignored, so that a folder is served in the same way everywhere.
    """
    settings = load(config or default_config(), {}, data_dir=data_dir, log_level="warning")
    run(settings, None, Face(guide(None), SERVER_NAME, _published))


def _published(*given: Any, **named: Any) -> Published:
    whole = published(*given, **named)
    return replace(
        whole,
        tools=[tool for tool in whole.tools if tool.name.startswith(PREFIX)],
        prompts=(),
        guides=(),
        completions={},
    )
