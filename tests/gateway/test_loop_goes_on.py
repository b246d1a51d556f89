"""No request keeps the event loop, and so the calls of all other tenants, waiting for long:
whatever 4 MiB hold."""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter, process_time, thread_time
from typing import Any, Final

import asyncpg
import httpx2
import orjson
import pytest

from memsvc.process import SWITCH_S
from memsvc.worker import WorkerOptions
from tests.contract.catalogue import message
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.alone]
HELD_S_MAX: Final = 0.1
TRIES: Final = 3
TICK_S: Final = 0.002
QUOTED = ('"I like x" ' * 2000)[:15900]
PLAIN = ("the quick brown fox jumps over the lazy dog. " * 400)[:15900]
STATED = ('"ich heiße ich wohne in ich mag" ' * 1000)[:15900]
WHOLE = 3_900_000
SIZE = 4 * 1024 * 1024 - 200
ESCAPED = "\n" * (WHOLE // 2)
MIXED = "é中😀 " * (WHOLE // 10)
Case = Callable[[str], dict[str, Any]]


class Held:
    """How long the loop was held at most, from one turn of a task to its next: by what it computed
    itself, and by other threads of the process, which computed while it slept longer than it had
    to. What other processes take of the machine does not count."""

    def __init__(self) -> None:
        self.own_s = self.kept_s = 0.0

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        self.own_s = self.kept_s = 0.0
        task = asyncio.create_task(self._watch())
        await asyncio.sleep(0)  # in which it begins
        try:
            yield
            await asyncio.sleep(2 * TICK_S)
        finally:
            task.cancel()

    async def _watch(self) -> None:
        while True:
            at, all_threads, loop = perf_counter(), process_time(), thread_time()
            await asyncio.sleep(TICK_S)
            late_s = perf_counter() - at - TICK_S
            own_s = thread_time() - loop
            self.own_s = max(self.own_s, own_s)
            self.kept_s = max(self.kept_s, min(late_s, process_time() - all_threads) - own_s)


def turn(*texts: str, **more: Any) -> Case:
    items = [message(f"{number} {text}") for number, text in enumerate(texts)]
    return lambda name: (
        {"session_id": name, "turn_id": name, "user_id": "u", "input_items": items} | more
    )


def filed(line: str) -> str:
    return "".join(
        orjson.dumps({"id": f"t{n}-in-0", "ts": "2026-01-02T09:00:00Z", "type": "input_item", "turn_id": f"t{n}",
                      "item": message(line)}).decode() + "\n" for n in range(WHOLE // (len(line) + 200))
    )  # fmt: skip


def piped(name: str) -> dict[str, Any]:
    step = {
        "id": "a",
        "tool": "file_write",
        "args": {"project": "p", "path": f"/{name}", "content": "${vars.text}"},
    }
    read = {"id": "b", "tool": "file_read", "args": {"project": "p", "path": f"/{name}"}}
    return {"vars": {"text": (PLAIN + "\n") * 120}, "steps": [step, read]}


def entry(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def written(text: str) -> Case:
    return lambda name: {"project": "p", "path": f"/{name}.md", "content": text}


CASES: dict[str, tuple[str, Case]] = {
    "quoted statements in many items": ("memory_after_turn", turn(*[QUOTED] * 120)),
    "prose in many items": ("memory_after_turn", turn(*[PLAIN] * 240)),
    "statements in many items": ("memory_after_turn", turn(*[STATED] * 100)),
    "as many items as may be": ("memory_after_turn", turn(*[PLAIN[:1800]] * 2000)),
    "as many words as may be": (
        "memory_after_turn",
        turn(
            *(
                " ".join(f"w{word}" for word in range(at, at + 300))
                for at in range(100_000, 600_000, 300)
            )
        ),
    ),
    "prose in one item": ("memory_after_turn", turn(PLAIN * (WHOLE // len(PLAIN)))),
    "statements in one item": ("memory_after_turn", turn(QUOTED * (SIZE // (len(QUOTED) + 4002)))),
    "signs of all kinds in one item": ("memory_after_turn", turn(MIXED)),
    "a word that does not end": ("memory_after_turn", turn("a" * WHOLE)),
    "outputs": (
        "memory_after_turn",
        turn(
            "hello",
            output_items=[{"type": "function_call_output", "call_id": "c", "output": PLAIN}] * 240,
        ),
    ),
    "a whole conversation": (
        "memory_after_turn",
        lambda name: {
            "session_id": "s",
            "turn_id": name,
            "conversation_items": [message(PLAIN)] * 240,
        },
    ),
    "a long question": (
        "memory_before_turn",
        lambda _: {"session_id": "s", "current_input": PLAIN * 240},
    ),
    "a question in many items": (
        "memory_before_turn",
        lambda _: {
            "session_id": "s",
            "conversation_items": [message(PLAIN)] * 240,
            "max_input_tok": 2_000_000,
        },
    ),
    "prose in a file": ("file_write", written((PLAIN + "\n") * 125)),
    "one line in a file": ("file_write", written("a" * 2_000_000)),
    "line ends in a file": ("file_write", written("\n" * 1_900_000)),
    "signs of all kinds in a file": ("file_write", written(MIXED[:210_000])),
    "a file that is too long": ("file_write", written(PLAIN * 240)),
    "a document": (
        "update_document",
        lambda name: {"content": (f"# {name} " + PLAIN[:980] + "\n\n") * 990},
    ),
    "a document of links": (
        "update_document",
        lambda name: {"content": f"[[a {name}]]\n" * 90_000},
    ),
    "a whiteboard": (
        "context_update",
        lambda name: {
            "user_id": "u",
            "conversation_id": name,
            "entries": [entry(PLAIN[:790])] * 500,
        },
    ),
    "memories": (
        "memories_add",
        lambda _: {"user_id": "u", "messages": [entry(QUOTED[:490])] * 200},
    ),
    "one block": (
        "elfmem_remember",
        lambda name: {"content": f"{name} {PLAIN}", "cue": PLAIN[:999]},
    ),
    "a pipeline that writes and reads": ("mcp_pipe", piped),
    "turns that are read": ("memory_list_turns", lambda _: {"session_id": "s", "limit": 50}),
    "an import": (
        "memory_import_session",
        lambda name: {"session_id": name, "files": {"log.jsonl": filed(PLAIN)}},
    ),
    "an import of many lines": (
        "memory_import_session",
        lambda name: {"session_id": name, "files": {"log.jsonl": filed("I like x. ")}},
    ),
    "text in a wrong place": ("memory_list_facts", lambda _: {"session_id": ESCAPED}),
    "an unknown tool": ("nothing", lambda _: {"x": ESCAPED}),
}
BODIES: dict[str, bytes] = {
    "opened": b"[" * SIZE,
    "lists": b"[" + b"[]," * (SIZE // 3 - 2) + b"[]]",
    "objects": b"[" + b"{}," * (SIZE // 3 - 2) + b"{}]",
    "numbers": b"[" + b"1," * (SIZE // 2 - 2) + b"1]",
    "strings": b"[" + b'"",' * (SIZE // 3 - 2) + b'""]',
    "as many numbers as may be": b'{"query":[' + b"1," * 99_000 + b"1]}",
    "as many objects as may be": b'{"query":[' + b"{}," * 33_000 + b"1]}",
    "as many names as may be": b'{"query":{'
    + b",".join(b'"k%d":1' % number for number in range(99_000))
    + b"}}",
    "quotes": b'"' * SIZE,
    "escapes": b'"' + b'\\"' * (SIZE // 2 - 2) + b'"',
    "one number": b"1" * SIZE,
    "code points": b'{"query":"' + b"\\u4e2d" * (SIZE // 6 - 10) + b'"}',
    "the same name": b"{" + b'"query":1,' * (SIZE // 10 - 1) + b'"a":1}',
    "no end": b'{"query":"' + b"x" * (SIZE - 20),
}


WIRE: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


def called(body: bytes) -> bytes:
    head = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find_tool","arguments":'
    )
    return head + body + b"}}"


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Hand over the interpreter as quickly as a process that serves."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    yield
    sys.setswitchinterval(before)


@asynccontextmanager
async def serving(urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(urls, admin, worker=WorkerOptions(poll_s=0.05)) as service:
        yield service


async def until_idle(admin: asyncpg.Connection) -> None:
    """Until no job is left; those that were to wait for more turns are run at once."""

    async def idle() -> bool:
        await admin.execute("UPDATE memsvc_queue SET execute_after = now() WHERE status = 'queued'")
        return not await admin.fetchval(
            "SELECT count(*) FROM memsvc_queue WHERE status IN ('queued', 'picked')"
        )

    # the encoder reads thousands of texts, one after the other, while the loop is watched
    await until(idle, 240)


class Sender:
    """Sends what is watched; `over` is what held the loop too long in each of TRIES, and how long
    in each."""

    def __init__(self, http: httpx2.AsyncClient, admin: asyncpg.Connection) -> None:
        self.http, self._admin = http, admin
        self._held, self._names = Held(), (f"n{number}" for number in itertools.count())
        self.over: dict[str, list[tuple[float, float]]] = {}

    async def send(self, what: str, path: str, *bodies: Callable[[], bytes]) -> None:
        seen = []
        for _ in range(TRIES):
            contents = [body() for body in bodies]
            async with self._held.watched():
                answers = await asyncio.gather(
                    *(
                        self.http.post(
                            path.format(name=next(self._names)), content=content, headers=WIRE
                        )
                        for content in contents
                    )
                )
                await until_idle(self._admin)
            assert all(answer.status_code < 500 for answer in answers), what
            seen.append((self._held.own_s, self._held.kept_s))
            if all(min(figures) <= HELD_S_MAX for figures in zip(*seen, strict=True)):
                return
        self.over[what] = seen

    def body_of(self, what: str) -> Callable[[], bytes]:
        return lambda: orjson.dumps(CASES[what][1](next(self._names)))

    async def case(self, what: str, times: int = 1) -> None:
        await self.send(what, f"/api/tools/{CASES[what][0]}", *[self.body_of(what)] * times)


@pytest.fixture
async def sender(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Sender]:
    async with serving(database_urls, admin) as service, service.http() as http:
        await http.post("/api/tools/memory_after_turn", json=turn("I like tea.")("first"))
        yield Sender(http, admin)


TURNS: Final = frozenset({"memory_after_turn", "memory_before_turn", "memory_list_turns"})


@pytest.mark.parametrize("of_turns", [True, False], ids=["of turns", "of anything else"])
async def test_whatever_a_call_holds_the_loop_goes_on(sender: Sender, of_turns: bool) -> None:
    for what, (tool, _) in CASES.items():
        if (tool in TURNS) is of_turns:
            await sender.case(what)
    assert sender.over == {}


async def test_whatever_an_archive_or_calls_at_once_hold_the_loop_goes_on(sender: Sender) -> None:
    await sender.case("statements in many items", times=3)
    await sender.http.post(
        "/api/tools/memory_after_turn", json=turn(*[PLAIN] * 240, project="kept")("kept")
    )
    archive = (await sender.http.get("/api/archive?project=kept")).raise_for_status().content
    await sender.send(
        "an archive of many long texts", "/api/archive?project={name}", lambda: archive
    )
    assert sender.over == {}


async def test_whatever_a_body_holds_the_loop_goes_on(sender: Sender) -> None:
    for what, body in BODIES.items():
        await sender.send(what, "/api/tools/find_tool", partial(bytes, body))
        await sender.send(f"{what} over MCP", "/mcp", partial(called, body[: SIZE - 100]))
    assert sender.over == {}
