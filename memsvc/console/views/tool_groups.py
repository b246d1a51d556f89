"""Groups of tools, as people see them."""

from typing import Final

from memsvc.core.tools import Tool

GROUPS: Final = {
    "file": "Files",
    "memory": "Turn memory",
    "elfmem": "Knowledge",
    "memories": "Memories",
    "whiteboard": "Boards",
    "context": "Boards",
    "keys": "Administration",
    "calls": "Administration",
    "tenant": "Administration",
    "archive": "Administration",
}


def group_of(tool: Tool) -> str:
    """Return the title of the group of a tool, by its name."""
    if "document" in tool.name:
        return "Notebook"
    if tool.name == "memory":
        return "Files"
    return GROUPS.get(tool.name.partition("_")[0], "General")
