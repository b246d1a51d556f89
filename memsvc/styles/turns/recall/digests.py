"""Session digests: words of spans, by which a session is found from its user's other sessions."""

import re
from itertools import groupby
from typing import Final

from memsvc.core.analysis import is_stop_word
from memsvc.core.background import map_in_thread
from memsvc.core.call_context import step_done
from memsvc.core.frozen import frozen
from memsvc.core.paths import encode_segment
from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import digests, index
from memsvc.store.database import Database
from memsvc.store.index import NewEntry
from memsvc.store.locks import index_lock
from memsvc.store.sessions import ENTRY_MAX
from memsvc.styles.turns import turn_index
from memsvc.styles.turns.options import TurnOptions

SPAN_ITEMS: Final = 100
"""Items of a session that share a digest."""
ITEMS_A_STEP: Final = 20 * SPAN_ITEMS
DIGESTS_A_STEP: Final = 200
TEXT_CHARS_MAX: Final = 400
"""Characters of one item that count: a long answer must not dominate its span."""
WORDS_MAX: Final = 2000
WORD_CHARS_MAX: Final = 40
FRESH_MAX: Final = 4
"""Digests whose terms may wait for the postings: a thousand terms each, which every search would
read."""

_WORD: Final = re.compile(r"\w+")


@frozen
class SessionDigests:
    """Updates the digests of a session with a user.

    A full span is written once, the last one again each time. Sessions without a user have none,
    and those with several speakers lose theirs: their messages are recalled nowhere else."""

    database: Database
    clock: Clock
    options: TurnOptions

    async def follow_up(self, scope: Scope, session: str) -> None:
        """Step: write missing digests, some spans per transaction.

        The last span is always rewritten."""
        while await self._write(scope, session):
            step_done()

    async def _write(self, scope: Scope, session: str) -> bool:
        """Write the next spans; return whether there are more."""
        async with self.database.begin_read(scope) as tx:
            known = await digests.read_progress(tx, session)
        if known is None or not known.user:
            return False
        if known.shared:
            async with self.database.begin(scope) as tx:
                return bool(await digests.remove(tx, digest_prefix(session), limit=DIGESTS_A_STEP))
        digest_index, index_id = turn_index.digests(known.user), turn_index.turns(session).number
        locks = [index_lock(digest_index.name)]
        timeout_ms = self.options.session_lock_timeout_ms
        async with self.database.begin(scope, locks=locks, lock_timeout_ms=timeout_ms) as tx:
            pending = await digests.read_progress(tx, session, hold=True)
            if pending is None or pending.user != known.user or pending.shared:
                return (
                    pending is not None
                )  # another user spoke meanwhile: retry with that user's index
            start = pending.entry // SPAN_ITEMS * SPAN_ITEMS
            # only existing entries: numbers may have gaps of any size
            texts = await digests.texts(
                tx, index_id, start, limit=ITEMS_A_STEP, chars_max=TEXT_CHARS_MAX
            )
            last = max(texts, default=start) // SPAN_ITEMS * SPAN_ITEMS
            more = len(texts) == ITEMS_A_STEP
            old = await digests.existing_digests(
                tx, digest_index.number, digest_prefix(session), start, last if more else ENTRY_MAX
            )
            now = self.clock.now()
            by_span = groupby(texts.items(), key=lambda item: item[0] // SPAN_ITEMS * SPAN_ITEMS)
            spans = {span: "\n".join(text for _, text in items) for span, items in by_span}
            words_of_spans = await map_in_thread([*spans.values()], digest_of)
            entries = [
                NewEntry(
                    ref=span_ref(session, span),
                    text="",
                    keywords=words,
                    message_at=now,
                    role="digest",
                )
                for span, words in zip(spans, words_of_spans, strict=True)
                if (span < last or not more) and words
            ]
            kept = {(entry.ref, entry.keywords) for entry in entries} & set(old.values())
            gone = {entry: words for entry, (ref, words) in old.items() if (ref, words) not in kept}
            await index.remove(tx, digest_index.number, gone)
            fresh = [entry for entry in entries if (entry.ref, entry.keywords) not in kept]
            if fresh:
                await index.add(tx, {digest_index.name: fresh}, fresh_max=FRESH_MAX)
            if last != pending.entry:
                await digests.set_progress(tx, session, last)
        return more


def digest_prefix(session: str) -> str:
    """Return the unique prefix of the references of a session's digests."""
    return f"{encode_segment(session)}/"


def span_ref(session: str, first: int) -> str:
    """Return the reference of the digest of the span that starts with an entry of a session."""
    return f"{digest_prefix(session)}{first}"


def digest_of(text: str) -> str:
    """Return the distinct content words of a text in order, at most WORDS_MAX."""
    words: dict[str, None] = {}
    for word in _WORD.findall(text.lower()):
        if len(words) >= WORDS_MAX:
            break
        if not is_stop_word(word):
            words.setdefault(word[:WORD_CHARS_MAX] if word.isascii() else word)
    return " ".join(words)
