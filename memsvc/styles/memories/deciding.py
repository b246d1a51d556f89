"""Decides what becomes of memories: by what a model proposes, or by what rules read; pure, on what holds right now."""

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
    """What is to be done, and whether a proposal was about a memory that is another one by now."""

    changes: list[Change]
    outdated: bool


@dataclass(frozen=True, slots=True)
class Present:
    """What holds as a decision is made: the memories that are meant, by id; those that say the same as what is new, by
    text; the texts of what was shown and is deleted by now."""

    by_id: Mapping[str, Memory]
    by_text: Mapping[str, Memory]
    gone: frozenset[str] = frozenset()


def fit(text: str) -> bool:
    """Whether a text may be a memory: short, not blank, and no secret."""
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
    """What a model's proposals come to. It may touch what it was shown, once each and as it was shown; a proposal for
    any other id does nothing. What is said already is not said again, unless the same answer takes that away: of two
    memories that become one, one is left. `most` may be added."""
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
    """Whether a text may be what a memory says from now on, and is not what it says already."""
    return fit(text) and same(text) not in present.gone and same(text) != same(current.text)


def _changes(
    steps: Sequence[tuple[Memory | None, str]], said: set[str], evidence: Evidence, new_id: Callable[[], str]
) -> list[Change]:
    """Memories that are to say a text: a new one for None, none any more for "". `said` is what the others say."""
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
    """The memory that a proposal means, among those that the model was shown: by its id, or else by its old text."""
    if proposal.memory in shown:
        return shown[proposal.memory]
    old = same(proposal.old_text)
    return next((one for one in shown.values() if old and same(one.text) == old), None)


def by_claims(
    merged: Merge, known: Mapping[int, Memory], present: Present, new_id: Callable[[], str], evidence: Evidence
) -> list[Change]:
    """What rules come to: a value of a key that has one is a change, any other an addition. `known` are the memories of
    the facts that the merge touches, by entry; what is said already under another key is not said again."""
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
