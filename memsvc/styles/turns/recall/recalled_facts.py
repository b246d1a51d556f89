"""Facts relevant to a question, and what a small memory tells beside them."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, takewhile
from typing import Final, Self

import orjson

from memsvc.core import ranking, relevance
from memsvc.core.analysis import normalized_text, terms
from memsvc.core.facts import (
    PRIVATE_CLASSES,
    Fact,
    FactTier,
    Statement,
    latest_by_identity,
    profile_facts,
)
from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import QuestionKind
from memsvc.core.ranking import (
    Candidate,
    EntryPlace,
    QuestionTerms,
    bm25_constants,
    bm25_idf,
    bm25_term_score,
)
from memsvc.core.rules.extraction import QUESTION_FACT_IDS, requested_fact_ids, requests_facts
from memsvc.core.secrets import NOT_ASKED_FOR, asks_for_secret, has_secret_value
from memsvc.store.recalls import RecallContent
from memsvc.store.search import IndexMatches
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.file_layout import turn_of
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recalled import (
    INSTRUCTION_ID,
    STATEMENT_KEY,
    left_out_line,
    profile_fields,
    show_fact,
)

FACT_WEIGHTS: Final = ranking.RankWeights(
    context=0.0,
    context_steps=0,
    answer=0.0,
    day=0.0,
    date=0.0,
    speaker=1.0,
    short_exponent=0.0,
    order=0.0,
)
"""Facts and insights are ranked alone: no neighbours, no days, no speakers."""
FLOOR: Final = 1.5
"""Minimum relevance of a fact by itself."""
PERSONAL_FACTOR: Final = 2.0
"""Factor of questions about the user's own matters."""
GENERAL_FACTOR: Final = 0.75
"""Factor of questions of general knowledge, of which one word alone is no evidence."""
FACT_SHARE: Final = 3
"""Facts are told before items in one of so many parts of a block, others where room is left."""

SAFETY_TOKENS: Final = 300
"""Tokens that allergies, conditions, medication and diet have beyond the limit of a profile."""
KEPT_FIRST: Final = (
    *("allergy", "condition", "medication", "diet"),
    *("name", "answer_language", "pronouns", "instruction"),
)
"""Classes of a profile by what is kept where it is too long, what keeps a person safe first."""
STATED_SHARE: Final = 0.7
"""Share of a message above which the facts of its turn say what it says."""
_STATEMENT_ID: Final = "user_statement"
_CLAUSE: Final = re.compile(
    r"[,;:.!?。，、；：！？…\n]| (?:and|or|und|oder|et|ou|y|e|o) |和|以及|或", re.IGNORECASE
)
_PROFILE_QUESTION = re.compile(
    r"\b(about me|who am i|know me|remember me|my profile)\b", re.IGNORECASE
)


@frozen
class FactRequest:
    """Request for facts: the question, the indexes, the matches, best first, and requested kinds.

    Kinds are requested without matching words: everything lasting about the user, or facts of some
    ids. `request_terms` are those terms of the question that only request these ids."""

    question: QuestionTerms
    kind: QuestionKind
    index_ids: Sequence[int]
    ranked: Sequence[Candidate]
    wants_profile: bool
    ids: frozenset[str]
    request_terms: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        question: QuestionTerms,
        kind: QuestionKind,
        index_ids: Sequence[int],
        found: Mapping[int, IndexMatches],
        unrelated: float | None = None,
    ) -> Self:
        """Return the request for facts of some indexes, with the matches of a search."""
        ids = requested_fact_ids(question.text) if index_ids else frozenset[str]()
        return cls(
            question,
            kind,
            index_ids,
            rank_entries(question, kind, index_ids, found, unrelated),
            wants_profile=bool(index_ids) and _PROFILE_QUESTION.search(question.text) is not None,
            ids=ids,
            request_terms=_request_terms(question.text) if ids else frozenset(),
        )

    @property
    def needs_all(self) -> bool:
        """Return whether all facts have to be read."""
        return self.wants_profile or bool(self.ids)


def rank_entries(
    question: QuestionTerms,
    kind: QuestionKind,
    index_ids: Sequence[int],
    found: Mapping[int, IndexMatches],
    unrelated: float | None = None,
) -> list[Candidate]:
    """Return the relevant entries of some indexes, each by itself, best first."""
    factors = {
        QuestionKind.PERSONAL: PERSONAL_FACTOR,
        QuestionKind.GENERAL: GENERAL_FACTOR,
    }
    factor = factors.get(kind, 1.0)
    ranked = []
    for matches in [found[index_id] for index_id in index_ids if index_id in found]:
        query = question.in_index(matches.entries, matches.counts_by_term, unrelated=unrelated)
        entries = ranking.rank(matches.candidates, query, FACT_WEIGHTS)
        ranked += [entry for entry in entries if _evidence(entry) * factor >= FLOOR]
    return sorted(ranked, key=lambda entry: -entry.score)


def _evidence(entry: Candidate) -> float:
    alike = max(0.0, (entry.similarity or 0.0) - relevance.SIMILARITY_FLOOR)
    return entry.relevance + relevance.SIMILARITY_RATE * alike


def fact_chunks(
    request: FactRequest, read: Sequence[Fact], *, as_of: datetime | None, filter_secrets: bool
) -> list[Candidate]:
    """Return the loaded facts, best first: matches, then requested kinds.

    With `filter_secrets`, secrets that the question does not ask for get a reason."""
    order = {index_id: at for at, index_id in enumerate(request.index_ids)}
    oldest_first = sorted(
        read, key=lambda fact: (fact.valid_from, order.get(fact.index_id, -1), fact.entry)
    )
    latest = latest_by_identity(oldest_first)
    at_places = {fact.place: fact for fact in latest.values()}
    ranked = request.ranked if as_of is None else _ranked_here(request, list(latest.values()))
    found = [(at_places[one.place], one) for one in ranked if one.place in at_places]
    if any(fact.statement.fact_id in request.ids for fact in latest.values()):
        found = [(fact, one) for fact, one in found if not _is_not_requested(fact, request)]
    chunks = [show_fact(one, fact) for fact, one in found]
    if filter_secrets and not asks_for_secret(request.question.text):
        for chunk, (fact, one) in zip(chunks, found, strict=True):
            if _evidence(one) < FLOOR and has_secret_value(fact.statement.told):
                chunk.reason = NOT_ASKED_FOR
    identities = {fact.statement.identity for fact, _ in found}
    for fact in sorted(latest.values(), key=lambda fact: fact.valid_from, reverse=True):
        statement = fact.statement
        by_kind = statement.fact_id in request.ids or (
            request.wants_profile
            and statement.tier is FactTier.L0
            and not has_secret_value(statement.told)
        )
        if by_kind and statement.identity not in identities:
            score = statement.confidence
            one = Candidate.at(EntryPlace(*fact.place), score=score, parts={"asked for": score})
            chunks.append(show_fact(one, fact))
    return chunks


def within_share(
    chunks: Sequence[Candidate], tok_max: int
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the facts to tell before any items within a share of a block, and those behind."""
    tokens = accumulate(chunk.tokens for chunk in chunks)
    first = sum(1 for _ in takewhile(lambda total: total <= tok_max // FACT_SHARE, tokens))
    return list(chunks[:first]), list(chunks[first:])


def told_once(chunks: Sequence[Candidate], facts: Sequence[Fact], tok_max: int) -> list[Candidate]:
    """Return the chunks without what others tell in the same words; facts among that get a reason.

    Of a fact in doubt it is the message, which has no doubt: the fact says most of it.

    They are statements without a topic or a doubt that the profile has, or a message that is quoted
    within `tok_max` tokens, and instructions that the profile has.
    So are messages that share no word with the question."""
    statements = {fact.place: fact.statement for fact in facts}
    in_profile, quoted = set(), dict[tuple[str, str], str]()
    has_facts = any(chunk.kind == "fact" for chunk in chunks)
    for chunk in chunks:
        tok_max -= chunk.tokens
        if chunk.kind == "profile":
            in_profile.add(normalized_text(chunk.fields.get("statement", "")))
        elif has_facts and chunk.kind == "turn" and tok_max >= 0:
            place = (chunk.session, turn_of(chunk.ref))
            quoted[place] = f"{quoted.get(place, '')}\n{normalized_text(chunk.fields['text'])}"
    doubted = {
        (said.evidence.session, said.evidence.turn): normalized_text(said.statement)
        for chunk in chunks
        if "questioned" in chunk.fields and (said := statements.get(chunk.place))
    }
    kept = []
    for chunk in chunks:
        if chunk.kind == "turn" and (
            _says_doubted(chunk, doubted)
            or (
                not chunk.parts.get("bm25")  # found by its meaning alone
                and normalized_text(chunk.fields["text"]) in in_profile
            )
        ):
            continue
        statement = statements.get(chunk.place) if chunk.kind == "fact" else None
        if statement and "questioned" not in chunk.fields:
            chunk.reason = _duplicate_reason(statement, in_profile, quoted)
        if not chunk.reason:
            kept.append(chunk)
    return kept


def _says_doubted(chunk: Candidate, doubted: Mapping[tuple[str, str], str]) -> bool:
    """Return whether an item says hardly more than a fact in doubt of its turn."""
    words = doubted.get((chunk.session, turn_of(chunk.ref)), "")
    text = normalized_text(chunk.fields["text"]) if words else ""
    return bool(words) and words in text and len(words) > STATED_SHARE * len(text)


def _duplicate_reason(
    statement: Statement, in_profile: Collection[str], quoted: Mapping[tuple[str, str], str]
) -> str:
    """Return why a fact is told already, by the sentences of the profile or the quoted turns."""
    words, evidence = normalized_text(statement.statement), statement.evidence
    if statement.fact_id in (_STATEMENT_ID, INSTRUCTION_ID) and words in in_profile:
        return "part of the profile"
    if statement.key == STATEMENT_KEY and words in quoted.get(
        (evidence.session, evidence.turn), ""
    ):
        return "the message that states the fact is quoted"
    return ""


def told_profile(
    read: RecallContent,
    found: Sequence[Candidate],
    options: TurnOptions,
    costs: Costs,
) -> list[Candidate]:
    """Return the profile within its token limit, in its order; the last line says what gave way.

    The facts that were `found` are told there with their scores.

    What keeps a person safe has SAFETY_TOKENS more, and gives way last; instructions give way
    first. A sentence that is of several classes is told as the first of them that is no
    instruction."""
    classes = read.audience.classes
    if classes is None:
        classes = options.profile.classes
    held = latest_by_identity(read.facts).values()
    lines = [
        (fact, fields, costs.text(orjson.dumps(fields).decode()))
        for name, fact in profile_facts(held, classes)
        for fields in [profile_fields(name, fact)]
    ]
    remaining, of_safety, left_out = options.profile_tok_max, SAFETY_TOKENS, 0
    kept, told = set[str](), set[str]()
    for _, fields, tokens in sorted(lines, key=lambda line: KEPT_FIRST.index(line[1]["class"])):
        words = normalized_text(fields["statement"])
        usable = of_safety if fields["class"] in PRIVATE_CLASSES else 0
        if words in told:
            continue
        if tokens > remaining + usable:
            left_out += 1
            continue
        of_safety -= min(tokens, usable)
        remaining -= max(0, tokens - usable)
        kept.add(fields["id"])
        told.add(words)
    found_by_id = {one.id: one for one in found}
    result = []
    for fact, fields, tokens in lines:
        if (name := fields["id"]) in kept:
            one = found_by_id.get(name) or Candidate.at(EntryPlace(*fact.place), id=name, ref=name)
            one.kind, one.fields, one.tokens = "profile", fields, tokens
            result.append(one)
    return [*result, left_out_line(left_out)] if left_out else result


def _request_terms(question: str) -> frozenset[str]:
    """Return the terms that occur only in clauses requesting facts of some ids.

    In "What is my dog called?" this includes "called", a keyword of names as well: here it requests
    pets."""
    requesting, others = set[str](), set[str]()
    for clause in _CLAUSE.split(question):
        (requesting if requests_facts(clause) else others).update(terms(clause))
    return frozenset(requesting - others)


def without_others(facts: Sequence[Fact], question: str) -> list[Fact]:
    """Return the facts without those that share only words by which a question requests others."""
    request = FactRequest.of(QuestionTerms.of(question), QuestionKind.OPEN, (0,), {})
    return [fact for fact in facts if not _is_not_requested(fact, request)]


def _is_not_requested(fact: Fact, request: FactRequest) -> bool:
    """Return whether only keywords of a fact match, and only in a request for other ids."""
    statement = fact.statement
    if (
        not request.request_terms
        or statement.fact_id in request.ids
        or statement.fact_id not in QUESTION_FACT_IDS
    ):
        return False
    found = frozenset(terms(_words(fact))).intersection(request.question.every)
    return (
        bool(found) and found <= request.request_terms and found.isdisjoint(terms(statement.value))
    )


def _ranked_here(request: FactRequest, facts: Sequence[Fact]) -> list[Candidate]:
    """Rank facts as a search would: past facts are not in the index any more."""
    documents = [Counter(terms(_words(fact))) for fact in facts]
    avg_length = sum(document.total() for document in documents) / max(1, len(documents))
    k1, b = bm25_constants(avg_length)
    counts = {
        term: sum(term in document for document in documents) for term in request.question.uncommon
    }
    candidates: dict[int, list[Candidate]] = {}
    for fact, document in zip(facts, documents, strict=True):
        length = document.total()
        scores = {
            term: bm25_term_score(
                bm25_idf(term_count_all, len(documents)), document[term], length, avg_length, k1, b
            )
            for term, term_count_all in counts.items()
            if document[term]
        }
        if scores:
            one = Candidate(fact.entry, scores, length, index_id=fact.index_id)
            candidates.setdefault(fact.index_id, []).append(one)
    found = {
        index_id: IndexMatches(len(documents), counts, some)
        for index_id, some in candidates.items()
    }
    return rank_entries(request.question, request.kind, list(found), found)


def _words(fact: Fact) -> str:
    statement = fact.statement
    key = statement.key.replace("_", " ")
    return f"{key}: {statement.value}\n{statement.statement}\n{statement.keywords}"
