"""Toolsets: the sets of tools that a client can have listed instead of all."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator

from memsvc.core.errors import invalid
from memsvc.core.validation_messages import safe_text, suggest_name

Toolset = Literal[
    "agent",
    "turns",
    "files",
    "knowledge",
    "notebook",
    "memories",
    "whiteboard",
    "chatgpt",
    "admin",
    "all",
]
"""A set of tools; each tool says in which it is."""
NAME_CHARS_MAX: Final = 64
TOOLSETS: Final[tuple[Toolset, ...]] = get_args(Toolset)
Toolsets = Annotated[
    tuple[Toolset, ...],
    BeforeValidator(
        lambda value: (
            [name.strip() for name in value.split(",")] if isinstance(value, str) else value
        )
    ),
]
"""Toolsets as a setting: a list, or a text between commas."""


def parse_toolsets(names: Iterable[str]) -> frozenset[Toolset]:
    """Return the toolsets of these names, blank ones left out; INVALID_ARGUMENT for others."""
    found = {name.strip() for name in names} - {""}
    for name in found.difference(TOOLSETS):
        raise invalid(
            f"{safe_text(name, NAME_CHARS_MAX)}: there is no such toolset; there are"
            f" {', '.join(TOOLSETS)}",
            recovery=suggest_name(name, TOOLSETS) or None,
        )
    return frozenset(name for name in TOOLSETS if name in found)
