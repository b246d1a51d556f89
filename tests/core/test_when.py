"""What questions say of time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.time_references import NEVER, SPANS_MAX, read

NOW = datetime(2026, 5, 20, 15, tzinfo=UTC)  # a Wednesday


def spans(text: str) -> list[tuple[str, str]]:
    """The days at which the spans begin, and those before which they end."""
    return [
        (span.start.date().isoformat(), span.stop.date().isoformat())
        for span in read(text, NOW).spans
    ]


@pytest.mark.parametrize(
    ("start", "stop", "texts"),
    [
        (
            "2026-05-20",
            "2026-05-21",
            ["What did I plan for today?", "heute", "aujourd'hui", "hoy", "今天", "今日"],
        ),
        (
            "2026-05-19",
            "2026-05-20",
            ["Whom did I meet yesterday?", "Wen traf ich gestern?", "ayer", "昨天", "昨日"],
        ),
        ("2026-05-19", "2026-05-20", ["Qu'est-ce que j'ai dit hier ?", "Who called last night?"]),
        (
            "2026-05-18",
            "2026-05-19",
            ["the day before yesterday", "vorgestern", "avant-hier", "anteayer", "前天"],
        ),
        (
            "2026-05-11",
            "2026-05-18",
            ["last week", "Was war letzte Woche?", "la semaine dernière", "la semana pasada"],
        ),
        ("2026-05-11", "2026-05-18", ["上周我说了什么", "先週", "上星期"]),
        (
            "2026-04-01",
            "2026-05-01",
            ["last month", "letzten Monat", "le mois dernier", "el mes pasado", "上个月", "先月"],
        ),
        (
            "2025-01-01",
            "2026-01-01",
            ["last year", "letztes Jahr", "l'an dernier", "el año pasado", "去年"],
        ),
        ("2026-05-16", "2026-05-18", ["last weekend", "letztes Wochenende"]),
        (
            "2026-05-18",
            "2026-05-19",
            ["last Monday", "letzten Montag", "lundi dernier", "lunes pasado"],
        ),
        ("2026-05-13", "2026-05-14", ["last Wednesday"]),
        (
            "2026-05-17",
            "2026-05-18",
            ["three days ago", "vor 3 Tagen", "il y a trois jours", "hace tres días", "三天前"],
        ),
        (
            "2026-03-05",
            "2026-04-05",
            ["two months ago", "vor zwei Monaten", "il y a deux mois", "hace dos meses"],
        ),
        (
            "2023-01-01",
            "2024-01-01",
            ["What happened in 2023?", "Was geschah 2023?", "en 2023", "2023年"],
        ),
        (
            "0001-01-01",
            "2023-05-01",
            ["before May 2023", "vor Mai 2023", "avant mai 2023", "antes de mayo de 2023"],
        ),
        (
            "2024-03-03",
            "9999-12-31",
            ["after 3 March 2024", "since 2024-03-03", "nach dem 3. März 2024"],
        ),
        ("2021-01-01", "9999-12-31", ["since 2021", "seit 2021", "depuis 2021", "desde 2021"]),
    ],
)
def test_a_time_is_read_against_now(start: str, stop: str, texts: list[str]) -> None:
    for text in texts:
        assert spans(text) == [(start, stop)], text


def test_what_goes_on_has_begun_and_holds_now() -> None:
    for text in (
        "this week",
        "diese Woche",
        "cette semaine",
        "esta semana",
        "这周",
        "今週",
        "this month",
        "今年",
    ):
        [span] = read(text, NOW).spans
        assert span.contains(NOW), text
    [weekend] = read("this weekend", NOW).spans
    assert weekend.contains(datetime(2026, 5, 23, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    "text", ["recently", "last time", "the latest", "neulich", "récemment", "últimamente", "最近"]
)
def test_the_latest_is_asked_for(text: str) -> None:
    assert read(f"{text}?", NOW).order == "latest"


@pytest.mark.parametrize(
    "text", ["first", "the first time", "zum ersten Mal", "la première fois", "primera vez", "最初"]
)
def test_the_first_is_asked_for(text: str) -> None:
    assert read(f"When, {text}?", NOW).order == "first"


@pytest.mark.parametrize(
    "text",
    [
        "", "Ist er hier?", "What is my first name?", "It costs 1,999 dollars", "room 20231", "May I?", "in May",
        "three days of rain", "the years go by", "in version 2.2023.1",
    ],
)  # fmt: skip
def test_what_names_no_time_has_none(text: str) -> None:
    assert read(text, NOW) == NEVER


def test_a_short_time_tells_more_than_a_long_one() -> None:
    weights = [
        read(text, NOW).spans[0].weight
        for text in ("yesterday", "last week", "last month", "last year")
    ]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] > weights[2] > weights[3] > 0


@given(st.text(max_size=80), st.integers(0, 36_000))
def test_no_text_breaks_it(text: str, day: int) -> None:
    now = datetime(1999, 1, 1, tzinfo=UTC) + timedelta(days=day)
    for padded in (text, f"{text} days ago", f"before {text} 2023-02-31", f"999 {text} years ago"):
        when = read(padded, now)
        assert len(when.spans) <= SPANS_MAX
        assert all(span.start <= span.stop and span.weight > 0 for span in when.spans)
    assert read("999 years ago", now).spans[0].stop < now - timedelta(days=360_000)
