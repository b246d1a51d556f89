"""The whole catalogue with an example of each tool, so that what holds for every tool is tested for
each."""

from hashlib import sha256
from typing import Any

from memsvc.core.facts import record_id
from memsvc.core.tools import Tool
from tests.door import Door, catalogue
from tests.fakes import FakeClock, RecordingMeter


class _Words:
    """Counts words: what tools look like does not hang on tokens."""

    def count(self, text: str) -> int:
        return len(text.split())


# Nothing of a tool but its function touches the database that it was built with.
TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in catalogue(None, FakeClock(), _Words(), RecordingMeter()).tools
}

MARK = "zanzibar"
"""A word of the examples, by which whatever comes from them is known again."""


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


CLOVES, BEACHES = f"The coast of {MARK} is known for cloves.", f"The beaches of {MARK} are white."
"""What is remembered; the id of a block follows from its text."""


def block_id(content: str) -> str:
    return sha256(content.lower().encode()).hexdigest()[:16]


NO_KEY = "00000000-0000-4000-8000-000000000000"
"""The id of a key that is not there; `as_sent` puts one that is in its place."""

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
    "memory_run_turn": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "turn_id": f"{MARK}-t3",
        "user_id": f"{MARK}-u",
        "current_input": f"What is there to see in {MARK}?",
    },
    "memory_commit_turn": {
        "project": "default",
        "operation_token": "",  # `as_sent` fills it in
        "output_items": [message(f"The coast of {MARK}.", "assistant")],
    },
    "memory_profile": {"project": "default", "user_id": f"{MARK}-u"},
    "memory_list_facts": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "user_id": f"{MARK}-u",
        "state": "all",
    },
    "memory_list_sessions": {"project": "default", "q": MARK, "user_id": f"{MARK}-u"},
    "memory_list_turns": {"project": "default", "session_id": f"{MARK}-s"},
    "memory_list_recalls": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "turn_id": f"{MARK}-t2",
    },
    "memory_run_maintenance": {"project": "default", "session_id": f"{MARK}-s"},
    "memory_list_dir_with_abstract": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "path": "/memory",
    },
    "memory_import_session": {
        "project": "default",
        "session_id": f"{MARK}-i",
        "files": {
            "log.jsonl": '{"id":"t-in-0","ts":"2026-01-02T09:00:00Z","type":"input_item","turn_id":"t","item":'
            f'{{"type":"message","role":"user","content":"about {MARK}"}}}}\n',
            "memory_facts.jsonl": '{"id":"t-fact-name","ts":"2026-01-02T09:00:00Z","type":"fact_upsert",'
            f'"fact_id":"user_name","key":"name","value":"{MARK}","tier":"L0","source_turn_id":"t"}}\n',
            "meta.json": '{"processed_turn":["t","t-older"]}',
        },
    },
    "memory_shadow_compare": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "turn_id": f"{MARK}-t4",
        "user_id": f"{MARK}-u",
        "current_input": f"What is my name, and what of {MARK}?",
        "own_input_items": [message(f"My name is {MARK}.")],
        "own_facts": [{"id": "user_name", "value": MARK}],
        "own_files": [{"path": f"events/raw/{MARK}.jsonl", "lines": 1}],
    },
    "memory_shadow_report": {"project": "default"},
    "file_write": {
        "project": "default",
        "path": f"/{MARK}/f.txt",
        "content": f"about {MARK}",
        "mode": "TRUNCATE",
    },
    "file_read": {"project": "default", "path": f"/{MARK}/f.txt"},
    "file_stat": {"project": "default", "path": f"/{MARK}/f.txt"},
    "file_list": {"project": "default", "path": "", "depth": 9},
    "file_search": {"project": "default", "query": f"what about {MARK}"},
    "file_projects": {"q": "def"},
    "file_list_versions": {"project": "default", "path": f"/{MARK}/f.txt"},
    "file_read_version": {
        "project": "default",
        "path": f"/{MARK}/f.txt",
        "history_id": f"{1:032x}:1",
    },
    "file_restore_version": {
        "project": "default",
        "path": f"/{MARK}/f.txt",
        "history_id": f"{1:032x}:1",
    },
    "memory": {
        "project": "default",
        "command": "create",
        "path": f"/memories/{MARK}.md",
        "file_text": f"about {MARK}",
    },
    "memory_correct_fact": {
        "project": "default",
        "session_id": f"{MARK}-i",  # what memory_import_session brings
        "record_id": record_id(f"{MARK}-i", "t-fact-name"),
        "value": f"Eve {MARK}",
    },
    "memory_feedback": {
        "project": "default",
        "session_id": f"{MARK}-i",
        "record_id": record_id(f"{MARK}-i", "t-fact-name"),
        "verdict": "wrong",
    },
    "memory_forget": {
        "project": "default",
        "session_id": f"{MARK}-s",
        "user_id": f"{MARK}-u",
        "fact_ids": ["user_name"],
        "turn_ids": [f"{MARK}-t"],
        "query": f"who likes {MARK}",
        "dry_run": False,
    },
    "update_document": {
        "project": "default",
        "id": "root",
        "content": f"# About {MARK}\n- [[{MARK}]]\n- [[{MARK}-2]]\n",
    },
    "edit_document": {
        "project": "default",
        "id": MARK,
        "old_text": f"# {MARK}",
        "new_text": f"# The island {MARK}\n## East of {MARK}\nA coast.\n## West of"
        f" {MARK}\nAnother one.\n",
    },
    "move_document": {"project": "default", "id": f"{MARK}-2", "parent": MARK},
    "split_document": {"project": "default", "id": MARK, "apply": True},
    "read_document": {"project": "default", "id": MARK},
    "get_document_tree": {"project": "default"},
    "search_documents": {"project": "default", "query": f"the coast of {MARK}"},
    "document_history": {"project": "default", "id": MARK},
    "restore_document": {"project": "default", "id": MARK, "version": f"{10**6 + 3:032x}:1"},
    "elfmem_remember": {
        "project": "default",
        "content": CLOVES,
        "tags": [MARK],
        "cue": f"what {MARK} is known for",
        "category": "knowledge",
    },
    "elfmem_recall": {
        "project": "default",
        "query": f"what is {MARK} known for",
        "frame": "attention",
    },
    "elfmem_ls": {"project": "default", "tag": f"{MARK}%", "category": "knowledge", "limit": 10},
    "elfmem_inbox": {"project": "default", "max_count": 10},
    "elfmem_dream": {"project": "default", "no_llm": True},
    "elfmem_outcome": {
        "project": "default",
        "block_ids": [block_id(CLOVES)],
        "signal": 0.9,
        "source": MARK,
    },
    "elfmem_edit": {"project": "default", "block_id": block_id(CLOVES), "cue": f"spices of {MARK}"},
    "elfmem_connect": {
        "project": "default",
        "source": block_id(CLOVES),
        "target": block_id(BEACHES),  # `as_sent` remembers it
        "relation": "supports",
        "note": f"both about {MARK}",
        "if_exists": "update",
    },
    "elfmem_disconnect": {
        "project": "default",
        "source": block_id(CLOVES),
        "target": block_id(BEACHES),
        "guard_relation": "supports",
        "reason": f"not about {MARK}",
    },
    "elfmem_curate": {"project": "default"},
    "elfmem_status": {"project": "default"},
    "elfmem_show": {"project": "default", "block_id": block_id(CLOVES)},
    "elfmem_guide": {"project": "default", "method": "remember"},
    "elfmem_forget": {"project": "default", "block_id": block_id(CLOVES)},
    "context_update": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "conversation_id": f"{MARK}-c",
        "entries": [
            {
                "role": "user",
                "content": f"We decided to sail to {MARK}.",
                "timestamp": 1767614400.0,
                "type": "message",
            },
            {"role": "assistant", "content": f"Which port of {MARK} do you have in mind?"},
        ],
    },
    "whiteboard_get": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "conversation_id": f"{MARK}-c",
    },
    "whiteboard_history": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "conversation_id": f"{MARK}-c",
    },
    "whiteboard_list": {"project": "default"},
    "whiteboard_restore": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "conversation_id": f"{MARK}-c",
        "version": f"{3:032x}:1",
    },
    "whiteboard_delete": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "conversation_id": f"{MARK}-c",
    },
    "memories_add": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "messages": [
            {"role": "user", "content": f"My name is {MARK}. I like the {MARK} coast."},
            {"role": "assistant", "content": f"Tell me about {MARK}."},
        ],
        "metadata": {"session_id": f"{MARK}-s", "source": MARK},
    },
    "memories_search": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "query": f"what about {MARK}",
        "limit": 5,
    },
    "memories_list": {"project": "default", "user_id": f"{MARK}-u", "limit": 10},
    "memories_get": {"project": "default", "user_id": f"{MARK}-u", "memory_id": "mem_1"},
    "memories_update": {
        "project": "default",
        "user_id": f"{MARK}-u",
        "memory_id": "mem_1",  # `as_sent` fills in one that is there
        "memory": f"Is from {MARK}",
        "metadata": {"source": MARK},
    },
    "memories_history": {"project": "default", "user_id": f"{MARK}-u", "memory_id": "mem_1"},
    "memories_put_settings": {
        "project": "default",
        "memoryEnabled": True,
        "decayDays": 30,
        "searchLimit": 7,
    },
    "memories_get_settings": {"project": "default"},
    "memories_put_prompt": {
        "project": "default",
        "prompt": f"What of {MARK} is in {{conversation}}?",
    },
    "memories_get_prompt": {"project": "default"},
    "memories_reset_prompt": {"project": "default"},
    "memories_delete": {"project": "default", "user_id": f"{MARK}-u", "memory_id": "mem_1"},
    "memories_delete_all": {"project": "default", "user_id": f"{MARK}-u"},
    "mcp_pipe": {
        "vars": {"question": f"what tells me about {MARK}"},
        "steps": [
            {"id": "ask", "tool": "find_tool", "args": {"query": "${vars.question}"}},
            {
                "id": "both",
                "parallel": [{"id": "list", "tool": "file_projects", "args": {"q": "def"}}],
            },
        ],
        "return": {"$ref": "last.children.list.structured"},
    },
    "keys_list": {},
    "keys_create": {
        "label": MARK,
        "permissions": ["read"],
        "projects": ["default"],
        "hidden_tools": ["file_write"],
    },
    "keys_update": {"key_id": NO_KEY, "label": f"{MARK}-2", "hidden_tools": ["file_write"]},
    "keys_rotate": {"key_id": NO_KEY, "overlap_hours": 1},
    "keys_revoke": {"key_id": NO_KEY},
    "calls_list": {
        "tool": "file_read",
        "status": "error",
        "code": MARK,
        "surface": MARK,
        "key_label": MARK,
    },
    "calls_summary": {"project": "*", "hours": 24},
    "tenant_jobs": {"project": "*", "state": "waiting", "limit": 10},
    "tenant_limits": {"project": "*"},
    "tenant_settle_job": {"project": "*", "id": 2**53, "action": "retry"},
    "search": {"query": f"what of {MARK}"},
    "fetch": {"id": f"file:/{MARK}/f.txt"},
    "find_tool": {"query": f"what reads the files of {MARK}"},
    "file_rename": {
        "project": "default",
        "from_path": f"/{MARK}/f.txt",
        "to_path": f"/{MARK}/g.txt",
    },
    "file_delete": {"project": "default", "path": f"/{MARK}", "recursive": True},
    "archive_export": {"project": "*", "gzip": True, "calls": True},
    "archive_import": {"project": "*", "check": True},
    "tenant_audit": {"project": "*", "limit": 5, "show": True},
    "tenant_usage": {"project": "*"},
    "tenant_purge": {
        "project": "default",
        "level": "session",
        "name": f"{MARK}-s",
        "confirm": f"{MARK}-s",
    },
}
"""In an order in which each finds what the ones before it made; the first file of a test has the
incarnation 1, the board 3, the fourth document that is written 10**6 + 3. The first memory of a
test is mem_1."""


async def as_sent(door: Door, tool: str) -> dict[str, Any]:
    """The example of a tool with what it takes from the answer of another one."""
    example = EXAMPLES[tool]
    if "operation_token" in example:
        begun = await door("memory_run_turn", **EXAMPLES["memory_run_turn"])
        return example | {"operation_token": begun["operation_token"]}
    if tool == "memories_update":
        mine = await door("memories_list", project=example["project"], user_id=example["user_id"])
        return example | {"memory_id": mine["results"][-1]["id"]}
    if example.get("key_id") == NO_KEY:
        return example | {"key_id": (await door("keys_create"))["key"]["key_id"]}
    if tool == "elfmem_connect":
        await door("elfmem_remember", project="default", content=BEACHES)
    return example
