"""What the console is shown: one tenant with some of everything, much of it hostile, made by the
tools."""

from typing import Any

import httpx2
import orjson

PWN = "window.__pwned=1"
HOSTILE = f"<img src=x onerror={PWN}><script>{PWN}</script>'\"--></td>"
"""A name of a session, a user, a conversation: it is to appear as these characters, and do
nothing."""
RTL = "مرحبا بالعالم \u202egnitset\u202c"
LONG = "Donaudampfschiff" * 60
MARKUP = (
    f"<script>{PWN}</script><svg onload={PWN}><a href='javascript:{PWN}'>click</a>"
    f"{{{{7*7}}}} ${{{PWN}}} ]]> &lt;b&gt; {LONG}\n{RTL}\n\tand a last line"
)
USER = "usər-Ünïcødé-用户-👩\u200d🔬"
TURNS = 300
CROWDED, CROWD = "/crowded", 10_000
LONG_PATH = "/" + "deep/" * 20 + "a-name-of-a-file-that-goes-on-and-on-" * 6 + ".md"


class Caller:
    """Tools over plain HTTP, as a program calls them that is not a browser."""

    def __init__(self, url: str, key: str) -> None:
        self.key = key
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60
        )

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self._http.post(f"/api/tools/{tool}", json={"project": "default"} | arguments)
        body: dict[str, Any] = answer.json()
        assert answer.is_success, body
        return body

    def close(self) -> None:
        self._http.close()


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


def fill(call: Caller) -> None:
    """Some of everything, in the project `default`."""
    _turns(call)
    _files(call)
    _notebook(call)
    _boards(call)
    _memories(call)
    _knowledge(call)


def _turns(call: Caller) -> None:
    call(
        "memory_after_turn",
        session_id=HOSTILE,
        user_id=USER,
        turn_id="t1",
        input_items=[message(f"My name is Ada. I live in Kobe. {MARKUP}")],
        output_items=[
            {
                "type": "function_call",
                "name": HOSTILE,
                "call_id": "c1",
                "arguments": f"[{LONG!r}]",
            },
            {"type": "function_call_output", "call_id": "c1", "output": MARKUP},
            message(f"Noted. {MARKUP}", "assistant"),
        ],
    )
    call(
        "memory_after_turn",
        session_id=HOSTILE,
        user_id=USER,
        turn_id="t2",
        input_items=[message(f"I live in Oslo now. I like {HOSTILE}.")],
        output_items=[message("Noted.", "assistant")],
    )
    call(
        "memory_before_turn",
        session_id=HOSTILE,
        user_id=USER,
        turn_id="t3",
        current_input="Where do I live, and what is my name?",
    )
    long = [
        {
            "id": f"t{number}-{role}",
            "ts": f"2026-01-02T{9 + number // 60:02}:{number % 60:02}:00Z",
            "type": f"{way}_item",
            "turn_id": f"t{number}",
            "item": message(f"Number {number} of {TURNS}, about the weather in Bergen.", role),
        }
        for number in range(TURNS)
        for role, way in (("user", "input"), ("assistant", "output"))
    ]
    lines = b"".join(orjson.dumps(line) + b"\n" for line in long).decode()
    call("memory_import_session", session_id="long", files={"log.jsonl": lines})


def _files(call: Caller) -> None:
    for path, content in (
        ("/notes/hostile.html", f"<h1>{MARKUP}</h1>\n" * 20),
        ("/notes/versions.md", "one\ntwo\nthree\n"),
        ("/notes/versions.md", "one\ntwo and a half\nthree\n"),
        ("/notes/forget.md", "to be deleted"),
        ("/notes/empty.md", ""),
        (LONG_PATH, LONG),
        (f"{CROWDED}/00000.md", "one of very many"),
    ):
        call("file_write", path=path, content=content, mode="TRUNCATE")


def _notebook(call: Caller) -> None:
    call("update_document", id="root", content="# Everything\n- [[plans]]\n- [[hostile]]\n")
    call("update_document", id="plans", content="# Plans\nFirst.\n- [[later]]\n")
    call("update_document", id="plans", content="# Plans\nSecond.\n- [[later]]\n")
    call("update_document", id="hostile", content=f"# Hostile\n{MARKUP}\n")


def _boards(call: Caller) -> None:
    for said in ("We decided to sail to Bergen.", f"We decided to sail to Oslo. {MARKUP}"):
        call(
            "context_update",
            user_id=USER,
            conversation_id=HOSTILE,
            entries=[message(said), message("Which port do you have in mind?", "assistant")],
        )


def _memories(call: Caller) -> None:
    call("memories_add", user_id=USER, messages=[message("My name is Ada. I like chess.")])
    held = next(
        one for one in call("memories_list", user_id=USER)["results"] if "Ada" in one["memory"]
    )
    call(
        "memories_update",
        user_id=USER,
        memory_id=held["id"],
        memory=f"Likes {HOSTILE} {LONG[:800]}",
    )


def _knowledge(call: Caller) -> None:
    blocks = [
        call("elfmem_remember", content=text, tags=["self/values"], category="knowledge")[
            "block_id"
        ]
        for text in (
            f"Keep {MARKUP}",
            "Ships to Oslo leave at noon.",
            "Ships to Bergen leave at night.",
        )
    ]
    gone = call("elfmem_remember", content="Ships are slow.")["block_id"]
    call("elfmem_forget", block_id=gone)
    call("elfmem_dream", no_llm=True)
    call(
        "elfmem_connect",
        source=blocks[1],
        target=blocks[2],
        relation="supports",
        if_exists="update",
    )
