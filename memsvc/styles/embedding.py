"""Embedding of stored texts, by jobs, and of questions, within a time limit.

It is no style by itself: styles queue EMBED_JOB for an index that they wrote to, and rank by the
vector of `Embedding.question`.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import accumulate, chain, islice
from time import perf_counter
from typing import Final

import structlog

from memsvc.core.call_context import step_done
from memsvc.core.chunks import sentences
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Clock, Embedder, Meter
from memsvc.core.scope import Scope
from memsvc.core.tools import Job
from memsvc.core.vectors import MeantText, TextVector, signs_of
from memsvc.store import jobs, vectors
from memsvc.store.database import Database, Tx
from memsvc.store.search import QueryEmbedding
from memsvc.store.vectors import VectorProgress

log = structlog.get_logger("memsvc.embedding")

EMBED_JOB: Final = "index.embed"
SWEEP_JOB: Final = "index.embed_missing"
SWEEP_S: Final = 900
BATCH_ENTRIES: Final = 64
"""Entries between two transactions: the loss when a job is stopped."""
INDEXES_PER_SWEEP: Final = 1000
QUESTIONS_KEPT: Final = 512
TEXTS_KEPT: Final = 1024
"""Number of recent texts whose vectors are cached: facts and resent messages repeat them."""
ENCODED_CHARS: Final = 1_600
"""Maximum characters of one text that the bundled encoder reads."""
ENCODED_CHARS_MAX: Final = 8_000
"""Maximum characters encoded while a call waits, which takes about 30 ms."""
MESSAGE_ROLES: Final = ("user", "assistant")
SENTENCES_MAX: Final = 6
"""Sentences of a message that have vectors of their own: more improve nothing."""
PAUSE_S: Final = 5.0
"""Seconds without calls to the embedder after it failed for a question."""


class Embedding:
    """Keeps the vectors of indexes up to date with their entries, and turns questions into vectors.

    The worker runs `jobs`. A change of model takes its time in the background: until an index is
    done, its entries are found by words, and by vectors as far as the new model has come.
    """

    def __init__(self, database: Database, embedder: Embedder, clock: Clock, meter: Meter) -> None:
        self._database = database
        self._embedder = embedder
        self._clock = clock
        self._meter = meter
        self._questions: OrderedDict[bytes, list[float]] = OrderedDict()
        self._paused_until: datetime | None = None
        self._loads_first = False
        self.job = Job(EMBED_JOB, self.embed)
        self.sweep = Job(SWEEP_JOB, self.queue_incomplete, interval_s=SWEEP_S)
        self.jobs = (self.job, self.sweep)
        self._made: OrderedDict[bytes, TextVector] = OrderedDict()
        database.encoder = self

    @property
    def model(self) -> str:
        """Return the name of the vectors that those of `question` can be compared with."""
        return self._embedder.model

    @property
    def unrelated(self) -> float | None:
        """Return the cosine of texts that have nothing to do with each other, where it is known."""
        return self._embedder.unrelated_cosine

    def wait_for_loading(self) -> None:
        """Let questions wait until the embedder is loaded: for a command that asks only once."""
        self._loads_first = True

    def of_query(self, vector: Sequence[float]) -> QueryEmbedding:
        """Return the vector of a question with what the embedder knows of it."""
        asks = self._embedder.log_odds("memory", vector)
        specific = self._embedder.specific(vector)
        return QueryEmbedding(vector, self.model, self.unrelated, asks, specific)

    async def of_change(self, text: str, *, is_said: bool) -> QueryEmbedding | None:
        """Return the vector of a message that is about to be stored, if it says a change.

        With `is_said` its words say so. None for others, and where its vector is left to a job."""
        [vector] = await self.encode([MeantText(text, "user")])
        if vector is None:
            return None
        is_said = is_said or (self._embedder.log_odds("change", vector.whole) or 0.0) > 0
        return QueryEmbedding(vector.whole, self.model, self.unrelated) if is_said else None

    async def embed(self, scope: Scope, subject: str) -> None:
        """Give every entry of an index (the subject is its id) its vector, and remove all others.

        Raises errors of the embedder; what was done until then stays.
        """
        index_id, model = int(subject), self.model
        async with self._database.begin_read(scope) as tx:
            after = await vectors.latest(tx, index_id, model)
        # entries become visible in the order of their numbers, so that new ones come after the last
        # that has a vector
        await self._fill(scope, index_id, after)
        async with self._database.begin(scope) as tx:
            done = (await vectors.progress(tx, model, [index_id])).get(
                index_id, VectorProgress(0, 0)
            )
            if done.entries != done.vectors:
                await vectors.prune(tx, index_id)
        if done.entries != done.vectors:
            await self._fill(scope, index_id, -1)
        async with self._database.begin(scope) as tx:
            dropped = await vectors.drop_other_models(tx, index_id, model)
        if dropped:
            log.info("vectors of a different embedding model were deleted", vectors=dropped)

    async def _fill(self, scope: Scope, index_id: int, after: int) -> None:
        while True:
            async with self._database.begin_read(scope) as tx:
                texts = await vectors.missing(
                    tx, index_id, self.model, after=after, limit=BATCH_ENTRIES
                )
            if not texts:
                return
            made = await self._text_vectors(list(texts.values()))
            async with self._database.begin(scope) as tx:
                await vectors.put(tx, index_id, self.model, dict(zip(texts, made, strict=True)))
            after = max(texts)
            step_done()

    async def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, however long it takes; raise errors of the embedder."""
        started = perf_counter()
        try:
            made = await self._embedder.embed(texts)
        except MemsvcError as error:
            self._record_failure("document", error)
            raise
        self._record_success("document", started)
        self._meter.add("memsvc_embedding_texts_total", len(texts))
        return made

    async def _text_vectors(self, texts: Sequence[MeantText]) -> list[TextVector]:
        """Return the vector of each text, and for messages those of their sentences.

        A message may say several things, and a question is about one of them. A remote embedder is
        not asked for sentences, because each request costs money."""
        parts = [
            _sentences(text) if self._embedder.in_process and role in MESSAGE_ROLES else []
            for text, role in texts
        ]
        made = await self.embed_texts([*(text for text, _ in texts), *chain.from_iterable(parts)])
        signs = map(signs_of, made[len(texts) :])
        return [
            TextVector(whole, b"".join(islice(signs, len(part))))
            for whole, part in zip(made, parts, strict=False)
        ]

    async def load(self) -> None:
        """Load what the embedder needs before its first vector."""
        await self._embedder.load()

    async def encode(self, texts: Sequence[MeantText]) -> list[TextVector | None]:
        """Return vectors of texts that are about to be stored, None for those left to a job.

        Only a loaded in-process embedder encodes, and only the last ENCODED_CHARS_MAX characters of
        `texts`. Vectors are cached: if you call this before the transaction that stores the texts,
        the same call within it encodes nothing."""
        if not (self._embedder.in_process and self._embedder.is_ready):
            return [None] * len(texts)
        keys = [_key(f"{role}\n{text}") for text, role in texts]
        for key in self._made.keys() & keys:
            self._made.move_to_end(key)
        sizes = accumulate(min(len(text), ENCODED_CHARS) for text, _ in reversed(texts))
        missing = {
            key: text
            for key, text, size in zip(reversed(keys), reversed(texts), sizes, strict=True)
            if key not in self._made and size <= ENCODED_CHARS_MAX
        }
        if missing:
            made = await self._text_vectors(list(missing.values()))
            self._made.update(zip(missing, made, strict=True))
        vectors = [self._made.get(key) for key in keys]
        while len(self._made) > TEXTS_KEPT:
            self._made.popitem(last=False)
        return vectors

    async def queue_incomplete(self, scope: Scope, _: str) -> None:
        """Queue EMBED_JOB for indexes of a project that lack vectors of this model or hold others.

        After a change of model, or when an embedder is configured for the first time, these are all
        indexes.
        """
        async with self._database.begin(scope) as tx:
            for index_id in await vectors.list_incomplete(tx, self.model, limit=INDEXES_PER_SWEEP):
                await jobs.enqueue(tx, EMBED_JOB, str(index_id), now=self._clock.now())

    async def question(self, text: str) -> list[float] | None:
        """Return the vector of a question, or None if it is late or fails: search then uses words.

        A vector is shared by all who ask the same text, and reveals nothing that the text does not.
        """
        key = _key(text)
        if (kept := self._questions.get(key)) is not None:
            self._questions.move_to_end(key)
            self._meter.add("memsvc_embedding_cached_total")
            return kept
        if (
            not text.strip()
            or not (self._embedder.is_ready or self._loads_first)
            or (self._paused_until is not None and self._clock.now() < self._paused_until)
        ):
            return None
        started = perf_counter()
        try:
            await self._embedder.load()
            vector = await self._embedder.embed_question(text)
        except MemsvcError as error:
            self._record_failure("question", error)
            if error.code is Code.UNAVAILABLE:
                self._paused_until = self._clock.now() + timedelta(seconds=PAUSE_S)
            log.warning(
                "the embedder failed; search continues without vectors",
                code=error.code.value,
                reason=error.message,
            )
            return None
        self._record_success("question", started)
        self._questions[key] = vector
        if len(self._questions) > QUESTIONS_KEPT:
            self._questions.popitem(last=False)
        return vector

    def _record_success(self, kind: str, started: float) -> None:
        self._meter.add("memsvc_embedding_calls_total", kind=kind, status="success")
        self._meter.add(
            "memsvc_embedding_duration_ms", (perf_counter() - started) * 1000, kind=kind
        )

    def _record_failure(self, kind: str, error: MemsvcError) -> None:
        self._meter.add("memsvc_embedding_calls_total", kind=kind, status="error")
        self._meter.add("memsvc_embedding_failures_total", code=error.code.value)


async def queue_embedding(tx: Tx, now: datetime) -> None:
    """Queue the jobs that make the vectors which the entries added in a transaction lack."""
    for index_id in sorted(tx.unembedded):
        await jobs.enqueue(tx, EMBED_JOB, str(index_id), now=now)


def _sentences(text: str) -> list[str]:
    """Return the first sentences of a text; none if it is a single one."""
    found = list(islice(sentences(text[:ENCODED_CHARS]), SENTENCES_MAX))
    return found if len(found) > 1 else []


def _key(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


async def embed_query(embedding: Embedding | None, text: str) -> QueryEmbedding | None:
    """Return the embedding of a question; None without an embedder, or where it is late or fails.

    Call it before a transaction begins.
    """
    vector = await embedding.question(text) if embedding is not None else None
    if embedding is None or vector is None:
        return None
    return embedding.of_query(vector)
