"""Navigation of the console, and the tool that each entry needs."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation, for everybody or for callers that may use the `tool`.

    `icon` names a drawing in parts/icons.html; groups are sorted by name, entries without one
    first.
    """

    path: str
    title: str
    icon: str
    tool: str | None
    group: str


PLACES: Final = (
    Place("", "Overview", "gauge", None, ""),
    Place("sessions", "Sessions", "chat", "memory_list_sessions", "Memory"),
    Place("facts", "Facts", "spark", "memory_list_facts", "Memory"),
    Place("memories", "Memories", "timeline", "memories_list", "Memory"),
    Place("knowledge", "Knowledge", "graph", "elfmem_ls", "Memory"),
    Place("boards", "Boards", "board", "whiteboard_list", "Memory"),
    Place("notebook", "Notebook", "book", "get_document_tree", "Memory"),
    Place("files", "Files", "folder", "file_list", "Memory"),
    Place("calls", "Call log", "list", "calls_list", "Service"),
    Place("jobs", "Jobs", "queue", "tenant_jobs", "Service"),
    Place("playground", "Playground", "play", None, "Service"),
    Place("settings", "Settings", "sliders", None, "Service"),
    Place("keys", "Keys and usage", "key", "keys_list", "Service"),
)
