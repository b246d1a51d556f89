"""Made-up conversation of any length: the same words for the same seed, as skewed as real talk."""

import random
from collections.abc import Iterator
from itertools import accumulate

_ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
)
_VOWELS = ("a", "e", "i", "o", "u", "ea", "oo")
_CODAS = ("", "n", "r", "s", "t", "l", "m", "nd", "st", "ck")
WORDS = 8000
HEAD = 30
"""How flat the head of the distribution is: the commonest word is in about a tenth of all
messages."""


class Chatter:
    """Makes messages of 8 to 24 words (130 characters or so) and questions of 3 to 8."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        words = random.Random(0)
        self._words = sorted({self._word(words) for _ in range(WORDS * 2)})
        words.shuffle(self._words)
        self._words = self._words[:WORDS]
        self._weights = list(accumulate(1 / (HEAD + rank) for rank in range(len(self._words))))

    def message(self) -> str:
        """One message."""
        return self._some(8, 24).capitalize() + "."

    def question(self) -> str:
        """One question."""
        return self._some(3, 8).capitalize() + "?"

    def facts(self) -> Iterator[str]:
        """Sentences that each state one more thing that the user likes."""
        for word in self._words:
            yield f"I like {word} {self._some(1, 2)}."

    def _some(self, least: int, most: int) -> str:
        count = self._random.randint(least, most)
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    @staticmethod
    def _word(chance: random.Random) -> str:
        syllables = chance.randint(1, 3)
        return "".join(
            chance.choice(_ONSETS) + chance.choice(_VOWELS) + chance.choice(_CODAS)
            for _ in range(syllables)
        )
