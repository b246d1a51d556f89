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

LOOK_UP_S_MAX: Final = 5.0
"""Seconds that a look-up may take, waiting for its turn included."""
LOOK_UPS_AT_ONCE: Final = 4
"""Concurrent look-ups: the rest of the pool is for authenticated callers."""


@dataclass(slots=True)
class _Known:
    """Cached look-up of a listed key, and until when it is valid.

    `told` counts the announced changes.
    """

    key: keys.ApiKey | None = None
    believed_until: float = 0.0
    told: int = 0
    end: Callable[[], None] | None = None


class KnownKeys:
    """Listed keys by their hashes.

    Keys that are not listed are cached separately, so that guesses do not evict listed ones.
    `changed` is called when a cached key was changed by anybody, anywhere.
    """

    def __init__(
        self, database: Database, *, keep_s: float, keys_max: int, changes: Changes | None, changed: Callable[[], None]
    ) -> None:
        self._database = database
        self._keep_s = keep_s
        self._keys_max = keys_max
        self._changes = changes
        self._changed = changed
        self._listed: OrderedDict[bytes, _Known] = OrderedDict()
        self._absent: OrderedDict[bytes, float] = OrderedDict()
        self._looking_up = asyncio.Semaphore(LOOK_UPS_AT_ONCE)
        self._asking: dict[tuple[bytes, int], asyncio.Task[keys.ApiKey | None]] = {}

    async def find(self, key_hash: bytes) -> keys.ApiKey | None:
        """Return the listed key of this hash, revoked or expired ones too; else None.

        UNAVAILABLE when the look-up fails.
        """
        known = self._listed.get(key_hash)
        if known is not None and monotonic() < known.believed_until:
            self._listed.move_to_end(key_hash)
            return known.key
        if monotonic() < self._absent.get(key_hash, 0.0):
            return None
        asking = (key_hash, 0 if known is None else known.told)
        if asking not in self._asking:  # concurrent requests of a client share one look-up
            self._asking[asking] = asyncio.create_task(self._ask(key_hash, known))
            self._asking[asking].add_done_callback(lambda _: self._asking.pop(asking))
        return await asyncio.shield(self._asking[asking])

    async def _ask(self, key_hash: bytes, known: _Known | None) -> keys.ApiKey | None:
        known = known or self._watched(key_hash)
        told = known.told
        try:
            async with _in_time(), self._looking_up:
                found = await keys.find_key(self._database, key_hash)
            # else the key may have been read before the change: later look-ups know better
            if known.told == told:
                known.key = found
        finally:
            if known.key is None:
                self._forget(key_hash)
        if found is None:
            _keep(self._absent, key_hash, monotonic() + self._keep_s, self._keys_max)
        # else it was evicted meanwhile
        elif known.told == told and self._listed.get(key_hash) is known:
            known.believed_until = monotonic() + self._keep_s
            self._listed.move_to_end(key_hash)
        return found

    def is_absent(self, key_hash: bytes) -> bool:
        """Return whether the cache says that this key is not listed."""
        return key_hash in self._absent

    def was_listed(self, key_hash: bytes) -> bool:
        """Return whether this is known as a listed key, valid or not."""
        known = self._listed.get(key_hash)
        return known is not None and known.key is not None

    async def look_again(self, key_hashes: Collection[bytes]) -> dict[bytes, keys.ApiKey]:
        """Look these keys up anew, all in one query."""
        told = {key_hash: known.told for key_hash in key_hashes if (known := self._listed.get(key_hash)) is not None}
        found = await keys.find_keys(self._database, key_hashes)
        for key_hash, key in found.items():
            known = self._listed.get(key_hash)
            if known is not None and known.told == told.get(key_hash):
                known.key = key
        return found

    def _watched(self, key_hash: bytes) -> _Known:
        known = _Known()
        if self._changes is not None:
            known.end = self._changes.watch(keys.change_of(key_hash), partial(self._hear, known))
        self._listed[key_hash] = known
        while len(self._listed) > self._keys_max:
            self._forget(next(iter(self._listed)))
        return known

    def _hear(self, known: _Known) -> None:
        known.told += 1
        known.believed_until = 0.0
        self._changed()

    def _forget(self, key_hash: bytes) -> None:
        known = self._listed.pop(key_hash, None)
        if known is not None and known.end is not None:
            known.end()


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raise UNAVAILABLE where a look-up takes too long, as behind others in a stalled database."""
    try:
        async with asyncio.timeout(LOOK_UP_S_MAX):
            yield
    except TimeoutError as error:
        raise MemsvcError(Code.UNAVAILABLE, "the database cannot be reached just now", retry_after_s=1.0) from error


def _keep(kept: OrderedDict[bytes, float], key_hash: bytes, until: float, most: int) -> None:
    kept[key_hash] = until
    kept.move_to_end(key_hash)
    while len(kept) > most:
        kept.popitem(last=False)
