"""Cache of key look-ups, invalidated as soon as a change of a key is announced."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import keys
from memsvc.store.changes import Changes
from memsvc.store.database import Database

QUERY_S_MAX: Final = 5.0
"""Seconds that a look-up may take, waiting for its turn included."""
CONCURRENT_QUERIES: Final = 4
"""Concurrent look-ups: the rest of the pool is for authenticated callers."""


@dataclass(slots=True)
class _CachedKey:
    """Cached look-up of a listed key, and until when it is valid.

    `told` counts the announced changes.
    """

    key: keys.ApiKey | None = None
    valid_until: float = 0.0
    change_count: int = 0
    end: Callable[[], None] | None = None


class KeyCache:
    """Listed keys by their hashes.

    Keys that are not listed are cached separately, so that guesses do not evict listed ones.
    `changed` is called when a cached key was changed by anybody, anywhere.
    """

    def __init__(
        self,
        database: Database,
        *,
        keep_s: float,
        keys_max: int,
        changes: Changes | None,
        changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._keep_s = keep_s
        self._keys_max = keys_max
        self._changes = changes
        self._changed = changed
        self._listed: OrderedDict[bytes, _CachedKey] = OrderedDict()
        self._absent: OrderedDict[bytes, float] = OrderedDict()
        self._query_slots = asyncio.Semaphore(CONCURRENT_QUERIES)
        self._pending: dict[tuple[bytes, int], asyncio.Task[keys.ApiKey | None]] = {}

    async def find(self, key_hash: bytes) -> keys.ApiKey | None:
        """Return the listed key of this hash, revoked or expired ones too; else None.

        UNAVAILABLE when the look-up fails.
        """
        cached = self._listed.get(key_hash)
        if cached is not None and monotonic() < cached.valid_until:
            self._listed.move_to_end(key_hash)
            return cached.key
        if monotonic() < self._absent.get(key_hash, 0.0):
            return None
        query = (key_hash, 0 if cached is None else cached.change_count)
        if query not in self._pending:  # concurrent requests of a client share one look-up
            self._pending[query] = asyncio.create_task(self._query(key_hash, cached))
            self._pending[query].add_done_callback(lambda _: self._pending.pop(query))
        return await asyncio.shield(self._pending[query])

    async def _query(self, key_hash: bytes, cached: _CachedKey | None) -> keys.ApiKey | None:
        cached = cached or self._watch(key_hash)
        change_count = cached.change_count
        try:
            async with _in_time(), self._query_slots:
                found = await keys.find_key(self._database, key_hash)
            # else the key may have been read before the change: later look-ups know better
            if cached.change_count == change_count:
                cached.key = found
        finally:
            if cached.key is None:
                self._forget(key_hash)
        if found is None:
            _keep(self._absent, key_hash, monotonic() + self._keep_s, self._keys_max)
        # else it was evicted meanwhile
        elif cached.change_count == change_count and self._listed.get(key_hash) is cached:
            cached.valid_until = monotonic() + self._keep_s
            self._listed.move_to_end(key_hash)
        return found

    def is_absent(self, key_hash: bytes) -> bool:
        """Return whether the cache says that this key is not listed."""
        return key_hash in self._absent

    def was_listed(self, key_hash: bytes) -> bool:
        """Return whether this is known as a listed key, valid or not."""
        cached = self._listed.get(key_hash)
        return cached is not None and cached.key is not None

    async def refresh(self, key_hashes: Collection[bytes]) -> dict[bytes, keys.ApiKey]:
        """Look these keys up anew, all in one query."""
        change_counts = {
            key_hash: cached.change_count
            for key_hash in key_hashes
            if (cached := self._listed.get(key_hash)) is not None
        }
        found = await keys.find_keys(self._database, key_hashes)
        for key_hash, key in found.items():
            cached = self._listed.get(key_hash)
            if cached is not None and cached.change_count == change_counts.get(key_hash):
                cached.key = key
        return found

    def _watch(self, key_hash: bytes) -> _CachedKey:
        cached = _CachedKey()
        if self._changes is not None:
            cached.end = self._changes.watch(
                keys.change_of(key_hash), partial(self._invalidate, cached)
            )
        self._listed[key_hash] = cached
        while len(self._listed) > self._keys_max:
            self._forget(next(iter(self._listed)))
        return cached

    def _invalidate(self, cached: _CachedKey) -> None:
        cached.change_count += 1
        cached.valid_until = 0.0
        self._changed()

    def _forget(self, key_hash: bytes) -> None:
        cached = self._listed.pop(key_hash, None)
        if cached is not None and cached.end is not None:
            cached.end()


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raise UNAVAILABLE where a look-up takes too long, as behind others in a stalled database."""
    try:
        async with asyncio.timeout(QUERY_S_MAX):
            yield
    except TimeoutError as error:
        raise MemsvcError(
            Code.UNAVAILABLE, "the database cannot be reached just now", retry_after_s=1.0
        ) from error


def _keep(cache: OrderedDict[bytes, float], key_hash: bytes, until: float, limit: int) -> None:
    cache[key_hash] = until
    cache.move_to_end(key_hash)
    while len(cache) > limit:
        cache.popitem(last=False)
