"""Navigation of the console, and the tool that each entry needs."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PageLink:
    """An entry of the navigation, for everybody or for callers that may use the `tool`.

    `icon` names a drawing in parts/icons.html; groups are sorted by name, entries without one
    first.
    """

    path: str
    title: str
    icon: str
    tool: str | None
    group: str


PAGE_LINKS: Final = (
    PageLink("", "Overview", "gauge", None, ""),
    PageLink("sessions", "Sessions", "chat", "memory_list_sessions", "Memory"),
    PageLink("facts", "Facts", "spark", "memory_list_facts", "Memory"),
    PageLink("memories", "Memories", "timeline", "memories_list", "Memory"),
    PageLink("knowledge", "Knowledge", "graph", "elfmem_ls", "Memory"),
    PageLink("boards", "Boards", "board", "whiteboard_list", "Memory"),
    PageLink("notebook", "Notebook", "book", "get_document_tree", "Memory"),
    PageLink("files", "Files", "folder", "file_list", "Memory"),
    PageLink("calls", "Call log", "list", "calls_list", "Service"),
    PageLink("jobs", "Jobs", "queue", "tenant_jobs", "Service"),
    PageLink("playground", "Playground", "play", None, "Service"),
    PageLink("settings", "Settings", "sliders", None, "Service"),
    PageLink("keys", "Keys and usage", "key", "keys_list", "Service"),
)
