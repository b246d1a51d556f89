"""The tools that list and forget facts."""

from datetime import datetime
from typing import Final

from memsvc.core.cursors import cursor_of, no_such_cursor, read_cursor
from memsvc.core.errors import invalid
from memsvc.core.facts import Fact, State, Tier
from memsvc.core.ports import Clock
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.store.fact_history import Place, Wanted
from memsvc.styles.turns.facts.fact_contract import (
    FactEvidence,
    ForgetArguments,
    ForgetResult,
    ForgottenTurn,
    ListedFact,
    ListFactsArguments,
    ListFactsResult,
)
from memsvc.styles.turns.facts.forgetting import Forgetting, Named, Whose
from memsvc.styles.turns.offering import FACTS

_HOLDING: Final = {"active": True, "past": False, "all": None}


class FactTools:
    """Functions of the fact tools."""

    def __init__(self, forgetting: Forgetting, clock: Clock) -> None:
        self._forgetting = forgetting
        self._clock = clock

    async def list_facts(self, scope: Scope, asked: ListFactsArguments) -> ListFactsResult:
        now = self._clock.now()
        wanted = Wanted(Tier(asked.tier) if asked.tier else None, _HOLDING[asked.state], now, asked.fact_id or None)
        whose = Whose(asked.session_id, asked.user_id, asked.reach)
        found = await self._forgetting.listed(scope, whose, wanted, behind=_place(asked.cursor), most=asked.limit + 1)
        page = found[: asked.limit]
        last = page[-1] if len(found) > len(page) else None
        return ListFactsResult(
            facts=[_listed(fact, now) for fact in page],
            next_cursor=cursor_of(last.valid_from, last.book, last.entry) if last else None,
        )

    async def forget(self, scope: Scope, asked: ForgetArguments) -> ForgetResult:
        named = Named(asked.fact_ids, asked.query, asked.turn_ids)
        if not (named.names or named.question.strip() or named.turns):
            raise invalid("say what to forget: fact_ids, a query or turn_ids")
        dry_run = bool(named.question.strip()) if asked.dry_run is None else asked.dry_run
        whose = Whose(asked.session_id, asked.user_id, asked.reach)
        forgetting = self._forgetting
        found = await (forgetting.would_forget if dry_run else forgetting.forget)(scope, whose, named)
        turns = [ForgottenTurn(turn_id=turn, items=len(items)) for turn, items in found.items_by_turn.items()]
        now = self._clock.now()
        return ForgetResult(
            dry_run=dry_run,
            facts=[_listed(fact, now) for fact in found.facts],
            turns=turns,
            not_found=found.unknown,
        )


def _listed(fact: Fact, now: datetime) -> ListedFact:
    statement, evidence = fact.statement, fact.statement.evidence
    expired = fact.state is State.ACTIVE and not fact.holds(now)
    return ListedFact(
        fact_id=statement.fact_id,
        record_id=statement.record,
        key=statement.key,
        value=statement.value,
        tier=statement.tier.value,
        confidence=round(statement.confidence, 4),
        state="expired" if expired else fact.state.value,
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


def _place(cursor: str) -> Place | None:
    """Return the position where a page ended; INVALID_ARGUMENT for an invalid cursor."""
    if not cursor:
        return None
    place = Place(*read_cursor(cursor, datetime, int, int))
    if not (-(2**63) <= place.book < 2**63 and 0 <= place.entry < 2**31):
        raise no_such_cursor()
    return place


def fact_tools(functions: FactTools) -> list[Tool]:
    """Return the fact tools."""
    logged = frozenset({"project", "session_id", "user_id"})
    return [
        Tool(
            name="memory_list_facts",
            title="List facts",
            description=(
                "List what memory holds to be true for a session and a user, or what it held before, with where each "
                "was said, until when it held and what replaced it."
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
            name="memory_forget",
            title="Forget facts or turns",
            description=(
                "Forget for good: facts by id, facts that a query finds (a dry run unless dry_run is false), or whole "
                "turns with the facts learnt in them. Recall never shows them again. The session's files keep the "
                "record of what was said."
            ),
            arguments=ForgetArguments,
            result=ForgetResult,
            run=functions.forget,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            destructive=True,
            logged=logged,
        ),
    ]
