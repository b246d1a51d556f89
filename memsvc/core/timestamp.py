"""Timestamps as callers write them."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime

from memsvc.core.errors import invalid

YEARS: Final = range(1970, 9999)
"""Years that any database and any time zone can represent."""


def _in_range(timestamp: datetime) -> datetime:
    if timestamp.year not in YEARS:
        raise ValueError(f"must be in the years {YEARS.start} to {YEARS.stop - 1}")
    return timestamp.astimezone(UTC)


Timestamp = Annotated[AwareDatetime, AfterValidator(_in_range)]
"""A timestamp argument, which includes its zone."""


def utc(text: str) -> datetime:
    """Return the timestamp that a text gives, in UTC where it has no zone.

    Raises ValueError or OverflowError."""
    timestamp = datetime.fromisoformat(text)
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)


def parse_timestamp(text: str, name: str) -> datetime | None:
    """Return the timestamp that a text gives in RFC 3339, in UTC where it has no zone.

    None for ""; INVALID_ARGUMENT for other text."""
    if not text.strip():
        return None
    try:
        return utc(text.strip())
    except (ValueError, OverflowError):
        raise invalid(
            f"{name} must be a moment as in RFC 3339, such as 2026-01-31T12:00:00Z"
        ) from None
