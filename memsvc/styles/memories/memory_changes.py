"""Decisions about memories, from a model's proposals or from rules; pure, on the current state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.facts import Evidence, Merge
from memsvc.core.secrets import is_secret
from memsvc.core.word_similarity import overlap
from memsvc.store.memories import Memory
from memsvc.styles.memories import memory_writer
from memsvc.styles.memories.memory_index import comparable
from memsvc.styles.memories.memory_writer import MemoryChange
from memsvc.styles.memories.model_output import MemoryProposal

TEXT_BYTES_MAX: Final = 1024
NAMED_OVERLAP: Final = 0.5
"""Likeness by words above which a proposal is about a fact."""


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """Changes to apply, and whether a proposal was about a memory that has changed since."""

    changes: list[MemoryChange]
    has_conflict: bool


@dataclass(frozen=True, slots=True)
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
) -> MemoryChanges:
    """Return the changes that a model's proposals amount to.

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
    return MemoryChanges(_changes(steps, existing_texts, evidence, new_id), has_conflict)


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
    changes: list[MemoryChange] = []
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
    updated: dict[str, Memory] = {}
    closed = [known[fact.entry] for fact in merged.deleted if fact.entry in known]
    for fact, replacement in merged.replaced:
        if fact.entry in known and replacement in kept:
            if fact.statement.identity == kept[replacement].identity:
                updated[replacement] = known[fact.entry]
            else:
                closed.append(known[fact.entry])
    changes: list[MemoryChange] = []
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
