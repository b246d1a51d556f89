"""Learn the model of sentences anew: `python -m benchmarks.train_sentences`.

It reads the labelled sentences, the worked half and the former ones, never the scored one, and
writes `memsvc/core/rules/sentence_model.txt.xz`. Words of one group in `word_groups.txt` share a
part of their weights, so that it knows rare ones."""

import lzma
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from math import exp, sqrt
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.beliefs import FOLDER
from memsvc.core.rules import sentence_model
from memsvc.core.rules.own_words import PASTED_MIN
from memsvc.core.rules.sentence_model import (
    LABELS,
    MEANT_MIN,
    MODEL_FILE,
    SHARED_MAX,
    WEIGHT_ZERO,
    features,
)
from memsvc.core.rules.statements import ALWAYS_MIN, LASTS_MIN, ORDERS_MIN
from memsvc.core.rules.word_groups import SentenceWords

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
KEPT: Final = {
    "lasts": 20_000,
    "orders": 8_000,
    "health": 4_500,
    "address": 3_500,
    "recalls": 3_000,
    "pasted": 5_000,
}
"""Features that are kept for each label, in the end."""
LEARNED: Final = 1.4
"""How much more is kept when it is learned again."""
POSITIVE: Final = {"lasts": 1, "orders": 1, "health": 4, "address": 4, "recalls": 1, "pasted": 4}
"""How often what has a label counts for it."""
MEANT: Final = {
    "B1": ("lasts",),
    "B7": ("orders",),
    "B8": ("lasts", "health"),
    "always": ("lasts", "health"),
}
ADDRESS: Final = ("name", "pronouns", "language", "address")
"""Classes that say how to address somebody."""
ALWAYS: Final = frozenset(("health", "address"))
RECALLS: Final = frozenset(("recalls",))
"""Label of a question about what was said or done before: only questions are asked for it."""
PASTED: Final = frozenset(("pasted",))
"""Label of a message with a text that is worked on."""
ALL: Final = frozenset(LABELS)
JOINTS: Final = (" ", ". ", "\n", "\n\n", "\n- ", "; ")
JOINED_MAX: Final = 4
MUST_FILE: Final = FOLDER / "must_hold.json"
"""Sentences of tests, and what they are: `lasts`, `orders`, neither, `meant`, `own` words alone, a
`general` question, one `asked` of what was said, `plain` of nobody's health, or below a bound."""
GENERAL_MAX: Final = -1.5
AT_MOST: Final = {
    "own": ("pasted", PASTED_MIN),
    "general": ("recalls", GENERAL_MAX),
    "plain": ("health", ALWAYS_MIN),
}
"""What is judged at the most, and how."""
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
    """Yield the labelled sentences: what lasts, instructions, what is neither, questions, texts."""
    for name in FILES:
        data = orjson.loads((FOLDER / f"{name}.json").read_bytes())
        for row in (*MEANT, "B2", "B3"):
            for item in data.get(row, ()):
                yield _statement(row, item)
        for item in (*data.get("B4", ()), *data.get("texts", ())):
            labels = frozenset() if item.get("kind") == "own" else PASTED
            yield _sentence(item["text"], labels, ALL - PASTED)
        yield from _introductions(data["B1"])
        yield from _questions(data)


def _introductions(items: Sequence[Mapping[str, Any]]) -> Iterator[Sentence]:
    """Yield messages in which people say several things of themselves: no text is worked on."""
    texts: dict[str, list[str]] = defaultdict(list)
    for item in items:
        texts[item["language"]].append(item["text"])
    drawn = random.Random(1)
    for own in texts.values():
        drawn.shuffle(own)
        for at in range(0, len(own) - JOINED_MAX, JOINED_MAX):
            joint = drawn.choice(JOINTS)
            count = drawn.randint(2, JOINED_MAX)
            yield _sentence(joint.join(own[at : at + count]), frozenset(), ALL - PASTED)


def _statement(row: str, item: Mapping[str, Any]) -> Sentence:
    labels = frozenset(MEANT.get(row, ()))
    if item.get("class") in ADDRESS:
        labels = frozenset(("lasts", "address"))
    unknown = ALWAYS if row in MEANT and _may_matter(row, item) else frozenset()
    unknown = unknown - labels | (RECALLS if row in MEANT else RECALLS | PASTED)
    return _sentence(item["text"], labels, unknown, item.get("weight", 1))


def _questions(data: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Sentence]:
    for item in data.get("asks", ()):
        labels = frozenset() if item["kind"] == "general" else RECALLS
        yield _sentence(item["text"], labels, PASTED)
    for item in (*data.get("B9", ()), *data.get("B10", ())):
        for asked in item["questions"]:
            yield _sentence(asked["question"], RECALLS, PASTED)
    for item in data.get("B11", ()):
        for question in item["questions"]:
            yield _sentence(question, frozenset(), PASTED)


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
        SentenceWords.of(item["language"], item["text"].casefold()).topics(is_personal=True)
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
            by_label[label] = kept(weights, counts, share * KEPT[label])
            known = set(by_label[label])
    names = dict.fromkeys(name for weights in by_label.values() for name in weights)
    return {name: tuple(by_label[label].get(name, 0.0) for label in LABELS) for name in names}


def kept(weights: Mapping[str, float], counts: Counter[str], count_max: float) -> dict[str, float]:
    """Return the rounded weights of the features that weigh most."""

    def importance(name: str) -> float:
        return abs(weights[name]) * sqrt(max(counts[name], UNSEEN + counts[name] / 2))

    found: dict[str, float] = {}
    for name in sorted(weights, key=lambda name: (-importance(name), name)):
        if weight := round(2 * weights[name]) / 2:
            found[name] = weight
        if len(found) >= count_max:
            break
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
        for label in example.labels & {"lasts", "orders"} or ("",)
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
    columns = [scale * sum(column) for column in zip(*known, strict=True)]
    lasts, orders, *_ = columns
    if label in AT_MOST:
        name, bound = AT_MOST[label]
        column = LABELS.index(name)
        return (column, -0.5) if columns[column] > bound - margin else None
    least = {
        "lasts": (0, lasts - LASTS_MIN),
        "orders": (1, orders - ORDERS_MIN),
        "meant": (0, max(lasts, orders) - MEANT_MIN),
        "asked": (LABELS.index("recalls"), columns[LABELS.index("recalls")] - GENERAL_MAX),
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


def written(model: Mapping[str, tuple[float, ...]]) -> str:
    """Return the text of a model, as `MODEL_FILE` has it."""
    names = sorted(model)
    lines = []
    for before, name in pairwise(["", *names]):
        pairs = zip(before, name[:SHARED_MAX], strict=False)
        count = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
        lines.append(chr(ord("a") + count) + name[count:])
    columns = [
        "".join(chr(ord(WEIGHT_ZERO) + round(2 * model[name][at])) for name in names)
        for at in range(len(LABELS))
    ]
    return "\n".join([*lines, "", *columns])


def main() -> None:
    """Learn, and write the file."""
    examples = list(sentences())
    text = written(corrected(model_of(examples), examples))
    compressed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    Path(sentence_model.__file__).with_name(MODEL_FILE).write_bytes(compressed)


if __name__ == "__main__":
    main()
