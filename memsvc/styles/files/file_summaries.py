"""Summaries of files: by rules, or by a model in a background job, for which no call waits."""

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, field
from hashlib import sha256
from itertools import pairwise
from typing import Final, Self

import regex
import structlog

from memsvc.core.analysis import is_stop_word
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.package_texts import package_text
from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import files, jobs, summaries
from memsvc.store.database import Database, Tx
from memsvc.store.files import File
from memsvc.store.summaries import ContentDescription, Summary
from memsvc.styles.files.options import SummaryOptions
from memsvc.styles.model_budget import BudgetExhaustedError, ModelBudget, timed_call

SUMMARY_WORDS_MAX: Final = 300
SUMMARY_BYTES_MAX: Final = 2048
OPENING_CHARACTERS_MAX: Final = 160
TERM_LIMIT: Final = 5
TERM_CHARACTERS_MAX: Final = 40
HEAD_CHARACTERS_MAX: Final = 64 * 1024
"""Characters of a longer start that are read."""
EMPTY: Final = "Empty file."

_NO_SPACE_CHARACTERS: Final = 64
_SHARE_CHARACTERS: Final = 32
_ALPHA_SHARE_MIN: Final = 0.3
_RUN_CHARACTERS: Final = 4
"""Characters of a run of Han that is likely one word; a longer one is counted by its pairs."""
_FENCE_MARK: Final = regex.compile(r"`{3,}|~{3,}")
_CONTROL: Final = regex.compile(r"[\p{Cc}\p{Zl}\p{Zp}]")
_CJK_LIKE: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々"
_CJK_CHARACTER: Final = regex.compile(rf"[{_CJK_LIKE}]")
_WORD: Final = regex.compile(
    r"(?V1)(?P<run>[\p{Han}々]{2,}+)|(?P<name>[\p{Katakana}ー]{2,}+)"
    r"|[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{M}]{2,}+"
    rf"|[\p{{L}}--[{_CJK_LIKE}]][[\p{{L}}\p{{N}}\p{{M}}_]--[{_CJK_LIKE}]]*+(?:['’]\p{{L}}++)?"
)

log = structlog.get_logger("memsvc.summaries")

SUMMARISE_JOB: Final = "files.summarise"
SETTLE_S: Final = 30.0
"""Delay between a write and the summary of its file: a burst of appends makes one summary."""
SUMMARY_BYTES_MIN: Final = 1000
"""Below this size a file is summarised by its start."""
BUDGET_CATEGORY: Final = "summary"


def rule_summary(head: bytes, *, size_bytes: int, is_text: bool) -> str:
    """Return one English paragraph about a file of `size_bytes` that begins with `head`.

    The start may be cut within a character. The summary quotes the opening and gives the
    approximate number of lines and the most frequent words: at most SUMMARY_WORDS_MAX words and
    SUMMARY_BYTES_MAX bytes, without fences, HTML tags and control characters."""
    if size_bytes == 0:
        return EMPTY
    text = head.decode("utf-8", "ignore")[:HEAD_CHARACTERS_MAX]
    if not is_text or _is_opaque(text.strip()):
        return f"Binary content of {size_bytes} bytes that cannot be read as text."
    lines = _lines(text, size_bytes)
    length = f"approximately {lines} {'line' if lines == 1 else 'lines'}"
    opening = next((line for line in map(_clean, text.splitlines()) if line), "")
    text_summary = (
        f'The file begins with "{opening}" and has {length}.'
        if opening
        else f"A text file with {length}."
    )
    terms = _top_words(text)
    return f"{text_summary} Frequent terms include {', '.join(terms)}." if terms else text_summary


def summary_of(source: ContentDescription) -> str:
    """Return the summary by a model if it is current, else one by rules."""
    return source.summary or rule_summary(
        source.head, size_bytes=source.size_bytes, is_text=source.is_text
    )


def _is_opaque(text: str) -> bool:
    alpha_min = len(text) * _ALPHA_SHARE_MIN
    has_no_space = len(text) > _NO_SPACE_CHARACTERS and not any(
        character.isspace() for character in text
    )
    # scripts without spaces may fill a paragraph without any
    if has_no_space and len(_CJK_CHARACTER.findall(text)) < alpha_min:
        return True
    return (
        len(text) >= _SHARE_CHARACTERS
        and sum(character.isalpha() for character in text) < alpha_min
    )


def _lines(text: str, size_bytes: int) -> int:
    count = text.count("\n")
    text_bytes = len(text.encode())
    if 0 < text_bytes < size_bytes:
        return max(1, round(count * size_bytes / text_bytes))
    return max(1, count + (not text.endswith("\n")))


def _clean(line: str) -> str:
    visible = _HIDDEN_CHARACTERS.sub("", _CONTROL.sub(" ", line))
    # text between angle brackets after that is not a tag
    plain = _FENCE_MARK.sub(" ", _TAG.sub(" ", visible)).translate(_BRACKET_MAP)
    return " ".join(plain.split())[:OPENING_CHARACTERS_MAX].strip()


def _top_words(text: str) -> list[str]:
    counts = Counter(word for word in _words(text) if len(word) <= TERM_CHARACTERS_MAX)
    return sorted(counts, key=lambda word: (-counts[word], word))[:TERM_LIMIT]


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(_HIDDEN_CHARACTERS.sub("", _TAG.sub(" ", text))):
        word = match[0].lower()
        if match["run"] is not None and len(word) > _RUN_CHARACTERS:
            yield from (first + second for first, second in pairwise(word))
        elif match["run"] is not None or match["name"] is not None:
            yield word
        elif len(word) > 1 and not is_stop_word(word):
            yield word.replace("’", "'").removesuffix("'s")


WORDS_TARGET: Final = 160
CALL_INPUT_TOKENS_MAX: Final = 16_000
FILE_OUTPUT_TOKENS_MAX: Final = 4096
PROMPT_TOKENS_MAX: Final = 500
PART_TOKENS: Final = 14_000
PARTS_MAX: Final = 4
"""This many parts, and the notes on them, stay within the budget of one file."""
WHOLE_BYTES_MAX: Final = 4 * (CALL_INPUT_TOKENS_MAX - PROMPT_TOKENS_MAX - 1)
"""Size that one call can read of a file that needs no parts."""
PART_BYTES: Final = 4 * (PART_TOKENS - 1)

_WRAPPER: Final = "untrusted_document"
_WRAPPERS: Final = regex.compile(rf"<(?=[\s/]*{_WRAPPER})", regex.IGNORECASE)
_NO_TEXT: Final = regex.compile(r"[\p{Cc}--[\n\t]]", regex.V1)
_FENCE: Final = regex.compile(r"(?:`{3,}|~{3,})[^\S\n]*[\w+-]*")
_LINK: Final = regex.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_TAG: Final = regex.compile(r"<[^<>]*>")
_BRACKET_MAP: Final = str.maketrans("<>", "‹›")
_HIDDEN_CHARACTERS: Final = regex.compile(r"[\p{Cf}\p{Cs}\p{Co}\p{Cn}]")
_SEGMENTS: Final = regex.compile(r"\b", regex.WORD | regex.V1)
_WORD_CHARACTER: Final = regex.compile(r"[\p{L}\p{N}]")
_SENTENCE_END: Final = regex.compile(r"[.!?…][\"'”’)\]]*(?=\s|$)|[。！？][」』”）]*")


@frozen
class SummaryPrompts:
    """Prompts about a whole file, about a part of one, and about the notes on all parts."""

    whole: str
    part: str
    notes: str

    @classmethod
    def load(cls) -> Self:
        """Load the prompts of this version."""
        names = ("file", "part", "notes")
        return cls(*(package_text(__package__, f"summarise_{name}.md") for name in names))

    @property
    def version(self) -> bytes:
        """Return a hash of the prompts and the limits, which changes with them."""
        limits = (WORDS_TARGET, WHOLE_BYTES_MAX, PART_BYTES, PARTS_MAX, FILE_OUTPUT_TOKENS_MAX)
        return sha256(repr((astuple(self), limits)).encode()).digest()


def windows(size_bytes: int) -> list[tuple[int, int]]:
    """Return the byte ranges of a text that are read: all of it, or parts of about equal size.

    Where those would be more than PARTS_MAX, that many parts at equal distances, the start and the
    end included."""
    if size_bytes <= WHOLE_BYTES_MAX:
        return [(0, size_bytes)]
    parts = min(-(-size_bytes // PART_BYTES), PARTS_MAX)
    if size_bytes > parts * PART_BYTES:
        start_positions = [at * (size_bytes - PART_BYTES) // (parts - 1) for at in range(parts)]
        return [(start, start + PART_BYTES) for start in start_positions]
    bounds = [at * size_bytes // parts for at in range(parts + 1)]
    return list(pairwise(bounds))


def wrap_document(text: str) -> str:
    """Return a text wrapped as untrusted data; nothing in it can read as the end of the wrapper."""
    return f"<{_WRAPPER}>\n{_WRAPPERS.sub('‹', _NO_TEXT.sub(' ', text))}\n</{_WRAPPER}>"


def count_words(text: str) -> int:
    """Count words by Unicode UAX #29: segments that have a letter or a number."""
    return sum(
        1 for segment in _SEGMENTS.split(text) if segment and _WORD_CHARACTER.search(segment)
    )


def clean_summary(answer: str) -> str:
    """Return an answer cleaned up as a summary; empty when nothing meaningful is left.

    One paragraph of at most SUMMARY_WORDS_MAX words and SUMMARY_BYTES_MAX bytes that ends with a
    sentence where it has one, without fences, links, HTML and invisible characters."""
    plain = _HIDDEN_CHARACTERS.sub("", _NO_TEXT.sub(" ", answer))
    plain = _LINK.sub(r"\1", _FENCE.sub(" ", plain))
    text = " ".join(_TAG.sub(" ", plain).translate(_BRACKET_MAP).split())
    text = _first_words(text).encode()[:SUMMARY_BYTES_MAX].decode("utf-8", "ignore").strip()
    bounds = [match.end() for match in _SENTENCE_END.finditer(text)]
    if bounds:
        text = text[: bounds[-1]]
    return text if _WORD_CHARACTER.search(text) else ""


def _first_words(text: str) -> str:
    words = 0
    first = []
    for segment in _SEGMENTS.split(text):
        words += bool(segment and _WORD_CHARACTER.search(segment))
        if words > SUMMARY_WORDS_MAX:
            break
        first.append(segment)
    return "".join(first)


@frozen
class FileSummaries:
    """Summaries of the content that files have now.

    The result is the same whether the job runs once or twice, and the model is not called again for
    a content that has a summary. A failing model changes nothing."""

    database: Database
    llm: Llm
    clock: Clock
    meter: Meter
    options: SummaryOptions
    budget: ModelBudget
    prompts: SummaryPrompts = field(default_factory=SummaryPrompts.load)

    @property
    def job(self) -> Job:
        """Return the job."""
        return Job(SUMMARISE_JOB, self.summarise, attempts_max=2)

    async def summarise(self, scope: Scope, subject: str) -> None:
        """Job: summarise the file with this id, unless that is done.

        Errors of the model pass through. No transaction is open while the model works. A summary of
        content that has changed since is dropped: the write that changed it enqueued the next
        job."""
        async with self.database.begin(scope) as tx:
            found = await self._find_stale(tx, uuid.UUID(subject))
        if found is None:
            return
        file, parts = found
        calls = 1 if len(parts) == 1 else len(parts) + 1
        try:
            async with self.budget.counted(
                scope, calls=calls, kind=BUDGET_CATEGORY, limit=self.options.a_day
            ):
                text = await self._call_model(parts)
        except BudgetExhaustedError:
            await self._postpone(scope, subject)
            return
        async with self.database.begin(scope) as tx:
            now = await files.find_by_id(tx, file.incarnation)
            if now is not None and (now.stream, now.size_bytes) == (file.stream, file.size_bytes):
                await self._put(tx, file, Summary(self._generation(file), text))

    async def _find_stale(self, tx: Tx, file_id: uuid.UUID) -> tuple[File, list[str]] | None:
        """Return the file and the parts to be read; None when there is nothing to do."""
        file = await files.find_by_id(tx, file_id)
        if file is None or not file.is_text or file.size_bytes < SUMMARY_BYTES_MIN:
            await summaries.remove(tx, file_id)
            return None
        stored = await summaries.find(tx, file_id)
        if stored is not None and stored.generation == self._generation(file):
            await self._put(tx, file, stored)  # the same content may be back in a new stream
            return None
        parts = [
            await files.read(tx, file, start, stop) for start, stop in windows(file.size_bytes)
        ]
        return file, [part.decode("utf-8", "ignore") for part in parts]

    def _generation(self, file: File) -> bytes:
        """Return a hash of all inputs of a summary.

        These are the content by its hash or, where that is not known, its stream and size; the
        model, the prompts and the limits."""
        content = file.sha256 or f"{file.stream}:{file.size_bytes}".encode()
        return sha256(
            b"\0".join((content.hex().encode(), self.llm.model.encode(), self.prompts.version))
        ).digest()

    async def _put(self, tx: Tx, file: File, summary: Summary) -> None:
        await summaries.put(
            tx,
            file,
            summary,
            words=count_words(summary.text),
            model=self.llm.model,
            now=self.clock.now(),
        )

    async def _call_model(self, parts: Sequence[str]) -> str:
        """Call the model once, or once for each part and once for the notes on them."""
        if len(parts) == 1:
            return await self._complete(
                self.prompts.whole, wrap_document(parts[0]), FILE_OUTPUT_TOKENS_MAX
            )
        max_tokens = FILE_OUTPUT_TOKENS_MAX // (len(parts) + 1)
        notes = [
            await self._complete(
                self.prompts.part, wrap_document(part), max_tokens, part=at, parts=len(parts)
            )
            for at, part in enumerate(parts, 1)
        ]
        return await self._complete(
            self.prompts.notes,
            "\n\n".join(map(wrap_document, notes)),
            max_tokens,
            parts=len(parts),
        )

    async def _complete(
        self, prompt: str, text: str, output_tokens_max: int, **numbers: int
    ) -> str:
        instructions = prompt.format(words=WORDS_TARGET, **numbers)
        try:
            with timed_call(self.meter, BUDGET_CATEGORY):
                answer = clean_summary(
                    await self.llm.complete(instructions, text, output_tokens_max=output_tokens_max)
                )
                if not answer:
                    raise MemsvcError(
                        Code.INTERNAL_ERROR, "the model's answer is not usable as a summary"
                    )
        except MemsvcError as error:
            log.warning(
                "the model failed to summarise a file", code=error.code.value, reason=error.message
            )
            raise
        return answer

    async def _postpone(self, scope: Scope, subject: str) -> None:
        """Queue the summary of a file again for the next day."""
        wait_s = self.budget.next_day_delay_s(uuid.UUID(subject).int)
        async with self.database.begin(scope) as tx:
            await jobs.enqueue(tx, SUMMARISE_JOB, subject, now=self.clock.now(), delay_s=wait_s)
        log.info(
            "the tenant's daily limit of model calls or summaries is reached; a file of this"
            " project will be summarised tomorrow",
            project=scope.project,
        )
