"""What recalls of questions are worth: each one's result, means by kind of question, spread over
folds, and rankings as lines of JSON."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.locomo import Category, Question
from benchmarks.report import Table
from memsvc.core.analysis import content_terms, terms
from memsvc.styles.turns.options import TurnOptions

ALL: Category = 0
CUTS = (5, 10, 20)
FOLDS_MAX = 10
TIGHT_TOKENS = 1000
QUOTE_CHARS_MIN = 150
SETTINGS_PREFIX = "MEMSVC_SETTINGS__"
LEFT_OUT = "\u2026"


def in_tokens(tokens: int) -> str:
    """The name of the figure for what is shown where a memory block may have so many tokens."""
    return f"in {tokens:,} tokens"


IN_FULL = in_tokens(TurnOptions().recall_tok_max)
IN_TIGHT = in_tokens(TIGHT_TOKENS)


@dataclass(frozen=True, slots=True)
class Shown:
    """Recalled messages by their ids, best first; `enough` are those that count as shown."""

    ranked: Sequence[str]
    enough: Set[str]

    def share(self, wanted: Set[str], cut: int | None = None) -> float | None:
        """The share of the evidence that is shown by the first messages; None without evidence."""
        return len(wanted & self.enough & set(self.ranked[:cut])) / len(wanted) if wanted else None


def is_shown(text: str, told: str, answer: str) -> bool:
    """Whether a message counts as shown by what a block tells: the whole of it, or a quote of
    QUOTE_CHARS_MIN characters that holds each rare word of the answer which the message holds."""
    if told == text:
        return True
    parts = told.split(LEFT_OUT)
    if not all(part in text for part in parts) or sum(map(len, parts)) < QUOTE_CHARS_MIN:
        return False
    return set(content_terms(answer)) & set(terms(text)) <= set(terms(told))


@dataclass(frozen=True, slots=True)
class Result:
    """What one question of a conversation recalled into a prompt of the default size, and into a
    tight one; the tokens of the former's memory block and of all of it; a judge's verdict."""

    conversation: str
    question: Question
    full: Shown
    tight: Shown
    block_tokens: int = 0
    prompt_tokens: int = 0
    judged: float | None = None

    def rank(self) -> float | None:
        """1 divided by the place of the first message of evidence that is shown, 0 without one;
        None where the question has no evidence."""
        wanted = self.question.evidence
        hits = (
            1 / at for at, one in enumerate(self.full.ranked, 1) if one in wanted & self.full.enough
        )
        return next(hits, 0.0) if wanted else None

    def sessions(self, cut: int) -> float | None:
        """The share of the evidence's dated sessions among the first so many that the recalled
        messages are of."""
        wanted = self.question.sessions or set(map(session_of, self.question.evidence))
        first = list(dict.fromkeys(map(session_of, self.full.ranked)))[:cut]
        return len(wanted & set(first)) / len(wanted) if wanted else None


def session_of(message: str) -> str:
    """The dated session that a message is of."""
    return message.partition(":")[0]


Measure = Callable[[Result], float | None]


def measures(tight_tokens: int = TIGHT_TOKENS) -> dict[str, Measure]:
    """What is measured of each question, by the name of its column."""

    def recall(cut: int) -> Measure:
        return lambda one: one.full.share(one.question.evidence, cut)

    def sessions(cut: int) -> Measure:
        return lambda one: one.sessions(cut)

    return (
        {f"recall@{cut}": recall(cut) for cut in CUTS}
        | {"MRR": Result.rank}
        | {f"sessions@{cut}": sessions(cut) for cut in CUTS}
        | {
            IN_FULL: lambda one: one.full.share(one.question.evidence),
            in_tokens(tight_tokens): lambda one: one.tight.share(one.question.evidence),
            "judged": lambda one: one.judged,
        }
    )


@dataclass
class Scores:
    """The results of all questions, prompts whose tokens were told wrongly, and whether nothing
    was recalled for each off-topic question."""

    results: list[Result] = field(default_factory=list)
    miscounted: int = 0
    silent: list[bool] = field(default_factory=list)
    tight_tokens: int = TIGHT_TOKENS

    def of(self, category: Category = ALL) -> list[Result]:
        """The results of a kind of question, or all."""
        return [one for one in self.results if category in (ALL, one.question.category)]

    def mean(self, name: str, category: Category = ALL) -> float | None:
        """The mean over the questions of a kind that it applies to; None without any."""
        return mean_of(measures(self.tight_tokens)[name], self.of(category))

    def columns(self) -> list[str]:
        """What there is a figure of."""
        return [name for name in measures(self.tight_tokens) if self.mean(name) is not None]

    def folds(self) -> dict[str, list[Result]]:
        """The results by conversation, or in groups of conversations where there are many."""
        names = list(dict.fromkeys(one.conversation for one in self.results))
        folds: dict[str, list[Result]] = {}
        for one in self.results:
            at = names.index(one.conversation)
            fold = one.conversation if len(names) <= FOLDS_MAX else f"fold {at % FOLDS_MAX + 1}"
            folds.setdefault(fold, []).append(one)
        return folds


def mean_of(measure: Measure, results: Iterable[Result]) -> float | None:
    """The mean over the results to which the measure applies; None without any."""
    values = [value for one in results if (value := measure(one)) is not None]
    return mean(values) if values else None


def by_category(scores: Scores, named: Mapping[Category, str]) -> Table:
    """A row of means for all questions, and one for each kind of them."""
    columns = scores.columns()
    rows: list[list[object]] = [
        [name, len(scores.of(category)), *(scores.mean(column, category) for column in columns)]
        for category, name in ({ALL: "all scored"} | dict(named)).items()
        if scores.of(category)
    ]
    title = "Evidence messages through before_turn"
    return Table(title, ["category", "questions", *columns], rows, digits=4)


def by_fold(scores: Scores) -> Table:
    """Each figure by conversation, and the standard deviation of these."""
    folds, known = scores.folds(), measures(scores.tight_tokens)
    rows: list[list[object]] = []
    for name in scores.columns():
        values = [mean_of(known[name], results) for results in folds.values()]
        found = [value for value in values if value is not None]
        rows.append([name, *values, stdev(found) if len(found) > 1 else None])
    return Table(
        "All scored, by conversation", ["figure", *folds, "standard deviation"], rows, digits=4
    )


def write_rankings(file: Path, scores: Scores, run: Mapping[str, Any]) -> None:
    """Write a line about the run, then one for each question: ids of its evidence and of what was
    recalled, best first, and no text of either."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8") as lines:
        lines.write(json.dumps(run, sort_keys=True) + "\n")
        for one in scores.results:
            line = {
                "conversation": one.conversation,
                "question": one.question.name,
                "category": one.question.category,
                "evidence": sorted(one.question.evidence),
                "evidence_sessions": sorted(one.question.sessions),
                "ranked": list(one.full.ranked),
                "shown": sorted(one.full.enough),
                "shown_tight": sorted(one.tight.enough),
                "block_tokens": one.block_tokens,
                "prompt_tokens": one.prompt_tokens,
                "judged": one.judged,
            }
            lines.write(json.dumps(line) + "\n")


def environment_settings() -> dict[str, str]:
    """The environment's settings of tools and turn memory, without keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(SETTINGS_PREFIX) and not name.endswith("KEY")
    }


def commit() -> str:
    """The checkout's commit, with `+` where files differ from it; "" outside of one."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")


def data_hash(files: Sequence[Path]) -> str:
    """The SHA-256 of a file, or of the hashes of several in this order, as hexadecimal digits."""
    hashes = []
    for file in files:
        with file.open("rb") as content:
            digest = sha256()
            while block := content.read(2**20):
                digest.update(block)
            hashes.append(digest.hexdigest())
    return hashes[0] if len(hashes) == 1 else sha256("\n".join(hashes).encode()).hexdigest()
