"""The files of a session that are made when somebody reads them: state, policy, watermarks, facts, context."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from memsvc.core.facts import Fact, latest_by_identity
from memsvc.core.paths import decode_segment
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import Rendered
from memsvc.store import facts, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.sessions import Session
from memsvc.styles.turns import books
from memsvc.styles.turns.layout import ROOT, fact_fields, session_root, timestamp
from memsvc.styles.turns.options import TurnOptions

RENDERED = (
    "indexes/active_facts.json",
    "meta/metrics.json",
    "meta/policy.json",
    "meta/state.json",
    "meta/watermarks.json",
    "runtime/context/current.jsonl",
)


class TurnViews:
    """Reads a session's rendered files; a session that has no turn has none."""

    def __init__(self, database: Database, clock: Clock, options: TurnOptions) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        renderers = (
            self._active_facts,
            self._metrics,
            self._policy,
            self._state,
            self._watermarks,
            self._context,
        )
        self._renderers: dict[str, Callable[[Tx, Session], Awaitable[bytes]]] = dict(
            zip(RENDERED, renderers, strict=True)
        )

    async def read(self, scope: Scope, path: str) -> Rendered | None:
        """The rendered file at this path, if it is one of a session's."""
        session, place = split(path)
        if session is None or place not in self._renderers:
            return None
        async with self._database.begin(scope, read_only=True) as tx:
            found = await sessions.find(tx, session)
            if found is None:
                return None
            return Rendered(path, found.updated_at, await self._renderers[place](tx, found))

    async def below(self, scope: Scope, directory: str) -> Sequence[Rendered]:
        """The rendered files inside a session's directory; listings above the sessions show their directories only."""
        session, place = split(directory)
        if session is None:
            return []
        within = [name for name in self._renderers if not place or name.startswith(place + "/")]
        if not within:
            return []
        async with self._database.begin(scope, read_only=True) as tx:
            found = await sessions.find(tx, session)
            if found is None:
                return []
            root = session_root(session)
            return [
                Rendered(f"{root}/{name}", found.updated_at, await self._renderers[name](tx, found)) for name in within
            ]

    async def _state(self, tx: Tx, session: Session) -> bytes:
        turns = await sessions.processed_turns(tx, session.session, most=self._options.max_processed_turns)
        return _json(
            {
                "version": 1,
                "latest_turn_id": session.latest_turn,
                "processed_turn_ids": turns,
                "last_compact_at": None,
                "last_maintenance_at": session.last_maintenance_at and timestamp(session.last_maintenance_at),
                "updated_at": timestamp(session.updated_at),
            }
        )

    async def _policy(self, tx: Tx, session: Session) -> bytes:
        return _json(
            {
                "version": 1,
                "timezone": "UTC",
                "tiers": {
                    "L0": {"retention_days": 0, "sweep": False},
                    "L1": {"retention_days": self._options.l1_retention_days, "sweep": True},
                    "L2": {"retention_days": self._options.l2_retention_days, "sweep": True},
                },
                "summary": {
                    "abstract_words_min": 100,
                    "abstract_words_max": 200,
                    "refresh_interval_minutes": self._options.summary_refresh_interval_minutes,
                },
            }
        )

    async def _watermarks(self, tx: Tx, session: Session) -> bytes:
        recent = await sessions.recent(tx, session.session, books.turns(session.session).number, most=1)
        return _json(
            {
                "updated_at": timestamp(session.updated_at),
                "last_raw_event_id": recent[-1].ref if recent else None,
                "last_processed_turn_id": session.latest_turn,
                "raw_event_count": session.counters.get("items", 0),
                "turn_count": session.turns,
                "active_fact_count": len(await self._facts(tx, session)),
            }
        )

    async def _metrics(self, tx: Tx, session: Session) -> bytes:
        return _json({"updated_at": timestamp(session.updated_at)} | dict(sorted(session.counters.items())))

    async def _active_facts(self, tx: Tx, session: Session) -> bytes:
        held: dict[str, Any] = {}
        for fact in await self._facts(tx, session):
            name = "::".join(part for part in fact.statement.identity if part)
            held[name] = fact_fields(fact.statement, fact.state.value, fact.expires_at) | {
                "ts": timestamp(fact.valid_from)
            }
        return _json({"updated_at": timestamp(session.updated_at), "facts": held})

    async def _context(self, tx: Tx, session: Session) -> bytes:
        recent = await sessions.recent(
            tx,
            session.session,
            books.turns(session.session).number,
            most=self._options.recent_context_items,
        )
        return b"".join(item.line for item in recent)

    async def _facts(self, tx: Tx, session: Session) -> list[Fact]:
        """The facts that hold, oldest first; of two books' facts of one identity the newer one."""
        now = self._clock.now()
        shelves = books.facts(session.session, session.user_id)
        return list(latest_by_identity(await facts.holding(tx, [book.number for book in shelves], now)).values())


def split(path: str) -> tuple[str | None, str]:
    """The session that a path belongs to, and the rest of the path within it."""
    if not path.startswith(ROOT + "/"):
        return None, ""
    segment, _, place = path[len(ROOT) + 1 :].partition("/")
    return decode_segment(segment), place


def _json(body: Any) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"
