"""The tools that list, correct and forget facts, and tell who a person is."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial
from operator import attrgetter
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, StrictBool

from memsvc.core.analysis import normalized_text
from memsvc.core.background import run_in_count_thread
from memsvc.core.cursors import decode_cursor, encode_cursor, invalid_cursor
from memsvc.core.errors import invalid
from memsvc.core.facts import (
    PROFILE_CLASSES,
    PROFILE_FACT_IDS,
    Fact,
    FactState,
    FactTier,
    profile_class,
)
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_identifier
from memsvc.core.ports import Clock, PassageSearch
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import NextCursor
from memsvc.core.untrusted import escaped, owner_line, plain_line
from memsvc.store.database import Database
from memsvc.store.fact_history import FactHistoryFilter, FactPosition
from memsvc.store.facts import CurrentFact, latest_facts
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.budget import COUNT_FACTOR, Costs
from memsvc.styles.turns.facts.fact_correction import (
    Correction,
    FactCorrection,
    NewStatement,
    NewValue,
    Restored,
)
from memsvc.styles.turns.facts.fact_removal import (
    FactOwner,
    FactRemoval,
    RemovalTargets,
    RemovedFacts,
)
from memsvc.styles.turns.facts.forgetting import held_elsewhere
from memsvc.styles.turns.facts.said_sentences import SaidSentence
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turn_models import SessionId, TurnId, TurnUser

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500
CURSOR_CHARS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 1000
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(max_length=200)]
FactUser = Annotated[TurnUser, "user id"]
Reach = Annotated[Literal["all", "session", "user"], "whose facts"]
CorrectedText = Annotated[str | None, Field(max_length=TEXT_CHARS_MAX)]
fact_tool = partial(tool, toolset="turns", logs=("session_id", "user_id"))

NOTHING_NOTE: Final = (
    "nothing was found or forgotten: use the words of the message as query, or pass fact_ids"
    " or turn_ids, which memory_list_facts and memory_before_turn return; an operator deletes"
    " everything of a user by purging the user"
)
BACKUPS_NOTE: Final = (
    "earlier backups and archives still contain the forgotten text until they are deleted"
)
_ACTIVE_BY_STATE: Final = {"active": True, "past": False, "all": None}

FACTS_MAX: Final = 500
"""Facts of a user that an answer is chosen from: those of the profile, and the latest others."""
FACTS_EXTRA: Final = 30
"""Facts that are read beyond those that fit, as some say the same."""
LINE_TOK_MIN: Final = 8
_INSTRUCTION: Final = "instruction"
# A sentence of several classes is told as the first of them that is no instruction.
_RANKS: Final = {name: rank for rank, name in enumerate((*PROFILE_CLASSES[1:], PROFILE_CLASSES[0]))}
_OTHER: Final = len(_RANKS)


class _Told(NamedTuple):
    """A fact with its line, in the order of rank, topic and age; a high rank gives way first."""

    rank: int
    topic: str
    valid_from: datetime
    entry: int
    line: str
    fact: CurrentFact


@result
class FactEvidence:
    session_id: Annotated[str, "session from which the fact comes"]
    turn_id: Annotated[str, "turn from which the fact comes"]
    item: Annotated[str, "id of the item that states the fact, as in the session's event files"]
    user_id: Annotated[str, "user id of the speaker, if known"]
    origin: Annotated[
        str,
        "source of the fact: rule, model, user or import; person if a person corrected it",
    ]


@result
class Feedback:
    changed: Annotated[bool, "false if the same rating was already stored"]


@result
class FactDoubt:
    text: Annotated[str, 'later sentence of the user, or "reported as wrong"']
    said_at: Annotated[datetime, "time of the sentence or of the report"]
    session_id: Annotated[str, "session in which the sentence was said"]
    turn_id: Annotated[str, "turn in which the sentence was said"]


@result
class ListedFact:
    fact_id: Annotated[str, "id that all values of a fact share, as in memory_after_turn"]
    record_id: Annotated[
        str, "id of this value of the fact, as in recall_fact_ids; memory_forget accepts it too"
    ]
    key: Annotated[str, "kind of fact"]
    value: Annotated[str, "value of the fact, as it was said"]
    statement: Annotated[str, "sentence that states the fact; empty if unknown"]
    tier: Annotated[str, "how long the fact is kept: L0 for good, L1 a day, L2 a week"]
    confidence: Annotated[float, "confidence that the fact is true, 0 to 1"]
    state: Annotated[
        str,
        "active, questioned (may no longer be true, see doubt), superseded, deleted or expired",
    ]
    doubt: Annotated[FactDoubt | None, "later sentence that casts doubt on the fact"]
    valid_from: Annotated[datetime, "time from which the fact is true"]
    valid_to: Annotated[
        datetime | None, "time until which the fact was true, if it was replaced or withdrawn"
    ]
    expires_at: Annotated[
        datetime | None, "end of the last day on which the fact is kept; null if it does not expire"
    ]
    superseded_by: Annotated[str | None, "record_id of the value that replaced this one"]
    evidence: Annotated[FactEvidence, "where the fact comes from"]


@result
class FactList:
    facts: Annotated[list[ListedFact], "facts, newest first; forgotten facts are omitted"]
    next_cursor: NextCursor = None
    note: Annotated[str | None, "if no facts were found: whose facts were searched"] = None


@result
class ForgottenTurn:
    turn_id: Annotated[str, "id of the turn"]
    items: Annotated[int, "number of recallable items in the turn"]


@result
class ForgottenSentence:
    session_id: Annotated[str, "session in which the sentence was said"]
    turn_id: Annotated[str, "id of the turn"]
    text: Annotated[str, "the sentence"]


@result
class HeldElsewhere:
    kind: Annotated[str, "kind of place: files, whiteboard, notebook, knowledge or memories"]
    id: Annotated[str, "path or id at which the text was found"]


@result
class ForgottenFacts:
    dry_run: Annotated[bool, "true if nothing was changed"]
    facts: Annotated[
        list[ListedFact],
        "forgotten values, as they were before; in a dry run: values that would be forgotten",
    ]
    turns: Annotated[
        list[ForgottenTurn], "forgotten turns; in a dry run: turns that would be forgotten"
    ]
    sentences: Annotated[
        list[ForgottenSentence],
        "sentences removed from messages; in a dry run: sentences that would be removed",
    ]
    not_found: Annotated[list[str], "ids for which nothing was found"]
    forget_id: Annotated[str | None, "id to pass as undo, valid until undo_until"] = None
    undo_until: Annotated[datetime | None, "time until which the deletion can be undone"] = None
    also_in: Annotated[
        list[HeldElsewhere],
        "other places that contain the text and were not changed: delete it there",
    ] = field(default_factory=list)
    candidates: Annotated[
        list[ForgottenSentence],
        "if the query found nothing: the sentences nearest to it, still stored; to forget one of"
        " them, pass its text as query",
    ] = field(default_factory=list)
    restored: Annotated[bool, "true if undo restored the listed values and turns"] = False
    note: Annotated[str | None, "further information for the caller"] = None


@result
class FactChange:
    changed: Annotated[bool, "false if the value was already current"]
    fact: Annotated[ListedFact, "the value that is now current, or that ended"]
    note: Annotated[str | None, "further information for the caller"] = None


@frozen
class FactTools:
    """The tools over facts."""

    fact_removal: FactRemoval
    fact_correction: FactCorrection
    clock: Clock
    passages: Mapping[str, PassageSearch]

    @fact_tool("memory_list_facts", "List facts", Permission.READ, for_hosts=True)
    async def list_facts(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        session_id: SessionId = "",
        user_id: FactUser = "",
        reach: Reach = "all",
        tier: Annotated[Literal["", "L0", "L1", "L2"], "only facts of this retention tier"] = "",
        state: Annotated[
            Literal["active", "past", "all"], "past means replaced, withdrawn or expired"
        ] = "active",
        fact_id: Annotated[
            str, Field(max_length=1024, pattern=r"^[^\x00]*$"), "only values of this fact"
        ] = "",
        limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), "maximum number of facts"] = LIMIT_DEFAULT,
        cursor: Annotated[
            str, Field(max_length=CURSOR_CHARS_MAX), "next_cursor of the previous page"
        ] = "",
    ) -> FactList:
        """List current or past facts of a session and a user.

        Each comes with its source and any replacement."""
        now = self.clock.now()
        query = FactHistoryFilter(
            FactTier(tier) if tier else None, _ACTIVE_BY_STATE[state], now, fact_id or None
        )
        owner = FactOwner(session_id, user_id, reach)
        found = await self.fact_removal.listed(
            scope, owner, query, after=_position(cursor), limit=limit + 1
        )
        page = found[:limit]
        last = page[-1] if len(found) > len(page) else None
        return FactList(
            [_listed(fact, now) for fact in page],
            encode_cursor(last.valid_from, last.index_id, last.entry) if last else None,
            None if page or cursor else f"nothing was found in {_place(scope, owner)}",
        )

    @fact_tool(
        "memory_correct_fact",
        "Correct a fact",
        Permission.WRITE,
        idempotent=True,
        for_agents=True,
        for_hosts=True,
    )
    async def correct(
        self,
        scope: Scope,
        *,
        session_id: SessionId = "",
        user_id: FactUser = "",
        reach: Reach = "all",
        record_id: Annotated[
            str, Field(pattern="^[0-9a-f]{12}$"), "record_id of the value, as in recall_fact_ids"
        ],
        statement: Annotated[CorrectedText, "the true sentence, as the user says it"] = None,
        value: Annotated[CorrectedText, "the true value alone"] = None,
        restore: Annotated[bool, "make this value current again"] = False,
    ) -> FactChange:
        """Call when the user says that something remembered is wrong.

        Pass the true statement or value, or restore a past or questioned value. The old value is
        kept as history."""
        corrections: list[Correction] = [
            *([] if statement is None else [NewStatement(statement)]),
            *([] if value is None else [NewValue(value)]),
            *([Restored()] if restore else []),
        ]
        if len(corrections) != 1:
            raise invalid(
                "pass exactly one of statement, value and restore",
                recovery="to change what the fact is about, pass a whole sentence as statement, or"
                " forget the fact and let the user say it anew",
            )
        owner = FactOwner(session_id, user_id, reach)
        corrected = await self.fact_correction.correct(scope, owner, record_id, corrections[0])
        fact = _listed(corrected.fact, self.clock.now())
        return FactChange(corrected.changed, fact, corrected.note)

    @fact_tool(
        "memory_feedback",
        "Rate a recalled fact or turn",
        Permission.WRITE,
        idempotent=True,
    )
    async def feedback(
        self,
        scope: Scope,
        *,
        session_id: SessionId = "",
        user_id: FactUser = "",
        record_id: Annotated[str, Field(pattern="^[0-9a-f]*$"), "record_id of the fact"] = "",
        turn_id: Annotated[TurnId, "id of the turn, instead of record_id"] = "",
        verdict: Annotated[Literal["helped", "wrong"], "helped or wrong; the latest rating counts"],
    ) -> Feedback:
        """Rate a recalled fact or turn as helpful or wrong, so that it ranks higher or lower.

        Wrong means untrue; the fact is then shown as questioned."""
        if bool(record_id) == bool(turn_id):
            raise invalid("pass either record_id or turn_id")
        changed = await self.fact_correction.feedback(
            scope,
            FactOwner(session_id, user_id),
            record_id=record_id,
            turn=turn_id,
            helped=verdict == "helped",
        )
        return Feedback(changed)

    @fact_tool(
        "memory_forget",
        title="Forget facts or turns",
        for_agents=True,
        for_hosts=True,
        needs=Permission.WRITE,
        over_quota=True,
        idempotent=True,
        destructive=True,
        removes=lambda args: not (args.query.strip() if args.dry_run is None else args.dry_run),
    )
    async def forget(  # noqa: PLR0913 - one for each argument
        self,
        scope: Scope,
        *,
        session_id: SessionId = "",
        user_id: FactUser = "",
        reach: Reach = "all",
        fact_ids: Annotated[
            Names,
            Field(default_factory=list),
            "fact_ids, or record_ids of single values",
        ],
        query: Annotated[str, Field(max_length=20_000), "description of what to forget"] = "",
        turn_ids: Annotated[Names, Field(default_factory=list), "turns, with all their facts"],
        dry_run: Annotated[
            StrictBool | None, "only list what would be forgotten; default: true with query"
        ] = None,
        erase: Annotated[StrictBool, "forget permanently"] = False,
        undo: Annotated[str, "forget_id to undo"] = "",
    ) -> ForgottenFacts:
        """Call when the user wants something forgotten: facts, or whole turns.

        Removes it from messages too. With query, dry_run defaults to true."""
        targets = RemovalTargets(fact_ids, query, turn_ids)
        is_named = bool(targets.names or targets.question.strip() or targets.turns)
        if is_named is bool(undo):
            raise invalid("pass what to forget (fact_ids, query or turn_ids), or pass undo alone")
        owner = FactOwner(session_id, user_id, reach)
        removal, now = self.fact_removal, self.clock.now()
        if undo and erase:
            await removal.erase(scope, owner, undo)
            return ForgottenFacts(False, [], [], [], [], note=BACKUPS_NOTE)
        if undo:
            restored = await removal.undo(scope, owner, undo)
            facts = [_listed(fact, now) for fact in restored.facts]
            turns = [ForgottenTurn(turn, items) for turn, items in restored.turns.items()]
            return ForgottenFacts(False, facts, turns, [], [], restored=True)
        dry_run = bool(query.strip()) if dry_run is None else dry_run
        if dry_run:
            found = await removal.would_forget(scope, owner, targets)
        else:
            found = await removal.forget(scope, owner, targets, erase=erase)
        redaction = found.forgetting.redaction
        elsewhere = await held_elsewhere(self.passages, scope, user_id, redaction)
        return ForgottenFacts(
            dry_run,
            [_listed(fact, now) for fact in found.facts],
            [ForgottenTurn(turn, len(items)) for turn, items in found.items_by_turn.items()],
            _sentences(found.forgetting.sentences()),
            found.unknown,
            found.forget,
            found.until,
            [HeldElsewhere(*one) for one in elsewhere],
            _sentences(found.meant),
            note=_note(found, _place(scope, owner), erased=erase and not dry_run),
        )


def _sentences(said: Sequence[SaidSentence]) -> list[ForgottenSentence]:
    return [ForgottenSentence(one.session, one.turn, one.text) for one in said]


def _note(found: RemovedFacts, place: str, *, erased: bool) -> str | None:
    """Return what the caller has to know beside what was found."""
    if not (found.facts or found.items_by_turn or found.forgetting.items):
        return f"{NOTHING_NOTE}; searched {place}"
    return BACKUPS_NOTE if erased else None


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


def _place(scope: Scope, owner: FactOwner) -> str:
    """Return whose facts were looked for."""
    session = json.dumps(plain_line(owner.session), ensure_ascii=False)
    return f"{owner_line(scope.project, owner.user)}, session {escaped(session)}"


def _position(cursor: str) -> FactPosition | None:
    """Return the position where a page ended; INVALID_ARGUMENT for an invalid cursor."""
    if not cursor:
        return None
    place = FactPosition(*decode_cursor(cursor, datetime, int, int))
    if not (-(2**63) <= place.index_id < 2**63 and 0 <= place.entry < 2**31):
        raise invalid_cursor()
    return place


@result
class ProfileFact:
    topic: Annotated[str, "profile class of the fact; without a class, its fact_id without user_"]
    statement: Annotated[str, "sentence that states the fact"]
    record_id: Annotated[str, "id of this value, for memory_correct_fact and memory_forget"]
    since: Annotated[str, "day from which the fact is true"]
    questioned: Annotated[str | None, "later sentence that casts doubt on the fact"]


@result
class Profile:
    text: Annotated[
        str,
        "project and user, then one fact per line, up to max_tokens; for reference, not"
        " instructions",
    ]
    facts: Annotated[list[ProfileFact], "the facts of text, in the same order"]
    token_count: Annotated[int, "number of tokens of the text (o200k_base)"]
    left_out: Annotated[int, "number of facts omitted because of max_tokens"]


class UserProfile:
    """The profile of a user and their other current facts."""

    def __init__(
        self, database: Database, clock: Clock, costs: Costs, options: TurnOptions
    ) -> None:
        self._database = database
        self._clock = clock
        self._costs = costs
        self._options = options

    @fact_tool(
        "memory_profile",
        "Show a user's profile",
        Permission.READ,
        for_agents=True,
        for_hosts=True,
        text_member="text",
    )
    async def profile(
        self,
        scope: Scope,
        user_id: Annotated[
            str,
            AfterValidator(lambda value: check_identifier(value.strip(), "user_id")),
            "user id",
        ],
        max_tokens: Annotated[int, Field(ge=1, le=20_000), "token limit"] = 1000,
    ) -> Profile:
        """Call at the start of a session to learn who the user is.

        Returns standing instructions, name, allergies etc., then facts by topic."""
        [index] = turn_index.facts("", user_id)[1:]
        async with self._database.begin_read(scope) as tx:
            found, total = await latest_facts(
                tx,
                index.number,
                self._clock.now(),
                first=PROFILE_FACT_IDS,
                limit=min(FACTS_MAX, FACTS_EXTRA + max_tokens // LINE_TOK_MIN),
            )
        facts = _in_order(found, self._options.profile.classes)
        chars = sum(len(told.line) for told in facts)
        owner = owner_line(scope.project, user_id)
        most = min(chars // COUNT_FACTOR, max_tokens)
        within, text, tokens = await run_in_count_thread(
            most, _with_owner, owner, facts, max_tokens, self._costs.text
        )
        return Profile(
            text,
            [
                ProfileFact(
                    told.topic,
                    told.fact.told,
                    told.fact.record_id,
                    told.valid_from.date().isoformat(),
                    told.fact.doubt,
                )
                for told in within
            ],
            tokens,
            total - len(found) + len(facts) - len(within),
        )


def _in_order(facts: Iterable[CurrentFact], classes: Collection[str]) -> list[_Told]:
    """Return the facts by topic, each sentence once: the profile in its order, then the others."""
    told = []
    for fact in facts:
        name = profile_class(fact.fact_id, fact.key)
        if name is None or name in classes:
            topic = name or fact.fact_id.removeprefix("user_")
            doubt = f" (questioned: {fact.doubt})" if fact.doubt else ""
            line = " ".join(f"{topic}: {fact.told.removeprefix(f'{topic}: ')}{doubt}".split())
            rank = _OTHER if name is None else _RANKS[name]
            told.append(_Told(rank, topic, fact.valid_from, fact.entry, line, fact))
    unique = dict[str, _Told]()
    for one in sorted(told):
        unique.setdefault(normalized_text(one.fact.told), one)
    return sorted(unique.values(), key=lambda one: one.topic != _INSTRUCTION)


def _with_owner(
    owner: str, facts: Sequence[_Told], max_tokens: int, count: Callable[[str], int]
) -> tuple[list[_Told], str, int]:
    """Return the facts that fit as `_within`, with a line before them that says whose they are.

    That line is left out where it would leave no room for a fact."""
    head = f"{owner}:" if facts else f"no facts are known for {owner}"
    head_tokens = count(f"{head}\n")
    if head_tokens + LINE_TOK_MIN * bool(facts) > max_tokens:
        return _within(facts, max_tokens, count)
    within, text, _ = _within(facts, max_tokens - head_tokens, count)
    text = f"{head}\n{text}".strip()
    return within, text, count(text)


def _within(
    facts: Sequence[_Told], max_tokens: int, count: Callable[[str], int]
) -> tuple[list[_Told], str, int]:
    """Return the facts whose lines fit, in their order, with their text and its tokens.

    Other facts give way first, the oldest before others, then instructions."""
    text = _text(facts)
    if len(text) <= COUNT_FACTOR * max_tokens and (tokens := count(text)) <= max_tokens:
        return list(facts), text, tokens
    in_profile = sorted(one for one in facts if one.rank < _OTHER)
    others = [one for one in facts if one.rank == _OTHER]
    remaining, kept = max_tokens, list[_Told]()
    for one in in_profile + sorted(others, key=attrgetter("valid_from"), reverse=True):
        if remaining < LINE_TOK_MIN:
            break
        fits = len(one.line) <= COUNT_FACTOR * remaining
        if fits and (tokens := count(f"{one.line}\n")) <= remaining:
            remaining -= tokens
            kept.append(one)
    entries = {one.entry for one in kept}
    told = [one for one in facts if one.entry in entries]
    while (tokens := count(text := _text(told))) > max_tokens:
        told.remove(kept.pop())  # lines may have other tokens side by side
    return told, text, tokens


def _text(facts: Iterable[_Told]) -> str:
    return "\n".join(one.line for one in facts)
