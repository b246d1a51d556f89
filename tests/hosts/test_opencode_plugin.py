"""The plugin for opencode, driven by the payloads that opencode gives."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memsvc.hosts import host_configs

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")
DRIVE = """
const { Memsvc } = await import(process.argv[2])
const toasts = []
const client = { tui: { showToast: async ({ body }) => toasts.push(body.message) } }
const plugin = await Memsvc({ client })
const results = []
for (const [name, input, output] of JSON.parse(process.argv[3])) {
  await plugin[name](input, output)
  results.push(output ?? null)
}
console.log(JSON.stringify([results, toasts]))
"""


def driven(folder: Path, *calls: list[Any], notice: str = "") -> tuple[list[Any], list[list[Any]]]:
    """What the plugin made of each call's output, and the hooks that it ran, with their payloads;
    each of them tells its event as context, and a notice, which has to be shown as it is."""
    command = folder / "memsvc"
    command.write_text(
        f'#!/bin/sh\nprintf "%s %s\\n" "$*" "$(cat)" >>{folder}/ran\necho {{\\"context\\": \\"$2\\",'
        f' \\"notice\\": \\"{notice}\\"}}\n'
    )
    command.chmod(0o755)
    plugin = host_configs.PLUGIN.read_text().replace("MEMSVC_COMMAND", str(command))
    (folder / "memsvc.mjs").write_text(plugin)
    (folder / "drive.mjs").write_text(DRIVE)
    arguments = [str(NODE), "drive.mjs", str(folder / "memsvc.mjs"), json.dumps(calls)]
    done = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    lines = (folder / "ran").read_text().splitlines() if (folder / "ran").exists() else []
    ran = [line.removeprefix("hook ").split(" --host opencode ") for line in lines]
    results, toasts = json.loads(done.stdout)
    assert toasts == [notice] * len(ran if notice else [])
    return results, [[event, json.loads(payload)] for event, payload in ran]


def message(number: int, text: str, session: str = "s1") -> list[Any]:
    parts = [{"type": "text", "text": text}, {"type": "text", "text": "made up", "synthetic": True}]
    return [
        "chat.message",
        {"sessionID": session},
        {"message": {"id": f"msg_{number}"}, "parts": parts},
    ]


def event(kind: str, **properties: Any) -> list[Any]:
    return ["event", {"event": {"type": kind, "properties": properties}}]


def part(number: int, text: str) -> list[Any]:
    about = {"id": f"prt_{number}", "sessionID": "s1", "messageID": f"msg_{number}"}
    return event("message.part.updated", part=about | {"type": "text", "text": text})


def test_a_turn_is_recalled_for_and_stored_with_the_answer_as_it_came_to_be(tmp_path: Path) -> None:
    outputs, ran = driven(
        tmp_path,
        message(1, "hello"),
        part(1, "hello"),
        part(2, "Hi"),
        part(2, "Hi there."),
        part(3, "More."),
        event("session.idle", sessionID="s1"),
        event("session.idle", sessionID="s1"),
        message(4, "again"),
    )
    about = {"cwd": str(tmp_path), "session_id": "s1"}
    assert ran == [
        ["session-start", about],
        ["prompt", about | {"turn_id": "msg_1", "prompt": "hello"}],
        ["stop", about | {"turn_id": "msg_1", "answer": "Hi there.\nMore."}],
        ["prompt", about | {"turn_id": "msg_4", "prompt": "again"}],
    ]
    added = [part for part in outputs[0]["parts"] if part.get("messageID") == "msg_1"]
    assert [(part["text"], part["synthetic"], part["sessionID"]) for part in added] == [
        ("session-start", True, "s1"),
        ("prompt", True, "s1"),
    ]
    assert len({part["id"] for part in added}) == 2
    assert all(part["id"].startswith("prt") for part in added)


def test_sessions_of_subagents_are_left_alone(tmp_path: Path) -> None:
    child = event("session.created", info={"id": "s2", "parentID": "s1"})
    _, ran = driven(tmp_path, child, message(1, "look it up", "s2"))
    assert ran == []


def test_a_notice_of_a_hook_is_shown_to_the_person(tmp_path: Path) -> None:
    _, ran = driven(tmp_path, message(1, "hello"), notice="memsvc is away")
    assert [event for event, _ in ran] == ["session-start", "prompt"]
