"""A month of an agent's life, and how much of what is then stored is junk: `python -m
benchmarks.hygiene`.

A generator with a printed seed (`--seed`) makes days of turns, lessons, memories and documents for
three users, through the public tools and as agents do it: at least a fifth of all writes repeats an
earlier one (the same call sent again, the same sentence in another turn, the same lesson with
another case, full stop or a word more), inputs carry the memory block and the context that
before_turn returned, what was recalled is remembered again, what was true is replaced by what is,
and keys and passwords are said. `policy.secrets` is `mask`. Every night sessions are maintained and
knowledge is consolidated. Then `memsvc audit` reads all that recall can show.

Counted are, by entry: exact and near duplicates (the same numbers, and 80 % of all words and pairs
of words in common) of an earlier entry of the same index; echoes (a memory block, or what was
recalled before it was stored, unless a user said it or it is a fact); secrets; and past facts that
a recall showed. A turn's messages are history: one of them that says again what was said before is
what happened, and is told of apart. They count as junk when they are echoes, secrets, or stored
twice under one turn id.
"""

import argparse
import asyncio
import hashlib
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from mcp import Client

from benchmarks.beliefs import text_of
from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.recall import body_of
from benchmarks.report import Report, Table, judged
from benchmarks.service import Service, add_arguments, call, service

USERS: Final = ("ada", "bo", "cy")
TOPICS: Final = {
    "I live in {}.": "Where do I live?",
    "I work at {}.": "Where do I work?",
    "My favorite color is {}.": "What is my favorite color?",
}
NAMES: Final = [
    "Rome",
    "Oslo",
    "Lima",
    "Kyoto",
    "Turin",
    "Ghent",
    "Porto",
    "Basel",
    "Quito",
    "Hanoi",
    "Dakar",
    "Perth",
    "Malmo",
    "Izmir",
    "Natal",
    "Leeds",
]
SECRETS: Final = (
    "the api key is sk-{:024x}, keep it for later",
    "my password is Zeb{:06x}, in case you need it",
    "use postgres://app:pw{:06x}@db.internal/main for the report",
    "Authorization: Bearer abcdef{:020x} is what the request needs",
)
WHATS: Final = ("exact", "near", "echo", "secret", "shown_after_end")
MESSAGES: Final = "turns"
FLUSH_S: Final = 2.0
ADMIN: Final = {"MEMSVC_SETTINGS__MCP__TOOLS__ADMIN__OVER_MCP": "true"}


@dataclass(slots=True)
class Month:
    """What was done so far: writes, how many of them repeated one, and what may be repeated."""

    client: Client
    chance: random.Random
    chatter: Chatter
    writes: int = 0
    repeated: int = 0
    turns: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    lessons: list[str] = field(default_factory=list)
    stale: int = 0
    asked: int = 0

    def picks(self, *weights: int) -> int:
        """Choose by weight."""
        return self.chance.choices(range(len(weights)), weights)[0]

    async def write(self, tool: str, *, again: bool = False, **arguments: Any) -> dict[str, Any]:
        """Store something."""
        self.writes += 1
        self.repeated += again
        return await call(self.client, tool, **arguments)

    async def turn(self, user: str, session: str) -> None:
        """One exchange: recall, what is said, and sometimes all of it once more."""
        known = self.said.setdefault(user, [])
        text, again = self._message(user, known)
        turn = {"session_id": session, "user_id": user, "turn_id": f"{session}-{len(self.turns)}"}
        prepared = await call(self.client, "memory_before_turn", **turn, current_input=text)
        answer = {"role": "assistant", "content": f"Noted: {self.chatter.message()}"}
        whole = self.picks(2, 1)  # the whole input as it went to the model, or what is new
        sent = prepared["input_items"] if whole else [{"role": "user", "content": text}]
        turn |= {"input_items": sent, "output_items": [answer]}
        await self.write("memory_after_turn", again=again, **turn)
        self.turns[user, turn["turn_id"]] = turn
        known.append(text)
        if self.picks(5, 1):
            await self.write("memory_after_turn", again=True, **turn)

    def _message(self, user: str, known: list[str]) -> tuple[str, bool]:
        match self.picks(6, 4, 3, 1):
            case 0:
                return self.chatter.message(), False
            case 1 if known:
                return self.chance.choice(known), True
            case 3:
                return self.chance.choice(SECRETS).format(self.chance.getrandbits(60)), False
            case _:
                topic, value = self.chance.choice(list(TOPICS)), self.chance.choice(NAMES)
                return topic.format(value), False

    async def lesson(self) -> None:
        """Something learned, new, again, or as it was recalled."""
        match self.picks(5, 2, 1, 1, 1):
            case 1 if self.lessons:
                return await self._learn(self.chance.choice(self.lessons), again=True)
            case 2 if self.lessons:
                old = self.chance.choice(self.lessons)
                varied = self.chance.choice([old.upper(), f" {old} ", old.rstrip("."), f"{old}!"])
                return await self._learn(varied, again=True)
            case 3 if self.lessons:
                old = self.chance.choice(self.lessons)
                return await self._learn(f"{old.rstrip('.')}, indeed.", again=True)
            case 4 if self.lessons:
                found = await call(
                    self.client, "elfmem_recall", query=self.chance.choice(self.lessons), top_k=1
                )
                for block in found["blocks"]:
                    await self._learn(block["content"], again=True)
                return None
            case _:
                text = f"{self.chatter.message()[:-1]} {self.chatter.message().lower()}"
                if not self.picks(9, 1):
                    self.lessons.append(text)
                else:
                    text += " " + self.chance.choice(SECRETS).format(self.chance.getrandbits(60))
                return await self._learn(text, again=False)

    async def _learn(self, content: str, *, again: bool) -> None:
        await self.write("elfmem_remember", again=again, content=content)

    async def memory(self, user: str) -> None:
        """A conversation that memories are made of, which may hold what was found before."""
        found = await call(self.client, "memories_search", user_id=user, query="Where do I live?")
        text, again = self._message(user, [one["memory"] for one in found["results"]])
        messages = [{"role": "user", "content": text}]
        await self.write("memories_add", again=again, user_id=user, messages=messages)

    async def document(self, day: int) -> None:
        """The file of a day, written twice."""
        text = "\n\n".join(self.chatter.message() for _ in range(4))
        path = f"/days/{day}.md"
        for again in (False, True):
            await self.write(
                "file_write", again=again, project="default", path=path, content=text,
                mode="TRUNCATE",
            )  # fmt: skip

    async def question(self, user: str) -> None:
        """Ask for what was said last of a topic: another value of it is stale."""
        topic, question = self.chance.choice(list(TOPICS.items()))
        start = topic.partition("{}")[0]
        said = [text for text in self.said.get(user, ()) if text.startswith(start)]
        if said:
            prompt = await call(
                self.client, "memory_before_turn", session_id=f"{user}-asks", user_id=user,
                current_input=question,
            )  # fmt: skip
            told = text_of(body_of(prompt).get("facts", []))
            self.asked += 1
            self.stale += any(text.rstrip(".") in told for text in {*said} - {said[-1]})


async def replay(running: Service, arguments: argparse.Namespace) -> Month:
    """Live the days of the month, each user in two sessions a day."""
    chance = random.Random(arguments.seed)
    async with running.client() as client:
        month = Month(client, chance, Chatter(arguments.seed))
        for day in range(arguments.days):
            for user in USERS:
                for part in ("morning", "evening"):
                    session = f"{user}-{day}-{part}"
                    for _ in range(arguments.turns):
                        await month.turn(user, session)
                    await month.question(user)
                    await call(client, "memory_run_maintenance", session_id=session)
                await month.memory(user)
            for _ in range(arguments.lessons):
                await month.lesson()
            await month.document(day)
            await call(client, "elfmem_dream")
        usage = (await call(client, "tenant_usage"))["total"]
        if usage["turns"] != len(month.turns):
            raise RuntimeError(f"{usage['turns']} turns are stored of {len(month.turns)}")
    return month


async def audited(running: Service) -> dict[str, Any]:
    """What `memsvc audit` says of the service's data."""
    await asyncio.sleep(FLUSH_S)  # recall traces are written after the answers
    tenant = hashlib.sha256(running.key.encode()).hexdigest()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "memsvc", "audit", "--json", "--tenant", tenant, "--limit", "3"),
        env=os.environ | {"MEMSVC_DATA_DIR": str(running.data_dir)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    body: dict[str, Any] = orjson.loads(out)
    return body


async def measure(arguments: argparse.Namespace) -> Report:
    """Replay, audit, and tell."""
    print(f"seed {arguments.seed}", file=sys.stderr)
    async with service(arguments, MEMSVC_POLICY__SECRETS="mask", **ADMIN) as running:
        month = await replay(running, arguments)
        found = await audited(running)
    kinds = found["entries"]
    junk = Counter[str]()
    for kind, findings in found["by_kind"].items():
        counted = [what for what in WHATS if kind != MESSAGES or what not in ("exact", "near")]
        group = MESSAGES if kind == MESSAGES else "kept"
        junk[group] += sum(findings.get(what, 0) for what in counted)
    messages = kinds.get(MESSAGES, 0)
    kept = sum(kinds.values()) - messages
    said_again = sum(found["by_kind"].get(MESSAGES, {}).get(what, 0) for what in ("exact", "near"))
    rows = [
        [kind, count, *(found["by_kind"].get(kind, {}).get(what, 0) for what in WHATS)]
        for kind, count in kinds.items()
    ]
    values = {
        "writes that repeat an earlier one": 100 * month.repeated / month.writes,
        "facts, insights, knowledge, memories, files: junk": 100 * junk["kept"] / kept,
        "messages: echoes, secrets, stored twice": 100 * junk[MESSAGES] / messages,
        "answers with a stale fact": 100 * month.stale / month.asked,
        "messages that say again what was said before": 100 * said_again / messages,
    }
    return Report(
        "hygiene",
        f"Hygiene after {arguments.days} days: {month.writes} writes, seed {arguments.seed}",
        [Table("Entries that recall can show, and findings", ("kind", "entries", *WHATS), rows)],
        judged("hygiene", values),
    )


def options(parser: argparse.ArgumentParser) -> None:
    """Which service, and which month."""
    add_arguments(parser)
    parser.add_argument("--seed", type=int, default=11, help="of the month")


COMMAND = Command(
    __doc__,
    measure,
    {
        "days": Size(30, 6, "days of the month"),
        "turns": Size(6, 4, "turns of a session"),
        "lessons": Size(10, 6, "lessons of a day"),
    },
    options,
)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
