"""The revision that puts the items of all sessions of a user into one search index: interrupted and
resumed, back, and forward again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from memsvc.core import analysis
from memsvc.core.scope import Scope
from memsvc.store import derived_index
from memsvc.store.database import Database, DatabaseOptions
from memsvc.store.index import index_id_of
from memsvc.store.migrate import downgrade, migrate
from memsvc.store.search import IndexQuery, search
from tests.fakes import RecordingMeter
from tests.servers import DatabaseUrls, TestServer, current_revision

pytestmark = pytest.mark.slow

SCOPE = Scope(b"\x05" * 32, "default")
AT = datetime(2026, 1, 5, tzinfo=UTC)
USERS = ("ada", "bob", "cyd", "dan")
SESSIONS, ITEMS = 12, 5
NAMES = (*(f"said/{user}" for user in USERS), "turns/shared", "turns/nobody")


async def filled(urls: DatabaseUrls) -> None:
    """Rows as a version of revision 0024 left them, but for the postings, which nothing reads."""
    connection = await asyncpg.connect(urls.admin)
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL memsvc.tenant = '\\x{SCOPE.tenant.hex()}'")
            await connection.execute("INSERT INTO tenants VALUES ($1, $2)", SCOPE.tenant, AT)
            sessions = [
                (f"s{number}", USERS[number % len(USERS)], False) for number in range(SESSIONS)
            ]
            for session, user, shared in (
                *sessions,
                ("shared", "ada", True),
                ("nobody", "", False),
            ):
                await _session(connection, session, user, shared=shared)
            await _index(connection, "digests/ada", [("s0/0", "digest", "")])
    finally:
        await connection.close()


async def _session(connection: Any, session: str, user: str, *, shared: bool) -> None:
    await connection.execute(
        """
        INSERT INTO sessions (tenant, project, session, user_id, latest_turn, turns, context_start,
            counters, created_at, updated_at, shared)
        VALUES ($1, $2, $3, $4, 't1', 1, 0, '{}', $5, $5, $6)
        """,
        *(SCOPE.tenant, SCOPE.project, session, user, AT, shared),
    )
    items = [
        (f"t1-in-{number}", "user", f"The {session} boat{number} is {session}n{number}.")
        for number in range(ITEMS)
    ]
    await _index(connection, f"turns/{session}", items)


async def _index(connection: Any, name: str, items: list[tuple[str, str, str]]) -> None:
    scope = (SCOPE.tenant, SCOPE.project, index_id_of(name))
    await connection.execute(
        """
        INSERT INTO books (tenant, project, book, name, analyser, next_entry, entries, length)
        VALUES ($1, $2, $3, $4, 1, $5, $5, 20)
        """,
        *(*scope, name, len(items)),
    )
    for entry, (ref, role, text) in enumerate(items):
        await connection.execute(
            """
            INSERT INTO entries (tenant, project, book, entry, ref, role, said_at, digest, asks,
                length, tokens, stream, start, size_bytes, text)
            VALUES ($1, $2, $3, $4, $5, $6, $7, 0, false, $9, 4, 0, 0, 0, $8)
            """,
            *(*scope, entry, ref, role, AT + timedelta(minutes=entry), text),
            -1 if ref == "t1-in-4" else 4,
        )


async def check(urls: DatabaseUrls) -> None:
    """Every item is found in the index that it belongs to, once, and in no other one."""
    database = await Database.open(urls.app, DatabaseOptions(), RecordingMeter())
    try:
        async with database.begin_read(SCOPE) as tx:
            for name in NAMES[: len(USERS)]:
                assert not await derived_index.compare_index(tx, name, fix=False), name
            queries = [IndexQuery(index_id_of(name), best=50) for name in NAMES]
            for number in range(SESSIONS):
                session = f"s{number}"
                user = index_id_of(f"said/{USERS[number % len(USERS)]}")
                for item in range(ITEMS):
                    found = await search(tx, queries, analysis.query_terms(f"{session}n{item}"))
                    places = {
                        (index_id, one.index_id, one.entry)
                        for index_id, matches in found.items()
                        for one in matches.candidates
                    }
                    hidden = item == ITEMS - 1
                    own = index_id_of(f"turns/{session}")
                    assert places == (set() if hidden else {(user, own, item)})
            roles = await tx.fetch_column(
                "SELECT DISTINCT role FROM entries WHERE tenant = $1 AND project = $2"
            )
            assert roles == ["user"]
    finally:
        await database.close()


async def test_items_are_indexed_by_user_though_interrupted_and_by_session_again(
    empty_urls: DatabaseUrls, server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(empty_urls.admin, server.app, "0024")
    await filled(empty_urls)
    read, terms = 0, analysis.terms

    def killed(text: str) -> list[str]:
        nonlocal read
        read += 1
        if read % 18 == 0:  # a user has 15 items
            raise RuntimeError("killed")
        return terms(text)

    monkeypatch.setattr(analysis, "terms", killed)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="killed"):
            await migrate(empty_urls.admin, server.app)
        assert await current_revision(empty_urls.admin) == "0025"
    monkeypatch.setattr(analysis, "terms", terms)
    await migrate(empty_urls.admin, server.app)
    await check(empty_urls)
    await downgrade(empty_urls.admin, "0024")
    connection = await asyncpg.connect(empty_urls.admin)
    try:
        await connection.execute(f"SET memsvc.tenant = '\\x{SCOPE.tenant.hex()}'")
        counts = await connection.fetch(
            """
            SELECT b.name, b.entries, count(DISTINCT h.hit >> 32) AS found FROM books AS b
            JOIN postings AS p USING (tenant, project, book) CROSS JOIN LATERAL unnest(hits) AS h (hit)
            WHERE b.name LIKE 'turns/s%' GROUP BY 1, 2
            """
        )
    finally:
        await connection.close()
    assert {tuple(row)[1:] for row in counts} == {(ITEMS - 1, ITEMS - 1)}
    assert len(counts) == SESSIONS + 1  # the shared one has been indexed anew by itself
    await migrate(empty_urls.admin, server.app)
    await check(empty_urls)


@pytest.mark.parametrize("revision", ["0029", "0030"])
async def test_indexes_of_other_terms_are_made_anew_though_interrupted(
    empty_urls: DatabaseUrls, server: TestServer, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    await migrate(empty_urls.admin, server.app, "0024")
    await filled(empty_urls)
    await migrate(empty_urls.admin, server.app, revision)
    connection = await asyncpg.connect(empty_urls.admin)
    await connection.execute(f"SET memsvc.tenant = '\\x{SCOPE.tenant.hex()}'")
    await connection.execute("UPDATE books SET analyser = 1, entries = 7, folded_entry = 0")
    await connection.execute("UPDATE entries SET length = 3 WHERE length > 0")
    await connection.execute("UPDATE posting_lists SET term = 'old' || term")
    await connection.close()
    read, terms = 0, analysis.terms

    def killed(text: str) -> list[str]:
        nonlocal read
        read += 1
        if read == 20:
            raise RuntimeError("killed")
        return terms(text)

    monkeypatch.setattr(analysis, "terms", killed)
    with pytest.raises(RuntimeError, match="killed"):
        await migrate(empty_urls.admin, server.app)
    assert await current_revision(empty_urls.admin) == revision
    await migrate(empty_urls.admin, server.app)
    assert read < 19 + SESSIONS * ITEMS  # what was done before is not done again
    await check(empty_urls)
