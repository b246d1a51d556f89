"""Timestamps as callers write them."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime

from memsvc.core.errors import invalid

YEARS: Final = range(1970, 9999)
"""Years that any database and any time zone can represent."""


def _in_range(moment: datetime) -> datetime:
    if moment.year not in YEARS:
        raise ValueError(f"must be in the years {YEARS.start} to {YEARS.stop - 1}")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_range)]
"""A timestamp argument, which includes its zone."""


def moment_of(text: str, name: str) -> datetime | None:
    """Return the timestamp that a text gives in RFC 3339, in UTC where it has no zone.

    None for ""; INVALID_ARGUMENT for other text."""
    if not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid(f"{name} must be a moment as in RFC 3339, such as 2026-01-31T12:00:00Z") from None
