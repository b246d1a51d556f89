"""Learn the model of sentences anew: `python -m benchmarks.train_sentences`.

It reads the labelled sentences, the worked half and the former ones, never the scored one, and
writes `memsvc/core/rules/sentence_model.txt.xz`. Words of one group in `word_groups.txt` share a
part of their weights, so that it knows rare ones."""

import lzma
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path
from typing import Final

import orjson

from benchmarks.beliefs import FOLDER
from memsvc.core.rules import sentence_model
from memsvc.core.rules.sentence_model import LABELS, MEANT_MIN, MODEL_FILE, features
from memsvc.core.rules.statements import LASTS_MIN, ORDERS_MIN
from memsvc.core.rules.word_groups import health_topics

FILES: Final = ("labelled", "worked", "former")
GROUPS_FILE: Final = FOLDER / "word_groups.txt"
"""Lines of a group, a colon and words of six languages."""
ROUNDS: Final = 8
STEP: Final = 0.5
DECAY: Final = 0.0001
"""Share of a weight that each sentence with its feature takes away."""
COUNT_MIN: Final = 2
"""Sentences that a feature needs, unless it is a word of a group."""
UNSEEN: Final = 0.5
"""Sentences that a word of a group counts as which was seen once or never."""
BYTES_MAX: Final = {"lasts": 64_000, "orders": 26_000, "health": 17_000, "address": 12_000}
"""Size of what is kept for each label, in the end."""
LEARNED: Final = 1.4
"""How much more is kept when it is learned again."""
POSITIVE: Final = {"lasts": 1, "orders": 1, "health": 4, "address": 4}
"""How often what has a label counts for it."""
MEANT: Final = {"B1": ("lasts",), "B7": ("orders",), "B8": ("lasts", "health")}
ADDRESS: Final = ("name", "pronouns", "language")
"""Classes that say how to address somebody."""
ALWAYS: Final = frozenset(("health", "address"))
MUST_FILE: Final = FOLDER / "must_hold.json"
"""Sentences of tests, and what they are: `lasts`, `orders`, neither, `meant`, or below a bound."""
MARGIN: Final = 0.3
HELD_WEIGHT_MIN: Final = 6
CORRECTIONS_MAX, STEPS_MAX, RARE = 30, 60, 6
MAXIMUM: Final = 30.0
"""Score from which on nothing is learned."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its features, its labels, those that it may have, and how often it counts."""

    text: str
    features: frozenset[str]
    labels: frozenset[str]
    unknown: frozenset[str]
    weight: float


def sentences() -> Iterator[Sentence]:
    """Yield the labelled sentences: what lasts, instructions, and what is neither."""
    for name in FILES:
        data = orjson.loads((FOLDER / f"{name}.json").read_bytes())
        for row in (*MEANT, "B2", "B3", "asks"):
            for item in data.get(row, ()):
                labels = frozenset(MEANT.get(row, ()))
                if item.get("class") in ADDRESS:
                    labels = frozenset(("lasts", "address"))
                unknown = ALWAYS if row in MEANT and _may_matter(row, item) else frozenset()
                yield _sentence(item["text"], labels, unknown - labels, item.get("weight", 1))
        for item in data.get("B9", []):
            for asked in item["questions"]:
                yield _sentence(asked["question"])
        for item in data.get("B11", []):
            for question in item["questions"]:
                yield _sentence(question)


def _sentence(
    text: str,
    labels: frozenset[str] = frozenset(),
    unknown: frozenset[str] = frozenset(),
    weight: float = 1,
) -> Sentence:
    return Sentence(text, frozenset(features(text)), labels, unknown, weight)


def _may_matter(row: str, item: Mapping[str, str]) -> bool:
    """Return whether it was not labelled if a sentence says something that always matters."""
    return row == "B7" or bool(
        health_topics(item["language"], item["text"].casefold(), is_personal=True)
    )


def groups() -> dict[str, list[str]]:
    """Return the groups of each word that is in some, marked so that they are no features."""
    found = defaultdict[str, list[str]](list)
    for line in GROUPS_FILE.read_text(encoding="utf-8").splitlines():
        group, _, words = line.partition(": ")
        for word in dict.fromkeys(words.split()):
            found[word].append(f"@{group}")
    return found


def learn(
    examples: Sequence[Sentence],
    label: str,
    known: Collection[str],
    groups: Mapping[str, Sequence[str]],
) -> dict[str, float]:
    """Return the weight of each known feature for a label: logistic regression with AdaGrad.

    That of a word is its own and those of its groups."""
    columns = sorted({*known, *(group for name in known for group in groups.get(name, ()))})
    places = {name: place for place, name in enumerate(columns)}
    shared = {name: [places[group] for group in groups.get(name, ())] for name in known}
    weights, squares = [0.0] * len(places), [0.01] * len(places)
    visits = []
    for example in examples:
        if label in example.unknown:
            continue
        names = sorted(name for name in example.features if name in shared)
        found = [places[name] for name in names]
        found += [place for name in names for place in shared[name]]
        scale = 1 / sqrt(len(names) or 1)
        is_so = label in example.labels
        weight = example.weight * (POSITIVE[label] if is_so else 1)
        visits.append((found, scale, float(is_so), weight))
    drawn = random.Random(1)
    for _ in range(ROUNDS):
        drawn.shuffle(visits)
        for found, scale, wanted, weight in visits:
            score = scale * sum([weights[place] for place in found])
            slope = weight * scale * (1 / (1 + exp(-max(score, -MAXIMUM))) - wanted)
            for place in found:
                step = slope + DECAY * weights[place]
                squares[place] += step * step
                weights[place] -= STEP * step / sqrt(squares[place])
    return {
        name: weights[places[name]] + sum(weights[place] for place in shared[name])
        for name in known
    }


def model_of(examples: Sequence[Sentence]) -> dict[str, tuple[float, ...]]:
    """Return the weights, in halves, of what matters, learned again without most of the rest."""
    counts = Counter[str]()
    for example in examples:
        counts.update(dict.fromkeys(example.features, example.weight))
    shared = groups()
    seen = {name for name, count in counts.items() if count >= COUNT_MIN or name in shared}
    seen |= {name for name in shared if name in features(name)}
    by_label = {}
    for label in LABELS:
        known = seen
        for share in (LEARNED, 1):
            weights = learn(examples, label, known, shared)
            by_label[label] = kept(weights, counts, share * BYTES_MAX[label])
            known = set(by_label[label])
    names = dict.fromkeys(name for weights in by_label.values() for name in weights)
    return {name: tuple(by_label[label].get(name, 0.0) for label in LABELS) for name in names}


def kept(weights: Mapping[str, float], counts: Counter[str], bytes_max: float) -> dict[str, float]:
    """Return the rounded weights of the features that weigh most for their length and fit."""

    def importance(name: str) -> float:
        count = max(counts[name], UNSEEN + counts[name] / 2)
        return abs(weights[name]) * sqrt(count) / sqrt(len(name.encode()) + 1)

    found: dict[str, float] = {}
    for name in sorted(weights, key=lambda name: (-importance(name), name)):
        weight = round(2 * weights[name]) / 2
        bytes_max -= (len(name.encode()) + 1) * bool(weight)
        if bytes_max < 0:
            break
        if weight:
            found[name] = weight
    return found


def corrected(
    model: Mapping[str, tuple[float, ...]], examples: Sequence[Sentence]
) -> dict[str, tuple[float, ...]]:
    """Return a model in which what must hold does, with the least change.

    The rarest features of a sentence that is judged wrongly are moved by halves, in turn (after
    passive-aggressive learning, Crammer and others 2006). What holds of the sentences that weigh
    much goes on holding."""
    weights = {name: list(values) for name, values in model.items()}
    counts = Counter(name for example in examples for name in example.features)
    must = [(item["text"], item["is"], MARGIN) for item in orjson.loads(MUST_FILE.read_bytes())] + [
        (example.text, label, 0.0)
        for example in examples
        for label in example.labels - ALWAYS or ("",)
        if example.weight >= HELD_WEIGHT_MIN and not _fault(weights, example.text, label, 0)
    ]
    for _ in range(CORRECTIONS_MAX):
        before = [list(values) for values in weights.values()]
        for text, label, margin in must:
            rare = sorted(
                (name for name in set(features(text)) if name and name in weights),
                key=lambda name: (counts[name], name),
            )[:RARE]
            for step in range(STEPS_MAX):
                fault = _fault(weights, text, label, margin)
                if fault is None:
                    break
                column, by = fault
                weights[rare[step % len(rare)]][column] += by
        if before == list(weights.values()):
            break
    return {name: tuple(values) for name, values in weights.items() if any(values)}


def _fault(
    weights: Mapping[str, Sequence[float]], text: str, label: str, margin: float
) -> tuple[int, float] | None:
    """Return which judgement of a text is wrong, and in which direction to move it; else None."""
    known = [weights[name] for name in set(features(text)) if name in weights]
    scale = 1 / sqrt(len(known) or 1)
    lasts, orders, *_ = (scale * sum(column) for column in zip(*known, strict=True))
    least = {
        "lasts": (0, lasts - LASTS_MIN),
        "orders": (1, orders - ORDERS_MIN),
        "meant": (0, max(lasts, orders) - MEANT_MIN),
    }
    if label in least:
        column, above = least[label]
        return (column, 0.5) if above < margin else None
    if label:
        bounds = (float(label.removeprefix("below")),) * 2
    else:
        bounds = (LASTS_MIN - margin, ORDERS_MIN - margin)
    if lasts > bounds[0]:
        return 0, -0.5
    return (1, -0.5) if orders > bounds[1] else None


def written(model: Mapping[str, tuple[float, ...]]) -> Iterator[str]:
    """Yield the lines of a model, each with the features of the same weight for a label."""
    for at, label in enumerate(LABELS):
        by_weight = defaultdict[float, list[str]](list)
        for name, weights in model.items():
            if weights[at]:
                by_weight[weights[at]].append(name)
        for weight in sorted(by_weight):
            yield f"{label} {weight:+g}: " + "\t".join(sorted(by_weight[weight])) + "\n"


def main() -> None:
    """Learn, and write the file."""
    examples = list(sentences())
    text = "".join(written(corrected(model_of(examples), examples)))
    compressed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    Path(sentence_model.__file__).with_name(MODEL_FILE).write_bytes(compressed)


if __name__ == "__main__":
    main()
