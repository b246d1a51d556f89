"""Comparison of a client's own memory with this one: facts, tokens and files of a turn.

Only ids, paths and counts are stored: values are compared by their hashes, and neither is
stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import orjson

from memsvc.core.facts import normalised_value
from memsvc.core.items import Item, text_parts
from memsvc.store import files, tree
from memsvc.store.database import Tx
from memsvc.store.journals import append
from memsvc.styles.turns import block
from memsvc.styles.turns.layout import OWNER, exact, session_root

TOKENS_APART: Final = 0.05
"""Token counts are equal when they differ by at most this share of the larger one."""
FILES_A_PAGE: Final = 1000
LINES_BYTES_MAX: Final = 8 * 1024 * 1024
_COMPARED: Final = ("events/raw/", "memory_tiers/", "insights/")
"""Folders that both sides write alike; the rest of a session is not compared."""


@dataclass(frozen=True, slots=True)
class TheirFile:
    """A file of the client, by its path within the session; None for unknown values."""

    path: str
    size_bytes: int | None
    lines: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts by id: only the client's, only ours, both and equal, both and different."""

    only_there: list[str]
    only_here: list[str]
    same: list[str]
    different: list[str]


@dataclass(frozen=True, slots=True)
class Files:
    """Files by path: missing here, missing there, and those with another number of lines."""

    missing_here: list[str]
    missing_there: list[str]
    different: list[str]
    same: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One turn on both sides.

    Tokens are as each side counts them; `tokens_agree` allows for TOKENS_APART. `files` is None
    when the client sent no list of files."""

    facts: Facts
    tokens_there: int | None
    tokens_here: int
    tokens_agree: bool | None
    files: Files | None

    @property
    def agrees(self) -> bool:
        """Return whether nothing differs."""
        facts, kept = self.facts, self.files
        return (
            not (facts.only_there or facts.only_here or facts.different)
            and self.tokens_agree is not False
            and (kept is None or not (kept.missing_here or kept.missing_there or kept.different))
        )


def recalled_facts(items: Sequence[Item]) -> dict[str, str]:
    """Return the facts of a memory block by id, with a hash of their value."""
    found: dict[str, str] = {}
    for item in items:
        if block.is_data(item):
            body = orjson.loads(text_parts(item)[0].partition("\n")[2].rpartition("\n")[0])
            found |= {fact["id"]: value_hash(fact["value"]) for fact in body["facts"]}
    return found


def value_hash(value: str) -> str:
    """Return a hash of a value that ignores case and white space."""
    return blake2b(normalised_value(value).encode(), digest_size=8).hexdigest()


def compare_facts(there: Mapping[str, str | None], here: Mapping[str, str]) -> Facts:
    """Compare facts by id and hash of their value.

    None is an unknown value and counts as the same."""
    both = sorted(there.keys() & here.keys())
    return Facts(
        only_there=sorted(there.keys() - here.keys()),
        only_here=sorted(here.keys() - there.keys()),
        same=[name for name in both if there[name] in (None, here[name])],
        different=[name for name in both if there[name] not in (None, here[name])],
    )


def tokens_agree(there: int | None, here: int) -> bool | None:
    """Return whether two counts are about equal; None where one is unknown."""
    return None if there is None else abs(there - here) <= TOKENS_APART * max(there, here)


async def compare_files(tx: Tx, session: str, theirs: Sequence[TheirFile]) -> Files:
    """Compare the client's files with ours, in the folders that both sides write alike.

    Lines of events and facts are only counted, as their members differ."""
    root = session_root(session)
    there = {name: file for file in theirs if (name := file.path.removeprefix(root + "/")).startswith(_COMPARED)}
    here = {
        path.removeprefix(root + "/"): path
        for path in await _paths(tx, root)
        if path.removeprefix(root + "/").startswith(_COMPARED) and not path.endswith((".abstract", ".overview"))
    }
    different = []
    both = sorted(there.keys() & here.keys())
    for name in both:
        file = await files.find(tx, here[name])
        lines = there[name].lines
        if file is not None and lines is not None and file.size_bytes <= LINES_BYTES_MAX:
            content = await files.read(tx, file, 0, file.size_bytes)
            if content.count(b"\n") != lines:
                different.append(name)
    return Files(
        missing_here=sorted(there.keys() - here.keys()),
        missing_there=sorted(here.keys() - there.keys()),
        different=different,
        same=len(both) - len(different),
    )


def report_file(session: str, now: datetime) -> str:
    """Return the file that the comparisons of a day are appended to."""
    return f"{session_root(session)}/shadow/{now:%Y/%m/%d}/report-{now:%Y%m%d}.jsonl"


async def keep(tx: Tx, session: str, turn: str, found: Comparison, now: datetime) -> None:
    """Append a comparison to the session's reports."""
    record = {"ts": exact(now), "type": "shadow_comparison", "turn_id": turn, "agrees": found.agrees} | asdict(found)
    await append(tx, {report_file(session, now): orjson.dumps(record) + b"\n"}, owner=OWNER, now=now)


async def summed(tx: Tx, session: str) -> Counter[str]:
    """Return counts over the comparisons of a session, of each turn the last one."""
    latest: dict[str, dict[str, Any]] = {}
    for path in await _paths(tx, f"{session_root(session)}/shadow"):
        file = await files.find(tx, path) if path.endswith(".jsonl") else None
        if file is not None:
            for line in (await files.read(tx, file, 0, file.size_bytes)).splitlines():
                record = orjson.loads(line)
                latest[record["turn_id"]] = record
    found: Counter[str] = Counter()
    for record in latest.values():
        facts, kept = record["facts"], record["files"] or {}
        found["turns"] += 1
        found["turns_agreeing"] += record["agrees"]
        found["turns_with_tokens"] += record["tokens_agree"] is not None
        found["turns_with_tokens_agreeing"] += bool(record["tokens_agree"])
        for name in ("only_there", "only_here", "same", "different"):
            found[f"facts_{name}"] += len(facts[name])
        for name in ("missing_here", "missing_there", "different"):
            found[f"files_{name}"] += len(kept.get(name, ()))
        found["files_same"] += kept.get("same", 0)
    return found


async def _paths(tx: Tx, directory: str) -> list[str]:
    found: list[str] = []
    while page := await tree.files_at(tx, directory, after=found[-1] if found else "", most=FILES_A_PAGE):
        found += page
    return found
