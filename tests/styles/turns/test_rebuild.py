"""What is derived can be thrown away: a rebuild from the files gives the same memory; a check tells
any difference."""

from collections import Counter
from datetime import timedelta, timezone
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.store.database import Database
from memsvc.store.tables import TABLES
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.rebuild.turn_rebuild import TurnRebuild
from tests.door import Door, Refused
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.folders import jsonl, turn
from tests.styles.turns.steps import meanwhile
from tests.styles.turns.talk import ask, file_paths, say, values
from tests.styles.turns.talk import user as user_item

pytestmark = pytest.mark.slow

DERIVED = tuple(
    name
    for name, table in TABLES.items()
    if table.derived_from
    and name not in ("projects", "usage", "outlines", "outline_nodes", "embeddings")
)
"""What a rebuild makes anew from nothing but the files, without what is not of turns: quotas, the
tree of a notebook (`test_one_tree`), and vectors, which a job makes."""


@pytest.fixture
def rebuilding(database: Database, clock: FakeClock, tokens: O200kCounter) -> TurnRebuild:
    return TurnRebuild(database, clock, tokens, TurnOptions())


async def live(door: Door, clock: FakeClock) -> None:
    """A history with users, changes of mind, what was taken back, forgotten, expired and packed
    away."""
    for day in range(4):
        for at in range(12):
            user = ("u1", "u2", "")[at % 3]
            said = f"On day {day} the word is {'abcdefghijkl'[at]}{day}. I like tea{at}."
            await say(door, f"d{day}-{at}", said, answer=f"Noted {at}.", user_id=user)
            clock.advance(minutes=7)
        await say(
            door, f"d{day}-name", f"My name is Ada{day}. Today I need milk{day}.", user_id="u1"
        )
        clock.advance(seconds=1)
        await say(door, f"d{day}-other", f"My name is Grace{day}.", session="s2", user_id="u2")
        clock.advance(days=1)
    await door.jobs["turns.place"].run(Scope(door.caller.tenant, "default"), "s1")
    await door("memory_forget", session_id="s1", user_id="u1", turn_ids=["d1-3"])
    await door("memory_forget", session_id="s2", user_id="u2", fact_ids=["user_name"])
    await say(door, "back", "My name is Zoe.", session="s2", user_id="u2")
    for session, user, correction in (
        ("s1", "u1", {"value": "Bea"}),
        ("s2", "u2", {"statement": "My name is Zoë."}),
    ):
        owner = {"session_id": session, "user_id": user, "reach": "user"}
        facts = (await door("memory_list_facts", **owner, fact_id="user_name"))["facts"]
        await door("memory_correct_fact", **owner, record_id=facts[0]["record_id"], **correction)
    for session in ("s1", "s2"):
        await door("memory_run_maintenance", session_id=session)
    archives = await file_paths(door, "/memory/s1/events/archive")
    assert any(path.endswith(".zst") for path in archives)
    clock.advance(minutes=5)
    just_now = (clock.now() - timedelta(seconds=1)).astimezone(timezone(timedelta(hours=8)))
    abroad = user_item("I live in Oslo.", metadata={"occurred_at": just_now.isoformat()})
    await door(
        "memory_after_turn", session_id="s1", turn_id="abroad", user_id="u3", input_items=[abroad]
    )
    await say(door, "last", "One more thing.", user_id="u1")


async def rows(admin: asyncpg.Connection) -> dict[str, Any]:
    """What is derived, as far as it follows from the files.

    Left out: the token of a guard (a random fence), the number of an item in a search index, how far an index has put its fresh terms into
    its postings (both are read as one), numbers of facts where others before them were swept (their
    order stays), and what counts runs rather than what is there (runs of maintenance, watermarks).
    """
    facts = await admin.fetch(
        """
        SELECT b.name, f.record, f.fact_id, f.key, f.slot, f.value, f.cues, f.tier, f.confidence,
            f.state, f.valid_from,
               f.valid_to, f.expires_at, f.superseded_by, f.evidence, f.forgotten, f.statement,
               f.doubt,
               e.ref, e.text, e.said_at, e.utc_offset, e.length, e.cues AS found_by
        FROM facts AS f JOIN books AS b USING (tenant, project, book)
        JOIN entries AS e USING (tenant, project, book, entry)
        ORDER BY b.name, f.entry
        """
    )
    items = await admin.fetch(
        """
        SELECT b.name, s.name AS searched, e.tenant, e.project, e.book, e.entry, e.ref, e.role,
            e.speaker, e.said_at, e.digest, e.asks, e.length, e.tokens, e.stream, e.start,
            e.size_bytes, e.text, e.cues, e.feedback, e.utc_offset
        FROM entries AS e JOIN books AS b USING (tenant, project, book)
        LEFT JOIN books AS s ON (s.tenant, s.project, s.book) = (e.tenant, e.project, e.search_book)
        WHERE b.name LIKE 'turns/%'
        """
    )
    guards = await admin.fetch(
        "SELECT session, turn, done, fingerprint, first_entry, result, claimed_at FROM guards"
        " WHERE turn <> ''"
    )
    sessions = await admin.fetch(
        """
        SELECT session, user_id, latest_turn, turns, counters -> 'items' AS items,
            counters -> 'facts' AS facts,
               created_at, updated_at FROM sessions
        """
    )
    counters = await admin.fetch(
        """
        SELECT name, analyser, segment_bits, entries, length,
               CASE WHEN name LIKE 'turns/%' THEN next_entry END AS next_entry
        FROM books WHERE name LIKE 'turns/%'
            OR (name LIKE 'facts/%' OR name LIKE 'said/%') AND entries > 0
        """
    )
    hits = await admin.fetch(
        """
        SELECT b.name, h.term, CASE WHEN b.name LIKE 'turns/%' THEN h.hit ELSE h.hit & 4294967295
            END AS hit FROM (
            SELECT tenant, project, book, term, unnest(hits) AS hit FROM posting_lists
            UNION ALL SELECT tenant, project, book, unnest(terms), unnest(hits) FROM fresh_terms
        ) AS h JOIN books AS b USING (tenant, project, book) WHERE b.name LIKE 'turns/%'
            OR b.name LIKE 'facts/%' OR b.name LIKE 'said/%'
        """
    )
    return {"facts": list(map(str, facts))} | {
        name: sorted(map(str, found))
        for name, found in (
            ("items", items),
            ("guards", guards),
            ("sessions", sessions),
            ("books", counters),
            ("hits", hits),
        )
    }


async def differences(rebuilding: TurnRebuild, scope: Scope) -> Counter[str]:
    found: Counter[str] = Counter()
    for session in await rebuilding.sessions(scope):
        found += await rebuilding.check(scope, session)
    for user, learnt_in in (await rebuilding.users(scope)).items():
        found += await rebuilding.check_user(scope, user, learnt_in)
    return found


async def rebuild(rebuilding: TurnRebuild, scope: Scope) -> Counter[str]:
    found: Counter[str] = Counter()
    for session in await rebuilding.sessions(scope):
        found += await rebuilding.run(scope, session)
    for user, learnt_in in (await rebuilding.users(scope)).items():
        found += await rebuilding.check_user(scope, user, learnt_in, fix=True)
    return found


async def test_a_lived_history_is_what_its_files_say(
    door: Door, clock: FakeClock, rebuilding: TurnRebuild, scope: Scope
) -> None:
    await live(door, clock)
    assert await differences(rebuilding, scope) == Counter()


async def test_everything_derived_comes_back_from_the_files_as_it_was(
    door: Door, clock: FakeClock, admin: asyncpg.Connection, rebuilding: TurnRebuild, scope: Scope
) -> None:
    await live(door, clock)
    before = await rows(admin)
    assert await rebuild(rebuilding, scope) == Counter()
    assert await rows(admin) == before
    places = await admin.fetch(
        "SELECT book, entry, stream, start, size_bytes FROM entries WHERE stream <> 0"
    )
    await admin.execute(f"TRUNCATE {', '.join(DERIVED)}")
    assert (await rebuild(rebuilding, scope)).keys() >= {
        "entries",
        "facts",
        "guards",
        "postings",
        "sessions",
    }
    await admin.executemany(  # where the lines of packed days once stood, nobody can tell any more
        "UPDATE entries SET stream = $3, start = $4 WHERE book = $1 AND entry = $2 AND stream = 0"
        " AND size_bytes = $5",
        [tuple(place) for place in places],
    )
    after = await rows(admin)
    for name in before:
        assert after[name] == before[name], name
    assert await differences(rebuilding, scope) == Counter()


@pytest.mark.parametrize(
    ("harm", "table"),
    [
        ("UPDATE facts SET value = 'Mallory' WHERE value = 'Bea'", "facts"),
        ("DELETE FROM facts WHERE value = 'Bea'", "facts"),
        (
            (
                "UPDATE facts SET state = 'active', valid_to = NULL, superseded_by = NULL WHERE value"
                " = 'tea1'"
            ),
            "",
        ),
        ("UPDATE entries SET text = 'changed' WHERE ref = 'd0-1-in-0'", "entries"),
        ("DELETE FROM entries WHERE ref = 'd3-2-out-0'", "entries"),
        ("UPDATE guards SET result = '{}' WHERE turn = 'd1-1'", "guards"),
        ("DELETE FROM guards WHERE turn = 'd1-1'", "guards"),
        ("DELETE FROM posting_lists", "postings"),
        ("UPDATE books SET length = length + 1 WHERE name = 'turns/s1'", "books"),
        ("UPDATE sessions SET turns = 1", "sessions"),
    ],
)
async def test_a_check_tells_what_is_wrong_and_a_rebuild_puts_it_right(
    door: Door,
    clock: FakeClock,
    admin: asyncpg.Connection,
    rebuilding: TurnRebuild,
    scope: Scope,
    harm: str,
    table: str,
) -> None:
    await live(door, clock)
    before = await rows(admin)
    await admin.execute(harm)
    harmed = await rows(admin)
    found = await differences(rebuilding, scope)
    assert bool(found) == bool(table)
    assert found[table] > 0 or not table
    assert await rows(admin) == harmed
    await rebuild(rebuilding, scope)
    assert await differences(rebuilding, scope) == Counter()
    assert await rows(admin) == before


async def test_a_forgotten_turn_stays_forgotten_when_its_rows_are_made_anew(
    door: Door, admin: asyncpg.Connection, rebuilding: TurnRebuild, scope: Scope
) -> None:
    await say(door, "t1", "The password of the harbour is swordfish.")
    await say(door, "t2", "The weather is fine.")
    await door("memory_forget", session_id="s1", turn_ids=["t1"])
    await admin.execute(f"TRUNCATE {', '.join(DERIVED)}")
    await rebuild(rebuilding, scope)
    assert "swordfish" not in str(await ask(door, "What is the password of the harbour?"))
    assert "weather" in str(await ask(door, "How is the weather?"))


async def test_days_that_were_removed_are_not_missed_and_their_turns_stay_known(
    door: Door, clock: FakeClock, rebuilding: TurnRebuild, scope: Scope
) -> None:
    policy = '{"ttl_days": 2}'
    where = "/memory/s1/meta/policy.json"
    await door("file_write", project="default", path=where, content=policy, mode="TRUNCATE")
    for day in range(5):
        await say(door, f"t{day}", f"My name is Ada{day}.", answer="Yes.")
        clock.advance(days=1)
    removed = await door("memory_run_maintenance", session_id="s1")
    assert removed["expired_facts"] > 0
    assert await differences(rebuilding, scope) == Counter()
    assert await rebuild(rebuilding, scope) == Counter()
    assert (await say(door, "t0", "My name is Ada0.", answer="Yes."))["stored_items"] == 2


async def test_a_retry_is_answered_from_a_rebuilt_guard_as_it_was_before(
    door: Door, admin: asyncpg.Connection, rebuilding: TurnRebuild, scope: Scope
) -> None:
    first = await say(door, "t1", "My name is Ada. Today I need milk.", answer="Yes.")
    await admin.execute("TRUNCATE guards")
    await rebuild(rebuilding, scope)
    assert await say(door, "t1", "My name is Ada. Today I need milk.", answer="Yes.") == first
    await door.refuses(
        "CONFLICT",
        "memory_after_turn",
        session_id="s1",
        turn_id="t1",
        output_items=[{"role": "user", "content": "Else."}],
    )


async def three_days(door: Door, clock: FakeClock) -> None:
    for day in range(3):
        await say(door, f"t{day}", f"My name is Ada{day}.", answer="Yes.")
        clock.advance(days=1)


@pytest.mark.parametrize("hours", [0, 24])
@pytest.mark.parametrize("renumber", [False, True])
async def test_turns_that_come_before_any_step_of_a_rebuild_keep_all_their_rows(
    door: Door,
    clock: FakeClock,
    admin: asyncpg.Connection,
    rebuilding: TurnRebuild,
    scope: Scope,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
    renumber: bool,
) -> None:
    await three_days(door, clock)
    said = {}

    async def one_more(at: int) -> None:
        if at <= 12:
            said[f"new{at}"] = await say(door, f"new{at}", f"I like jazz{at}.")
            clock.advance(hours=hours)

    with monkeypatch.context() as patched:
        meanwhile(patched, one_more)
        assert await rebuilding.run(scope, "s1", renumber=renumber) == Counter()
    assert len(said) >= 5
    assert await differences(rebuilding, scope) == Counter()
    before = await rows(admin)
    for at, (name, stored) in enumerate(said.items(), 1):
        assert await say(door, name, f"I like jazz{at}.") == stored
    assert await rows(admin) == before
    assert len(before["items"]) == 6 + len(said)


async def older(door: Door, number: int) -> None:
    """Bring in a turn of a day before all others; that it is put in its place has to wait for the
    rebuild."""
    files = {"log.jsonl": jsonl(turn(f"old{number}", f"The word was heron{number}.", "Noted."))}
    with pytest.raises(Refused) as refused:
        await door("memory_import_session", session_id="s1", files=files)
    assert refused.value.code is Code.RESOURCE_BUSY


async def test_older_turns_that_come_in_during_a_rebuild_keep_all_their_rows(
    door: Door,
    clock: FakeClock,
    rebuilding: TurnRebuild,
    scope: Scope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await three_days(door, clock)

    async def one_older(at: int) -> None:
        if at in (3, 6):
            await older(door, at)

    with monkeypatch.context() as patched:
        meanwhile(patched, one_older)
        await rebuilding.run(scope, "s1")
    assert await differences(rebuilding, scope) == Counter()
    for at in (3, 6):
        assert f"heron{at}." in str(await ask(door, f"What was the word heron{at}?"))


async def test_a_rebuild_gives_up_where_older_turns_come_in_all_the_time_and_loses_nothing(
    door: Door,
    clock: FakeClock,
    rebuilding: TurnRebuild,
    scope: Scope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await three_days(door, clock)
    came = []

    async def one_older(at: int) -> None:
        await older(door, at)
        came.append(at)

    with monkeypatch.context() as patched:
        meanwhile(patched, one_older)
        with pytest.raises(MemsvcError) as refused:
            await rebuilding.run(scope, "s1")
    assert refused.value.code is Code.RESOURCE_BUSY
    await rebuilding.run(scope, "s1")
    assert await differences(rebuilding, scope) == Counter()
    for at in came:
        assert f"heron{at}." in str(await ask(door, f"What was the word heron{at}?"))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
async def test_a_turn_that_is_forgotten_during_a_rebuild_stays_forgotten(
    door: Door,
    clock: FakeClock,
    rebuilding: TurnRebuild,
    scope: Scope,
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    await three_days(door, clock)

    async def forget(at: int) -> None:
        if at == step:
            await door("memory_forget", session_id="s1", turn_ids=["t0"])

    with monkeypatch.context() as patched:
        meanwhile(patched, forget)
        await rebuilding.run(scope, "s1")
    assert await differences(rebuilding, scope) == Counter()
    assert "Ada0" not in str(await ask(door, "What is my name?"))


async def test_facts_that_are_learnt_in_a_session_which_came_meanwhile_are_kept(
    door: Door, clock: FakeClock, rebuilding: TurnRebuild, scope: Scope
) -> None:
    await say(door, "t1", "My name is Ada.", user_id="u1")
    learnt_in = (await rebuilding.users(scope))["u1"]
    clock.advance(minutes=1)
    await say(door, "t2", "My favorite color is green.", session="s9", user_id="u1")
    assert await rebuilding.check_user(scope, "u1", learnt_in) == Counter()
    assert await rebuilding.check_user(scope, "u1", learnt_in, fix=True) == Counter()
    assert values(await ask(door, "What is my favorite color?", session="s3", user_id="u1")) == [
        "green"
    ]


async def test_a_large_session_is_compared_segment_by_segment(
    opened: Opened, admin: asyncpg.Connection, rebuilding: TurnRebuild, scope: Scope
) -> None:
    door = opened()
    for at in range(11):
        items = [
            f"turn {at} item {number} speaks of word{at * 100 + number}" for number in range(100)
        ]
        await say(door, f"t{at}", *items)
    assert await differences(rebuilding, scope) == Counter()
    await admin.execute("DELETE FROM posting_lists WHERE segment = 1")
    assert (await differences(rebuilding, scope))["postings"] == 1
    await rebuild(rebuilding, scope)
    assert await differences(rebuilding, scope) == Counter()
    assert "word1050" in str(await ask(door, "What was said of word1050?"))


async def test_a_rebuild_finds_out_in_which_sessions_more_than_one_user_spoke(
    door: Door, admin: asyncpg.Connection, rebuilding: TurnRebuild, scope: Scope
) -> None:
    await say(door, "t1", "Hello.", user_id="u1")
    await say(door, "t2", "Hello.", user_id="u2")
    await say(door, "t1", "Hello.", session="s2", user_id="u1")
    await say(door, "t2", "Hello.", session="s2")
    right = {"s1": True, "s2": False}
    for wrong in ("NOT shared", "true", "false"):
        await admin.execute(f"UPDATE sessions SET shared = {wrong}")
        for session in right:
            await rebuilding.run(scope, session)
        assert {
            row["session"]: row["shared"] for row in await admin.fetch("SELECT * FROM sessions")
        } == right
