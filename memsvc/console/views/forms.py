"""What people type into forms, as tools take it."""

from collections.abc import Mapping
from datetime import UTC, datetime

from memsvc.core.errors import invalid


def number(text: str, name: str) -> float:
    """A number; 0 for nothing, INVALID_ARGUMENT for what is none."""
    try:
        return float(text or 0)
    except ValueError:
        raise invalid(f"{name} must be a number") from None


def moment(text: str, name: str) -> str | None:
    """A moment of a field of date and time, which says no zone and means UTC; None for nothing."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"{name} must be a date and a time, such as 2026-01-31T12:00") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def words(text: str) -> list[str]:
    """What is apart by commas or blanks, each once, in order."""
    return list(dict.fromkeys(text.replace(",", " ").split()))


def filled(given: Mapping[str, str]) -> dict[str, str]:
    """What is not empty."""
    return {name: text for name, text in given.items() if text}
