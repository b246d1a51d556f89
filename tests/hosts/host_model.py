"""A model for command lines of coding agents, on the loopback: streamed messages of Anthropic and
streamed responses of OpenAI."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.endpoints import Call, Fault, Provider

Event = dict[str, Any]


class HostModel(Provider):
    """Answers what it `says` to every request; `asked` happens before that."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Callable[[], None] = lambda: None

    def _answer(self, call: Call, fault: Fault) -> bytes:
        events = {"/messages": _messages_events, "/responses": _responses_events}
        path = call.path.partition("?")[0]
        written = next((write for end, write in events.items() if path.endswith(end)), None)
        if written is None:  # whether it is there, how many tokens something has, which models
            return b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.asked()
        head = "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        lines = (
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in written(self.says)
        )
        return f"{head}{''.join(lines)}".encode()


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
