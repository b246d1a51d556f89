"""Learn anew what tells a question about memory: `python -m benchmarks.train_questions`.

It reads `questions_data/train.json`: prompts in six languages by a writer who had not read the
code, half of which need what the user told before and half of which need nothing of it; and the
questions of memory and of general knowledge among the labelled sentences. It writes the weights of
a logistic regression on the bundled encoder's vectors, `memory_head.txt` beside the encoder.
`--score` scores them on the writer's other prompts, `test.json`, which are never learned from."""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.beliefs import FOLDER as SENTENCES
from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import HEAD_FILE, SentenceEncoder
from memsvc.core.vectors import numpy

FOLDER: Final = Path(__file__).with_name("questions_data")
RIDGE: Final = 1 / 3
"""Weight of the penalty, chosen by what of one writer's is found when another's is learned."""
PROMPT_WEIGHT: Final = 3
"""Weight of a prompt relative to a labelled question: five times as many, and none of them
is a short command."""
STEPS: Final = 60


async def vectors_of(texts: Sequence[str]) -> Any:
    """The vectors of texts, a row each."""
    encoder = SentenceEncoder(EmbeddingOptions())
    return numpy().array(await encoder.embed(texts))


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


def read(half: str) -> tuple[list[str], Any, Any]:
    """The prompts of a half, which need memory, and how often each counts."""
    cases = orjson.loads(FOLDER.joinpath(f"{half}.json").read_bytes())
    known = [(case["text"], case["memory"], PROMPT_WEIGHT) for case in cases]
    if half == "train":
        asks = orjson.loads(SENTENCES.joinpath("labelled.json").read_bytes())["asks"]
        known += [(case["text"], case["kind"] == "memory", 1) for case in asks]
    texts, labels, counts = zip(*known, strict=True)
    return list(texts), numpy().array(labels), numpy().array(counts)


async def main() -> None:
    """Train and write the weights, or score them with --score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--score", action="store_true", help="score the half that is not learned")
    half = "test" if parser.parse_args().score else "train"
    texts, labels, counts = read(half)
    vectors = await vectors_of(texts)
    file = Path(__file__).parents[1] / "memsvc" / "adapters" / HEAD_FILE
    if half == "train":
        numbers = [f"{one:.3f}" for one in learned(vectors, labels, counts)]
        file.write_text("\n".join(numbers) + "\n", encoding="utf-8")
    weights = numpy().loadtxt(file)
    asks = vectors @ weights[:-1] + weights[-1] > 0
    found, false = asks[labels].mean(), asks[~labels].mean()
    print(
        f"{half}: {found:.1%} of questions about memory found, {false:.1%} of others taken for one"
    )


if __name__ == "__main__":
    asyncio.run(main())
