"""Learn the model of sentences anew: `python -m benchmarks.train_sentences`.

It reads the labelled sentences and the worked half, never the scored one, and writes
`memsvc/core/rules/sentence_model.txt`. Words of one group in `word_groups.txt` share a part of
their weights, so that it knows rare ones."""

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

FILES: Final = ("labelled", "worked")
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
BYTES_LEARNED: Final = 70_000
BYTES_MAX: Final = 57_200
"""Size of the file when it is learned again, and in the end."""
IMPORTANCE: Final = {"lasts": 1.0, "orders": 1.2}
MEANT: Final = {"B1": "lasts", "B7": "orders", "B8": "lasts"}
MUST_FILE: Final = FOLDER / "must_hold.json"
"""Sentences of tests, and what they are: `lasts`, `orders`, neither, `meant`, or below a bound."""
MARGIN: Final = 0.3
HELD_WEIGHT_MIN: Final = 6
CORRECTIONS_MAX, STEPS_MAX, RARE = 30, 60, 6
MAXIMUM: Final = 30.0
"""Score from which on nothing is learned."""


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
        for row in (*MEANT, "B2", "B3", "asks"):
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
        names = sorted(name for name in example.features if name in shared)
        found = [places[name] for name in names]
        found += [place for name in names for place in shared[name]]
        scale = 1 / sqrt(len(names) or 1)
        visits.append((found, scale, float(example.label == label), example.weight))
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
    known = {name for name, count in counts.items() if count >= COUNT_MIN or name in shared}
    known |= {name for name in shared if name in features(name)}
    model: dict[str, tuple[float, ...]] = {}
    for bytes_max in (BYTES_LEARNED, BYTES_MAX):
        by_label = {label: learn(examples, label, known, shared) for label in LABELS}
        model = kept(by_label, counts, bytes_max)
        known = set(model)
    return model


def kept(
    by_label: Mapping[str, Mapping[str, float]], counts: Counter[str], bytes_max: int
) -> dict[str, tuple[float, ...]]:
    """Return the rounded weights of the features that weigh most for their length and fit."""

    def importance(name: str) -> float:
        weight = max(IMPORTANCE[label] * abs(by_label[label][name]) for label in LABELS)
        count = max(counts[name], UNSEEN + counts[name] / 2)
        return weight * sqrt(count) / sqrt(len(name.encode()) + 1)

    model: dict[str, tuple[float, ...]] = {}
    size, heads = 0, set[tuple[float, ...]]()
    for name in sorted(by_label["lasts"], key=lambda name: (-importance(name), name)):
        weights = tuple(round(2 * by_label[label][name]) / 2 for label in LABELS)
        added = len(name.encode()) + 1 + len(head_of(weights)) * (weights not in heads)
        if any(weights) and size + added <= bytes_max:
            size += added
            heads.add(weights)
            model[name] = weights
    return model


def head_of(weights: Sequence[float]) -> str:
    """Return how the line of the features with some weights begins."""
    return " ".join(f"{weight:+g}" for weight in weights) + ": "


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
        (example.text, example.label, 0.0)
        for example in examples
        if example.weight >= HELD_WEIGHT_MIN and not _fault(weights, example.text, example.label, 0)
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
    lasts, orders = (scale * sum(column) for column in zip(*known, strict=True))
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
    """Yield the lines of a model, each with the features of the same weights."""
    by_weights = defaultdict[tuple[float, ...], list[str]](list)
    for name, weights in model.items():
        by_weights[weights].append(name)
    for weights in sorted(by_weights):
        yield head_of(weights) + "\t".join(sorted(by_weights[weights])) + "\n"


def main() -> None:
    """Learn, and write the file."""
    examples = list(sentences())
    lines = written(corrected(model_of(examples), examples))
    Path(sentence_model.__file__).with_name(MODEL_FILE).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
