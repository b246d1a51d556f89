"""Audit of what is remembered: duplicates, echoes of recalled text, secrets, what is out of date.

Entries come one by one; what the comparison needs of them is kept in a temporary file of SQLite."""

import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from operator import itemgetter
from typing import Annotated, Any, Final
from zlib import crc32

import orjson
from anyio import to_thread
from pydantic import Field

from memsvc.core.errors import invalid_content
from memsvc.core.frozen import frozen
from memsvc.core.ranking import EntryPlace
from memsvc.core.scope import Permission, Scope
from memsvc.core.secrets import replace_secrets
from memsvc.core.tool_methods import admin_tool, result
from memsvc.core.untrusted import BLOCK_START
from memsvc.core.word_similarity import (
    DUPLICATE_SHARE,
    bands,
    shared_part,
    words_and_pairs,
)
from memsvc.store import recalls
from memsvc.store.database import Database
from memsvc.store.recalls import RecallPosition, StoredEntry

PAGE_ROWS: Final = 500
LIMIT_MAX: Final = 1000
COMPARED_MAX: Final = 50
"""Earlier texts with a common band with which a text is compared, the latest first."""
JUNK: Final = ("exact", "near", "echo", "secret", "shown_after_end")
"""Findings that are junk; never recalled is only told."""
FINDINGS: Final = (*JUNK, "never_recalled")
_DERIVED_KINDS: Final = ("facts", "insights")
"""Kinds made of what users say, which is no echo even where it was recalled before."""
_MEM0_OWNERS: Final = ("user_id", "agent_id", "run_id")
_WORD: Final = re.compile(r"\w+")

_TABLES: Final = """
    PRAGMA journal_mode = OFF;
    CREATE TABLE shown (place TEXT PRIMARY KEY, first REAL, last REAL);
    CREATE TABLE entries (number INTEGER PRIMARY KEY, id TEXT, kind TEXT, owner TEXT, at REAL,
        first_shown REAL, is_original INTEGER, findable INTEGER, text TEXT, digest BLOB,
        hashes BLOB);
    CREATE INDEX entries_digest ON entries (digest);
    CREATE TABLE bands (band INTEGER, number INTEGER, PRIMARY KEY (band, number)) WITHOUT ROWID;
    CREATE TABLE found (number INTEGER, finding TEXT, other INTEGER,
        PRIMARY KEY (number, finding)) WITHOUT ROWID;
"""


@frozen
class AuditedEntry:
    """A memory as an audit sees it, of this store or of another program's export.

    `owner` names whose it is: duplicates are within one. `place` is what recall traces call it;
    what a user said is `original` and no echo. `ended_at` is when it no longer held; what is not
    `findable` is only looked at for that."""

    id: str
    kind: str
    owner: str
    text: str
    at: datetime | None = None
    place: str = ""
    is_original: bool = False
    findable: bool = True
    ended_at: datetime | None = None


@frozen
class AuditReport:
    """Counts of entries and of findings, by kind of memory; `junk` entries have one of JUNK.

    `never_recalled` is None where no recall was traced."""

    entries: dict[str, int]
    findings: dict[str, dict[str, int]]
    junk: int
    has_recalls: bool

    def count(self, finding: str) -> int | None:
        """Return the entries with a finding; None where it cannot be known."""
        if finding == "never_recalled" and not self.has_recalls:
            return None
        return sum(by_kind.get(finding, 0) for by_kind in self.findings.values())

    @property
    def total(self) -> int:
        """Return the number of entries."""
        return sum(self.entries.values())

    @property
    def share(self) -> float:
        """Return the share of junk, 0 to 1."""
        return self.junk / self.total if self.total else 0.0


@result
class FoundJunk:
    finding: Annotated[
        str,
        "problem: exact or near (duplicate), echo (of recalled text), secret, or shown_after_end"
        " (outdated)",
    ]
    id: Annotated[str, "id of the memory entry"]
    like: Annotated[str, "id of the earlier entry that this one resembles, if any"]
    text: Annotated[str, "text of the entry, with secrets masked; empty without `show`"]


@result
class AuditResult:
    entries: Annotated[dict[str, int], "number of entries that can be recalled, by kind of memory"]
    findings: Annotated[
        dict[str, int | None], "number of entries with each kind of problem; null: unknown"
    ]
    by_kind: Annotated[
        dict[str, dict[str, int]],
        "number of entries with each kind of problem, for each kind of memory",
    ]
    junk: Annotated[int, "number of junk entries: those with any problem other than never_recalled"]
    junk_share: Annotated[float, "share of junk entries, 0 to 1"]
    found: Annotated[list[FoundJunk], "first `limit` junk entries with each kind of problem"]


class Audit:
    """Comparison of entries, given in the order of storing within an owner."""

    def __init__(self, *, keeps_texts: bool = False) -> None:
        self._keeps_texts = keeps_texts
        # pages are added in threads, one after another
        self._tables = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._tables.executescript(_TABLES)

    def close(self) -> None:
        """Remove the temporary file."""
        self._tables.close()

    def note_all_shown(self, places: Iterable[tuple[str, datetime]]) -> None:
        """Note when recalls showed places; all recalls come before any entry."""
        self._tables.executemany(
            "INSERT INTO shown VALUES (?1, ?2, ?2) ON CONFLICT DO UPDATE"
            " SET first = min(first, ?2), last = max(last, ?2)",
            [(place, at.timestamp()) for place, at in places],
        )

    def add_all(self, entries: Iterable[AuditedEntry]) -> None:
        """Add entries one after another; it takes a tenth of a second for a page of them."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: AuditedEntry) -> None:
        """Compare an entry with all that came before."""
        shown = self._tables.execute(
            "SELECT first, last FROM shown WHERE place = ?", (entry.place,)
        ).fetchone()
        number = self._tables.execute(
            "INSERT INTO entries (id, kind, owner, at, first_shown, is_original, findable, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.id,
                entry.kind,
                entry.owner,
                entry.at.timestamp() if entry.at else 0.0,
                shown[0] if shown else None,
                entry.is_original,
                entry.findable,
                replace_secrets(entry.text) if self._keeps_texts else "",
            ),
        ).lastrowid
        assert number is not None
        if shown and entry.ended_at and shown[1] > entry.ended_at.timestamp():
            self._note(number, "shown_after_end")
        if not entry.findable:
            return
        if not shown:
            self._note(number, "never_recalled")
        if replace_secrets(entry.text) != entry.text:
            self._note(number, "secret")
        if BLOCK_START in entry.text:
            self._note(number, "echo")
        self._compare(number, entry)

    def _compare(self, number: int, entry: AuditedEntry) -> None:
        """Look for earlier entries of the same or nearly the same words, with the same numbers."""
        words = _WORD.findall(entry.text.casefold())
        if not words:
            return
        digest = sha256(" ".join(words).encode(errors="surrogatepass")).digest()
        same = self._tables.execute(
            "SELECT number, owner, at, first_shown, is_original FROM entries WHERE digest = ?",
            (digest,),
        ).fetchall()
        for other in same:
            self._note_pair(number, entry, other, "exact")
        hashes = words_and_pairs(entry.text)
        keys = bands(hashes)
        near = self._tables.execute(
            "SELECT number, owner, at, first_shown, is_original, hashes FROM entries WHERE number"
            " IN (SELECT number FROM bands WHERE band IN (SELECT value FROM json_each(?)))"
            " AND digest <> ? ORDER BY number DESC LIMIT ?",
            (orjson.dumps(keys).decode(), digest, COMPARED_MAX),
        ).fetchall()
        of_numbers = crc32(" ".join(sorted(filter(str.isdigit, words))).encode())
        for *other, blob in near:
            other_numbers, *others = array("I", blob)
            if other_numbers == of_numbers and shared_part(hashes, others) >= DUPLICATE_SHARE:
                self._note_pair(number, entry, other, "near")
        blob = array("I", [of_numbers, *hashes]).tobytes()
        self._tables.execute(
            "UPDATE entries SET digest = ?, hashes = ? WHERE number = ?", (digest, blob, number)
        )
        if not any(owner == entry.owner for _, owner, *_ in same):
            self._tables.executemany(
                "INSERT OR IGNORE INTO bands VALUES (?, ?)", [(key, number) for key in keys]
            )

    def _note_pair(
        self, number: int, entry: AuditedEntry, other: Sequence[Any], finding: str
    ) -> None:
        """Note what is alike in one owner and, of what was recalled in between, as an echo."""
        if other[1] == entry.owner:
            self._note(number, finding, other[0])
        row = self._tables.execute(
            "SELECT number, owner, at, first_shown, is_original FROM entries WHERE number = ?",
            (number,),
        ).fetchone()
        older, newer = sorted((row, other), key=itemgetter(2))
        _, _, said_at, first_shown, _ = older
        if first_shown and said_at < newer[2] and first_shown <= newer[2] and not newer[4]:
            self._note(newer[0], "echo", older[0])

    def _note(self, number: int, finding: str, other: int | None = None) -> None:
        self._tables.execute(
            "INSERT OR IGNORE INTO found VALUES (?, ?, ?)", (number, finding, other)
        )

    def report(self) -> AuditReport:
        """Return the counts so far."""
        execute = self._tables.execute
        findings: dict[str, dict[str, int]] = {}
        has_recalls = execute("SELECT EXISTS (SELECT 1 FROM shown)").fetchone()[0] == 1
        for kind, finding, count in execute(
            "SELECT kind, finding, count(*) FROM found JOIN entries USING (number) GROUP BY 1, 2"
        ):
            if has_recalls or finding in JUNK:
                findings.setdefault(kind, {})[finding] = count
        junk = execute(
            "SELECT count(DISTINCT number) FROM found WHERE finding <> 'never_recalled'"
        ).fetchone()[0]
        kinds = execute("SELECT kind, count(*) FROM entries WHERE findable GROUP BY 1 ORDER BY 1")
        return AuditReport(dict(kinds.fetchall()), findings, junk, has_recalls)

    def found(self, limit: int) -> Iterator[tuple[str, str, str, str]]:
        """Yield finding, id, the id that it is like, and the kept text: `limit` of each junk."""
        for finding in JUNK:
            yield from self._tables.execute(
                "SELECT finding, e.id, coalesce(o.id, ''), e.text FROM found"
                " JOIN entries AS e USING (number) LEFT JOIN entries AS o ON o.number = other"
                " WHERE finding = ? ORDER BY e.number LIMIT ?",
                (finding, limit),
            )


def audit_result(audit: Audit, limit: int) -> AuditResult:
    """Return what an audit found, with `limit` ids of each finding, and remove its file."""
    report = audit.report()
    found = [FoundJunk(*row) for row in audit.found(limit)]
    audit.close()
    return AuditResult(
        report.entries,
        {name: report.count(name) for name in FINDINGS},
        report.findings,
        report.junk,
        round(report.share, 4),
        found,
    )


@frozen
class AuditTool:
    """The tool that audits what a tenant remembers."""

    database: Database

    @admin_tool(
        "tenant_audit",
        "Audit memory",
        Permission.READ,
        read_only=True,
        idempotent=True,
        project="the project, or * for all of your projects",
    )
    async def audit(
        self,
        scope: Scope,
        limit: Annotated[
            int,
            Field(ge=0, le=LIMIT_MAX),
            "maximum number of entry ids to list for each kind of problem",
        ] = 10,
        show: Annotated[
            bool, "include the texts of the listed entries, with secrets masked"
        ] = False,
    ) -> AuditResult:
        """Count junk in memory: duplicates, echoes of recalled text, secrets and outdated entries.

        Reads everything that can be recalled, at about two thousand entries per second."""
        audit = Audit(keeps_texts=show)
        await audit_projects(self.database, scope, audit)
        return audit_result(audit, limit)


async def audit_projects(database: Database, scope: Scope, into: Audit) -> None:
    """Read all entries of the projects in scope into an audit."""
    names = scope.projects
    if names is None:
        async with database.begin_tenant(scope, read_only=True) as tx:
            names = frozenset(await recalls.indexed_projects(tx))
    for name in sorted(names):
        await audit_project(database, Scope(scope.tenant, name), into)


async def audit_project(database: Database, scope: Scope, into: Audit) -> None:
    """Read all entries of a project into an audit, a page in each transaction."""
    end: tuple[str, RecallPosition] | None = None
    while True:
        async with database.begin_read(scope) as tx:
            shown, end = await recalls.shown_after(tx, end, limit=PAGE_ROWS)
        names = [(_name(scope, place), at) for place, at in shown]
        await to_thread.run_sync(into.note_all_shown, names)
        if end is None:
            break
    after: EntryPlace | None = None
    while True:
        async with database.begin_read(scope) as tx:
            page = await recalls.entries_after(tx, after, limit=PAGE_ROWS)
        if not page:
            return
        await to_thread.run_sync(into.add_all, [_audited(scope, one) for one in page])
        after = page[-1].place


def _audited(scope: Scope, entry: StoredEntry) -> AuditedEntry:
    kind = entry.index.partition("/")[0]
    return AuditedEntry(
        id=f"{entry.index}:{entry.ref}",
        kind=kind,
        owner=f"{scope.project}:{entry.index}",
        text=entry.text,
        at=entry.said_at,
        place=_name(scope, entry.place),
        is_original=entry.role == "user" or kind in _DERIVED_KINDS,
        findable=entry.findable,
        ended_at=entry.ended_at,
    )


def _name(scope: Scope, place: EntryPlace) -> str:
    return f"{scope.project}:{place.index_id}:{place.entry}"


def exported_memories(content: bytes) -> Iterator[AuditedEntry]:
    """Yield what a file of another program remembers: mem0's JSON, or server-memory's JSON lines.

    INVALID_CONTENT for a file that is neither, or holds nothing."""
    count = 0
    try:
        lines = content.splitlines()
        is_graph = _is_graph(next((line for line in lines if line.strip()), b""))
        found = _of_graph(lines) if is_graph else _of_mem0(orjson.loads(content))
        for count, entry in enumerate(found, 1):  # noqa: B007 - counted
            yield entry
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise invalid_content(
            "this file is neither an export of mem0 (JSON) nor a file of server-memory"
            " (JSON lines)",
        ) from error
    if not count:
        raise invalid_content("this file does not contain any memory entries")


def _is_graph(line: bytes) -> bool:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(record, dict) and record.get("type") in ("entity", "relation")


def _of_graph(lines: Iterable[bytes]) -> Iterator[AuditedEntry]:
    """Yield each observation of an entity with its name, and each relation as a sentence."""
    for at, record in enumerate(orjson.loads(line) for line in lines if line.strip()):
        if record["type"] == "relation":
            text = f"{record['from']} {record['relationType']} {record['to']}"
            yield AuditedEntry(f"relation {at}", "relations", "relations", text)
            continue
        name: str = record["name"]
        for number, said in enumerate(record["observations"]):
            yield AuditedEntry(f"{name} {number}", "observations", name, said)


def _of_mem0(content: Any) -> Iterator[AuditedEntry]:
    """Yield the memories of a list, or of the list that an answer of mem0's API holds."""
    if isinstance(content, dict):
        content = content["results"] if "results" in content else content["memories"]
    for record in content:
        changed_at = record.get("updated_at") or record.get("created_at")
        yield AuditedEntry(
            id=str(record["id"]),
            kind="memories",
            owner="/".join(str(record.get(name) or "") for name in _MEM0_OWNERS),
            text=record["memory"],
            at=datetime.fromisoformat(changed_at) if changed_at else None,
        )
