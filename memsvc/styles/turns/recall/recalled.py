"""Candidates as a prompt shows them, and the explanation of what it shows and why."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from memsvc.core.facts import Fact, ProfileClass, Statement
from memsvc.core.frozen import frozen
from memsvc.core.ranking import Candidate, Kind
from memsvc.core.secrets import has_secret_value
from memsvc.core.timestamp import short_time
from memsvc.store.insights import Insight
from memsvc.styles.turns import budget
from memsvc.styles.turns.file_layout import exact_timestamp
from memsvc.styles.turns.recall.sentence_quotes import QuoteFinder, Range, quote_text

IN_CONTEXT: Final = "in the recent context"
OVER_THE_BUDGET: Final = "over the token budget"

FACT_TOKENS: Final = 20
"""Estimated tokens of a recalled fact beside its words."""
LEFT_OUT_TOKENS: Final = 12
BRIEF_CHARS: Final = 90
"""Characters up to which a profile tells the clause that says a fact, and not its value alone."""
INSTRUCTION_ID: Final = "user_instruction"
CONFIDENCE_MIN: Final = 0.6
"""The confidence of a fact is told below this."""
STATEMENT_KEY: Final = "statement"
"""Key of facts that no rule gives a topic."""


@frozen
class RankedRecall:
    """Recalled candidates in order of priority, which is also their order within a kind but turns.

    `dropped` are those that are not shown, each with its reason. `session` is the asking one;
    `confidence` explains why past items count as an answer or not."""

    session: str
    chunks: Sequence[Candidate]
    dropped: Sequence[Candidate]
    confidence: Mapping[str, Any] | None

    def _is_own(self, candidate: Candidate) -> bool:
        """Return whether it is an item of the session itself."""
        return candidate.kind == "turn" and candidate.session == self.session

    def refs_in_first(self, count: int, refs: Collection[str]) -> set[str]:
        """Return which of these items of the session are among the first chunks."""
        return {
            chunk.ref for chunk in self.chunks[:count] if self._is_own(chunk) and chunk.ref in refs
        }

    def without(self, refs: Collection[str]) -> "RankedRecall":
        """Return the same without these items of the session, which the recent context shows."""
        gone = [chunk for chunk in self.chunks if self._is_own(chunk) and chunk.ref in refs]
        for chunk in gone:
            chunk.reason = IN_CONTEXT
        kept = [chunk for chunk in self.chunks if not chunk.reason]
        return replace(self, chunks=kept, dropped=[*self.dropped, *gone])

    def ids(self, kind: Kind, count: int) -> list[str]:
        """Return the ids of this kind among the first chunks, each once.

        Facts are those that the question asks for, also where the profile tells them."""
        return list(
            dict.fromkeys(
                chunk.id
                for chunk in self.chunks[:count]
                if chunk.kind == kind
                or (kind == "fact" and chunk.kind == "profile" and chunk.parts)
            )
        )

    def details(self, count: int, *, places: bool = False) -> dict[str, Any]:
        """Return why each candidate is shown, and its position, or not, best first.

        Includes the confidence in past items and, on request, place and quoted ranges of each."""
        listed: list[dict[str, Any]] = []
        for at, candidate in enumerate([*self.chunks, *self.dropped]):
            one: dict[str, Any] = {
                "ref": candidate.ref,
                "kind": candidate.kind,
                "shown": at < count,
                "score": candidate.score,
            }
            if candidate.kind == "turn" and candidate.session != self.session:
                one["session"] = candidate.session
            if candidate.reason:
                one["reason"] = candidate.reason
            else:
                one["parts"] = {name: round(part, 4) for name, part in candidate.parts.items()}
                if candidate.kind == "turn" and candidate.message_at:
                    one["time"] = exact_timestamp(candidate.message_at)
                one |= {"position": at + 1} if at < count else {"reason": OVER_THE_BUDGET}
                if places and candidate.text_ranges:
                    one["cut"] = candidate.text_ranges
            if places and candidate.index_id:
                one["place"] = [*candidate.place]
            listed.append(one)
        listed.sort(key=itemgetter("score"), reverse=True)
        return {"candidates": listed} | ({"confidence": self.confidence} if self.confidence else {})


def show_fact(candidate: Candidate, fact: Fact) -> Candidate:
    """Let a candidate show a fact: the statement that says it, since when, and any doubt."""
    statement = fact.statement
    fields: dict[str, Any] = {"id": statement.record_id}
    said = statement.statement
    key = statement.key.replace("_", " ")
    if not said or (key != STATEMENT_KEY and key not in said.casefold()):
        fields["key"] = statement.key
    if not said or statement.key != STATEMENT_KEY:
        fields["value"] = statement.value
    if said:
        fields["statement"] = said
    fields["since"] = f"{fact.valid_from:%Y-%m-%d}"
    if statement.confidence < CONFIDENCE_MIN:
        fields["confidence"] = round(statement.confidence, 2)
    fields |= _doubt_fields(fact)
    candidate.kind, candidate.id, candidate.ref = "fact", statement.record_id, statement.record_id
    candidate.tokens = sum(len(str(value)) for value in fields.values()) // 3 + FACT_TOKENS
    candidate.fields = fields
    return candidate


def profile_fields(name: ProfileClass, fact: Fact) -> dict[str, Any]:
    """Return what a profile shows of a fact; a doubt is told with it."""
    statement = fact.statement
    return {
        "id": statement.record_id,
        "class": name,
        "statement": _brief(statement),
        "since": f"{fact.valid_from:%Y-%m-%d}",
    } | _doubt_fields(fact)


def left_out_line(count: int) -> Candidate:
    """Return the last line of a profile that is not whole."""
    fields = {"left_out": f"{count} more: memory_profile"}
    return Candidate(0, {}, 0, kind="profile", fields=fields, tokens=LEFT_OUT_TOKENS)


def _brief(statement: Statement) -> str:
    """Return a fact of a profile in few words: without what else a long sentence says."""
    said, value = statement.told, statement.value
    if statement.fact_id == INSTRUCTION_ID or len(said) <= max(len(value), BRIEF_CHARS):
        return said
    return f"{statement.key.replace('_', ' ')}: {value}"


def _doubt_fields(fact: Fact) -> dict[str, Any]:
    """Return the later sentence by which a fact may no longer hold, and when it was said."""
    doubt = fact.doubt
    if doubt is None:
        return {}
    said = {"text": doubt.text} if doubt.text and not has_secret_value(doubt.text) else {}
    return {"questioned": said | {"time": f"{doubt.said_at:%Y-%m-%d}"}}


def name_owners(chunks: Iterable[Candidate], facts: Iterable[Fact]) -> None:
    """Let the facts among these chunks say which user they are of."""
    users = {one.statement.record_id: one.statement.evidence.user for one in facts}
    for chunk in chunks:
        if owner := users.get(chunk.id):
            chunk.fields = chunk.fields | {"user": owner}


def show_insight(candidate: Candidate, insight: Insight) -> Candidate:
    """Let a candidate show an insight with its kind."""
    candidate.kind, candidate.id, candidate.ref = "insight", insight.insight, insight.insight
    candidate.fields = {
        "id": insight.insight,
        "type": insight.kind,
        "summary": insight.summary,
        "confidence": f"{insight.confidence:.2f}",
        "time": short_time(insight.made_at),
    }
    candidate.tokens = len(insight.summary) // 3 + budget.CHUNK_TOKENS
    return candidate


def show_item(candidate: Candidate, ranges: Sequence[Range]) -> None:
    """Set the quote of a candidate to these ranges of its text."""
    quoted = quote_text(candidate.text, ranges)
    candidate.fields, candidate.reason = {"text": quoted}, ""
    candidate.tokens = (
        candidate.item_tokens * len(quoted) // len(candidate.text) + budget.CHUNK_TOKENS
    )
    candidate.text_ranges = ranges if quoted != candidate.text else None


def show_passage(candidate: Candidate, quote_finder: QuoteFinder, *, chars_max: int) -> Candidate:
    """Let a passage show a quote behind its source, last write and byte range."""
    text = quote_text(candidate.text, quote_finder.ranges(candidate.text, chars_max))
    candidate.fields = candidate.fields | {"text": text}
    candidate.tokens = len(text) // 3 + budget.CHUNK_TOKENS
    return candidate
