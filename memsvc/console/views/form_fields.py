"""Parsing of form fields into arguments of tools."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from memsvc.core.errors import invalid

WHOLE_DIGITS_MAX: Final = 18


def parse_number(text: str, name: str) -> float:
    """Parse a number; 0 for an empty text, INVALID_ARGUMENT for any other."""
    try:
        return float(text or 0)
    except ValueError:
        raise invalid(f"{name} must be a number") from None


def parse_int(text: str, name: str) -> int:
    """Parse a whole number from 0 on; INVALID_ARGUMENT for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= WHOLE_DIGITS_MAX):
        raise invalid(f"{name} must be a whole number")
    return int(text)


def parse_time(text: str, name: str) -> str | None:
    """Parse a date and time field, which has no zone and means UTC; None for an empty text."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"{name} must be a date and a time, such as 2026-01-31T12:00") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def words(text: str) -> list[str]:
    """Split a text at commas and blanks; each word once, in order."""
    return list(dict.fromkeys(text.replace(",", " ").split()))


def filled(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the entries that are not empty."""
    return {name: text for name, text in fields.items() if text}
