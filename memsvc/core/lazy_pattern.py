"""Patterns that are compiled at their first use, as compiling all takes a tenth of a start."""

import re
from collections.abc import Callable
from typing import Any, Final, cast


class _LazyPattern:
    """A stand-in for a compiled pattern, of which it gets each attribute once."""

    def __init__(self, pattern: str, flags: int, rearrange: Callable[[str], str]) -> None:
        self._source = pattern, flags, rearrange

    def __getattr__(self, name: str) -> Any:
        # without a lock: who needs a pattern is not to wait while another compiles
        if name == "_compiled":
            pattern, flags, rearrange = self._source
            value: Any = re.compile(rearrange(pattern), flags)
        else:
            value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


_PATTERNS: Final[list[_LazyPattern]] = []


def lazy_pattern(
    pattern: str, flags: int = 0, rearrange: Callable[[str], str] = str
) -> re.Pattern[str]:
    """Return a pattern that is rearranged and compiled when something is first looked for."""
    lazy = _LazyPattern(pattern, flags, rearrange)
    _PATTERNS.append(lazy)
    return cast("re.Pattern[str]", lazy)


def compile_patterns() -> None:
    """Compile all patterns now."""
    for pattern in _PATTERNS:
        pattern.search  # noqa: B018
