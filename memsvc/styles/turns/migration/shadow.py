"""Comparison of a client's own memory with this one: facts, tokens and files of a turn.

Only ids, paths and counts are stored: values are compared by their hashes, and neither is
stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Final

import orjson

from memsvc.core.facts import normalized_value
from memsvc.core.tool_methods import result
from memsvc.store import files, tree
from memsvc.store.append_log import append
from memsvc.store.database import Tx
from memsvc.styles.turns.file_layout import OWNER, exact_timestamp, session_root

TOKEN_DIFFERENCE_MAX: Final = 0.05
"""Token counts are equal when they differ by at most this share of the larger one."""
FILES_A_PAGE: Final = 1000
LINES_BYTES_MAX: Final = 8 * 1024 * 1024
_COMPARED_PATHS: Final = ("events/raw/", "memory_tiers/", "insights/")
"""Folders that both sides write alike; the rest of a session is not compared."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of the client, by its path within the session; None for unknown values."""

    path: str
    size_bytes: int | None
    lines: int | None


@result
class FactComparison:
    only_there: Annotated[list[str], "facts that only your side recalled"]
    only_here: Annotated[list[str], "facts that only this side recalled"]
    same: Annotated[list[str], "facts that both recalled"]
    different: Annotated[list[str], "facts that both recalled with different values"]


@result
class FileComparison:
    missing_here: Annotated[list[str], "files that only your side has"]
    missing_there: Annotated[list[str], "files that only this side has"]
    different: Annotated[list[str], "files with another number of lines"]
    same: Annotated[int, "how many files are alike"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One turn on both sides.

    Tokens are as each side counts them; `tokens_match` allows for TOKENS_APART. `files` is None
    when the client sent no list of files."""

    facts: FactComparison
    tokens_there: int | None
    tokens_here: int
    tokens_agree: bool | None
    files: FileComparison | None

    @property
    def agrees(self) -> bool:
        """Return whether nothing differs."""
        facts, kept = self.facts, self.files
        return (
            not (facts.only_there or facts.only_here or facts.different)
            and self.tokens_agree is not False
            and (kept is None or not (kept.missing_here or kept.missing_there or kept.different))
        )


def value_hash(value: str) -> str:
    """Return a hash of a value that ignores case and white space."""
    return blake2b(normalized_value(value).encode(), digest_size=8).hexdigest()


def compare_facts(client: Mapping[str, str | None], server: Mapping[str, str]) -> FactComparison:
    """Compare facts by id and hash of their value.

    None is an unknown value and counts as the same."""
    both = sorted(client.keys() & server.keys())
    return FactComparison(
        only_there=sorted(client.keys() - server.keys()),
        only_here=sorted(server.keys() - client.keys()),
        same=[name for name in both if client[name] in (None, server[name])],
        different=[name for name in both if client[name] not in (None, server[name])],
    )


def tokens_match(client: int | None, server: int) -> bool | None:
    """Return whether two counts are about equal; None where one is unknown."""
    return (
        None
        if client is None
        else abs(client - server) <= TOKEN_DIFFERENCE_MAX * max(client, server)
    )


async def compare_files(tx: Tx, session: str, client_files: Sequence[ClientFile]) -> FileComparison:
    """Compare the client's files with ours, in the folders that both sides write alike.

    Lines of events and facts are only counted, as their members differ."""
    root = session_root(session)
    client = {
        name: file
        for file in client_files
        if (name := file.path.removeprefix(root + "/")).startswith(_COMPARED_PATHS)
    }
    server = {
        path.removeprefix(root + "/"): path
        for path in await _paths(tx, root)
        if path.removeprefix(root + "/").startswith(_COMPARED_PATHS)
        and not path.endswith((".abstract", ".overview"))
    }
    different = []
    both = sorted(client.keys() & server.keys())
    for name in both:
        file = await files.find(tx, server[name])
        lines = client[name].lines
        if file is not None and lines is not None and file.size_bytes <= LINES_BYTES_MAX:
            content = await files.read(tx, file, 0, file.size_bytes)
            if content.count(b"\n") != lines:
                different.append(name)
    return FileComparison(
        missing_here=sorted(client.keys() - server.keys()),
        missing_there=sorted(server.keys() - client.keys()),
        different=different,
        same=len(both) - len(different),
    )


def report_file(session: str, now: datetime) -> str:
    """Return the file that the comparisons of a day are appended to."""
    return f"{session_root(session)}/shadow/{now:%Y/%m/%d}/report-{now:%Y%m%d}.jsonl"


async def keep(tx: Tx, session: str, turn: str, found: Comparison, now: datetime) -> None:
    """Append a comparison to the session's reports."""
    record = {
        "ts": exact_timestamp(now),
        "type": "shadow_comparison",
        "turn_id": turn,
        "agrees": found.agrees,
    } | asdict(found)
    await append(
        tx, {report_file(session, now): orjson.dumps(record) + b"\n"}, owner=OWNER, now=now
    )


async def count_comparisons(tx: Tx, session: str) -> Counter[str]:
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
    while page := await tree.files_at(
        tx, directory, after=found[-1] if found else "", limit=FILES_A_PAGE
    ):
        found += page
    return found
