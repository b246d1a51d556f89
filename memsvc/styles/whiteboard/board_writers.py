"""Writers of boards: a model that gets the board and the new entries, or else rules."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

import orjson
import regex
import structlog

from memsvc.core.analysis import normalized_text, terms
from memsvc.core.background import run_in_thread
from memsvc.core.errors import Code, ModelOutputError
from memsvc.core.frozen import frozen
from memsvc.core.package_texts import package_text
from memsvc.core.ports import Llm, Meter, TokenCounter
from memsvc.core.rules.change_words import NEGATIVE
from memsvc.core.rules.sentences import SPEAKER_FIRST
from memsvc.core.scope import Scope
from memsvc.styles.model_budget import BudgetExhaustedError, ModelBudget, timed_call
from memsvc.styles.whiteboard.boards import MadeBy
from memsvc.styles.whiteboard.entries import BoardEntry, clean, truncate
from memsvc.styles.whiteboard.extractive import extracted

log = structlog.get_logger("memsvc.whiteboard")

MODEL_CALL_KIND: Final = "whiteboard"
NOTHING_YET: Final = "No existing memory (start fresh)."
ANSWER_CHARS_MAX: Final = 200_000
REFUSAL_CHARS_MAX: Final = 300
WRAPPERS_MAX: Final = 8
"""Maximum of nested code fences and objects that are removed; each reads the whole answer."""
OUTPUT_SHARE: Final = 2
"""Multiple of a board's tokens that a model may write: a long text is better cut here than there.
"""
WORDS_OF_TOKENS: Final = 2 / 3

_PROMPT_LABELS: Final = (
    "Current memory:",
    "Recent context",
    "New events:",
    "Update the memory accordingly:",
)
_HEADING: Final = regex.compile(
    rf"^(?={'|'.join(map(regex.escape, _PROMPT_LABELS))})", regex.MULTILINE | regex.IGNORECASE
)
_LAST_HEADING: Final = regex.compile(
    r"^[ \t#*]*(?:Update the|Updated) memory[^\n:]{0,20}:[*]*", regex.M | regex.I
)
_FIRST_HEADING: Final = regex.compile(r"\A[ \t#*]*Current memory:[*]*", regex.I)
_MARKED: Final = regex.compile(r"[#*•+-]")
"""How a heading or a line of a list begins."""
_CODE_BLOCK: Final = regex.compile(
    r"\A(?P<fence>`{3,}|~{3,})[^\n`]*\n?(?P<inside>.*?)(?:\n?(?P=fence)\s*)?\Z", regex.DOTALL
)


@frozen
class WrittenBoard:
    """A new board, and its maker."""

    text: str
    made_by: MadeBy


class BoardWriter(Protocol):
    """Writes a new board."""

    async def __call__(
        self, scope: Scope, board: str, recent: Sequence[BoardEntry], new: Sequence[BoardEntry]
    ) -> WrittenBoard:
        """Return the board with these new entries, not blank unless the rules found nothing to say.

        The `recent` ones precede them and are in the board already.
        """
        ...


@frozen
class ModelBoardWriter:
    """Writes boards by a model, which gets the length in words; a longer answer is cut.

    An answer without a board is an `ModelOutputError`. Where the tenant's daily quota is used
    up, the rules write the board.
    """

    llm: Llm
    meter: Meter
    budget: ModelBudget
    rules: "RuleBoardWriter"

    async def __call__(
        self, scope: Scope, board: str, recent: Sequence[BoardEntry], new: Sequence[BoardEntry]
    ) -> WrittenBoard:
        tokens_max = self.rules.tokens_max
        try:
            async with self.budget.counted(scope):
                with timed_call(self.meter, MODEL_CALL_KIND):
                    answer = await self.llm.complete(
                        _prompt("update_board").format(words=round(tokens_max * WORDS_OF_TOKENS)),
                        self.message(board, recent, new),
                        output_tokens_max=OUTPUT_SHARE * tokens_max,
                    )
                    text = truncate(
                        board_in(answer[:ANSWER_CHARS_MAX]), tokens_max, self.rules.tokens.count
                    )
                    known = "\n".join([board, *(entry.content for entry in new)])
                    if not text or is_refusal(text, known):
                        raise ModelOutputError(
                            Code.INTERNAL_ERROR, "the model's answer cannot be used as a whiteboard"
                        )
        except BudgetExhaustedError:
            log.info(
                "a whiteboard is written by rules, because the daily limit of model calls"
                " is reached",
                project=scope.project,
            )
            return await self.rules(scope, board, recent, new)
        return WrittenBoard(text, "model")

    def message(self, board: str, recent: Sequence[BoardEntry], new: Sequence[BoardEntry]) -> str:
        """Return the message for the model.

        No line of an entry or of the board can be taken for one of its headings: lines of entries
        are indented, and so is what looks like a heading within the board.
        """
        recent_text = _prompt("recent").format(entries=_lines(recent)) if recent else ""
        memory = _HEADING.sub("  ", board) or NOTHING_YET
        return (
            _prompt("events")
            .format(memory=memory, recent=recent_text, events=_lines(new))
            .rstrip("\n")
        )


@frozen
class RuleBoardWriter:
    """Writes boards from the entries themselves, for lack of a model."""

    tokens: TokenCounter
    tokens_max: int

    async def __call__(
        self, scope: Scope, board: str, recent: Sequence[BoardEntry], new: Sequence[BoardEntry]
    ) -> WrittenBoard:
        del scope, recent  # these entries are in the board
        chars = sum(len(one.content) for one in new)
        text = await run_in_thread(
            chars, extracted, board, new, tokens_max=self.tokens_max, count=self.tokens.count
        )
        return WrittenBoard(text, "rules")


def board_in(answer: str) -> str:
    """Return the board in a model's answer; "" where it holds none.

    A code fence or a JSON object around it is removed, and so is the question, should the model
    have repeated it.
    """
    text = clean(answer)
    for _ in range(WRAPPERS_MAX):
        inside = _unwrapped(text)
        if inside is None:
            break
        text = inside.strip()
    for echo in reversed(list(_LAST_HEADING.finditer(text))):
        before, text = text[: echo.start()], text[echo.end() :].strip()
        if not text and "New events:" not in before:
            text = before.strip()  # a closing line, and no question before it
        break
    if _FIRST_HEADING.match(text):
        text = "" if "\nNew events:\n" in text else _FIRST_HEADING.sub("", text).strip()
    if not any(character.isalnum() for character in text) or text == NOTHING_YET:
        return ""
    return text


def is_refusal(text: str, known: str) -> bool:
    """Return whether a model's answer declines, and says nothing of the board or the entries.

    It is a sentence or two that deny something, in the first person or in other words than the
    `known` texts."""
    if len(text) > REFUSAL_CHARS_MAX or "\n" in text or _MARKED.match(text):
        return False
    said = frozenset(terms(text))
    shared = len(said & frozenset(terms(known)))
    low = normalized_text(text)
    is_own = SPEAKER_FIRST.match(low) is not None
    return NEGATIVE.search(low) is not None and shared <= (max(1, len(said) // 2) if is_own else 0)


def _unwrapped(text: str) -> str | None:
    """Return the content of a code fence or the only member of a JSON object; else None."""
    if (block := _CODE_BLOCK.match(text)) is not None:
        return block["inside"]
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        members = list(orjson.loads(text).values())
    except orjson.JSONDecodeError:
        return None
    return clean(members[0]) if len(members) == 1 and isinstance(members[0], str) else None


def _lines(entries: Sequence[BoardEntry]) -> str:
    return "\n".join(entry.lines for entry in entries)


@lru_cache
def _prompt(name: str) -> str:
    return package_text(__package__, f"prompts/{name}.md")
