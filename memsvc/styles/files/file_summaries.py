"""Summaries of files by a model, made by a background job: no call waits for one."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from hashlib import sha256
from time import perf_counter
from typing import Final

import structlog

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock, Llm, Meter
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.store import files, jobs, summaries
from memsvc.store.database import Database, Tx
from memsvc.store.files import File
from memsvc.store.summaries import Summary
from memsvc.styles.files.options import SummaryOptions
from memsvc.styles.files.summary_text import (
    FILE_OUTPUT_TOKENS_MAX,
    WORDS_TARGET,
    SummaryPrompts,
    clean_summary,
    count_words,
    windows,
    wrap_document,
)
from memsvc.styles.model_budget import BudgetExhaustedError, ModelBudget

log = structlog.get_logger("memsvc.summaries")

SUMMARISE_JOB: Final = "files.summarise"
SETTLE_S: Final = 30.0
"""Delay between a write and the summary of its file: a burst of appends makes one summary."""
SUMMARY_BYTES_MIN: Final = 1000
"""Below this size a file is summarised by its start."""
BUDGET_CATEGORY: Final = "summary"
START_JITTER_S: Final = 3600
"""Work postponed to the next day starts at a random time within this many seconds."""


class FileSummaries:
    """Summaries of the content that files have now.

    The result is the same whether the job runs once or twice, and the model is not called again for
    a content that has a summary. A failing model changes nothing."""

    def __init__(
        self,
        database: Database,
        llm: Llm,
        clock: Clock,
        meter: Meter,
        options: SummaryOptions,
        budget: ModelBudget,
    ) -> None:
        self._database = database
        self._budget = budget
        self._llm = llm
        self._clock = clock
        self._meter = meter
        self._options = options
        self._prompts = SummaryPrompts.load()
        # a useless answer of the model costs money each time
        self.job = Job(name=SUMMARISE_JOB, run=self.summarise, attempts_max=2)

    async def summarise(self, scope: Scope, subject: str) -> None:
        """Job: summarise the file with this id, unless that is done.

        Errors of the model pass through. No transaction is open while the model works. A summary of
        content that has changed since is dropped: the write that changed it enqueued the next
        job."""
        async with self._database.begin(scope) as tx:
            found = await self._find_stale(tx, uuid.UUID(subject))
        if found is None:
            return
        file, parts = found
        calls = _calls(parts)
        if not await self._claim_budget(scope, subject, calls):
            return
        try:
            text = await self._call_model(parts)
        except MemsvcError as error:
            log.warning(
                "the model failed to summarise a file", code=error.code.value, reason=error.message
            )
            if error.code is Code.UNAVAILABLE:
                await self._budget.release(
                    scope, calls=calls, kind=BUDGET_CATEGORY, limit=self._options.a_day
                )
            raise
        async with self._database.begin(scope) as tx:
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
            b"\0".join((content.hex().encode(), self._llm.model.encode(), self._prompts.version))
        ).digest()

    async def _put(self, tx: Tx, file: File, summary: Summary) -> None:
        await summaries.put(
            tx,
            file,
            summary,
            words=count_words(summary.text),
            model=self._llm.model,
            now=self._clock.now(),
        )

    async def _call_model(self, parts: Sequence[str]) -> str:
        """Call the model once, or once for each part and once for the notes on them."""
        if len(parts) == 1:
            return await self._complete(
                self._prompts.whole, wrap_document(parts[0]), FILE_OUTPUT_TOKENS_MAX
            )
        max_tokens = FILE_OUTPUT_TOKENS_MAX // (len(parts) + 1)
        notes = [
            await self._complete(
                self._prompts.part, wrap_document(part), max_tokens, part=at, parts=len(parts)
            )
            for at, part in enumerate(parts, 1)
        ]
        return await self._complete(
            self._prompts.notes,
            "\n\n".join(map(wrap_document, notes)),
            max_tokens,
            parts=len(parts),
        )

    async def _complete(
        self, prompt: str, text: str, output_tokens_max: int, **numbers: int
    ) -> str:
        instructions = prompt.format(words=WORDS_TARGET, **numbers)
        started = perf_counter()
        try:
            answer = clean_summary(
                await self._llm.complete(instructions, text, output_tokens_max=output_tokens_max)
            )
            if not answer:
                raise MemsvcError(
                    Code.INTERNAL_ERROR, "the model answered nothing that is usable as a summary"
                )
        except MemsvcError:
            self._meter.add("memsvc_model_calls_total", purpose=BUDGET_CATEGORY, status="error")
            raise
        self._meter.add("memsvc_model_calls_total", purpose=BUDGET_CATEGORY, status="success")
        self._meter.add(
            "memsvc_model_duration_ms", (perf_counter() - started) * 1000, purpose=BUDGET_CATEGORY
        )
        return answer

    async def _claim_budget(self, scope: Scope, subject: str, calls: int) -> bool:
        """Count a summary against the tenant's daily budget.

        If it is used up, postpone to the next day."""
        now = self._clock.now()
        try:
            await self._budget.consume(
                scope, calls=calls, kind=BUDGET_CATEGORY, limit=self._options.a_day
            )
        except BudgetExhaustedError:
            pass
        else:
            return True
        next_day = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
        wait_s = (next_day - now).total_seconds() + uuid.UUID(subject).int % START_JITTER_S
        async with self._database.begin(scope) as tx:
            await jobs.enqueue(tx, SUMMARISE_JOB, subject, now=now, delay_s=wait_s)
        log.info(
            "the daily summary budget is used up: a file will be summarised tomorrow",
            project=scope.project,
        )
        return False


def _calls(parts: Sequence[str]) -> int:
    """Return how many model calls the parts need."""
    return 1 if len(parts) == 1 else len(parts) + 1
