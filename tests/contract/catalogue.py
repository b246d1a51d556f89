"""The whole catalogue with an example of each tool, so that what holds for every tool is tested for each."""

from typing import Any

from memsvc.core.tools import Tool
from tests.door import catalogue
from tests.fakes import FakeClock, RecordingMeter


class _Words:
    """Counts words: what tools look like does not hang on tokens."""

    def count(self, text: str) -> int:
        return len(text.split())


# Nothing of a tool but its function touches the database that it was built with.
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in catalogue(None, FakeClock(), _Words(), RecordingMeter()).tools  # type: ignore[arg-type]
}

MARK = "zanzibar"
"""A word of the examples, by which whatever comes from them is known again."""


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


EXAMPLES: dict[str, dict[str, Any]] = {
    "memory_after_turn": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "turn_id": f"{MARK}-t",
        "user_id": f"{MARK}-u",
        "input_items": [message(f"My name is {MARK}. I like the {MARK} coast.")],
        "output_items": [message(f"Tell me about {MARK}.", "assistant")],
    },
    "memory_before_turn": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "turn_id": f"{MARK}-t2",
        "user_id": f"{MARK}-u",
        "current_input": f"Who am I, and what of {MARK}?",
        "explain": True,
    },
    "memory_run_maintenance": {"project": "default", "session_id": f"{MARK}-s"},
    "memory_list_dir_with_abstract": {"project": "default", "session_id": f"{MARK}-s", "path": "/memory"},
    "file_write": {"project": "default", "path": f"/{MARK}/f.txt", "content": f"about {MARK}", "mode": "TRUNCATE"},
    "file_read": {"project": "default", "path": f"/{MARK}/f.txt"},
    "file_stat": {"project": "default", "path": f"/{MARK}/f.txt"},
    "file_list": {"project": "default", "path": "", "depth": 9},
    "file_search": {"project": "default", "query": f"what about {MARK}"},
    "file_projects": {"q": "def"},
    "file_list_versions": {"project": "default", "path": f"/{MARK}/f.txt"},
    "file_read_version": {"project": "default", "path": f"/{MARK}/f.txt", "history_id": f"{1:032x}:1"},
    "file_restore_version": {"project": "default", "path": f"/{MARK}/f.txt", "history_id": f"{1:032x}:1"},
    "memory": {
        "project": "default",
        "command": "create",
        "path": f"/memories/{MARK}.md",
        "file_text": f"about {MARK}",
    },
    "file_rename": {"project": "default", "from_path": f"/{MARK}/f.txt", "to_path": f"/{MARK}/g.txt"},
    "file_delete": {"project": "default", "path": f"/{MARK}", "recursive": True},
}
"""In an order in which each finds what the ones before it made; the first file of a test has the incarnation 1."""
