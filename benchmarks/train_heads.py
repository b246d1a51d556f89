"""Train the heads on the bundled encoder's vectors again: `python -m benchmarks.train_heads`.

Each is a logistic regression, written to a file beside the encoder.

- `memory_head.txt`: is a question about what the user said before? Learned from
  `questions_data/train.json`, prompts in six languages by a writer who had not read the code, half
  of which need what the user told before, and from the labelled questions. `--score` scores it on
  the writer's other prompts, `test.json`, which are never learned from. Beside the weights stands
  what the prompts have in common: their mean, and the direction in which they differ most.
- `change_head.txt`: does a message say that something is no longer as it was? Learned from the
  changes of the former halves of the benchmark of beliefs, against all labelled sentences."""

import argparse
import asyncio
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.beliefs import FOLDER as SENTENCES
from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import HEAD_FILE, SentenceEncoder
from memsvc.core.ports import Head
from memsvc.core.vectors import numpy

FOLDER: Final = Path(__file__).with_name("questions_data")
RIDGE: Final = 1 / 3
"""Weight of the penalty, chosen by what of one writer's is found when another's is learned."""
PROMPT_WEIGHT: Final = 3
"""Weight of a prompt relative to a labelled question. There are five times as many of those, and
none of them is a short command."""
CHANGE_WEIGHT: Final = 5
"""Weight of a change relative to another sentence, of which there are a hundred times as many."""
FALSE_SHARE: Final = 0.05
"""Share of the other sentences that may be taken for a change."""
STEPS: Final = 20
BATCH: Final = 500
"""Texts encoded in one call."""

Examples = tuple[list[str], Any, Any]
"""Labelled texts: each with its label for the head (1 or 0) and its weight in training."""


async def vectors_of(texts: Sequence[str]) -> Any:
    """The vectors of texts, a row each."""
    encoder = SentenceEncoder(EmbeddingOptions())
    batches = [texts[at : at + BATCH] for at in range(0, len(texts), BATCH)]
    return numpy().vstack([await encoder.embed(batch) for batch in batches])


def learned(vectors: Any, labels: Any, counts: Any) -> Any:
    """The weights of a logistic regression over weighted rows, the bias last."""
    np = numpy()
    rows = np.c_[vectors, np.ones(len(vectors))]
    penalty = RIDGE * np.eye(rows.shape[1])
    penalty[-1, -1] = 1e-6
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        given = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (counts * (given - labels)) + penalty @ weights
        curvature = (rows * (counts * given * (1 - given))[:, None]).T @ rows + penalty
        weights -= np.linalg.solve(curvature, slope)
    return weights


def common(vectors: Any) -> Any:
    """The mean of vectors and the direction in which they differ most, as two columns."""
    np = numpy()
    mean = vectors.mean(axis=0)
    return np.c_[mean, np.linalg.svd(vectors - mean, full_matrices=False)[2][0]]


def questions(half: str) -> Examples:
    """The prompts of a half, which need memory, and how often each counts."""
    cases = orjson.loads(FOLDER.joinpath(f"{half}.json").read_bytes())
    known = [(case["text"], case["memory"], PROMPT_WEIGHT) for case in cases]
    if half == "train":
        asks = orjson.loads(SENTENCES.joinpath("labelled.json").read_bytes())["asks"]
        known += [(case["text"], case["kind"] == "memory", 1) for case in asks]
    return _examples(known)


def changes() -> Examples:
    """Sentences that say a change, and others, with how often each counts."""
    labelled, former = (
        orjson.loads(SENTENCES.joinpath(f"{name}.json").read_bytes())
        for name in ("labelled", "former")
    )
    others = [item["text"] for items in labelled.values() for item in items]
    others += [item["text"] for row in ("B1", "B2", "B3", "B7", "B8") for item in former[row]]
    others += [pair["first"] for pair in former["B6"]] + questions("train")[0]
    said = [(pair["change"], True, CHANGE_WEIGHT) for pair in former["B6"]]
    return _examples([*said, *((text, False, 1) for text in dict.fromkeys(others))])


def _examples(known: Sequence[tuple[str, bool, int]]) -> Examples:
    texts, labels, counts = zip(*known, strict=True)
    return list(texts), numpy().array(labels), numpy().array(counts)


def file_of(head: Head) -> Path:
    """The file of a head's weights."""
    return Path(__file__).parents[1] / "memsvc" / "adapters" / HEAD_FILE.format(head)


async def train(head: Head, examples: Examples) -> None:
    """Train a head and write its weights; that of changes at the bound of false ones."""
    texts, labels, counts = examples
    vectors = await vectors_of(texts)
    weights = learned(vectors, labels, counts)
    columns = [weights]
    if head == "memory":
        columns += [*common(vectors[counts == PROMPT_WEIGHT]).T]
    else:
        scores = vectors[~labels] @ weights[:-1]
        weights[-1] = -numpy().quantile(scores, 1 - FALSE_SHARE)
    lines = [
        " ".join([f"{weight:.3f}", *(f"{one:.4f}" for one in others)])
        for weight, *others in zip_longest(*columns, fillvalue=0)
    ]
    file_of(head).write_text("\n".join(lines) + "\n", encoding="utf-8")
    report(head, vectors, labels)


def report(head: Head, vectors: Any, labels: Any) -> None:
    """Print how much a head finds, and how much it takes for it."""
    weights = numpy().loadtxt(file_of(head), ndmin=2)[:, 0]
    said = vectors @ weights[:-1] + weights[-1] > 0
    found, false = said[labels].mean(), said[~labels].mean()
    print(f"{head}: {found:.1%} found, {false:.1%} of others taken for one")


async def main() -> None:
    """Train and write the weights, or score those of questions with --score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--score", action="store_true", help="score the half that is not learned")
    if parser.parse_args().score:
        texts, labels, _ = questions("test")
        report("memory", await vectors_of(texts), labels)
        return
    await train("memory", questions("train"))
    await train("change", changes())


if __name__ == "__main__":
    asyncio.run(main())
