"""A model provider on the loopback: OpenAI's embeddings, responses and chat completions,
Anthropic's messages and Cohere's rerank, with every fault that tests ask for."""

import asyncio
import json
import math
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from memsvc.core.analysis import terms

DIMENSIONS = 64
Fault = Literal[
    "fine", "hang up", "slow", "busy", "busy for 0 s", "busy for an hour", "broken", "refuses the key", "refuses",
    "wrong count", "wrong dimension", "other dimension", "NaN", "infinite", "zero", "index twice", "no index",
    "index is text", "shuffled", "text for numbers", "garbage", "a list", "truncated", "half", "nothing",
    "says why not", "huge", "compressed", "redirect", "refuses the text", "another object",
]  # fmt: skip
STATUSES = {
    "busy": 429,
    "busy for 0 s": 429,
    "busy for an hour": 429,
    "broken": 503,
    "refuses the key": 401,
    "refuses": 400,
    "refuses the text": 400,
    "redirect": 302,
}
HEADERS = {
    "busy for 0 s": "Retry-After: 0\r\n",
    "busy for an hour": "Retry-After: 3600\r\n",
    "redirect": "Location: /elsewhere\r\n",
    "compressed": "Content-Encoding: gzip\r\n",
}
VECTORS: dict[Fault, Callable[[list[Any]], list[Any]]] = {
    "wrong dimension": lambda vector: vector[:-1],
    "NaN": lambda vector: [math.nan, *vector[1:]],
    "infinite": lambda vector: [math.inf, *vector[1:]],
    "zero": lambda vector: [0.0] * len(vector),
    "text for numbers": lambda vector: ["0.5", *vector[1:]],
}
LISTS: dict[Fault, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "wrong count": lambda data: data[:-1],
    "index twice": lambda data: [*data[:-1], data[-1] | {"index": 0 if len(data) > 1 else 1}],
    "no index": lambda data: [{"embedding": one["embedding"]} for one in data],
    "index is text": lambda data: [*data[:-1], data[-1] | {"index": ["0"]}],
    "shuffled": lambda data: data[::-1],
}


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A bag of stemmed words, each hashed to a place, so that texts with words in common are
    alike."""
    vector = [0.01] * dimensions
    for term in terms(text):
        vector[zlib.crc32(term.encode()) % dimensions] += 1.0
    length = math.sqrt(sum(number * number for number in vector))
    return [number / length for number in vector]


def overlap(question: str, text: str) -> float:
    """The share of a question's words that a text has."""
    asked = set(terms(question))
    return len(asked & set(terms(text))) / max(1, len(asked))


def _response(says: str, finds: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    text = {"type": "output_text", "text": says, "annotations": []}
    message = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    calls = [
        {
            "type": "function_call",
            "id": "f1",
            "call_id": "c1",
            "name": name,
            "arguments": json.dumps(finds),
        }
        for name in tools
    ]
    return {
        "id": "r1", "object": "response", "created_at": 1767614400, "status": "completed", "tools": [],
        "parallel_tool_calls": False, "tool_choice": "auto", "output": calls or [message],
        "usage": {
            "input_tokens": 70, "output_tokens": 7, "total_tokens": 77,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
        },
    }  # fmt: skip


def _completion(says: str, finds: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if tools else says}
    if tools:
        calls = [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(finds)},
            }
            for name in tools
        ]
        message["tool_calls"] = calls
    return {
        "id": "r1", "object": "chat.completion", "created": 1767614400,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if tools else "stop"}],
        "usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77},
    }  # fmt: skip


def _message(says: str, finds: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": "c1", "name": name, "input": finds} for name in tools]
    return {
        "id": "r1", "type": "message", "role": "assistant", "content": calls or [{"type": "text", "text": says}],
        "stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 70, "output_tokens": 7},
    }  # fmt: skip


WRITTEN = {"/responses": _response, "/chat/completions": _completion, "/messages": _message}


def _names(tools: list[dict[str, Any]] | None) -> list[str]:
    """What a call's tools are called, however its API writes them; one is asked for at the most."""
    return [tool.get("name") or tool["function"]["name"] for tool in tools or ()][:1]


@dataclass
class Call:
    """What came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Provider:
    """The server: `plan` says what it does with the next calls, `always` with those after."""

    url: str = ""
    dimensions: int = DIMENSIONS
    says: str = "It is about trains."
    finds: dict[str, Any] = field(default_factory=dict)
    always: Fault = "fine"
    plan: deque[Fault] = field(default_factory=deque)
    calls: list[Call] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def keys(self) -> list[str | None]:
        """The Authorization header of every call."""
        return [call.headers.get("authorization") for call in self.calls]

    @property
    def texts(self) -> list[str]:
        """Every text that vectors were asked for, in order."""
        return [text for call in self.calls for text in call.body.get("input", [])]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one call."""
        try:
            call = await _read(reader)
            self.calls.append(call)
            self.called.set()
            fault = self.plan.popleft() if self.plan else self.always
            if fault == "slow":
                await self.released.wait()
            elif fault == "hang up":
                writer.transport.abort()
            else:
                writer.write(self._answer(call, fault))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, call: Call, fault: Fault) -> bytes:
        if call.path.endswith(tuple(WRITTEN)):
            answer = self._written(call, fault)
        else:
            answer = (
                self._reranked(call, fault)
                if "documents" in call.body
                else self._embedded(call, fault)
            )
        # Python writes NaN and Infinity as bare words, as careless servers do
        content = json.dumps(answer).encode()
        match fault:
            case "garbage":
                content = b"<html>the secret text came back</html>"
            case "a list":
                content = b"[1, 2, 3]"
            case "another object":
                content = b'{"foo": 1}'
            case "huge":
                content = b'{"data": [' + b" " * 2**24 + b"]}"
            case "half":
                content = content[: len(content) // 2]
            case _:
                pass
        length = len(content) + (100 if fault == "truncated" else 0)
        head = f"HTTP/1.1 {STATUSES.get(fault, 200)} X\r\nContent-Length: {length}\r\n"
        head += "Content-Type: application/json\r\nConnection: close\r\n"
        return f"{head}{HEADERS.get(fault, '')}\r\n".encode() + content

    def _written(self, call: Call, fault: Fault) -> dict[str, Any]:
        if fault in STATUSES:
            code = "content_filter" if fault == "refuses the text" else "error"
            return {
                "error": {"message": "the secret text came back", "type": "error", "code": code}
            }
        says = {"nothing": " ", "says why not": "I cannot do that."}.get(fault, self.says)
        tools = call.body.get("tools") if fault != "says why not" else None
        written = next(write for path, write in WRITTEN.items() if call.path.endswith(path))
        return {"model": call.body["model"]} | written(says, self.finds, _names(tools))

    def _embedded(self, call: Call, fault: Fault) -> dict[str, Any]:
        texts: Sequence[str] = call.body["input"]
        dimensions = call.body.get("dimensions", self.dimensions)
        data = [
            {"object": "embedding", "index": at, "embedding": vector_of(text, dimensions)}
            for at, text in enumerate(texts)
        ]
        if fault in VECTORS:
            data[-1]["embedding"] = VECTORS[fault](data[-1]["embedding"])
        if fault in LISTS:
            data = LISTS[fault](data)
        if fault == "other dimension":
            data = [
                {"index": at, "embedding": vector_of(text, dimensions + 1)}
                for at, text in enumerate(texts)
            ]
        return {
            "object": "list",
            "model": call.body["model"],
            "data": data,
            "usage": {"total_tokens": 1},
        }

    def _reranked(self, call: Call, fault: Fault) -> dict[str, Any]:
        results = [
            {"index": at, "relevance_score": overlap(call.body["query"], text)}
            for at, text in enumerate(call.body["documents"])
        ]
        match fault:
            case "wrong count":
                results.pop()
            case "NaN":
                results[0]["relevance_score"] = math.nan
            case "index twice":
                results[0]["index"] = results[-1]["index"]
            case "text for numbers":
                results[0]["relevance_score"] = "0.5"
            case _:
                pass
        return {
            "id": "1",
            "results": sorted(results, key=lambda one: -float(one["relevance_score"])),
        }


async def _read(reader: asyncio.StreamReader) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(head[0].split()[1], headers, json.loads(body or b"{}"))


@asynccontextmanager
async def provider(kind: type[Provider] = Provider) -> AsyncIterator[Provider]:
    """A provider that listens at `url` until the block ends."""
    made = kind()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        made.released.set()
        server.close()
        await server.wait_closed()
