"""The tools that list, correct and forget facts."""

from datetime import datetime
from typing import Final

from memsvc.core.cursors import decode_cursor, encode_cursor, invalid_cursor
from memsvc.core.errors import invalid
from memsvc.core.facts import Fact, FactState, FactTier
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.store.fact_history import FactHistoryFilter, FactPosition
from memsvc.styles.turns.facts.fact_correction import (
    Correction,
    FactCorrection,
    NewStatement,
    NewValue,
    Restored,
)
from memsvc.styles.turns.facts.fact_models import (
    FactCorrectArguments,
    FactCorrectResult,
    FactDoubt,
    FactEvidence,
    FactForgetArguments,
    FactForgetResult,
    ForgottenTurn,
    ListedFact,
    ListFactsArguments,
    ListFactsResult,
)
from memsvc.styles.turns.facts.fact_removal import FactOwner, FactRemoval, RemovalTargets
from memsvc.styles.turns.turn_resources import FACTS

_ACTIVE_BY_STATE: Final = {"active": True, "past": False, "all": None}


class FactTools:
    """Functions of the fact tools."""

    def __init__(
        self, fact_removal: FactRemoval, fact_correction: FactCorrection, clock: Clock
    ) -> None:
        self._fact_removal = fact_removal
        self._fact_correction = fact_correction
        self._clock = clock

    async def list_facts(self, scope: Scope, args: ListFactsArguments) -> ListFactsResult:
        now = self._clock.now()
        query = FactHistoryFilter(
            FactTier(args.tier) if args.tier else None,
            _ACTIVE_BY_STATE[args.state],
            now,
            args.fact_id or None,
        )
        owner = FactOwner(args.session_id, args.user_id, args.reach)
        found = await self._fact_removal.listed(
            scope, owner, query, after=_place(args.cursor), limit=args.limit + 1
        )
        page = found[: args.limit]
        last = page[-1] if len(found) > len(page) else None
        return ListFactsResult(
            facts=[_listed(fact, now) for fact in page],
            next_cursor=encode_cursor(last.valid_from, last.index_id, last.entry) if last else None,
        )

    async def forget(self, scope: Scope, args: FactForgetArguments) -> FactForgetResult:
        targets = RemovalTargets(args.fact_ids, args.query, args.turn_ids)
        if not (targets.names or targets.question.strip() or targets.turns):
            raise invalid("say what to forget: fact_ids, a query or turn_ids")
        dry_run = bool(targets.question.strip()) if args.dry_run is None else args.dry_run
        owner = FactOwner(args.session_id, args.user_id, args.reach)
        fact_removal = self._fact_removal
        found = await (fact_removal.would_forget if dry_run else fact_removal.forget)(
            scope, owner, targets
        )
        turns = [
            ForgottenTurn(turn_id=turn, items=len(items))
            for turn, items in found.items_by_turn.items()
        ]
        now = self._clock.now()
        return FactForgetResult(
            dry_run=dry_run,
            facts=[_listed(fact, now) for fact in found.facts],
            turns=turns,
            not_found=found.unknown,
        )

    async def correct(self, scope: Scope, args: FactCorrectArguments) -> FactCorrectResult:
        corrections: list[Correction] = []
        if args.statement is not None:
            corrections.append(NewStatement(args.statement))
        if args.value is not None:
            corrections.append(NewValue(args.value))
        if args.restore:
            corrections.append(Restored())
        if len(corrections) != 1:
            raise invalid("give exactly one of statement, value and restore")
        owner = FactOwner(args.session_id, args.user_id, args.reach)
        corrected = await self._fact_correction.correct(
            scope, owner, args.record_id, corrections[0]
        )
        return FactCorrectResult(
            changed=corrected.changed, fact=_listed(corrected.fact, self._clock.now())
        )


def _listed(fact: Fact, now: datetime) -> ListedFact:
    statement, evidence = fact.statement, fact.statement.evidence
    state, doubt = fact.state.value, fact.doubt
    if fact.state is FactState.ACTIVE:
        state = "expired" if not fact.is_valid(now) else "questioned" if doubt else state
    return ListedFact(
        fact_id=statement.fact_id,
        record_id=statement.record_id,
        key=statement.key,
        value=statement.value,
        statement=statement.statement,
        tier=statement.tier.value,
        confidence=round(statement.confidence, 4),
        state=state,
        doubt=FactDoubt(
            text=doubt.text, said_at=doubt.said_at, session_id=doubt.session, turn_id=doubt.turn
        )
        if doubt
        else None,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        expires_at=fact.expires_at,
        superseded_by=fact.superseded_by,
        evidence=FactEvidence(
            session_id=evidence.session,
            turn_id=evidence.turn,
            item=evidence.item,
            user_id=evidence.user,
            origin=evidence.origin,
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


def fact_tools(functions: FactTools) -> list[Tool]:
    """Return the tools for facts."""
    logged = frozenset({"project", "session_id", "user_id"})
    return [
        Tool(
            name="memory_list_facts",
            title="List facts",
            description=(
                "List what memory holds to be true for a session and a user, or what it held"
                " before, with where each was said, until when it held and what replaced it."
            ),
            arguments=ListFactsArguments,
            result=ListFactsResult,
            resource=FACTS,
            run=functions.list_facts,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=logged,
        ),
        Tool(
            name="memory_correct_fact",
            title="Correct a fact",
            description=(
                "Put right what memory holds to be true: give a new statement or value, or restore"
                " a past or questioned one. The old value is kept as history."
            ),
            arguments=FactCorrectArguments,
            result=FactCorrectResult,
            run=functions.correct,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=logged,
        ),
        Tool(
            name="memory_forget",
            title="Forget facts or turns",
            description=(
                "Forget for good: facts by id, facts that a query finds (a dry run unless dry_run"
                " is false), or whole turns with the facts learnt in them. Recall never shows"
                " them again. The session's files keep the record of what was said."
            ),
            arguments=FactForgetArguments,
            result=FactForgetResult,
            run=functions.forget,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            destructive=True,
            logged=logged,
        ),
    ]
