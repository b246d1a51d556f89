"""The pairs of statements are complete, and a statement that is lost is counted."""

from collections import Counter
from typing import Any

import orjson

from benchmarks.beliefs import Outcomes
from benchmarks.goals import GOALS
from benchmarks.pairs import LOST, RESOLVED, STORES, WORKING, report

LANGUAGES = ("en", "de", "fr", "es", "zh", "ja")


def test_every_language_has_distinct_and_reversed_pairs_of_two_different_statements() -> None:
    pairs: list[dict[str, Any]] = orjson.loads(WORKING.read_bytes())
    counts = Counter((pair["lang"], pair["kind"]) for pair in pairs)
    assert {lang for lang, _ in counts} == {*LANGUAGES}
    assert min(counts[lang, "distinct"] for lang in LANGUAGES) >= 20
    assert min(counts[lang, "reversal"] for lang in LANGUAGES) >= 8
    assert sum(counts.values()) == len(pairs)
    assert [pair for pair in pairs if not pair["first"].strip() or not pair["second"].strip()] == []
    assert [pair for pair in pairs if pair["first"] == pair["second"]] == []


def test_a_lost_statement_misses_the_goal_of_its_memory_alone() -> None:
    scores = {(store, what): Outcomes() for store in STORES for what in (LOST, RESOLVED)}
    scores["board", LOST].add(happened=True, item="gone")
    scores["knowledge", LOST].add(happened=False)
    scores["memories", RESOLVED].add(happened=False)
    figures = {figure.what: figure.verdict for figure in report(scores).figures}
    assert figures.keys() == GOALS["pairs"].keys()
    assert [what for what, verdict in figures.items() if verdict != "met"] == [
        "board: statements lost to another subject"
    ]
