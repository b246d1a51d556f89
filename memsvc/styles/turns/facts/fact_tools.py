"""The tools that list, correct and forget facts."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field

from memsvc.core.cursors import decode_cursor, encode_cursor, invalid_cursor
from memsvc.core.errors import invalid
from memsvc.core.facts import Fact, FactState, FactTier
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.store.fact_history import FactHistoryFilter, FactPosition
from memsvc.styles.turns.facts.fact_correction import (
    Correction,
    FactCorrection,
    NewStatement,
    NewValue,
    Restored,
)
from memsvc.styles.turns.facts.fact_models import (
    CURSOR_CHARS_MAX,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    CorrectedText,
    FactChange,
    FactDoubt,
    FactEvidence,
    FactList,
    FactUser,
    ForgottenFacts,
    ForgottenTurn,
    ListedFact,
    Names,
    Reach,
    fact_tool,
)
from memsvc.styles.turns.facts.fact_removal import FactOwner, FactRemoval, RemovalTargets
from memsvc.styles.turns.turn_models import DEFAULT_SESSION, SessionId

_ACTIVE_BY_STATE: Final = {"active": True, "past": False, "all": None}


class FactTools:
    """The tools over facts."""

    def __init__(
        self, fact_removal: FactRemoval, fact_correction: FactCorrection, clock: Clock
    ) -> None:
        self._fact_removal = fact_removal
        self._fact_correction = fact_correction
        self._clock = clock

    @fact_tool("memory_list_facts", title="List facts", needs=Permission.READ)
    async def list_facts(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        session_id: SessionId = DEFAULT_SESSION,
        user_id: FactUser = "",
        reach: Reach = "all",
        tier: Annotated[
            Literal["", "L0", "L1", "L2"], "facts of this tier only; every tier if not given"
        ] = "",
        state: Annotated[
            Literal["active", "past", "all"],
            "active: what holds now, questioned or not; past: what was replaced, taken back or is"
            " past its day",
        ] = "active",
        fact_id: Annotated[
            str,
            Field(max_length=1024, pattern=r"^[^\x00]*$"),
            "values of this fact only; every fact if not given",
        ] = "",
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "facts at the most"] = LIMIT_DEFAULT,
        cursor: Annotated[
            str, Field(max_length=CURSOR_CHARS_MAX), "next_cursor of the page before"
        ] = "",
    ) -> FactList:
        """List what memory holds to be true for a session and a user, or held before.

        Each comes with where it was said, until when it held and what replaced it."""
        now = self._clock.now()
        query = FactHistoryFilter(
            FactTier(tier) if tier else None,
            _ACTIVE_BY_STATE[state],
            now,
            fact_id or None,
        )
        owner = FactOwner(session_id, user_id, reach)
        found = await self._fact_removal.listed(
            scope, owner, query, after=_place(cursor), limit=limit + 1
        )
        page = found[:limit]
        last = page[-1] if len(found) > len(page) else None
        return FactList(
            [_listed(fact, now) for fact in page],
            encode_cursor(last.valid_from, last.index_id, last.entry) if last else None,
        )

    @fact_tool(
        "memory_correct_fact",
        title="Correct a fact",
        needs=Permission.WRITE,
        idempotent=True,
        for_agents=True,
    )
    async def correct(
        self,
        scope: Scope,
        *,
        session_id: SessionId = DEFAULT_SESSION,
        user_id: FactUser = "",
        reach: Reach = "all",
        record_id: Annotated[
            str, Field(pattern="^[0-9a-f]{12}$"), "the fact, as in recall_fact_ids"
        ],
        statement: Annotated[CorrectedText, "what is true, as a sentence of the user's"] = None,
        value: Annotated[CorrectedText, "or only the true value"] = None,
        restore: Annotated[bool, "or that this value holds (again)"] = False,
    ) -> FactChange:
        """Call when the user says that something remembered is wrong.

        Give the true statement or value, or restore a past or questioned one. The old one is kept
        as history."""
        corrections: list[Correction] = []
        if statement is not None:
            corrections.append(NewStatement(statement))
        if value is not None:
            corrections.append(NewValue(value))
        if restore:
            corrections.append(Restored())
        if len(corrections) != 1:
            raise invalid("give exactly one of statement, value and restore")
        owner = FactOwner(session_id, user_id, reach)
        corrected = await self._fact_correction.correct(scope, owner, record_id, corrections[0])
        return FactChange(corrected.changed, _listed(corrected.fact, self._clock.now()))

    @fact_tool(
        "memory_forget",
        title="Forget facts or turns",
        for_agents=True,
        needs=Permission.WRITE,
        over_quota=True,
        idempotent=True,
        destructive=True,
    )
    async def forget(
        self,
        scope: Scope,
        *,
        session_id: SessionId = DEFAULT_SESSION,
        user_id: FactUser = "",
        reach: Reach = "all",
        fact_ids: Annotated[
            Names,
            Field(default_factory=list),
            "fact_id: with every past value, or record_id: one value",
        ],
        query: Annotated[str, Field(max_length=20_000), "or facts about this"] = "",
        turn_ids: Annotated[
            Names,
            Field(default_factory=list),
            "turns of the session, with their facts",
        ],
        dry_run: Annotated[
            bool | None,
            "only list them; if not given, true with a query",
        ] = None,
    ) -> ForgottenFacts:
        """Call when the user wants something forgotten for good: facts, or whole turns.

        A query is a dry run unless dry_run is false. Only the session's
        files still tell what was said."""
        targets = RemovalTargets(fact_ids, query, turn_ids)
        if not (targets.names or targets.question.strip() or targets.turns):
            raise invalid("say what to forget: fact_ids, a query or turn_ids")
        if dry_run is None:
            dry_run = bool(query.strip())
        removal = self._fact_removal
        found = await (removal.would_forget if dry_run else removal.forget)(
            scope, FactOwner(session_id, user_id, reach), targets
        )
        now = self._clock.now()
        return ForgottenFacts(
            dry_run,
            [_listed(fact, now) for fact in found.facts],
            [ForgottenTurn(turn, len(items)) for turn, items in found.items_by_turn.items()],
            found.unknown,
        )


def _listed(fact: Fact, now: datetime) -> ListedFact:
    statement, evidence = fact.statement, fact.statement.evidence
    state, doubt = fact.state.value, fact.doubt
    if fact.state is FactState.ACTIVE:
        state = "expired" if not fact.is_valid(now) else "questioned" if doubt else state
    return ListedFact(
        statement.fact_id,
        statement.record_id,
        statement.key,
        statement.value,
        statement.statement,
        statement.tier.value,
        round(statement.confidence, 4),
        state,
        FactDoubt(doubt.text, doubt.said_at, doubt.session, doubt.turn) if doubt else None,
        fact.valid_from,
        fact.valid_to,
        fact.expires_at,
        fact.superseded_by,
        FactEvidence(
            evidence.session, evidence.turn, evidence.item, evidence.user, evidence.origin
        ),
    )


def _place(cursor: str) -> FactPosition | None:
    """Return the position where a page ended; INVALID_ARGUMENT for an invalid cursor."""
    if not cursor:
        return None
    place = FactPosition(*decode_cursor(cursor, datetime, int, int))
    if not (-(2**63) <= place.index_id < 2**63 and 0 <= place.entry < 2**31):
        raise invalid_cursor()
    return place
