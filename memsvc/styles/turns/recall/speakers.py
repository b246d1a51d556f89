"""Speakers of a session, so that a name in a question is not treated as its subject."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from memsvc.core.scope import Scope

SESSIONS_KEPT: Final = 4096
NAMES_KEPT: Final = 16

_Key = tuple[bytes, str, str]


class Speakers:
    """Cache of speaker names seen in searches, for recently used sessions.

    A text rarely holds its speaker's name, so a name in the question makes its vector similar to
    messages to or about that person. Word matching does not need this: the ranking knows its
    candidates' speakers. A missing entry, also on another server, only costs a little quality."""

    def __init__(self) -> None:
        self._names: OrderedDict[_Key, frozenset[str]] = OrderedDict()

    def note(self, scope: Scope, session: str, names: Iterable[str]) -> None:
        """Remember the speakers."""
        key = (scope.tenant, scope.project, session)
        known = self._names.pop(key, frozenset())
        self._names[key] = frozenset(sorted(known | {name for name in names if name})[:NAMES_KEPT])
        if len(self._names) > SESSIONS_KEPT:
            self._names.popitem(last=False)

    def left_out(self, scope: Scope, session: str, question: str) -> str:
        """Return the question without the session's speakers, unless nothing else is left."""
        names = self._names.get((scope.tenant, scope.project, session), frozenset())
        words = sorted(
            {word for name in names for word in [name, *name.split()]}, key=len, reverse=True
        )
        if not words:
            return question
        pattern = rf"\b(?:{'|'.join(map(re.escape, words))})(?:['’]s)?\b"
        rest = " ".join(re.sub(pattern, " ", question).split())
        return rest if re.search(r"\w", rest) else question
