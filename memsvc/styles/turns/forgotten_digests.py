"""Digests of items of which something was forgotten, keyed so that no guess can be tested."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from memsvc.core.ports import Clock
from memsvc.core.scope import Scope
from memsvc.store import server_secrets
from memsvc.store.database import Database
from memsvc.styles.turns.turn_items import TurnItem

KEY_NAME: Final = "forgotten items"

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


def with_plain_digests(
    stored: Sequence[int], items: Iterable[TurnItem], keyed: KeyDigest
) -> list[int]:
    """Return stored digests, plain where one is the keyed digest of one of these items."""
    known = set(stored)
    unknown = {item.digest for item in items} - known
    plain = {key: digest for digest in unknown if (key := keyed(digest)) in known}
    return [plain.get(digest, digest) for digest in stored]
