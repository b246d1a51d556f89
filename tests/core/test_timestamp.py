"""Times as callers and exports write them."""

from typing import Any

import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.items import message_at, normalize_item
from memsvc.core.timestamp import read_time, short_time


@pytest.mark.parametrize(
    ("given", "time"),
    [
        ("2023-11-14T22:13:20Z", "2023-11-14T22:13:20+00:00"),
        ("2023-11-14t22:13:20z", "2023-11-14T22:13:20+00:00"),
        ("2023-11-14 22:13:20", "2023-11-14T22:13:20+00:00"),
        ("2023-11-14", "2023-11-14T00:00:00+00:00"),
        ("20231114", "2023-11-14T00:00:00+00:00"),
        ("2026-06-12T02:30:00+08:00", "2026-06-12T02:30:00+08:00"),
        ("2026-06-12T02:30:00-00:00", "2026-06-12T02:30:00+00:00"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
        ("2017-01-01t08:59:60.5+09:00", "2017-01-01T09:00:00.500000+09:00"),
        (1700000000, "2023-11-14T22:13:20+00:00"),
        (1700000000.25, "2023-11-14T22:13:20.250000+00:00"),
        (1700000000000, "2023-11-14T22:13:20+00:00"),
        ("1700000000", "2023-11-14T22:13:20+00:00"),
        ("1700000000000", "2023-11-14T22:13:20+00:00"),
    ],
)
def test_time_is_read_with_its_offset(given: Any, time: str) -> None:
    assert read_time(given).isoformat() == time


UNREADABLE = [
    *("14/11/2023", "Tue, 14 Nov 2023 22:13:20 GMT", "2023-11-14 22:13:20 UTC", "yesterday"),
    *(
        "2023-13-01",
        "0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00Z",
        12.5,
        0,
        -1700000000,
        1700000000000000,
        1e300,
    ),
    *(True, [], {"seconds": 1700000000}),
]


@pytest.mark.parametrize("given", UNREADABLE)
def test_value_that_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        read_time(given)


@pytest.mark.parametrize("given", UNREADABLE)
@pytest.mark.parametrize(
    ("field", "of_item"),
    [
        ("metadata.occurred_at", lambda given: {"metadata": {"occurred_at": given}}),
        ("timestamp", lambda given: {"timestamp": given}),
        ("created_at", lambda given: {"created_at": given}),
        ("create_time", lambda given: {"create_time": given}),
    ],
)
def test_item_with_unreadable_time_is_refused_by_the_name_of_the_field(
    field: str, of_item: Any, given: Any
) -> None:
    with pytest.raises(MemsvcError) as refused:
        normalize_item({"role": "user", "content": "hi"} | of_item(given), "input_items[3]")
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert f"input_items[3].{field} must be an RFC 3339 time" in refused.value.message


@pytest.mark.parametrize("field", ["timestamp", "created_at", "create_time"])
def test_time_beside_the_content_is_read_unless_the_metadata_has_one(field: str) -> None:
    item = {"role": "user", "content": "hi", field: 1700000000}
    assert str(message_at(normalize_item(item, "x"))) == "2023-11-14 22:13:20+00:00"
    item["metadata"] = {"occurred_at": "2020-02-02T02:02:02Z"}
    assert str(message_at(normalize_item(item, "x"))) == "2020-02-02 02:02:02+00:00"


@pytest.mark.parametrize(
    "nothing", [{}, {"metadata": None}, {"metadata": {"occurred_at": None}}, {"timestamp": ""}]
)
def test_item_without_a_time_has_none(nothing: dict[str, Any]) -> None:
    assert message_at(normalize_item({"role": "user", "content": "hi"} | nothing, "x")) is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("2026-06-12T02:30:00+08:00", "2026-06-12 02:30+08:00"),
        ("2026-06-12T02:30:00-03:30", "2026-06-12 02:30-03:30"),
        ("2026-06-12T02:30:59.5Z", "2026-06-12 02:30Z"),
        ("2026-06-12", "2026-06-12 00:00Z"),
    ],
)
def test_short_time_shows_day_and_minute_by_the_offset(given: str, shown: str) -> None:
    assert short_time(read_time(given)) == shown
