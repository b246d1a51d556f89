"""What memory believes and tells, through the public tools: `python -m benchmarks.beliefs`.

The sentences are in two halves, each by authors who had not read the rules: `worked.json`, which
rules may be tuned with, and `scored.json`, which is only scored. Every item has a user of its own.
`--data` takes other files of the same shape: `people_worked.json` and `people_scored.json`, two
halves with the rows from B13 on; `former.json`, halves that were scored before and may be worked
with now, or `labelled.json`, 47,000 to tune with that say something lasting (B1), a
standing instruction (B7) or neither (B2, B3), and 9,000 more that are only learned from. `--show`
prints what came out wrong, but nothing of a file that is only scored. `--blocks FILE` writes the
memory blocks of twenty of its questions instead, drawn by a seed, for readers to compare with those
of another version (`--url`).
"""

import argparse
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any, Final

import orjson
from mcp import Client

from benchmarks.command import Command
from benchmarks.recall import block_of, body_of
from benchmarks.report import Report, Table, judged
from benchmarks.service import add_arguments, call, service

FOLDER: Final = Path(__file__).with_name("beliefs_data")
HALVES: Final = ("worked", "scored")
FILLERS: Final = ("Thanks, that helps.", "ok, next one")
"""Turns between what is said and what is asked."""
OWN_FACTS: Final = frozenset(
    f"user_{name}"
    for name in (
        *("allergy", "condition", "medication", "diet", "food_rule", "home", "address", "job"),
        *("employer", "plan", "origin", "school"),
    )
)
"""Facts that say of the user what B14's sentences say of others."""
RECALLED: Final = ("facts", "insights", "turns", "chunks")
BLOCKS: Final = {"B6": 5, "B8": 5, "B9": 5, "B10": 5}
"""Questions by row whose blocks are compared."""

Item = Mapping[str, Any]


@dataclass(slots=True)
class Outcomes:
    """How often something happened, of how many; `shown` are the items to look at."""

    happened: int = 0
    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, *, happened: bool, item: str = "") -> None:
        """Add one item."""
        self.happened += happened
        self.count += 1
        if item:
            self.shown.append(item)

    @property
    def share(self) -> float:
        """The share in percent."""
        return 100 * self.happened / self.count if self.count else 0.0

    @property
    def interval(self) -> str:
        """Wilson's interval of the share, 95 %."""
        if not self.count:
            return ""
        z, share, count = 1.96, self.happened / self.count, self.count
        centre, root = share + z * z / (2 * count), share * (1 - share) + z * z / (4 * count)
        width, below = z * sqrt(root / count), 1 + z * z / count
        low, high = (centre - width) / below, (centre + width) / below
        return f"{100 * max(0.0, low):.1f} to {100 * min(1.0, high):.1f}"


Scores = dict[str, Outcomes]
Row = Callable[["Person", Item, Scores], Awaitable[None]]


@dataclass(slots=True)
class Person:
    """A user of their own, who talks in one session after another."""

    client: Client
    name: str
    turns: int = 0
    session_number: int = 0

    @property
    def session(self) -> str:
        """The session of now."""
        return f"{self.name}-{self.session_number}"

    async def say(self, text: str, answer: str = "Noted.") -> None:
        """Store a turn."""
        self.turns += 1
        await call(
            self.client,
            "memory_after_turn",
            session_id=self.session,
            turn_id=f"turn-{self.turns}",
            user_id=self.name,
            input_items=[{"role": "user", "content": text}],
            output_items=[{"role": "assistant", "content": answer}],
        )

    async def facts(self) -> list[str]:
        """What memory holds to be true of them, in one text each."""
        return [*map(fact_text, await self.listed())]

    async def listed(self) -> list[dict[str, Any]]:
        """The facts about them, as they are listed."""
        listed = await call(
            self.client, "memory_list_facts", session_id=self.session, user_id=self.name
        )
        found: list[dict[str, Any]] = listed["facts"]
        return found

    async def forget(self, query: str) -> None:
        """Forget what the query names."""
        await call(
            self.client,
            "memory_forget",
            session_id=self.session,
            user_id=self.name,
            query=query,
            dry_run=False,
        )

    async def told(self, question: str) -> dict[str, Any]:
        """What the memory block tells in a new session."""
        return body_of(await self.ask(question))

    async def ask(self, question: str) -> dict[str, Any]:
        """The prompt for a question in a new session."""
        return await call(
            self.client,
            "memory_before_turn",
            session_id=f"{self.name}-asking",
            user_id=self.name,
            current_input=question,
        )


def fact_text(fact: Item) -> str:
    """What a fact says, in one text."""
    return " | ".join(str(fact.get(name) or "") for name in ("key", "value", "statement"))


def holds(text: str, words: Sequence[str]) -> bool:
    """Whether a text has all these words, whatever their case."""
    folded = text.casefold()
    return all(word.casefold() in folded for word in words)


def text_of(body: Any) -> str:
    """All texts of a memory block, or of a part of it."""
    if isinstance(body, str):
        return body
    if isinstance(body, Mapping):
        return "\n".join(map(text_of, body.values()))
    return "\n".join(map(text_of, body)) if isinstance(body, list) else ""


def pieces(body: Any) -> list[str]:
    """The smallest parts of a block that hold a text of memory, each with all that it says."""
    if isinstance(body, list):
        return [piece for part in body for piece in pieces(part)]
    if not isinstance(body, Mapping):
        return []
    parts = [[*part.values()] if name == "said" else part for name, part in body.items()]
    inner = [piece for part in parts if isinstance(part, list) for piece in pieces(part)]
    return inner or [text_of(body)]


async def statements(person: Person, item: Item, scores: Scores) -> None:
    """B1: a natural statement becomes a right fact."""
    await person.say(item["text"])
    facts = await person.facts()
    right = any(holds(fact, item["holds"]) for fact in facts)
    scores["B1 right"].add(
        happened=right, item="" if right else f"{item['text']} -> {item['holds']} {facts}"
    )


async def no_statements(row: str, person: Person, item: Item, scores: Scores) -> None:
    """B2, B3: what says nothing of the user becomes no fact."""
    await person.say(item["text"])
    facts = await person.facts()
    note = f"{item['kind']}: {item['text']} -> {facts}" if facts else ""
    scores[f"{row} believed"].add(happened=bool(facts), item=note)


async def pasted(person: Person, item: Item, scores: Scores) -> None:
    """B4: a text that is worked on becomes no fact, and the words around it do."""
    await person.say(item["text"])
    facts = await person.facts()
    if item["own"]:
        wrong = any(holds(fact, [words]) for fact in facts for words in item["pasted"])
        kept = any(holds(fact, item["own"]) for fact in facts)
        scores["B4 own words kept"].add(happened=kept)
    else:
        wrong = bool(facts)
    note = f"{item['text']} -> {facts}" if wrong else ""
    scores["B4 believed"].add(happened=wrong, item=note)


async def negations(person: Person, item: Item, scores: Scores) -> None:
    """B5: a negation is kept wherever its words are told."""
    await person.say(item["text"])
    facts = await person.facts()
    body = await person.told(item["question"])
    about = [text for text in [*facts, *pieces(body)] if holds(text, [item["about"]])]
    wrong = [text for text in about if not holds(text, item["negation"])]
    scores["B5 told without"].add(
        happened=bool(wrong), item=f"{item['text']} -> {wrong}" if wrong else ""
    )
    scores["B5 told with"].add(happened=bool(about) and not wrong)


async def changes(person: Person, item: Item, scores: Scores) -> None:
    """B6: what no longer holds is not told alone."""
    await person.say(item["first"])
    for filler in FILLERS:
        await person.say(filler)
    await person.say(item["change"])
    text = text_of(await person.told(item["question"]))
    stale = holds(text, [item["old"]]) and not holds(text, item["told"])
    note = f"{item['first']} | {item['change']} | {item['question']} -> {text}" if stale else ""
    scores["B6 stale alone"].add(happened=stale, item=note)
    scores["B6 change told"].add(happened=holds(text, item["told"]))


async def instructions(person: Person, item: Item, scores: Scores) -> None:
    """B7: a standing instruction is kept."""
    await person.say(item["text"])
    facts = await person.facts()
    kept = any(holds(fact, item["holds"]) for fact in facts)
    scores["B7 kept"].add(
        happened=kept, item="" if kept else f"{item['text']} -> {item['holds']} {facts}"
    )


async def orders(person: Person, item: Item, scores: Scores) -> None:
    """B7: an order for once is kept as no standing instruction."""
    await person.say(item["text"])
    kept = [one for one in await person.listed() if one["fact_id"] == "user_instruction"]
    note = f"{item['text']} -> {[*map(fact_text, kept)]}" if kept else ""
    scores["B7 once"].add(happened=bool(kept), item=note)


async def unrelated(person: Person, item: Item, scores: Scores) -> None:
    """B13: a sentence about something else puts no fact in doubt, and ends none."""
    await person.say(item["first"])
    before = [one for one in await person.listed() if holds(fact_text(one), [item["holds"]])]
    for text in (*FILLERS, item["then"]):
        await person.say(text)
    still = {one["record_id"] for one in await person.listed() if one["state"] == "active"}
    lost = [fact_text(one) for one in before if one["record_id"] not in still]
    note = f"{item['first']} | {item['then']} -> {lost}" if lost else ""
    scores["B13 doubted"].add(happened=bool(lost), item=note)
    scores["B13 known"].add(happened=bool(before))


async def others(person: Person, item: Item, scores: Scores) -> None:
    """B14: what is said of another person becomes no fact about the user."""
    await person.say(item["say"])
    facts = [one for one in await person.listed() if holds(fact_text(one), [item["answer"]])]
    wrong = [fact_text(one) for one in facts if one["fact_id"] in OWN_FACTS]
    note = f"{item['say']} -> {wrong}" if wrong else ""
    scores["B14 taken"].add(happened=bool(wrong), item=note)
    scores["B14 kept"].add(happened=bool(facts))


async def requests(person: Person, item: Item, scores: Scores) -> None:
    """B15: what somebody asks to be remembered is a fact, and is found."""
    await person.say(item["say"])
    person.session_number += 1
    for filler in FILLERS:
        await person.say(filler)
    kept = any(holds(fact, [item["answer"]]) for fact in await person.facts())
    told = holds(text_of(await person.told(item["ask"])), [item["answer"]])
    note = f"{item['say']} | {item['ask']} -> kept {kept}, told {told}"
    scores["B15 kept"].add(happened=kept, item="" if kept and told else note)
    scores["B15 told"].add(happened=told)


async def forgotten(person: Person, item: Item, scores: Scores) -> None:
    """What is named in a request to forget is gone, and what is beside it stays."""
    await person.say(item["say"])
    if item["beside"] not in item["say"]:
        await person.say(item["beside"])
    await person.forget(item["request"])
    told = [text_of(await person.told(question)) for question in item["asks"]]
    again = any(holds(text, [item["value"]]) for text in told)
    beside = holds(text_of(await person.told(item["beside_ask"])), [item["beside_answer"]])
    note = f"{item['say']} | {item['request']} -> told again {again}, beside told {beside}"
    scores["forget again"].add(happened=again, item=note if again or not beside else "")
    scores["forget beside"].add(happened=beside)


async def profile(person: Person, item: Item, scores: Scores) -> None:
    """B8: what always matters is told though nobody asks for it."""
    await person.say(item["text"])
    person.session_number += 1
    for filler in FILLERS:
        await person.say(filler)
    facts = await person.facts()
    text = text_of(await person.told(item["question"]))
    told = holds(text, item["holds"])
    note = f"{item['class']}: {item['text']} | {item['question']} -> {facts} {text}"
    scores["B8 told"].add(happened=told, item="" if told else note)
    if any(holds(fact, item["holds"]) for fact in facts):
        scores["B8 told of facts"].add(happened=told)


async def _talk(person: Person, messages: Sequence[str]) -> None:
    for at, message in enumerate(messages):
        person.session_number += at == len(messages) // 2
        await person.say(message)


async def other_words(person: Person, item: Item, scores: Scores) -> None:
    """B9: a question in other words is answered."""
    await _talk(person, item["messages"])
    for asked in item["questions"]:
        told = holds(text_of(await person.told(asked["question"])), asked["holds"])
        note = "" if told else f"{asked['question']} -> {asked['holds']}"
        scores["B9 told"].add(happened=told, item=note)


async def agents(person: Person, item: Item, scores: Scores) -> None:
    """B10: a coding agent's work is recalled in a new session."""
    for turn in item["turns"]:
        await person.say(turn["user"], turn["assistant"])
    for asked in item["questions"]:
        told = holds(text_of(await person.told(asked["question"])), asked["holds"])
        note = "" if told else f"{asked['question']} -> {asked['holds']}"
        scores["B10 told"].add(happened=told, item=note)


async def off_topic(person: Person, item: Item, scores: Scores) -> None:
    """B11: a question that has nothing to do with memory recalls nothing; a profile is none."""
    await _talk(person, item["messages"])
    for question in item["questions"]:
        body = await person.told(question)
        recalled = {name: body[name] for name in RECALLED if body.get(name)}
        note = f"{question} -> {text_of(recalled)[:300]}" if recalled else ""
        scores["B11 recalled"].add(happened=bool(recalled), item=note)


ROWS: Final[Mapping[str, Row]] = {
    "B1": statements,
    "B2": partial(no_statements, "B2"),
    "B3": partial(no_statements, "B3"),
    "B4": pasted,
    "B5": negations,
    "B6": changes,
    "B7": instructions,
    "B7_once": orders,
    "B8": profile,
    "B9": other_words,
    "B10": agents,
    "B11": off_topic,
    "B13": unrelated,
    "B14": others,
    "B15": requests,
    "forget": forgotten,
}
MEASURES: Final[Mapping[str, str]] = {
    "B1 right": "statements about oneself that become a right fact",
    "B2 believed": "sarcasm, quotes, questions, strangers that become a fact",
    "B3 believed": "idioms and shop talk that become a fact",
    "B4 believed": "pasted texts that become facts about the user",
    "B4 own words kept": "own words around a pasted text that become a fact",
    "B5 told without": "negations told without the negation",
    "B5 told with": "negations told with it",
    "B6 stale alone": "changes after which the old value is told alone",
    "B6 change told": "changes that are told",
    "B7 kept": "standing instructions that are kept",
    "B8 told": "allergy, diet, name, language told though not asked for",
    "B8 told of facts": "the same where the statement became a fact",
    "B9 told": "questions in other words, answered",
    "B10 told": "a coding agent's questions, answered",
    "B11 recalled": "off-topic questions that recall something",
    "B7 once": "orders for once that are kept as instructions",
    "B13 doubted": "facts that an unrelated sentence on their topic puts in doubt",
    "B13 known": "first sentences of these that are a fact",
    "B14 taken": "what is said of others that becomes the user's",
    "B14 kept": "what is said of others that is a fact about anybody",
    "B15 kept": "requests to remember that become a fact",
    "B15 told": "the same, found in other words in a new session",
    "forget again": "what somebody asked to forget that is told again",
    "forget beside": "what stood beside it and is still told",
}


def report(scores: Mapping[str, Scores]) -> Report:
    """One table; the figures beside the goals are those of the scored half, if it was run."""
    rows: list[list[object]] = []
    for name, measure in MEASURES.items():
        cells: list[object] = []
        for half in scores:
            outcomes = scores[half][name]
            cells += [outcomes.count, outcomes.share, outcomes.interval]
        rows.append([name.split()[0], measure, *cells])
    columns = ["row", "measure"]
    for half in scores:
        columns += [f"{half}: items", "%", "95 %"]
    last = scores[list(scores)[-1]]
    values = {MEASURES[name]: outcomes.share for name, outcomes in last.items()}
    return Report(
        "beliefs",
        f"Beliefs, {list(scores)[-1]} half, beside their goals (%)",
        [Table("Beliefs: what is held true and told", columns, rows, digits=1)],
        judged("beliefs", values),
        digits=1,
    )


async def blocks(client: Client, data: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """The memory blocks of twenty questions, each of another person, drawn by a seed."""
    drawn = random.Random(seed)
    found = []
    for row, count in BLOCKS.items():
        for at, item in enumerate(drawn.sample(data[row] * count, count)):
            person = Person(client, f"block-{row}-{at}")
            asked = drawn.choice(item.get("questions") or [item])
            for turn in item.get("turns", ()):
                await person.say(turn["user"], turn["assistant"])
            said = item.get("messages") or [
                item[name] for name in ("first", "text", "change") if name in item
            ]
            for message in [] if "turns" in item else [*said[:1], *FILLERS, *said[1:]]:
                await person.say(message)
            prepared = await person.ask(asked["question"])
            shown = [part["text"] for each in block_of(prepared) for part in each["content"]]
            found.append(
                {
                    "row": row,
                    "language": item["language"],
                    "question": asked["question"],
                    "block": shown,
                }
            )
    return found


async def measure(arguments: argparse.Namespace) -> Report | None:
    """Say, list, ask, score."""
    files = arguments.data or [FOLDER / f"{half}.json" for half in arguments.halves]
    scores: dict[str, Scores] = {}
    async with (
        service(arguments) as running,
        running.client(wire=arguments.wire) as client,
    ):
        if arguments.blocks:
            data = orjson.loads(files[0].read_bytes())
            drawn = await blocks(client, data, arguments.seed)
            arguments.blocks.write_bytes(orjson.dumps(drawn, option=orjson.OPT_INDENT_2))
            return None
        for number, file in enumerate(files):
            data = orjson.loads(file.read_bytes())
            outcomes = scores[file.stem] = {name: Outcomes() for name in MEASURES}
            for row, run in ROWS.items():
                if arguments.rows and row not in arguments.rows:
                    continue
                for at, item in enumerate(data.get(row, ())):
                    await run(Person(client, f"person-{number}-{row}-{at}"), item, outcomes)
            if arguments.show and not file.stem.endswith(HALVES[1]):
                for name, outcome in outcomes.items():
                    for note in outcome.shown:
                        print(f"{name}: {note}\n")
    return report(scores)


def options(parser: argparse.ArgumentParser) -> None:
    """Which sentences."""
    parser.add_argument("--data", type=Path, action="append", help="other sentences, as JSON")
    parser.add_argument("--halves", nargs="+", choices=HALVES, default=HALVES, help="of our own")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), help="only these rows")
    parser.add_argument("--show", action="store_true", help="print what came out wrong")
    parser.add_argument("--blocks", type=Path, help="file to write twenty memory blocks to")
    parser.add_argument("--seed", type=int, default=1, help="of the twenty")
    add_arguments(parser)


COMMAND = Command(__doc__, measure, options=options)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
