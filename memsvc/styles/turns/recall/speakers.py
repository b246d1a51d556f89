"""Who speaks in a session, so that a name in a question does not count as what is asked about."""

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from memsvc.core.scope import Scope

SESSIONS_KEPT: Final = 4096
NAMES_KEPT: Final = 16

_Key = tuple[bytes, str, str]


class Speakers:
    """Remembers the names that searches of a session came upon, for the sessions that were asked about last.

    A text hardly ever holds the name of who said it, so that a name in the question makes its vector like what others
    said to or about that person. Words are not in need of this: the ranking knows its candidates' speakers. What is
    forgotten here, or not known to another server yet, costs a little quality and nothing else.
    """

    def __init__(self) -> None:
        self._names: OrderedDict[_Key, frozenset[str]] = OrderedDict()

    def note(self, scope: Scope, session: str, names: Iterable[str]) -> None:
        """Remember who spoke."""
        key = (scope.tenant, scope.project, session)
        known = self._names.pop(key, frozenset())
        self._names[key] = frozenset(sorted(known | {name for name in names if name})[:NAMES_KEPT])
        if len(self._names) > SESSIONS_KEPT:
            self._names.popitem(last=False)

    def left_out(self, scope: Scope, session: str, question: str) -> str:
        """The question without the names of those who speak in the session; as it is where nothing else is in it."""
        names = self._names.get((scope.tenant, scope.project, session), frozenset())
        words = sorted({word for name in names for word in [name, *name.split()]}, key=len, reverse=True)
        if not words:
            return question
        pattern = rf"\b(?:{'|'.join(map(re.escape, words))})(?:['’]s)?\b"
        rest = " ".join(re.sub(pattern, " ", question).split())
        return rest if re.search(r"\w", rest) else question
