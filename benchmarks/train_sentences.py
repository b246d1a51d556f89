"""Learn the model of sentences anew: `python -m benchmarks.train_sentences`.

It reads the labelled sentences and the worked half, never the scored one, and writes
`memsvc/core/rules/sentence_model.txt`."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path
from typing import Final

import orjson

from benchmarks.beliefs import FOLDER
from memsvc.core.rules import sentence_model
from memsvc.core.rules.sentence_model import MODEL_FILE, features

FILES: Final = ("labelled", "worked")
ROUNDS: Final = 8
STEP: Final = 0.5
DECAY: Final = 0.001
"""Share of a weight that each sentence with its feature takes away."""
COUNT_MIN: Final = 2
"""Sentences that a feature needs."""
KEPT: Final = {"lasts": 4400, "orders": 4100}
"""Features of a label that weigh most in all its sentences."""
MEANT: Final = {"B1": "lasts", "B7": "orders", "B8": "lasts"}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its features, what it is (or ""), and how often it counts."""

    text: str
    features: frozenset[str]
    label: str
    weight: float


def sentences() -> Iterator[Sentence]:
    """Yield the labelled sentences: what lasts, instructions, and what is neither."""
    for name in FILES:
        data = orjson.loads((FOLDER / f"{name}.json").read_bytes())
        for row in (*MEANT, "B2", "B3"):
            for item in data.get(row, ()):
                text = item["text"]
                found = frozenset(features(text))
                yield Sentence(text, found, MEANT.get(row, ""), item.get("weight", 1))
        for item in data.get("B9", []):
            for asked in item["questions"]:
                yield Sentence(asked["question"], frozenset(features(asked["question"])), "", 1)
        for item in data.get("B11", []):
            for question in item["questions"]:
                yield Sentence(question, frozenset(features(question)), "", 1)


def learn(examples: Sequence[Sentence], label: str, known: set[str]) -> dict[str, float]:
    """Return the weight of each known feature for a label: logistic regression with AdaGrad."""
    places = {name: place for place, name in enumerate(sorted(known))}
    weights, squares = [0.0] * len(places), [0.01] * len(places)
    visits = [
        (
            sorted(places[name] for name in example.features if name in places),
            float(example.label == label),
            example.weight,
        )
        for example in examples
    ]
    drawn = random.Random(1)
    for _ in range(ROUNDS):
        drawn.shuffle(visits)
        for found, wanted, weight in visits:
            scale = 1 / sqrt(len(found) or 1)
            score = scale * sum([weights[place] for place in found])
            slope = weight * scale * (1 / (1 + exp(-score)) - wanted)
            for place in found:
                step = slope + DECAY * weights[place]
                squares[place] += step * step
                weights[place] -= STEP * step / sqrt(squares[place])
    return {name: weights[place] for name, place in places.items()}


def model_of(examples: Sequence[Sentence], label: str) -> dict[str, float]:
    """Return the weights that matter most, learned again without the others."""
    counts = Counter[str]()
    for example in examples:
        counts.update(dict.fromkeys(example.features, example.weight))
    known = {feature for feature, count in counts.items() if count >= COUNT_MIN}
    weights = learn(examples, label, known)
    ranked = sorted(known, key=lambda name: (-abs(weights[name]) * sqrt(counts[name]), name))
    return learn(examples, label, set(ranked[: KEPT[label]]))


def written(weights: Mapping[str, float], label: str) -> Iterator[str]:
    """Yield the lines of a label, each with the features of one weight."""
    by_weight = defaultdict[float, list[str]](list)
    for name, weight in weights.items():
        by_weight[round(weight, 1)].append(name)
    for weight in sorted(by_weight):
        if weight:
            yield f"{label} {weight:+.1f}: " + "\t".join(sorted(by_weight[weight])) + "\n"


def main() -> None:
    """Learn, and write the file."""
    examples = list(sentences())
    lines = [line for label in KEPT for line in written(model_of(examples, label), label)]
    Path(sentence_model.__file__).with_name(MODEL_FILE).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
