"""Format of values on a page: times, sizes, numbers, and untrusted text."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from markupsafe import Markup, escape

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_CONTROL: Final = {
    code: f"\\u{code:04x}" for code in (*range(9), 11, 12, *range(14, 32), 127, *range(0x80, 0xA0))
}
# What turns the direction of text, and what is invisible: shown by its number, to mislead nobody.
_HIDDEN_CHARS: Final = {
    code: f"\\u{code:04x}"
    for code in (0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
}


def format_time(value: str | datetime | None, *, now: datetime) -> Markup:
    """Format a time relative to now, with the exact one as its title."""
    if value is None:
        return Markup('<span class="none">never</span>')
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    exact = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), exact, _relative_time(at, now)
    )


def _relative_time(at: datetime, now: datetime) -> str:
    elapsed_s = (now - at).total_seconds()
    if elapsed_s < 0:
        return f"{at:%b} {at.day}, {at:%H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"
    if elapsed_s < _MINUTE:
        return "just now"
    if elapsed_s < _HOUR:
        return f"{int(elapsed_s // _MINUTE)} min ago"
    if elapsed_s < _DAY:
        return f"{int(elapsed_s // _HOUR)} h ago"
    return f"{at:%b} {at.day}, {at:%H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def size(value: float) -> str:
    """Format bytes in the largest unit that leaves a whole number before the point."""
    at = 0
    while value >= 1000 and at < len(_UNITS) - 1:
        value, at = value / 1000, at + 1
    return f"{value:.0f} {_UNITS[at]}" if at == 0 or value >= 100 else f"{value:.1f} {_UNITS[at]}"


def number(value: float) -> str:
    """Format a number with separated thousands, and two decimal places unless it is whole."""
    return f"{value:,.{0 if value == int(value) else 2}f}".replace(",", "\u202f")


def share(value: float) -> str:
    """Format a share in percent."""
    return f"{100 * value:.0f}\u202f%"


def plain(value: object) -> str:
    """Return untrusted text with invisible characters made visible; the template escapes it."""
    return str(value).translate(_CONTROL).translate(_HIDDEN_CHARS)


def json_of(value: object) -> str:
    """Format a value as indented JSON."""
    return plain(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())


def lines(value: object) -> Markup:
    """Format text with its line breaks kept."""
    return Markup('<span class="text">{}</span>').format(escape(plain(value)))


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "moment": format_time,
    "size": size,
    "number": number,
    "share": share,
    "plain": plain,
    "json_of": json_of,
    "lines": lines,
}
