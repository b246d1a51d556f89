"""Facts relevant to a question, and what a small memory tells beside them."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, takewhile
from typing import Final, Self

from memsvc.core import ranking, relevance
from memsvc.core.analysis import normalized_text, query_terms, terms
from memsvc.core.facts import (
    PRIVATE_CLASSES,
    Fact,
    FactTier,
    Statement,
    latest_by_identity,
    profile_facts,
)
from memsvc.core.frozen import frozen
from memsvc.core.question_kinds import (
    QuestionKind,
)
from memsvc.core.ranking import (
    Candidate,
    Ranked,
    bm25_constants,
    bm25_idf,
    bm25_term_score,
)
from memsvc.core.rules.extraction import QUESTION_FACT_IDS, requested_fact_ids, requests_facts
from memsvc.core.secrets import is_code
from memsvc.store.recalls import EntryPlace, RecallContent
from memsvc.store.search import IndexMatches
from memsvc.styles.turns.budget import Costs
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.recall.recalled import (
    INSTRUCTION_ID,
    STATEMENT_KEY,
    DroppedCandidate,
    RecalledChunk,
    fact_chunk,
    left_out_chunk,
    profile_chunk,
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
    ids. `request_terms` are those of its `asked_terms` that only request these ids."""

    question: str
    kind: QuestionKind
    index_ids: Sequence[int]
    ranked: Sequence[tuple[EntryPlace, Ranked]]
    wants_profile: bool
    ids: frozenset[str]
    asked_terms: frozenset[str] = frozenset()
    request_terms: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        question: str,
        kind: QuestionKind,
        index_ids: Sequence[int],
        found: Mapping[int, IndexMatches],
        unrelated: float | None = None,
    ) -> Self:
        """Return the request for facts of some indexes, with the matches of a search."""
        ids = requested_fact_ids(question) if index_ids else frozenset[str]()
        return cls(
            question,
            kind,
            index_ids,
            rank_entries(question, kind, index_ids, found, unrelated),
            wants_profile=bool(index_ids) and _PROFILE_QUESTION.search(question) is not None,
            ids=ids,
            asked_terms=frozenset(query_terms(question)) if ids else frozenset(),
            request_terms=_request_terms(question) if ids else frozenset(),
        )

    @property
    def needs_all(self) -> bool:
        """Return whether all facts have to be read."""
        return self.wants_profile or bool(self.ids)


def rank_entries(
    question: str,
    kind: QuestionKind,
    index_ids: Sequence[int],
    found: Mapping[int, IndexMatches],
    unrelated: float | None = None,
) -> list[tuple[EntryPlace, Ranked]]:
    """Return the relevant entries of some indexes, each by itself, best first."""
    factors = {
        QuestionKind.PERSONAL: PERSONAL_FACTOR,
        QuestionKind.GENERAL: GENERAL_FACTOR,
    }
    factor = factors.get(kind, 1.0)
    ranked: list[tuple[EntryPlace, Ranked]] = []
    for index_id in index_ids:
        if index_id in found:
            index_matches = found[index_id]
            query = ranking.read_question(
                question,
                index_matches.entries,
                index_matches.counts_by_term,
                unrelated=unrelated,
            )
            for entry in ranking.rank(index_matches.candidates, query, FACT_WEIGHTS):
                alike = max(0.0, (entry.similarity or 0.0) - relevance.SIMILARITY_FLOOR)
                known = entry.relevance + relevance.SIMILARITY_RATE * alike
                if known * factor >= FLOOR:
                    ranked.append((EntryPlace(index_id, entry.entry), entry))
    return sorted(ranked, key=lambda pair: -pair[1].score)


def fact_chunks(
    request: FactRequest, read: Sequence[Fact], *, as_of: datetime | None
) -> list[RecalledChunk]:
    """Return the chunks of loaded facts, best first: matches, then requested kinds."""
    order = {index_id: at for at, index_id in enumerate(request.index_ids)}
    oldest_first = sorted(
        read, key=lambda fact: (fact.valid_from, order.get(fact.index_id, -1), fact.entry)
    )
    latest = latest_by_identity(oldest_first)
    at_places = {EntryPlace(fact.index_id, fact.entry): fact for fact in latest.values()}
    ranked = request.ranked if as_of is None else _ranked_here(request, list(latest.values()))
    found = [(at_places[place], match) for place, match in ranked if place in at_places]
    if any(fact.statement.fact_id in request.ids for fact in latest.values()):
        found = [(fact, match) for fact, match in found if not _is_not_requested(fact, request)]
    chunks = [fact_chunk(fact, match.score, match.parts) for fact, match in found]
    identities = {fact.statement.identity for fact, _ in found}
    for fact in sorted(latest.values(), key=lambda fact: fact.valid_from, reverse=True):
        statement = fact.statement
        by_kind = statement.fact_id in request.ids or (
            request.wants_profile and statement.tier is FactTier.L0 and not is_code(statement.told)
        )
        if by_kind and statement.identity not in identities:
            chunks.append(
                fact_chunk(fact, statement.confidence, {"asked for": statement.confidence})
            )
    return chunks


def within_share(
    chunks: Sequence[RecalledChunk], tok_max: int
) -> tuple[list[RecalledChunk], list[RecalledChunk]]:
    """Return the facts to tell before any items within a share of a block, and those behind."""
    tokens = accumulate(chunk.tokens for chunk in chunks)
    first = sum(1 for _ in takewhile(lambda total: total <= tok_max // FACT_SHARE, tokens))
    return list(chunks[:first]), list(chunks[first:])


def told_once(
    chunks: Sequence[RecalledChunk],
    facts: Sequence[Fact],
    tok_max: int,
    dropped: list[DroppedCandidate],
) -> list[RecalledChunk]:
    """Return the chunks without what others tell in the same words; that goes to `dropped`.

    Of a fact in doubt it is the message, which has no doubt: the fact says most of it.

    They are statements without a topic or a doubt that the profile has, or a message that is quoted
    within `tok_max` tokens, and instructions that the profile has.
    So are messages that share no word with the question."""
    statements = {EntryPlace(fact.index_id, fact.entry): fact.statement for fact in facts}
    in_profile, quoted = set(), dict[tuple[str, str], str]()
    has_facts = any(chunk.kind == "fact" for chunk in chunks)
    for chunk in chunks:
        tok_max -= chunk.tokens
        if chunk.kind == "profile":
            in_profile.add(normalized_text(chunk.fields.get("statement", "")))
        elif has_facts and chunk.kind == "turn" and tok_max >= 0:
            place = (chunk.fields["session"], chunk.fields["turn"])
            quoted[place] = f"{quoted.get(place, '')}\n{normalized_text(chunk.fields['text'])}"
    doubted = {
        (said.evidence.session, said.evidence.turn): normalized_text(said.statement)
        for chunk in chunks
        if "questioned" in chunk.fields and chunk.place and (said := statements.get(chunk.place))
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
        statement = statements.get(chunk.place) if chunk.kind == "fact" and chunk.place else None
        reason = _duplicate_reason(statement, in_profile, quoted) if statement else None
        if reason is None or "questioned" in chunk.fields:
            kept.append(chunk)
        else:
            dropped.append(
                DroppedCandidate("fact", chunk.ref, chunk.score, reason, place=chunk.place)
            )
    return kept


def _says_doubted(chunk: RecalledChunk, doubted: Mapping[tuple[str, str], str]) -> bool:
    """Return whether an item says hardly more than a fact in doubt of its turn."""
    words = doubted.get((chunk.fields["session"], chunk.fields["turn"]), "")
    text = normalized_text(chunk.fields["text"]) if words else ""
    return bool(words) and words in text and len(words) > STATED_SHARE * len(text)


def _duplicate_reason(
    statement: Statement, in_profile: Collection[str], quoted: Mapping[tuple[str, str], str]
) -> str | None:
    """Return why a fact is told already, by the sentences of the profile or the quoted turns."""
    words, evidence = normalized_text(statement.statement), statement.evidence
    if statement.fact_id in (_STATEMENT_ID, INSTRUCTION_ID) and words in in_profile:
        return "part of the profile"
    if statement.key == STATEMENT_KEY and words in quoted.get(
        (evidence.session, evidence.turn), ""
    ):
        return "its message is quoted"
    return None


def told_profile(
    user: str, read: RecallContent, options: TurnOptions, costs: Costs
) -> list[RecalledChunk]:
    """Return the profile within its token limit, in its order; the last line says what gave way.

    What keeps a person safe has SAFETY_TOKENS more, and gives way last; instructions give way
    first. A sentence that is of several classes is told as the first of them that is no
    instruction."""
    session = read.session
    classes: Collection[str] = options.profile.classes
    is_shared = session is not None and (session.shared or session.user_id not in ("", user))
    if session is not None and session.classes is not None:
        classes = session.classes
    held = latest_by_identity(read.facts).values()
    chunks = [
        profile_chunk(name, fact, costs.text)
        for name, fact in profile_facts(held, classes, is_shared=is_shared)
    ]
    remaining, of_safety, left_out = options.profile_tok_max, SAFETY_TOKENS, 0
    kept, told = set[str](), set[str]()
    for chunk in sorted(chunks, key=lambda chunk: KEPT_FIRST.index(chunk.fields["class"])):
        words = normalized_text(chunk.fields["statement"])
        usable = of_safety if chunk.fields["class"] in PRIVATE_CLASSES else 0
        if words in told:
            continue
        if chunk.tokens > remaining + usable:
            left_out += 1
            continue
        of_safety -= min(chunk.tokens, usable)
        remaining -= max(0, chunk.tokens - usable)
        kept.add(chunk.id)
        told.add(words)
    result = [chunk for chunk in chunks if chunk.id in kept]
    return [*result, left_out_chunk(left_out)] if left_out else result


def _request_terms(question: str) -> frozenset[str]:
    """Return the terms that occur only in clauses requesting facts of some ids.

    In "What is my dog called?" this includes "called", a keyword of names as well: here it requests
    pets."""
    clauses = _CLAUSE.split(question)
    is_request = [requests_facts(clause) for clause in clauses]
    free = {
        term
        for clause, requests in zip(clauses, is_request, strict=True)
        if not requests
        for term in terms(clause)
    }
    return frozenset(
        term
        for clause, requests in zip(clauses, is_request, strict=True)
        if requests
        for term in terms(clause)
        if term not in free
    )


def is_beside(fact: Fact, question: str) -> bool:
    """Return whether a fact shares only words by which a question requests facts of other kinds."""
    return _is_not_requested(fact, FactRequest.of(question, QuestionKind.OPEN, (0,), {}))


def _is_not_requested(fact: Fact, request: FactRequest) -> bool:
    """Return whether only keywords of a fact match, and only in a request for other ids."""
    statement = fact.statement
    if (
        not request.request_terms
        or statement.fact_id in request.ids
        or statement.fact_id not in QUESTION_FACT_IDS
    ):
        return False
    found = request.asked_terms.intersection(terms(_words(fact)))
    return (
        bool(found) and found <= request.request_terms and found.isdisjoint(terms(statement.value))
    )


def _ranked_here(request: FactRequest, facts: Sequence[Fact]) -> list[tuple[EntryPlace, Ranked]]:
    """Rank facts as a search would: past facts are not in the index any more."""
    documents = [Counter(terms(_words(fact))) for fact in facts]
    avg_length = sum(document.total() for document in documents) / max(1, len(documents))
    k1, b = bm25_constants(avg_length)
    counts = {
        term: sum(term in document for document in documents)
        for term in query_terms(request.question)
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
            candidates.setdefault(fact.index_id, []).append(Candidate(fact.entry, scores, length))
    found = {
        index_id: IndexMatches(len(documents), counts, some)
        for index_id, some in candidates.items()
    }
    return rank_entries(request.question, request.kind, list(found), found)


def _words(fact: Fact) -> str:
    statement = fact.statement
    key = statement.key.replace("_", " ")
    return f"{key}: {statement.value}\n{statement.statement}\n{statement.keywords}"
