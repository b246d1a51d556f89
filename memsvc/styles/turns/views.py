"""Rendered files of a session: state, policy, watermarks, facts, context."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson

from memsvc.core.errors import permission_denied
from memsvc.core.facts import Fact, latest_by_identity
from memsvc.core.paths import check_identifier, decode_segment
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.core.tools import RenderedFile
from memsvc.store import context, facts, index, insights, sessions
from memsvc.store.database import Database, Tx
from memsvc.store.locks import session_lock
from memsvc.store.sessions import StoredSession
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import TOO_LARGE
from memsvc.styles.turns.file_layout import ROOT, fact_fields, session_root, timestamp
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import policy_of, policy_overrides

RENDERED = (
    "indexes/active_facts.json",
    "meta/metrics.json",
    "meta/policy.json",
    "meta/state.json",
    "meta/watermarks.json",
    "runtime/context/current.jsonl",
)
POLICY = "meta/policy.json"
SUMMARY_POINTER = "runtime/context/latest_compact_pointer.json"


class TurnViews:
    """Rendered files of sessions; a session without a turn or a policy has none.

    Its policy can be written too."""

    def __init__(self, database: Database, clock: Clock, options: TurnOptions) -> None:
        self._database = database
        self._clock = clock
        self._options = options
        self._renderers: dict[str, Callable[[Tx, StoredSession], Awaitable[bytes]]] = {
            "indexes/active_facts.json": self._active_facts,
            "meta/metrics.json": self._metrics,
            POLICY: self._policy,
            "meta/state.json": self._state,
            "meta/watermarks.json": self._progress,
            "runtime/context/current.jsonl": self._context,
            SUMMARY_POINTER: self._summary_pointer,
        }

    async def read(self, scope: Scope, path: str) -> RenderedFile | None:
        """Return the rendered file at this path, if it is one of a session's."""
        session, place = split(path)
        if session is None or place not in self._renderers:
            return None
        async with self._database.begin_read(scope) as tx:
            found = await sessions.find(tx, session)
            if found is None or place not in rendered_names(found):
                return None
            return RenderedFile(path, found.updated_at, await self._renderers[place](tx, found))

    async def list_directory(self, scope: Scope, directory: str) -> Sequence[RenderedFile]:
        """Return the rendered files inside a session's directory.

        Listings above the sessions show their directories only."""
        session, place = split(directory)
        if session is None:
            return []
        within = [name for name in self._renderers if not place or name.startswith(place + "/")]
        if not within:
            return []
        async with self._database.begin_read(scope) as tx:
            found = await sessions.find(tx, session)
            if found is None:
                return []
            root = session_root(session)
            return [
                RenderedFile(
                    f"{root}/{name}", found.updated_at, await self._renderers[name](tx, found)
                )
                for name in rendered_names(found)
                if name in within
            ]

    def accepts(self, path: str) -> bool:
        """Return whether a path is the policy of a session, existing or not."""
        session, place = split(path)
        return session is not None and place == POLICY

    async def write(self, scope: Scope, path: str, content: bytes) -> None:
        """Set the policy of a session; INVALID_CONTENT, with the errors, when it is invalid.

        Facts that the session already has keep their expiry. PERMISSION_DENIED for a key that is
        bound to a user, if others speak in the session."""
        session, _ = split(path)
        assert session is not None
        check_identifier(session, "session_id")
        overrides = policy_overrides(content, self._options)
        async with self._database.begin(
            scope,
            locks=[session_lock(session)],
            lock_timeout_ms=self._options.session_lock_timeout_ms,
        ) as tx:
            found = await sessions.find(tx, session) if scope.key_user else None
            if found is not None and (found.shared or found.user_id not in ("", scope.key_user)):
                raise permission_denied(
                    "this key is bound to one user, but other users speak in this session",
                    recovery="use a key that is not bound to a user",
                )
            await sessions.set_policy(tx, session, overrides, now=self._clock.now())

    async def _state(self, tx: Tx, session: StoredSession) -> bytes:
        turns = await sessions.processed_turns(
            tx, session.session, limit=self._options.max_processed_turns
        )
        return _json(
            {
                "version": 1,
                "latest_turn_id": session.latest_turn or None,
                "processed_turn_ids": turns,
                "last_compact_at": session.compacted_at and timestamp(session.compacted_at),
                "last_maintenance_at": session.last_maintenance_at
                and timestamp(session.last_maintenance_at),
                "updated_at": timestamp(session.updated_at),
            }
        )

    async def _policy(self, tx: Tx, session: StoredSession) -> bytes:
        return _json(policy_of(session.policy, self._options).model_dump())

    async def _progress(self, tx: Tx, session: StoredSession) -> bytes:
        index_id = turn_index.turns(session.session).number
        limit = self._options.recent_context_items
        context_read = await context.read(tx, session.session, index_id, limit=limit, tokens_max=0)
        latest = next(
            iter((await context.read(tx, session.session, index_id, limit=1)).items), None
        )
        consolidated = await index.texts(
            tx, index_id, [session.consolidated_entry - 1], chars_max=0
        )
        indexes = turn_index.insights(session.session, session.user_id)
        valid = await insights.list_valid(
            tx, [index.number for index in indexes], self._clock.now()
        )
        event = next((text.ref for text in consolidated.values()), None)
        return _json(
            {
                "updated_at": timestamp(session.updated_at),
                "last_raw_event_id": latest and latest.ref,
                "last_raw_event_ts": latest and orjson.loads(latest.line)["ts"],
                "last_processed_turn_id": session.latest_turn or None,
                "last_consolidated_at": session.consolidated_at
                and timestamp(session.consolidated_at),
                "last_consolidated_event_id": event,
                "raw_event_count": session.counters.get("items", 0),
                "runtime_context_count": len(context_read.items)
                + (context_read.summary is not None),
                "turn_count": session.turns,
                "active_fact_count": len(await self._facts(tx, session)),
                "insight_count": len(valid),
            }
        )

    async def _metrics(self, tx: Tx, session: StoredSession) -> bytes:
        pending_count = (
            await context.next_entry(tx, turn_index.turns(session.session).number)
            - session.consolidated_entry
        )
        counted = {"consolidation_lag_events": max(pending_count, 0)} | dict(session.counters)
        return _json({"updated_at": timestamp(session.updated_at)} | dict(sorted(counted.items())))

    async def _summary_pointer(self, tx: Tx, session: StoredSession) -> bytes:
        assert session.summary is not None
        assert session.compacted_at is not None
        return _json(
            {
                "last_compact_at": timestamp(session.compacted_at),
                "compact_file": session.summary["path"],
            }
        )

    async def _active_facts(self, tx: Tx, session: StoredSession) -> bytes:
        facts_by_name: dict[str, Any] = {}
        for fact in await self._facts(tx, session):
            name = "::".join(part for part in fact.statement.identity if part)
            facts_by_name[name] = fact_fields(fact.statement, fact.state.value, fact.expires_at) | {
                "ts": timestamp(fact.valid_from)
            }
        return _json({"updated_at": timestamp(session.updated_at), "facts": facts_by_name})

    async def _context(self, tx: Tx, session: StoredSession) -> bytes:
        index_id = turn_index.turns(session.session).number
        limit = self._options.recent_context_items
        context_read = await context.read(
            tx, session.session, index_id, limit=limit, tokens_max=TOO_LARGE
        )
        return (context_read.summary or b"") + b"".join(item.line for item in context_read.items)

    async def _facts(self, tx: Tx, session: StoredSession) -> list[Fact]:
        """Return the valid facts, oldest first.

        Of two indexes' facts of one identity the newer one."""
        now = self._clock.now()
        index_ids = turn_index.fact_ids(session.session, session.user_id)
        return list(latest_by_identity(await facts.current_facts(tx, index_ids, now)).values())


def rendered_names(session: StoredSession) -> list[str]:
    """Return the rendered files of a session, as paths inside its directory."""
    return [*RENDERED, SUMMARY_POINTER] if session.summary is not None else list(RENDERED)


def split(path: str) -> tuple[str | None, str]:
    """Return the session that a path belongs to, and the rest of the path within it."""
    if not path.startswith(ROOT + "/"):
        return None, ""
    segment, _, place = path[len(ROOT) + 1 :].partition("/")
    return decode_segment(segment), place


def _json(body: Any) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"
