"""What people do, as a benchmark: `python -m benchmarks.journeys`.

The cases were written by writers who had not read the code, in six languages, in two halves: the
working half guards against regressions at any time, the scored half is for judging an issue.

- Many short sessions: 45 chats of one to three turns, told over 150 days, among so many others. A
  new chat asks for something of each in the words of what was said, in other words, and in another
  language. Found is what the block of memory shows, word for word.
- Remember: what somebody asks to be remembered, asked for twelve chats later.
- Lasting: likes, habits and relations said in passing 100 days ago.
- Forget: something is named and forgotten; then it is asked for, in a new chat and in its own, and
  so is something beside it that has to stay. At the second call: where nothing was found, one of
  the sentences that were offered is named.
- Changes: what was said holds no more; only what holds now may be told without a mark.
- Other people: what is said of somebody else is found, and is in nobody's own profile.
- Terse prompts and general questions, which are to be told nothing.
- Two users of one project, and two in one session.
- Another language: what was said in 60 chats in six languages is asked for in another of them. How
  often the ranking has it among the first five, whatever a block would show.
- A host's day: 40 prompts in one session, as a hook sends them.
"""

import argparse
import asyncio
import random
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson
from mcp import Client

from benchmarks.beliefs import pieces, text_of
from benchmarks.command import Command, Size
from benchmarks.recall import block_of, body_of
from benchmarks.report import Report, Table, judged
from benchmarks.service import Service, add_arguments, call, service, settled
from memsvc.adapters.tokens import O200kCounter

LANGUAGES: Final = ("en", "de", "es", "fr", "ja", "zh")
QUICK_LANGUAGES: Final = ("en", "zh")
FOLDER: Final = Path(__file__).with_name("journeys_data")
SIZES: Final = (45, 500, 5000)
KINDS: Final = {"own": "own words", "other": "other words", "cross": "another language"}
USER: Final = "ada"
DAYS: Final = 150
LATER_CHATS: Final = 12
LASTING_DAYS: Final = 100
AT_ONCE: Final = 8
MAINTAINED_MAX: Final = 600
"""Sessions that are maintained: all with a case, and of others as many as make so many."""
MARKS: Final = ("superseded_by", "questioned")
ACROSS: Final = "another language: first five of 60, by ranking alone"
ACROSS_PARTS: Final = 5
"""Number of memories over which the cases of each language are divided."""

Case = Mapping[str, Any]


@dataclass(slots=True)
class Score:
    """How often something held, by figure."""

    held: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def note(self, figure: str, language: str, held: bool, what: str) -> None:
        """One more case of a figure; `what` says which, where it failed."""
        for name in (figure, f"{figure}, {language}"):
            self.held[name].append(held)
        if not held:
            self.failed[f"{figure}, {language}"].append(what)

    def share(self, figure: str) -> float | None:
        """How large a part of the cases held."""
        held = self.held.get(figure)
        return sum(held) / len(held) if held else None


@dataclass(frozen=True, slots=True)
class Journey:
    """One language's cases in one project of a service, for clients that call at once."""

    client: Client
    language: str
    project: str
    score: Score
    chats: Iterator[int] = field(default_factory=count)
    turns: Iterator[int] = field(default_factory=count)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A call of the project."""
        return await call(self.client, tool, project=self.project, **arguments)

    async def chat(
        self, turns: Iterable[Case], days_ago: float, *, user: str = USER, session: str = ""
    ) -> str:
        """Tell the turns of a chat, so many days ago; the session's name."""
        session = session or f"chat-{next(self.chats)}"
        said_at = datetime.now(UTC) - timedelta(days=days_ago)
        for number, turn in enumerate(turns):
            at = {"occurred_at": (said_at + timedelta(minutes=number)).isoformat()}
            await self.call(
                "memory_after_turn",
                session_id=session,
                user_id=user,
                turn_id=f"turn-{next(self.turns)}",
                input_items=[{"role": "user", "content": turn["user"], "metadata": at}],
                output_items=[{"role": "assistant", "content": turn["assistant"], "metadata": at}],
            )
        return session

    async def say(self, text: str, days_ago: float, *, user: str = USER, session: str = "") -> str:
        """Tell one sentence in a chat of its own, or in this session."""
        turns = [{"user": text, "assistant": "OK."}]
        return await self.chat(turns, days_ago, user=user, session=session)

    async def ask(self, question: str, *, user: str = USER, session: str = "") -> dict[str, Any]:
        """Return the prompt that before_turn prepares, for a new session unless one is given."""
        return await self.call(
            "memory_before_turn",
            session_id=session or f"asking-{next(self.chats)}",
            user_id=user,
            current_input=question,
        )

    async def told(self, question: str, **where: str) -> str:
        """All that memory tells for a question."""
        return plain(text_of(body_of(await self.ask(question, **where))))

    def note(self, figure: str, held: bool, what: str) -> None:
        """One more case of a figure."""
        self.score.note(figure, self.language, held, what)


def plain(text: str) -> str:
    """A text without what does not count when two are compared."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


async def at_once(work: Iterable[Any]) -> list[Any]:
    """Run coroutines, a limited number of them at the same time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(coroutine: Any) -> Any:
        async with gate:
            return await coroutine

    return await asyncio.gather(*map(one, work))


def fillers(data: Case, chance: random.Random) -> Iterator[list[Case]]:
    """Chats that hold no answer, each with other names, places and things."""
    while True:
        chat = chance.choice(data["fillers"])
        given = {name: chance.choice(values) for name, values in data["slots"].items()}
        given["number"] = str(chance.randint(2, 9999))
        yield [{who: _filled(text, given) for who, text in turn.items()} for turn in chat["turns"]]


def _filled(text: str, given: Mapping[str, str]) -> str:
    for name, value in given.items():
        text = text.replace(f"{{{name}}}", value)
    return text


async def many_sessions(journey: Journey, data: Case, sessions: int, running: Service) -> None:
    """45 chats among so many, asked for at once and after maintenance."""
    chance = random.Random(sessions)
    others = fillers(data, chance)
    more = [
        (chance.uniform(0, DAYS), next(others)) for _ in range(sessions - len(data["sessions"]))
    ]
    chats = [(case["days_ago"], case["turns"]) for case in data["sessions"]] + more
    chats.sort(key=lambda chat: -chat[0])
    names = await at_once(journey.chat(turns, days_ago) for days_ago, turns in chats)
    await _asked(journey, data, f"of {sessions:,} sessions, at once", KINDS)
    cases = {id(case["turns"]) for case in data["sessions"]}
    first = [name for name, (_, turns) in zip(names, chats, strict=True) if id(turns) in cases]
    rest = [name for name in names if name not in {*first}]
    await settled(running)
    for session in [*first, *rest][:MAINTAINED_MAX]:
        await journey.call("memory_run_maintenance", session_id=session)
    await _asked(journey, data, f"of {sessions:,} sessions, after maintenance", ["own"])


async def _asked(journey: Journey, data: Case, when: str, kinds: Iterable[str]) -> None:
    for kind in kinds:
        questions = [
            case["cross"]["text"] if kind == "cross" else case[kind] for case in data["sessions"]
        ]
        told = await at_once(map(journey.told, questions))
        for case, question, text in zip(data["sessions"], questions, told, strict=True):
            journey.note(f"{KINDS[kind]} {when}", plain(case["answer"]) in text, question)


async def across(journey: Journey, cases: Mapping[str, Case], part: int) -> None:
    """Each statement, asked for in another language, is among the first five messages ranked."""
    told: list[tuple[float, str, str, Case | None]] = []
    for language, data in cases.items():
        share = len(data["sessions"]) // ACROSS_PARTS
        chat = next(fillers(data, random.Random(part)))
        told.append((part, chat[0]["user"], language, None))
        told += [
            (case["days_ago"], _stated(case), language, case)
            for case in data["sessions"][part * share : (part + 1) * share]
        ]
    told.sort(key=lambda each: -each[0])
    sessions = [await journey.say(text, days_ago) for days_ago, text, _, _ in told]
    for session, (_, _, language, case) in zip(sessions, told, strict=True):
        if case is not None:
            question = case["cross"]["text"]
            explained = await journey.call(
                "memory_before_turn",
                session_id=f"asking-{next(journey.chats)}",
                user_id=USER,
                current_input=question,
                explain=True,
            )
            ranked = [
                one["session"]
                for one in explained["explanation"]["candidates"]
                if one["kind"] == "turn" and one["ref"].endswith("-in-0")
            ]
            journey.score.note(ACROSS, language, session in ranked[:5], question)


def _stated(case: Case) -> str:
    """The first message of a chat that holds the answer."""
    said = (text for turn in case["turns"] for text in (turn["user"], turn["assistant"]))
    return next(text for text in said if plain(case["answer"]) in plain(text))


async def kept(journey: Journey, data: Case, name: str, figure: str, days_ago: float) -> None:
    """What was said so many days ago, asked for when other chats have followed."""
    others = fillers(data, random.Random(name))
    for number, case in enumerate(data[name]):
        await journey.say(case["say"], days_ago - number / 100)
    for number in range(LATER_CHATS):
        await journey.chat(next(others), 5 - number / 10)
    for number in range(len(data[name])):
        await journey.call("memory_run_maintenance", session_id=f"chat-{number}")
    for case in data[name]:
        journey.note(figure, plain(case["answer"]) in await journey.told(case["ask"]), case["ask"])


async def forget(journey: Journey, data: Case) -> None:
    """What is named is gone, and nothing else."""
    for number, case in enumerate(data["forget"]):
        user = f"forgets-{number}"
        session, keeps = await journey.say(case["say"], 3, user=user), case["keeps"]
        if keeps["say"] != case["say"]:
            await journey.say(keeps["say"], 2, user=user)
        new = f"asking-{next(journey.chats)}"

        async def forgotten(query: str, user: str = user, new: str = new) -> Case:
            request = {"session_id": new, "user_id": user, "query": query, "reach": "user"}
            return await journey.call("memory_forget", **request, dry_run=False)

        done = await forgotten(case["request"])
        gone = []
        for where in (new, session):
            told = [
                await journey.told(question, user=user, session=where) for question in case["asks"]
            ]
            gone.append(plain(case["value"]) not in "\n".join(told))
            journey.note("forgotten and not told again", gone[-1], case["request"])
        stays = plain(keeps["answer"]) in await journey.told(keeps["ask"], user=user)
        journey.note("what is beside it stays", stays, case["request"])
        # an agent reads what is offered, and asks again for the sentence that its user means
        offered = [one["text"] for one in done["candidates"]]
        meant = [text for text in offered if plain(case["value"]) in plain(text)]
        if meant and not all(gone):
            await forgotten(meant[0])
            told = [
                await journey.told(question, user=user, session=new) for question in case["asks"]
            ]
            gone = [plain(case["value"]) not in "\n".join(told)]
        journey.note("forgotten at the second call", all(gone), case["request"])


async def changes(journey: Journey, data: Case) -> None:
    """What holds now is told, and what held before only with a mark."""
    for number, case in enumerate(data["changes"]):
        user = f"changes-{number}"
        await journey.say(case["first"], 40, user=user)
        await journey.say(case["then"], 10, user=user)
        body = body_of(await journey.ask(case["ask"], user=user))
        now, was = plain(case["now"]), plain(case["was"])
        alone = [
            piece
            for piece in map(plain, pieces(body))
            if was in piece and now not in piece and plain(case["then"]) not in piece
        ]
        unmarked = alone and not any(mark in str(body) for mark in MARKS)
        held = now in plain(text_of(body)) and not unmarked
        journey.note("changes: what holds now is told, the past marked", held, case["ask"])


async def others(journey: Journey, data: Case) -> None:
    """What is said of somebody else is found, and is not of the user."""
    for number, case in enumerate(data["others"]):
        user = f"others-{number}"
        await journey.say(case["say"], 8, user=user)
        body, answer = body_of(await journey.ask(case["ask"], user=user)), plain(case["answer"])
        profile = await journey.call("memory_profile", user_id=user)
        own = [
            line
            for line in map(plain, [*map(text_of, body.get("profile", [])), *_lines(profile)])
            if answer in line and plain(case["about"]) not in line
        ]
        journey.note("other people: found", answer in plain(text_of(body)), case["ask"])
        journey.note("other people: not taken for the user", not own, case["say"])


def _lines(profile: Case) -> list[str]:
    return text_of(profile).splitlines()


async def silence(journey: Journey, data: Case) -> None:
    """Prompts that are to be told nothing, in a memory of 45 chats."""
    for case in data["sessions"]:
        await journey.chat(case["turns"], case["days_ago"])
    for name, figure in (("terse", "terse prompts"), ("general", "general questions")):
        for prompt in data[name]:
            body = body_of(await journey.ask(prompt))
            silent = not body.get("turns") and not body.get("facts")
            journey.note(f"{figure} that are told nothing", silent, prompt)


async def two_users(journey: Journey, data: Case) -> None:
    """Each of two users is told what is theirs; what both said in one session stays there."""
    for number, case in enumerate(data["two_users"]):
        users = (f"a-{number}", f"b-{number}")
        for user, name in zip(users, "ab", strict=True):
            await journey.say(case[name], 5, user=user)
        for user, name, other in zip(users, "ab", "ba", strict=True):
            told = await journey.told(case["ask"], user=user)
            held = plain(case[f"{name}_answer"]) in told
            journey.note("two users: each is told theirs", held, case["ask"])
            leak = plain(case[f"{other}_answer"]) in told
            journey.note("two users: nothing of the other", not leak, case["ask"])
    for number, case in enumerate(data["shared"]):
        users, room = (f"c-{number}", f"d-{number}"), f"room-{number}"
        for user, name in zip(users, "ab", strict=True):
            await journey.say(case[name], 5, user=user, session=room)
        for user in users:
            there = await journey.ask(case["ask"], user=user, session=room)
            told = plain(text_of(there["input_items"]))
            journey.note("a shared session: told there", plain(case["answer"]) in told, case["ask"])
            turns = body_of(await journey.ask(case["ask"], user=user)).get("turns", [])
            leak = plain(case["answer"]) in plain(text_of(turns))
            journey.note("a shared session: told nowhere else", not leak, case["ask"])


@dataclass(slots=True)
class Day:
    """What a host's day had injected, in tokens: all, what somebody said, and that said again."""

    tokens: int = 0
    said: int = 0
    again: int = 0


async def host_day(journey: Journey, data: Case, day: Day) -> None:
    """40 prompts in one session of a user who has told 45 chats, as hooks send them."""
    counter = O200kCounter()
    for case in data["sessions"]:
        await journey.chat(case["turns"], case["days_ago"])
    shown: set[str] = set()
    for number, turn in enumerate(data["day"]):
        prepared = await journey.ask(turn["user"], session="day")
        day.tokens += sum(counter.count(text_of(item)) for item in block_of(prepared)[1:])
        for piece in _said(body_of(prepared)):
            tokens = counter.count(piece)
            day.said += tokens
            day.again += tokens * (piece in shown)
            shown.add(piece)
        await journey.chat([turn], 0.4 - number / 200, session="day")


def _said(body: Case) -> Iterator[str]:
    """The texts of a block that somebody said, each once."""
    found: dict[str, None] = {}
    for entry in (*body.get("profile", ()), *body.get("facts", ())):
        found[entry.get("statement") or str(entry.get("value", ""))] = None
    for turn in body.get("turns", ()):
        for said in turn.get("said", {}).values():
            found |= dict.fromkeys(_texts(said))
    return iter(found)


def _texts(said: Any) -> Iterator[str]:
    if isinstance(said, str):
        yield said
    elif isinstance(said, Mapping):
        for name, value in said.items():
            if name not in (*MARKS, "role", "speaker", "time"):
                yield from _texts(value)
    elif isinstance(said, Sequence):
        for value in said:
            yield from _texts(value)


async def measure(arguments: argparse.Namespace) -> Report:
    """Tell, ask, and count."""
    languages = (
        arguments.languages.split(",")
        if arguments.languages
        else (QUICK_LANGUAGES if arguments.quick else LANGUAGES)
    )
    sizes = [size for size in SIZES if size <= arguments.sessions]
    score, day = Score(), Day()
    cases: dict[str, Case] = {}
    async with service(arguments) as running, running.client() as client:
        for language in languages:
            data = orjson.loads((FOLDER / arguments.half / f"{language}.json").read_bytes())
            cases[language] = data
            journeys = (Journey(client, language, f"{language}-{name}", score) for name in count())
            for size in sizes:
                await many_sessions(next(journeys), data, size, running)
            asked, last = "kept when asked", "lasting: known after 100 days"
            await kept(next(journeys), data, "remember", asked, 30)
            await kept(next(journeys), data, "lasting", last, LASTING_DAYS)
            for journey in (forget, changes, others, silence, two_users):
                await journey(next(journeys), data)
            await host_day(next(journeys), data, day)
            print(f"{language} is done", file=sys.stderr)
        if cases.keys() >= {*LANGUAGES}:
            for part in range(ACROSS_PARTS):
                await across(Journey(client, "all", f"across-{part}", score), cases, part)
    if arguments.failed:
        for figure, cases in score.failed.items():
            print(f"\n{figure}: {len(cases)} failed", *cases, sep="\n  ", file=sys.stderr)
    values: dict[str, float | None] = {
        name: score.share(name)
        for name in (*GOALS_WITHOUT_DAY, *score.held)
        if not name.endswith(tuple(f", {language}" for language in LANGUAGES))
    }
    values |= {
        "a host's day: tokens a prompt": day.tokens / (len(languages) * 40),
        "a host's day: share of a block that somebody said": day.said / max(1, day.tokens),
        "a host's day: share of it that was told before": day.again / max(1, day.said),
    }
    figures = [name for name in values if not name.startswith("a host's day")]
    rows = [[name, *(score.share(f"{name}, {one}") for one in languages)] for name in figures]
    title = f"Journeys, {arguments.half} half, {', '.join(languages)}"
    return Report(
        "journeys",
        title,
        [Table("Share of the cases that held, by language", ("journey", *languages), rows)],
        judged("journeys", values),
        digits=3,
    )


def _figures() -> Iterator[str]:
    for size in SIZES:
        for kind in KINDS.values():
            yield f"{kind} of {size:,} sessions, at once"
        yield f"own words of {size:,} sessions, after maintenance"
    yield ACROSS


GOALS_WITHOUT_DAY: Final = tuple(_figures())
"""Figures that runs with fewer sizes or languages (`--quick`) do not measure."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which service, and which cases."""
    add_arguments(parser)
    parser.add_argument("--half", choices=("working", "scored"), default="working")
    parser.add_argument("--languages", help=f"of {','.join(LANGUAGES)}; without it all of them")
    parser.add_argument("--failed", action="store_true", help="list the cases that failed")


COMMAND = Command(
    __doc__, measure, {"sessions": Size(5000, 500, "sessions of a user at the most")}, options
)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
