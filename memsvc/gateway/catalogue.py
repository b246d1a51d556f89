"""Catalogue of all tools."""

from collections.abc import Iterable, Iterator

from memsvc.core.tools import Tool


class Catalogue:
    """Tools by name; ValueError for a duplicate name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name}")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all tools, in the order in which they were published."""
        return tuple(self._tools)
