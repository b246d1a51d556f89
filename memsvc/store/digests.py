"""Digests of spans of a session, each an entry of an index of its user.

Other sessions of the user find them there.
"""

from collections.abc import Sequence
from typing import Final

from memsvc.core.frozen import frozen
from memsvc.core.paths import prefix_range
from memsvc.store import index
from memsvc.store.database import Tx

_OF_SESSION: Final = """
    FROM entries WHERE tenant = $1 AND project = $2 AND role = 'digest'
        AND ref ~>=~ $3 AND ref ~<~ $4 AND book <> ALL($5::int8[])
"""


@frozen
class DigestProgress:
    """Progress of a session's digests, with its user and whether others spoke in it.

    `entry` is the first one that may have to be read again.
    """

    user: str
    shared: bool
    entry: int


async def read_progress(tx: Tx, session: str, *, hold: bool = False) -> DigestProgress | None:
    """Return the progress of a session's digests; None for a session that does not exist.

    With `hold`, its row is not deleted before the transaction ends: whoever purges the session sees
    the digests that are written until then.
    """
    row = await tx.fetchrow(
        f"""
        SELECT user_id, shared, digested_entry FROM sessions WHERE tenant = $1 AND project = $2
            AND session = $3
        {"FOR KEY SHARE" if hold else ""}
        """,
        session,
    )
    return DigestProgress(row["user_id"], row["shared"], row["digested_entry"]) if row else None


async def remove(tx: Tx, prefix: str, *, excluded: Sequence[int] = (), limit: int) -> int:
    """Remove some digests whose reference begins with `prefix`, from all indexes but `excluded`.

    Return how many.
    """
    rows = await tx.fetch(
        f"SELECT book, entry, cues {_OF_SESSION} ORDER BY book, entry LIMIT $6",
        *prefix_range(prefix),
        list(excluded),
        limit,
    )
    for index_id in sorted({row["book"] for row in rows}):
        await index.hold(tx, index_id)
        await index.remove(
            tx, index_id, {row["entry"]: row["cues"] for row in rows if row["book"] == index_id}
        )
    return len(rows)


async def count(tx: Tx, prefix: str, *, excluded: Sequence[int] = ()) -> int:
    """Return the number of digests that `remove` finds."""
    return await tx.fetch_int(
        f"SELECT count(*) {_OF_SESSION}", *prefix_range(prefix), list(excluded)
    )


async def texts(tx: Tx, index_id: int, first: int, *, limit: int, chars_max: int) -> dict[int, str]:
    """Return the beginnings of the texts of the next findable entries, by number."""
    return await tx.fetch_pairs(
        """
        SELECT entry, left(text, $6) AS text FROM entries
        WHERE tenant = $1 AND project = $2 AND book = $3 AND entry >= $4 AND length >= 0
        ORDER BY entry LIMIT $5
        """,
        index_id,
        first,
        limit,
        chars_max,
    )


async def existing_digests(
    tx: Tx, index_id: int, prefix: str, first: int, stop: int
) -> dict[int, tuple[str, str]]:
    """Return the digests of an index whose references are `prefix` and a number in a range.

    The number is from `first` to `stop` - 1. They are returned by entry, each as its reference and
    the words that find it.
    """
    rows = await tx.fetch(
        """
        SELECT entry, ref, cues FROM entries
        WHERE tenant = $1 AND project = $2 AND role = 'digest' AND ref ~>=~ $3 AND ref ~<~ $4
            AND book = $5
            AND length >= 0 AND CASE WHEN substr(ref, length($3) + 1) ~ '^[0-9]{1,10}$'
                THEN substr(ref, length($3) + 1)::int8 >= $6
                    AND substr(ref, length($3) + 1)::int8 < $7 END
        """,
        *prefix_range(prefix),
        index_id,
        first,
        stop,
    )
    return {row["entry"]: (row["ref"], row["cues"]) for row in rows}


async def set_progress(tx: Tx, session: str, entry: int) -> None:
    """Store that everything before an entry of the session is in digests for good."""
    await tx.execute(
        "UPDATE sessions SET digested_entry = $4 WHERE tenant = $1 AND project = $2 AND session ="
        " $3",
        session,
        entry,
    )


async def reset_progress(tx: Tx, session: str, entry: int, *, span: int) -> None:
    """Have the span of an entry, and what follows it, read again by the next step.

    The entry was changed or forgotten.
    """
    await tx.execute(
        """
        UPDATE sessions SET digested_entry = least(digested_entry, $4::int4 / $5::int4 * $5::int4)
        WHERE tenant = $1 AND project = $2 AND session = $3
        """,
        session,
        entry,
        span,
    )
