"""What the console says when something is out of reach: that it is, and never that there is
nothing."""

import pytest

from tests.e2e.console.conftest import Console
from tests.e2e.console.made_up import CROWDED, HOSTILE, USER
from tests.e2e.console.seen import Seen

pytestmark = pytest.mark.slow

SAID = "The database cannot be reached at the moment"
TRIES_MAX = 50
PAGES: list[tuple[str, dict[str, str]]] = [
    ("sessions", {}),
    ("session", {"id": HOSTILE}),
    ("facts", {"user": USER}),
    ("memories", {"user": USER}),
    ("knowledge", {}),
    ("boards", {}),
    ("notebook", {}),
    ("files", {"path": CROWDED}),
    ("calls", {}),
    ("jobs", {}),
    ("usage", {}),
]


def test_when_the_server_is_gone_it_is_told_and_not_taken_for_nothing(seen: Seen) -> None:
    seen.expected = ("Failed to load resource", "htmx:")
    tab = seen.go("sessions")
    seen.context.set_offline(True)
    try:
        tab.type("#q", "lon")
        tab.locator("#said .alert").wait_for()
        assert "cannot be reached" in tab.inner_text("#said")
        assert HOSTILE in tab.inner_text("#rows")
    finally:
        seen.context.set_offline(False)


def again(seen: Seen) -> None:
    """Try the page again until its database is there again, as a person would."""
    for _ in range(TRIES_MAX):
        if seen.tab.inner_text("h1") != SAID:
            return
        with seen.tab.expect_navigation():
            seen.tab.get_by_role("link", name="Try again").click()
    raise AssertionError(seen.tab.inner_text("body"))


def test_without_its_database_a_page_says_so_and_shows_nothing_as_empty(
    console: Console, seen: Seen
) -> None:
    seen.expected = ("status of 503",)
    with console.path.cut():
        for place, query in PAGES:
            tab = seen.go(place, **query)
            assert tab.inner_text("h1") == SAID, place
            assert tab.locator(".empty, table, .tile").count() == 0, place
        assert seen.barriers() == []
    again(seen)
    assert HOSTILE in seen.go("sessions").inner_text("main")


def test_without_its_database_the_overview_says_so_and_shows_no_numbers(
    console: Console, seen: Seen
) -> None:
    seen.expected = ("status of 503",)
    with console.path.cut():
        tab = seen.go("")
        assert "cannot be reached at the moment" in tab.inner_text("main")
        assert "There are no sessions yet" not in tab.inner_text("main")
        assert "Nothing has failed" not in tab.inner_text("main")
        assert seen.barriers() == []
    tab = seen.go("")
    assert HOSTILE in tab.inner_text("main")


def test_a_list_that_is_searched_while_the_database_is_out_of_reach_says_so(
    console: Console, seen: Seen
) -> None:
    seen.expected = ("status of 503", "htmx:")
    tab = seen.go("sessions")
    with console.path.cut():
        tab.type("#q", "lon")
        tab.locator("#rows [role=alert]").wait_for()
        assert "No matching sessions" not in tab.inner_text("#rows")
    tab.type("#q", "g")
    tab.locator("#rows tbody tr").wait_for()


def test_without_the_database_nobody_comes_in_and_no_key_is_called_wrong(
    console: Console, seen: Seen
) -> None:
    seen.expected = ("status of 503",)
    with console.path.cut():
        tab = seen.tab
        tab.goto(f"{console.url}/console/")
        tab.fill("#key", "a key that nobody has tried yet")
        tab.press("#key", "Enter")
        tab.locator("[role=alert]").wait_for()
        assert "cannot be reached at the moment" in tab.inner_text("[role=alert]")
        assert "unknown" not in tab.inner_text("[role=alert]")
