"""Decisions about memories, from a model's proposals or from rules; pure, on the current state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memsvc.core.facts import Evidence, Merge
from memsvc.core.secrets import is_secret
from memsvc.store.memories import Memory
from memsvc.styles.memories import keeping
from memsvc.styles.memories.answers import Proposal
from memsvc.styles.memories.book import same
from memsvc.styles.memories.keeping import Change

TEXT_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Decided:
    """Changes to apply, and whether a proposal was about a memory that has changed since."""

    changes: list[Change]
    outdated: bool


@dataclass(frozen=True, slots=True)
class Present:
    """State at the time of a decision.

    The memories that proposals name, by id; those that equal a new text, by text; the texts of
    memories given to the model and deleted since.
    """

    by_id: Mapping[str, Memory]
    by_text: Mapping[str, Memory]
    gone: frozenset[str] = frozenset()


def fit(text: str) -> bool:
    """Return whether a text may be a memory: short, not blank, and no secret."""
    return bool(text) and len(text.encode()) <= TEXT_BYTES_MAX and not is_secret(text, text)


def by_proposals(
    proposals: Sequence[Proposal],
    shown: Mapping[str, Memory],
    present: Present,
    evidence: Evidence,
    new_id: Callable[[], str],
    *,
    most: int,
) -> Decided:
    """Return the changes that a model's proposals amount to.

    A proposal may touch a memory that the model was given, once, and unchanged since; one for any
    other id does nothing. A known text is not added again, unless the same answer takes it away: of
    two memories that become one, one is left. `most` limits the additions.
    """
    steps: list[tuple[Memory | None, str]] = []
    touched: set[str] = set()
    added = 0
    outdated = False
    for one in proposals:
        if one.event == "ADD":
            if added < most and fit(one.text):
                steps.append((None, one.text))
                added += 1
            continue
        seen = target(one, shown)
        if one.event == "NONE" or seen is None or seen.memory in touched:
            continue
        current = present.by_id.get(seen.memory)
        if current is None or current.fact.entry != seen.fact.entry:
            outdated = True
            continue
        if one.event == "UPDATE" and not _says_more(one.text, current, present):
            continue
        touched.add(seen.memory)
        steps.append((current, one.text if one.event == "UPDATE" else ""))
    said = {text for text, held in present.by_text.items() if held.memory not in touched} | present.gone
    return Decided(_changes(steps, said, evidence, new_id), outdated)


def _says_more(text: str, current: Memory, present: Present) -> bool:
    """Return whether a text may become a memory's text and differs from the current one."""
    return fit(text) and same(text) not in present.gone and same(text) != same(current.text)


def _changes(
    steps: Sequence[tuple[Memory | None, str]], said: set[str], evidence: Evidence, new_id: Callable[[], str]
) -> list[Change]:
    """Return the changes that give memories their texts: None adds one, "" deletes it.

    `said` holds the texts of the other memories.
    """
    changes: list[Change] = []
    for memory, text in steps:
        again = same(text) in said
        if text:
            said.add(same(text))
        if memory is None:
            changes += [] if again else [keeping.added(new_id(), text, evidence)]
        else:
            ends = again or not text
            changes.append(keeping.deleted(memory) if ends else keeping.changed(memory, text, evidence))
    return changes


def target(proposal: Proposal, shown: Mapping[str, Memory]) -> Memory | None:
    """Return the memory that a proposal means, among those given to the model.

    By its id, or else by its old text.
    """
    if proposal.memory in shown:
        return shown[proposal.memory]
    old = same(proposal.old_text)
    return next((one for one in shown.values() if old and same(one.text) == old), None)


def by_claims(
    merged: Merge, known: Mapping[int, Memory], present: Present, new_id: Callable[[], str], evidence: Evidence
) -> list[Change]:
    """Return the changes that claims of rules amount to.

    A value of a key that has one is a change, any other an addition. `known` are the memories of
    the facts that the merge touches, by entry; a text known under another key is not added again.
    """
    kept = {statement.record: statement for statement in merged.kept}
    continued: dict[str, Memory] = {}
    ended = [known[fact.entry] for fact in merged.deleted if fact.entry in known]
    for fact, by in merged.replaced:
        if fact.entry in known and by in kept:
            if fact.statement.identity == kept[by].identity:
                continued[by] = known[fact.entry]
            else:
                ended.append(known[fact.entry])
    changes: list[Change] = []
    said = {*present.by_text}
    for record, statement in kept.items():
        says = replace(statement, evidence=evidence, ends=())
        old = continued.get(record)
        if old is not None:
            changes.append(keeping.changed(old, says.value, evidence, cues=says.cues))
        elif same(says.value) not in said and fit(says.value):
            said.add(same(says.value))
            changes.append(keeping.read(new_id(), says))
    touched = {change.memory for change in changes}
    ended = list({one.memory: one for one in ended if one.memory not in touched}.values())
    return changes + [keeping.deleted(one) for one in ended]
