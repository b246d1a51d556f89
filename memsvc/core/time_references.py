"""Dates that a text names: when a question asks about, and when a plan is over."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Final

from memsvc.core.analysis import NamedDate, find_date_names, normalized_text
from memsvc.core.frozen import frozen

DAY: Final = timedelta(days=1)
EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)
FIRST, LATE = "first", "latest"
SPANS_MAX: Final = 16
SIDE_CHARS: Final = 30
"""Characters before a date that are searched for a word such as "before" or "after"."""


@frozen
class TimeSpan:
    """The time from `start` until before `stop`, with its weight.

    The weight is 1 for a few days, less for a month or a year."""

    start: datetime
    stop: datetime
    weight: float

    def contains(self, timestamp: datetime) -> bool:
        """Return whether a timestamp is within it."""
        return self.start <= timestamp < self.stop


@frozen
class TimeReferences:
    """The times that a question refers to, and `order`: "first", "latest" or "" for neither."""

    spans: tuple[TimeSpan, ...] = ()
    order: str = ""


NEVER: Final = TimeReferences()

_NUMBER_WORDS: Final = """
    a an one ein eine einem einen einer un une una uno 一; couple two zwei deux dos 二 两 兩; few three drei trois tres
    einigen quelques unos unas 三; four vier quatre cuatro 四; five funf fuenf cinq cinco 五; six sechs seis 六;
    seven sieben sept siete 七; eight acht huit ocho 八; nine neun neuf nueve 九; ten zehn dix diez 十; eleven elf onze
    once; twelve zwolf douze doce
"""
_NUMBERS: Final = {
    word: number
    for number, words in enumerate(_NUMBER_WORDS.split(";"), start=1)
    for word in words.split()
}
_UNIT_WORDS: Final = (
    ("day", "day days tag tage tagen jour jours dia dias 天 日"),
    (
        "week",
        "week weeks woche wochen semaine semaines semana semanas 周 週 星期 周間 週間 個星期 个星期",
    ),
    ("month", "month months monat monate monaten mois mes meses 个月 個月 か月 ヶ月 カ月"),
    ("year", "year years jahr jahre jahren an ans annee annees ano anos 年"),
)
_UNITS: Final = {word: unit for unit, words in _UNIT_WORDS for word in words.split()}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30.44, "year": 365.25}
DAY_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        (
            "monday montag lundi lunes",
            "tuesday dienstag mardi martes",
            "wednesday mittwoch mercredi miercoles",
            "thursday donnerstag jeudi jueves",
            "friday freitag vendredi viernes",
            "saturday samstag sonnabend samedi sabado",
            "sunday sonntag dimanche domingo",
        )
    )
    for word in words.split()
}


def midnight(timestamp: datetime) -> datetime:
    """Return the start of the day of a timestamp."""
    return timestamp.replace(hour=0, minute=0, second=0, microsecond=0)


def _patterns(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for pattern in patterns)


def _matches(patterns: Iterable[re.Pattern[str]], text: str) -> Iterator[re.Match[str]]:
    return chain.from_iterable(pattern.finditer(text) for pattern in patterns)


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_PERIOD_BY_NAME: Final = {
    word: period
    for period, words in (
        ("week", "week woche semaine semana 周 週 星期"),
        ("month", "month monat mois mes 月"),
        ("year", "year jahr an annee ano 年"),
        ("weekend", "weekend wochenende week-end"),
    )
    for word in words.split()
}
_PERIOD: Final = _any(_PERIOD_BY_NAME)
_DAY_NAME: Final = _any(DAY_NUMBERS)
_AMOUNT: Final = rf"(?P<amount>\d{{1,3}}|{_any(_NUMBERS)})"
_UNIT: Final = rf"(?P<unit>{_any(_UNITS)})"
_RELATIVE_PATTERNS: Final = _patterns(
    rf"\b(?:a\s+)?{_AMOUNT}\s+(?:of\s+)?{_UNIT}\s+(?:ago|back|earlier)\b",
    rf"\b(?:vor|il y a|hace)\s+{_AMOUNT}\s+{_UNIT}\b",
    rf"{_AMOUNT}{_UNIT}(?:之|以)?前",
)
_LAST: Final = _patterns(
    rf"\b(?:last|past|previous|letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?)\s+(?P<what>{_PERIOD}|{_DAY_NAME})\b",
    rf"\b(?P<what>{_PERIOD}|{_DAY_NAME})\s+(?:derniere?|passee?|pasad[oa])\b",
    r"(?:上|先|去)(?:个|個)?(?P<what>周|週|星期|月|年)",
)
_THIS: Final = _patterns(
    rf"\b(?:this|diese[nrsm]?|cette|cet|ce|esta|este)\s+(?P<what>{_PERIOD})\b",
    r"(?:这|這|本|今)(?:个|個)?(?P<what>周|週|星期|月|年)",
)
_AHEAD: Final = _patterns(
    rf"\b(?:in|within|dans|dentro de|en)\s+(?:a\s+)?{_AMOUNT}\s+(?:of\s+)?{_UNIT}\b",
    rf"{_AMOUNT}{_UNIT}(?:之|以)?[后後]",
)
_NEXT: Final = _patterns(
    rf"\b(?:next|coming|nachste[nrsm]?|kommende[nrsm]?|proxim[oa])\s+(?P<what>{_PERIOD}|{_DAY_NAME})\b",
    rf"\b(?P<what>{_PERIOD}|{_DAY_NAME})\s+(?:prochaine?|proxim[oa]|que viene)\b",
    r"(?:下|来|來)(?:个|個)?(?P<what>周|週|星期|月)|(?:明|来|來)(?P<year>年)",
)
_DAY_AHEAD: Final = re.compile(rf"\b(?P<what>{_DAY_NAME})\b")
_TOMORROW: Final = (
    (2, re.compile(r"ubermorgen|apres-demain|pasado manana|day after tomorrow|后天|後天|明後日")),
    (1, re.compile(r"\b(?:tomorrow|morgen|demain|manana)\b|明天|明日")),
)
_DAYS: Final = (
    (0, re.compile(r"\b(?:today|tonight|heute|aujourd'hui|hoy)\b|今日|今天|今晚")),
    (
        1,
        re.compile(
            r"(?<!before )\b(?:yesterday|last night|gestern|ayer|hier (?:soir|matin))\b|昨日|昨天|昨晚"
        ),
    ),
    (
        2,
        re.compile(
            r"\b(?:the day before yesterday|vorgestern|avant-hier|anteayer)\b|前天|一昨日|おととい"
        ),
    ),
)
_FRENCH_CONTEXT: Final = re.compile(
    r"\b(?:je|j'ai|nous|tu|vous|il|elle|on|avons|avez|est-ce|qu'|que|quoi)\b"
)
_YEAR: Final = re.compile(r"(?<![\d.,])(?P<year>19[7-9]\d|20\d\d)(?![\d.,]\d|\d)")
_SIDE: Final = re.compile(
    r"(?:\b(?:(?P<before>before|until|by|prior to|vor|bis|avant|jusqu'en|antes de|hasta)"
    r"|(?P<after>after|since|nach|seit|apres|depuis|despues de|desde))"
    r"(?:\s+(?:the|dem|der|le|la|el|en|in|de|l'))*\s*)$"
)
_ORDER_PATTERNS: Final = (
    (
        LATE,
        re.compile(
            r"\b(?:last time|latest|most recent|recently|lately|newest|zuletzt|letzte[sn]?"
            r" mal|neulich|kurzlich"
            r"|neueste[nrs]?|derniere fois|recemment|dernierement|ultima"
            r" vez|recientemente|ultimamente)\b"
            r"|最近|上次|最後に|最新|この前"
        ),
    ),
    (
        FIRST,
        re.compile(
            r"\b(?:first(?! name)|earliest|originally|zuerst|erstmals|erste[nrsm]? mal|premiere"
            r" fois|d'abord"
            r"|primera vez|primero)\b|最初|第一次|初めて"
        ),
    ),
)


def read(text: str, now: datetime) -> TimeReferences:
    """Return the time references of a question.

    Understands English, German, French, Spanish and, for simple words, Chinese and Japanese.
    Explicit times (a day, a month with its year, a year) count with `before` and `after`; months
    and days without a year are left to `analysis.parse_date_names`."""
    normalized = normalized_text(text)
    spans = list(islice(chain(_relative(normalized, now), _named(normalized)), SPANS_MAX))
    order = next((name for name, pattern in _ORDER_PATTERNS if pattern.search(normalized)), "")
    return TimeReferences(tuple(spans), order) if spans or order else NEVER


def plan_end(text: str, said_at: datetime) -> datetime | None:
    """Return when the last day is over that a plan names; None where it names none.

    Of what is vague ("next Friday", "in two months") the later reading: a plan is not over before
    its day."""
    spans = _ahead(normalized_text(text), midnight(said_at))
    ends = [span.stop for span in spans if span.stop > said_at]
    return max(ends, default=None)


def _ahead(text: str, day_start: datetime) -> Iterator[TimeSpan]:
    for days, pattern in (*_TOMORROW, _DAYS[0]):
        if pattern.search(text):
            yield _days(day_start + days * DAY, 1)
    for match in _matches(_AHEAD, text):
        amount = _NUMBERS.get(match["amount"]) or int(match["amount"])
        length = amount * _UNIT_DAYS[_UNITS[match["unit"]]] * DAY
        yield TimeSpan(day_start, day_start + min(length, 36500 * DAY) + DAY, 1.0)
    for match in _DAY_AHEAD.finditer(text):
        days = (DAY_NUMBERS[match["what"]] - day_start.weekday() - 1) % 7 + 1
        yield _days(day_start + days * DAY, 1)
    yield from _next(text, day_start)
    for _, _, named in find_date_names(text):
        years = [named.year] if named.year else [day_start.year, day_start.year + 1]
        dated = [_of_date(replace(named, year=year)) for year in years]
        yield from islice((span for span in dated if span and span.stop > day_start), 1)


def _next(text: str, day_start: datetime) -> Iterator[TimeSpan]:
    """Yield the periods that go on or come next, as long as they may be."""
    for match in _matches(_NEXT, text):
        what = match["what"] or match.groupdict().get("year") or ""
        days = {"month": 62, "year": 731}.get(_PERIOD_BY_NAME.get(what, ""), 15)
        yield TimeSpan(day_start, _start_of(day_start, "week") + days * DAY, 1.0)
    for match in _matches(_THIS, text):
        period = _PERIOD_BY_NAME[match["what"]]
        start, days = _start_of(day_start, period), {"month": 31, "year": 366}.get(period, 7)
        yield TimeSpan(start, start + days * DAY, 1.0)


def _relative(text: str, now: datetime) -> Iterator[TimeSpan]:
    day_start = midnight(now)
    for days, pattern in _DAYS:
        if pattern.search(text):
            yield _days(day_start - days * DAY, 1)
    if re.search(r"\bhier\b", text) and _FRENCH_CONTEXT.search(text):  # in German it means here
        yield _days(day_start - DAY, 1)
    for match in _matches(_RELATIVE_PATTERNS, text):
        amount = _NUMBERS.get(match["amount"]) or int(match["amount"])
        yield from _relative_span(day_start, amount, _UNITS[match["unit"]])
    for match in _matches(_LAST, text):
        yield _last(day_start, match["what"])
    for match in _matches(_THIS, text):
        start = _start_of(day_start, _PERIOD_BY_NAME[match["what"]])
        stop = max(now, start) + 2 * DAY
        yield TimeSpan(start, stop, _weight(stop - start))


def _days(start: datetime, count: int) -> TimeSpan:
    return TimeSpan(start, start + count * DAY, _weight(count * DAY))


def _weight(length: timedelta) -> float:
    """Return the weight of a time span: a week counts as much as a day, a year a third of it."""
    return 1.0 if length <= 8 * DAY else 0.7 if length <= 62 * DAY else 0.35


def _relative_span(day_start: datetime, amount: int, unit: str) -> Iterator[TimeSpan]:
    days = amount * _UNIT_DAYS[unit]
    if 0 < days < (day_start - EARLIEST).days - 400:
        radius = timedelta(days=0 if unit == "day" else round(_UNIT_DAYS[unit] / 2))
        center = midnight(day_start - timedelta(days=days))
        yield TimeSpan(center - radius, center + radius + DAY, _weight(2 * radius + DAY))


def _last(day_start: datetime, what: str) -> TimeSpan:
    if what in DAY_NUMBERS:
        return _days(day_start - ((day_start.weekday() - DAY_NUMBERS[what] - 1) % 7 + 1) * DAY, 1)
    period = _PERIOD_BY_NAME[what]
    if period == "weekend":
        return _days(day_start - (day_start.weekday() + 2) * DAY, 2)
    stop = _start_of(day_start, period)
    start = _start_of(stop - DAY, period)
    return TimeSpan(start, stop, _weight(stop - start))


def _start_of(day_start: datetime, period: str) -> datetime:
    match period:
        case "month":
            return day_start.replace(day=1)
        case "year":
            return day_start.replace(month=1, day=1)
        case "weekend":
            return (
                day_start + (5 - day_start.weekday()) * DAY
                if day_start.weekday() < 5
                else day_start - (day_start.weekday() - 5) * DAY
            )
        case _:
            return day_start - day_start.weekday() * DAY


def _named(text: str) -> Iterator[TimeSpan]:
    """Yield the dates with a year in a text, and the years that stand alone."""
    taken: set[int] = set()
    for start, stop, named in find_date_names(text):
        taken.update(range(start, stop))
        if (span := _of_date(named)) is not None:
            yield from _apply_direction(
                text[max(0, start - SIDE_CHARS) : start], span, is_year=False
            )
    for match in _YEAR.finditer(text):
        if match.start() not in taken:
            year = int(match["year"])
            span = TimeSpan(
                datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC), 0.35
            )
            before = text[max(0, match.start() - SIDE_CHARS) : match.start()]
            yield from _apply_direction(before, span, is_year=True)


def _apply_direction(before: str, span: TimeSpan, *, is_year: bool) -> Iterator[TimeSpan]:
    """Yield the span, or the time before or after it where the words say so.

    A named date by itself is left to `parse_date_names`."""
    side = _SIDE.search(before)
    if side is not None and side["before"]:
        yield TimeSpan(EARLIEST, span.start, 0.35)
    elif side is not None:
        yield TimeSpan(span.start, LATEST, 0.35)
    elif is_year:
        yield span


def _of_date(named: NamedDate) -> TimeSpan | None:
    if named.year is None or not 1 <= named.year < 9999:
        return None
    start = datetime(named.year, named.month, 1, tzinfo=UTC)
    if named.day is None:
        return TimeSpan(start, (start + 32 * DAY).replace(day=1), 0.7)
    try:
        return _days(start.replace(day=named.day), 1)
    except ValueError:
        return None
