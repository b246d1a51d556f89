"""Timestamps as callers write them."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime

from memsvc.core.errors import MemsvcError, invalid

YEARS: Final = range(1970, 9999)
"""Years that any database and any time zone can represent."""
YEAR_MIN: Final = 1000
"""First year of which a message may be."""
TIME_FORMS: Final = (
    "an RFC 3339 time, such as 2026-01-31T12:00:00Z, or a number of seconds or milliseconds"
    " since 1970"
)


def _in_range(timestamp: datetime) -> datetime:
    if timestamp.year not in YEARS:
        raise ValueError(f"must be in the years {YEARS.start} to {YEARS.stop - 1}")
    return timestamp.astimezone(UTC)


Timestamp = Annotated[AwareDatetime, AfterValidator(_in_range)]
"""A timestamp argument, which includes its zone."""


_LEAP_SECOND: Final = re.compile(r"([T ]\d\d:?\d\d:?)60(?!\d)")
_SECONDS: Final = range(10**8, 10**10)
_MILLISECONDS: Final = range(10**11, 10**13)
_DIGITS: Final = re.compile(r"\d{9,13}(\.\d+)?")


def read_time(value: Any) -> datetime:
    """Return the time that a caller gave, with the offset that it gave, in UTC without one.

    Reads RFC 3339 in any case, with leap seconds, and seconds or milliseconds since 1970 as a
    number or as digits. Numbers below 1973 are no times: a position or a duration is more likely.
    Raises ValueError or OverflowError."""
    if isinstance(value, str):
        text = value.strip().upper()
        if not _DIGITS.fullmatch(text):
            return _read_text(text)
        value = float(text)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("must be a time")
    if int(value) in _MILLISECONDS:
        value /= 1000
    elif int(value) not in _SECONDS:
        raise ValueError("must be seconds or milliseconds since 1970")
    return datetime.fromtimestamp(value, UTC)


def _read_text(text: str) -> datetime:
    whole = _LEAP_SECOND.sub(r"\g<1>59", text)
    time = datetime.fromisoformat(whole) + timedelta(seconds=whole != text)
    if time.year < YEAR_MIN:  # no time at all, as some languages write it
        raise ValueError(f"must not be before the year {YEAR_MIN}")
    return with_offset(time.astimezone(UTC) if time.tzinfo else time, offset_of(time))


def offset_of(time: datetime) -> int | None:
    """Return the minutes by which a time is ahead of UTC; None for UTC itself and for no offset."""
    minutes = (time.utcoffset() or timedelta()) // timedelta(minutes=1)
    return minutes or None


def with_offset(time: datetime, minutes: int | None) -> datetime:
    """Return a time in UTC as clocks with this offset show it."""
    zone = timezone(timedelta(minutes=minutes)) if minutes else UTC
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(zone)


def short_time(time: datetime) -> str:
    """Return date, minute and offset of a time, "Z" for UTC."""
    # a format string takes ten times as long
    return time.isoformat(" ", "minutes").replace("+00:00", "Z")


def utc(value: Any) -> datetime:
    """Return the same as `read_time`, in UTC."""
    return read_time(value).astimezone(UTC)


def parse_timestamp(text: str, name: str) -> datetime | None:
    """Return the timestamp that a text gives, as `read_time`, in UTC.

    None for ""; INVALID_ARGUMENT for other text."""
    if not text.strip():
        return None
    try:
        return utc(text)
    except (ValueError, OverflowError):
        raise unreadable_time(name) from None


def unreadable_time(name: str) -> MemsvcError:
    """Return the error for a time that cannot be read, by the name of its field."""
    return invalid(f"{name} must be {TIME_FORMS}")
