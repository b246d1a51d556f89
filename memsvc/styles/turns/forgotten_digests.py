"""Digests of items of which something was forgotten, keyed so that no guess can be tested."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import server_secrets
from memsvc.store.database import Database
from memsvc.store.sessions import StoredDigest
from memsvc.styles.turns.turn_items import TurnItem

KEY_NAME: Final = "forgotten items"

_NOTHING: Final[Mapping[int, int]] = {}

KeyDigest = Callable[[int], int]
"""Makes a keyed digest of the digest of an item."""


@dataclass(slots=True)
class ForgottenDigests:
    """Keyed digests, by a secret that the servers of a database share."""

    database: Database
    clock: Clock
    _secret: bytes | None = None

    async def key(self, scope: Scope) -> KeyDigest:
        """Return what makes the keyed digests of a project. Opens a connection the first time."""
        if self._secret is None:
            self._secret = await server_secrets.get_or_create(
                self.database, KEY_NAME, self.clock.now()
            )
        key = hashlib.blake2b(
            scope.tenant + scope.project.encode(), key=self._secret, digest_size=32
        ).digest()

        def keyed(digest: int) -> int:
            content = digest.to_bytes(8, "big", signed=True)
            mac = hashlib.blake2b(content, key=key, digest_size=8).digest()
            return int.from_bytes(mac, "big", signed=True)

        return keyed


def as_sent(
    stored: Sequence[StoredDigest],
    items: Iterable[TurnItem],
    keyed: KeyDigest,
    current: Mapping[int, int] = _NOTHING,
) -> list[int]:
    """Return the digests that a client's copies of stored items have, in order.

    An item of which something was forgotten has the digest that it had, if one of these items has
    it, or else that of what is left, which is in `current` by entry. One that was forgotten as a
    whole is left out, unless one of these items has its digest."""
    sent = {item.digest for item in items}
    known = {one.digest for one in stored}
    plain = {key: digest for digest in sent - known if (key := keyed(digest)) in known}
    result = []
    for entry, digest, is_hidden in stored:
        each = plain.get(digest, digest)
        left = current.get(entry, each)
        if each in sent or left in sent:
            result.append(each if each in sent else left)
        elif not is_hidden:
            result.append(each)
    return result
