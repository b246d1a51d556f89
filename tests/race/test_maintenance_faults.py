"""Maintenance that is killed at any statement, or runs beside others, comes to what an undisturbed
run comes to."""

import asyncio
import re
from collections import Counter
from typing import Any

import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.errors import Code
from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.database import Database, Tx
from memsvc.styles.turns.maintenance.raw_archive import decompress
from memsvc.styles.turns.options import TurnOptions
from tests.door import Door, Refused, open_door
from tests.fakes import FakeClock, RecordingMeter
from tests.race.test_faults import STATEMENTS
from tests.race.test_turns_at_once import at_once
from tests.styles.turns.talk import events, file_records, file_text, say

pytestmark = pytest.mark.slow

RUN = "memory_run_maintenance"
MOST = 150
RECENT = 2
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_RUNS = re.compile(r'\s*"(maintenance_runs|total_bytes|bytes)": ?\d+,?|\d+ bytes')


@pytest.fixture
def door(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Door:
    """A service that keeps two items in the running context, so that there is something to do."""
    return open_door(
        database, clock, tokens, meter, scope, turns=TurnOptions(recent_context_items=RECENT)
    )


class DeadError(Exception):
    """What every statement of a process meets that is no more."""


class Mortal:
    """Counts the statements of all transactions; from the n-th on, none is sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        self.dies_at: int | None = None
        for name in STATEMENTS:
            monkeypatch.setattr(Tx, name, self._wrapped(getattr(Tx, name)))

    def _wrapped(self, original: Any) -> Any:
        async def run(tx: Tx, *given: Any) -> Any:
            self.sent += 1
            if self.dies_at is not None and self.sent >= self.dies_at:
                raise DeadError
            return await original(tx, *given)

        return run


async def state(door: Door, session: str) -> dict[str, str]:
    """Every file of a session as it reads, archives unpacked, but for times and its own name."""
    root = f"/memory/{session}"
    assert door.database is not None
    async with door.database.begin(Scope(door.caller.tenant, "default"), read_only=True) as tx:
        held = await tree.contents(tx, await tree.files_at(tx, root, after="", limit=1000))
    for place in (
        "meta/metrics.json",
        "meta/state.json",
        "meta/watermarks.json",
        "indexes/active_facts.json",
    ):
        held[f"{root}/{place}"] = (await file_text(door, f"{root}/{place}")).encode()
    held[f"{root}/runtime"] = (
        await file_text(door, f"{root}/runtime/context/current.jsonl")
    ).encode()
    return {
        path.replace(session, "S"): _plain(path, content, session) for path, content in held.items()
    }


def _plain(path: str, content: bytes, session: str) -> str:
    text = (decompress(content, bytes_max=10**7) if path.endswith(".zst") else content).decode()
    timeless = _TIME.sub("T", text).replace("written between T and T", "written at T")
    return _RUNS.sub("", timeless).replace(session, "S").replace(session.replace("s", "u"), "U")


async def live(door: Door, clock: FakeClock, sessions: list[str]) -> None:
    """Two days of each session, after which everything that maintenance does is due."""
    for session in sessions:
        about = {"session": session, "user_id": session.replace("s", "u")}
        await say(door, "t1", "My name is Ada. Today I need milk.", answer="Noted.", **about)
        await say(door, "t2", "Mira lives in Lisbon since 1990.", answer="I see.", **about)
    clock.advance(hours=40)
    for session in sessions:
        await say(
            door,
            "t3",
            "My name is Ada.",
            answer="I know.",
            session=session,
            user_id=session.replace("s", "u"),
        )


async def test_a_run_that_is_killed_at_any_statement_is_completed_by_the_next_one(
    door: Door, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = [f"s{number:03}" for number in range(MOST)]
    await live(door, clock, sessions)
    mortal = Mortal(monkeypatch)
    done = await door(RUN, session_id="s000")
    statements = mortal.sent
    assert {name for name, count in done.items() if count} == {
        "ok",
        "compacted_items",
        "archived_files",
        "archived_bytes",
        "expired_facts",
        "insights_written",
        "summaries_written",
    }
    assert 20 < statements < MOST
    undisturbed = await state(door, "s000")
    for at in range(1, statements):
        session = sessions[at]
        mortal.sent, mortal.dies_at = 0, at
        with pytest.raises(Refused):
            await door(RUN, session_id=session)
        mortal.dies_at = None
        clock.advance(minutes=2)  # after which the claim of a run that is no more can be taken over
        await door(RUN, session_id=session)
        assert await state(door, session) == undisturbed, (
            f"killed at statement {at} of {statements}"
        )


async def test_two_runs_of_a_session_at_once_do_what_one_does(door: Door, clock: FakeClock) -> None:
    await live(door, clock, ["s001", "s002"])
    await door(RUN, session_id="s001")

    async def run() -> str:
        try:
            return str((await door(RUN, session_id="s002"))["ok"])
        except Refused as refused:
            return refused.code.value

    outcomes = Counter(await at_once([run] * 4))
    assert outcomes["True"] >= 1
    assert outcomes["True"] + outcomes[Code.RESOURCE_BUSY.value] == 4
    assert await state(door, "s002") == await state(door, "s001")


async def test_turns_that_are_stored_while_the_session_is_maintained_are_all_there_once(
    door: Door, clock: FakeClock
) -> None:
    await live(door, clock, ["s001"])

    async def maintain() -> None:
        for _ in range(3):
            try:
                await door(RUN, session_id="s001")
            except Refused as refused:
                assert refused.code is Code.RESOURCE_BUSY  # noqa: PT017
            await asyncio.sleep(0)

    await at_once(
        [maintain, maintain]
        + [lambda n=n: say(door, f"n{n}", f"My name is Name{n}.", answer=f"Hi {n}.", session="s001", user_id="u001")
           for n in range(12)]
    )  # fmt: skip
    await door(RUN, session_id="s001")
    stored = [record["turn_id"] for record in await events(door, session="s001", day="2026/01/07")]
    assert Counter(stored) == {f"n{n}": 2 for n in range(12)} | {"t3": 2}
    compact = await file_records(
        door, "/memory/s001/events/compact/2026/01/07/compact-20260107.jsonl"
    )
    context = await file_records(door, "/memory/s001/runtime/context/current.jsonl")
    assert context[0]["id"] == compact[-1]["id"]
    covered = sum(record["covers"]["items"] for record in compact)
    behind = 6 + 24 - covered
    assert compact[-1]["id"] == f"compact-{covered}"
    # what is behind the summary stays until it is over twice the recent items, which are what the
    # context shows
    assert 0 < behind <= 2 * RECENT
    assert len(context) - 1 == min(behind, RECENT)
