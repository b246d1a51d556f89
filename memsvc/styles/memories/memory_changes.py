"""Decisions about memories, from a model's JSON or from rules; pure, on the current state."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal

from pydantic_core import from_json

from memsvc.core.analysis import terms
from memsvc.core.facts import Claim, Evidence, FactTier, Merge, RemovalClaim, Statement
from memsvc.core.frozen import frozen
from memsvc.core.secrets import is_secret
from memsvc.core.word_similarity import overlap
from memsvc.store.memories import Memory
from memsvc.styles.memories import memory_writer
from memsvc.styles.memories.memory_writer import MemoryChange, comparable

_PHRASES: Final[Mapping[str, str]] = {
    "user_name": "Name is {value}",
    "user_nickname": "Is called {value}",
    "user_age": "Is {value} years old",
    "user_birthday": "Birthday is {value}",
    "user_preference": "Prefers {value}",
    "user_favourite": "{key} is {value}",
    "user_like": "Likes {value}",
    "user_dislike": "Dislikes {value}",
    "user_diet": "Is {value}",
    "user_food_rule": "Eats {value}",
    "user_allergy": "Allergic to {value}",
    "user_home": "Lives in {value}",
    "user_address": "Address is {value}",
    "user_origin": "Is from {value}",
    "user_birthplace": "Was born in {value}",
    "user_timezone": "Time zone is {value}",
    "user_job": "Works as {value}",
    "user_employer": "Works at {value}",
    "user_project": "Working on {value}",
    "user_studies": "Studies {value}",
    "user_family": "{key} is {value}",
    "user_kin": "{key} is {value}",
    "user_children": "Has {value}",
    "user_relationship": "Is {value}",
    "user_pet": "Has a {key} called {value}",
    "user_pet_kind": "Has {value}",
    "user_language": "Speaks {value}",
    "user_hobby": "Hobby is {value}",
    "user_possession": "{key} is {value}",
    "user_goal": "Wants to {value}",
    "user_contact": "{key} is {value}",
    "user_tooling": "Uses {value}",
}
_FIXED_PHRASES: Final[Mapping[tuple[str, str], str]] = {
    ("user_diet", "no meat"): "Eats no meat",
    ("user_diet", "eats meat"): "Eats meat",
    ("user_job", "retired"): "Is retired",
    ("user_job", "unemployed"): "Is unemployed",
    ("user_job", "self-employed"): "Is self-employed",
}


VERBS_MAX: Final = 1
"""Content words of a clause beside the value that a topic reads in it: its verb."""
_ALL_OUR: Final = re.compile(r"(?<=\ball )(?:my|our) ")
_OUR: Final = re.compile(r"\b(?:my|our)\b")


def phrase_of(fact_id: str, key: str, value: str) -> str:
    """Return a fact of the rules in words: `user_diet`, `diet`, `vegetarian` is `Is vegetarian`.

    "" for a topic that is told in the user's own words.
    """
    text = _FIXED_PHRASES.get((fact_id, value.casefold()))
    if text is None:
        pattern = _PHRASES.get(fact_id, "")
        if fact_id == "user_allergy" and value.endswith("intolerant"):
            pattern = "Is {value}"
        if fact_id == "user_pet_kind" and not value.endswith("s"):
            value = f"{'an' if value[0] in 'aeiou' else 'a'} {value}"
        value = _OUR.sub("their", _ALL_OUR.sub("", value))
        text = pattern.format(key=key.replace("_", " "), value=value)
    return text[:1].upper() + text[1:]


def is_permanent(claim: Claim) -> bool:
    """Return whether a claim is worth keeping beyond the day on which it was made."""
    return isinstance(claim, RemovalClaim) or claim.tier is not FactTier.L1


def as_memory_claims(claims: Sequence[Claim]) -> list[Claim]:
    """Return claims fit for memories: their values phrased, and kept until they are changed.

    In languages other than English, for topics without a phrase, and where the value is the clause,
    it is the user's own words; the value, where a clause without a phrase states several.
    """
    clauses = Counter(claim.statement for claim in claims if isinstance(claim, Statement))
    found: list[Claim] = []
    for claim in claims:
        if isinstance(claim, RemovalClaim):
            found.append(claim)
            continue
        beside = [one for one in claims if one is not claim and one.statement == claim.statement]
        if not any(isinstance(one, Statement) and _says(one, claim) for one in beside):
            text = _text_of(claim, clauses[claim.statement])
            found.append(replace(claim, value=text, statement="", tier=FactTier.L0))
    return found


def _says(other: Statement, claim: Statement) -> bool:
    """Return whether a claim about the same clause says all that another one does.

    The kind of a pet is said with its name, and a clause by a topic that names its content."""
    if claim.fact_id == "user_pet_kind":
        return other.fact_id == "user_pet" and other.key == claim.value
    is_clause = comparable(claim.value) == comparable(claim.statement)
    told = phrase_of(other.fact_id, other.key, other.value)
    content = frozenset(terms(claim.value)) - frozenset(terms(other.value))
    return is_clause and bool(told) and len(content) <= VERBS_MAX


def _text_of(claim: Statement, stated_count: int) -> str:
    clause = claim.statement.rstrip(" .!。！")
    text = claim.words or (clause if clause == claim.value else "")
    text = text or phrase_of(claim.fact_id, claim.key, claim.value)
    text = text or (clause if stated_count == 1 else f"{claim.key}: {claim.value}")
    return text[:1].upper() + text[1:]


CHARS_READ_MAX: Final = 40_000
_POSITIONS_MAX: Final = 4
"""Positions at which JSON may begin that are tried."""
_TRAILING_COMMA: Final = re.compile(r",\s*(?=[}\]])")
_MARK: Final = re.compile(r'\\.|["{}\[\]]', re.DOTALL)

Event = Literal["ADD", "UPDATE", "DELETE", "NONE"]
EVENTS: Final[tuple[Event, ...]] = ("ADD", "UPDATE", "DELETE", "NONE")


class InvalidAnswerError(ValueError):
    """An answer holds nothing of what was requested."""


@frozen
class MemoryProposal:
    """Change that a model proposes: to which memory, if it named one, and its new text."""

    event: Event
    memory: str
    text: str
    old_text: str


def facts_in(answer: str) -> list[str]:
    """Return the facts of an answer `{"facts": [...]}`, without blanks and duplicates.

    A bare list is accepted too, and so is an object with one text for a fact. Raises
    `InvalidAnswerError`.
    """
    members = _members(answer, "facts")
    texts = [_text(member, "fact", "text", "memory", "content", "value") for member in members]
    if not any(texts) and any(member not in ("", None) for member in members):
        raise InvalidAnswerError
    return list(dict.fromkeys(text for text in texts if text))


def proposals_in(answer: str) -> list[MemoryProposal]:
    """Return the changes of an answer `{"memory": [...]}`, in order.

    Those without a known event are left out. Raises `InvalidAnswerError`.
    """
    members = _members(answer, "memory", "memories", "results")
    proposals = [proposal for proposal in map(_proposal, members) if proposal is not None]
    if members and not proposals:
        raise InvalidAnswerError
    return proposals


def _proposal(member: Any) -> MemoryProposal | None:
    if not isinstance(member, dict):
        return None
    event = next(
        (event for event in EVENTS if str(member.get("event", "")).strip().upper() == event), None
    )
    if event is None:
        return None
    memory_id = member.get("id")
    memory = str(memory_id).strip() if isinstance(memory_id, str | int) else ""
    return MemoryProposal(
        event, memory, _text(member, "text", "memory"), _text(member, "old_memory")
    )


def _text(value: Any, *names: str) -> str:
    """Return a string, or a member of an object, on one line and without NUL characters."""
    if isinstance(value, dict):
        value = next((value[name] for name in names if isinstance(value.get(name), str)), "")
    return " ".join(value.replace("\x00", " ").split()) if isinstance(value, str) else ""


def _members(answer: str, *names: str) -> list[Any]:
    """Return the list that an answer is, or holds under one of the names.

    Of a truncated list, its complete elements.
    """
    for position, value, truncated in _values(answer[:CHARS_READ_MAX]):
        members = value if position == 0 else None  # a later list belongs to something else
        if isinstance(value, dict):
            members = next((value[name] for name in names if name in value), None)
            if members in (None, {}, "") and any(name in value for name in names):
                members = []
        if isinstance(members, list) and (members or not truncated):
            return members
    raise InvalidAnswerError


def _values(answer: str) -> Iterator[tuple[int, Any, bool]]:
    """Yield the JSON values of an answer, tried at each position where one may begin.

    As the number of the position, the value, and whether it was truncated. Of a truncated value,
    half a string is left out, as it says something else than the complete one.
    """
    positions = [match.start() for match in re.finditer(r"[{\[]", answer)][:_POSITIONS_MAX]
    for number, start in enumerate(positions):
        end = _end(answer, start)
        for text in (answer[start:end], _TRAILING_COMMA.sub("", answer[start:end])):
            with suppress(ValueError):
                value = from_json(text, allow_inf_nan=False, allow_partial=end is None)
                yield number, value, end is None
                break


def _end(text: str, start: int) -> int | None:
    """Return the end of the value that begins here; None when it was truncated."""
    depth, quoted = 0, False
    for match in _MARK.finditer(text, start):
        if match[0] == '"':
            quoted = not quoted
        elif not quoted:
            depth += (match[0] in "{[") - (match[0] in "}]")
            if depth == 0:
                return match.end()
    return None


TEXT_BYTES_MAX: Final = 1024
NAMED_OVERLAP: Final = 0.5
"""Likeness by words above which a proposal is about a fact."""


@frozen
class CurrentMemories:
    """State at the time of a decision.

    The memories that proposals name, by id; those that equal a new text, by text; the texts of
    memories given to the model and deleted since.
    """

    by_id: Mapping[str, Memory]
    by_text: Mapping[str, Memory]
    deleted_texts: frozenset[str] = frozenset()


def is_valid_memory(text: str) -> bool:
    """Return whether a text may be a memory: short, not blank, and no secret."""
    return bool(text) and len(text.encode()) <= TEXT_BYTES_MAX and not is_secret(text, text)


def by_proposals(
    proposals: Sequence[MemoryProposal],
    candidates: Mapping[str, Memory],
    present: CurrentMemories,
    evidence: Evidence,
    new_id: Callable[[], str],
    *,
    limit: int,
) -> tuple[list[MemoryChange], bool]:
    """Return the changes that a model's proposals amount to, and whether any came too late.

    That is one about a memory that has changed since.

    A proposal may touch a memory that the model was given, once, and unchanged since; one for any
    other id does nothing. A known text is not added again, unless the same answer takes it away: of
    two memories that become one, one is left. `limit` limits the additions.
    """
    steps: list[tuple[Memory | None, str]] = []
    used_ids: set[str] = set()
    added = 0
    has_conflict = False
    for proposal in proposals:
        if proposal.event == "ADD":
            if added < limit and is_valid_memory(proposal.text):
                steps.append((None, proposal.text))
                added += 1
            continue
        candidate = target(proposal, candidates)
        if proposal.event == "NONE" or candidate is None or candidate.memory in used_ids:
            continue
        current = present.by_id.get(candidate.memory)
        if current is None or current.fact.entry != candidate.fact.entry:
            has_conflict = True
            continue
        if proposal.event == "UPDATE" and not _is_new_text(proposal.text, current, present):
            continue
        used_ids.add(candidate.memory)
        steps.append((current, proposal.text if proposal.event == "UPDATE" else ""))
    existing_texts = {
        text for text, memory in present.by_text.items() if memory.memory not in used_ids
    } | present.deleted_texts
    return _changes(steps, existing_texts, evidence, new_id), has_conflict


def _is_new_text(text: str, current: Memory, present: CurrentMemories) -> bool:
    """Return whether a text may become a memory's text and differs from the current one."""
    return (
        is_valid_memory(text)
        and comparable(text) not in present.deleted_texts
        and comparable(text) != comparable(current.text)
    )


def _changes(
    steps: Sequence[tuple[Memory | None, str]],
    existing_texts: set[str],
    evidence: Evidence,
    new_id: Callable[[], str],
) -> list[MemoryChange]:
    """Return the changes that give memories their texts: None adds one, "" deletes it.

    `existing_texts` holds the texts of the other memories.
    """
    changes = []
    for memory, text in steps:
        is_duplicate = comparable(text) in existing_texts
        if text:
            existing_texts.add(comparable(text))
        if memory is None:
            changes += [] if is_duplicate else [memory_writer.added(new_id(), text, evidence)]
        else:
            is_deleted = is_duplicate or not text
            changes.append(
                memory_writer.deleted(memory)
                if is_deleted
                else memory_writer.changed(memory, text, evidence)
            )
    return changes


def forgotten_facts(
    new_facts: Sequence[str],
    proposals: Sequence[MemoryProposal],
    candidates: Mapping[str, Memory],
    present: CurrentMemories,
) -> tuple[list[str], list[str]]:
    """Return the facts that a model's proposals forget: those to add, and those left unplaced.

    A proposal that names a fact in its words, or those of its memory, remembers it; nothing is
    forgotten that is stored. Where as many other proposals add or change something the model told
    the facts in other words; where they say besides that something is known already, that is not
    sure, and the facts are neither added nor passed over in silence.
    """
    known = {*present.by_text, *present.deleted_texts}
    open_facts = [fact for fact in new_facts if comparable(fact) not in known]
    remaining = {"ADD": 0, "UPDATE": 0, "NONE": 0, "DELETE": 0}
    for proposal in proposals:
        memory = target(proposal, candidates)
        if memory is None and proposal.event != "ADD":
            continue
        texts = (proposal.text, proposal.old_text, memory.text if memory is not None else "")
        named = [fact for fact in new_facts if any(_names(text, fact) for text in texts)]
        open_facts = [fact for fact in open_facts if fact not in named]
        remaining[proposal.event] += not named
    in_other_words = remaining["ADD"] + remaining["UPDATE"]
    if in_other_words >= len(open_facts):
        return [], []
    if in_other_words + remaining["NONE"] == len(open_facts):
        return [], open_facts
    return open_facts, []


def _names(text: str, fact: str) -> bool:
    """Return whether a text says a fact, as far as its words tell."""
    return comparable(text) == comparable(fact) or overlap(text, fact) > NAMED_OVERLAP


def target(proposal: MemoryProposal, candidates: Mapping[str, Memory]) -> Memory | None:
    """Return the memory that a proposal means, among those given to the model.

    By its id, or else by its old text.
    """
    if proposal.memory in candidates:
        return candidates[proposal.memory]
    old = comparable(proposal.old_text)
    return next(
        (
            candidate
            for candidate in candidates.values()
            if old and comparable(candidate.text) == old
        ),
        None,
    )


def by_claims(
    merged: Merge,
    known: Mapping[int, Memory],
    present: CurrentMemories,
    new_id: Callable[[], str],
    evidence: Evidence,
) -> list[MemoryChange]:
    """Return the changes that claims of rules amount to.

    A value of a key that has one is a change, any other an addition. `known` are the memories of
    the facts that the merge touches, by entry; a text known under another key is not added again.
    """
    kept = {statement.record: statement for statement in merged.kept}
    updated = {}
    closed = [known[fact.entry] for fact in merged.deleted if fact.entry in known]
    for fact, replacement in merged.replaced:
        if fact.entry in known and replacement in kept:
            if fact.statement.identity == kept[replacement].identity:
                updated[replacement] = known[fact.entry]
            else:
                closed.append(known[fact.entry])
    changes = []
    existing_texts = {*present.by_text}
    for record, statement in kept.items():
        new_statement = replace(statement, evidence=evidence, conflicts=())
        old = updated.get(record)
        if old is not None:
            changes.append(
                memory_writer.changed(
                    old, new_statement.value, evidence, keywords=new_statement.keywords
                )
            )
        elif comparable(new_statement.value) not in existing_texts and is_valid_memory(
            new_statement.value
        ):
            existing_texts.add(comparable(new_statement.value))
            changes.append(memory_writer.read_by_rule(new_id(), new_statement))
    changed_ids = {change.memory for change in changes}
    closed = list({one.memory: one for one in closed if one.memory not in changed_ids}.values())
    return changes + [memory_writer.deleted(one) for one in closed]


def brought_back(
    said: Iterable[Memory],
    changes: Sequence[MemoryChange],
    since: datetime | None,
    evidence: Evidence,
) -> list[MemoryChange]:
    """Return the changes by which hidden memories that were said again are visible again.

    `said` are the memories that a conversation repeats, `changes` what else it changes, and
    memories last changed before `since` are hidden. The text stays as it is.
    """
    if since is None:
        return []
    changed_ids = {change.memory for change in changes}
    hidden = {
        one.memory: memory_writer.changed(one, one.text, evidence)
        for one in said
        if one.fact.valid_from < since and one.memory not in changed_ids
    }
    return list(hidden.values())
