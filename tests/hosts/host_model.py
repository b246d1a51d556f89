"""A model for command lines of coding agents, on the loopback: streamed messages of Anthropic and
streamed responses of OpenAI."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from tests.endpoints import Call, Fault, Provider

Event = dict[str, Any]
Arguments = Callable[[str], dict[str, Any]]
"""Makes the arguments of a tool of the result of the tool before, "" for the first."""


class HostModel(Provider):
    """Answers what it `says` to every request; `asked` happens before that.

    First it calls the tools of `script`, one a request, where they are offered; `results` are what
    they returned."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Callable[[], None] = lambda: None
        self.script: list[tuple[str, Arguments]] = []
        self.results: list[str] = []

    def _answer(self, call: Call, fault: Fault) -> bytes:
        events = {"/messages": _messages_events, "/responses": _responses_events}
        path = call.path.partition("?")[0]
        written = next((write for end, write in events.items() if path.endswith(end)), None)
        if written is None:  # whether it is there, how many tokens something has, which models
            return b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.asked()
        if path.endswith("/messages") and (events_of_call := self._next_call(call.body)):
            written = lambda _: events_of_call  # noqa: E731 - as those that only say something
        head = "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        lines = (
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in written(self.says)
        )
        return f"{head}{''.join(lines)}".encode()

    def _next_call(self, body: dict[str, Any]) -> list[Event]:
        """The events of the next call of the script; none where it is over or not offered."""
        offered = {tool["name"] for tool in body.get("tools", ())}
        if not offered:  # a title, or a summary
            return []
        result = _tool_result(body["messages"])
        self.results += [result] if result else []
        if not self.script:
            return []
        name, arguments = self.script.pop(0)
        assert name in offered, (name, offered)
        return [*_tool_events(name, arguments(result))]


def _tool_result(messages: list[dict[str, Any]]) -> str:
    """The text of the tool's result that a request ends with, "" where it has none."""
    found = ""
    for message in reversed(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        if message["role"] == "assistant":
            return found
        for part in content:
            if part.get("type") == "tool_result":
                texts = part["content"]
                found = (
                    texts
                    if isinstance(texts, str)
                    else "".join(each.get("text", "") for each in texts)
                )
    return found


def _tool_events(name: str, arguments: dict[str, Any]) -> Iterator[Event]:
    usage = {"input_tokens": 70, "output_tokens": 7}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "fake", "content": []}
    ends = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": message | ends | {"usage": usage}}
    block = {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": name, "input": {}}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": ends | {"stop_reason": "tool_use"}, "usage": usage}
    yield {"type": "message_stop"}


def _messages_events(text: str) -> Iterator[Event]:
    usage = {"input_tokens": 70, "output_tokens": 7}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "fake", "content": []}
    ends = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": message | ends | {"usage": usage}}
    yield {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "text", "text": ""},
    }
    delta = {"type": "text_delta", "text": text}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": ends | {"stop_reason": "end_turn"}, "usage": usage}
    yield {"type": "message_stop"}


def _responses_events(text: str) -> Iterator[Event]:
    said = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    item |= {"content": [said]}
    response = {"id": "r1", "object": "response", "created_at": 1767614400, "output": []}
    usage = {"input_tokens": 70, "output_tokens": 7, "total_tokens": 77}
    yield {"type": "response.created", "response": response | {"status": "in_progress"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = {"status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": response | done}
