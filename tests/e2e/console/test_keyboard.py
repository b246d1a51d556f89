"""The console without a mouse, and the parts of pages that come behind them."""

import pytest

from tests.e2e.console.made_up import CROWDED, HOSTILE, USER
from tests.e2e.console.seen import NARROW, Seen

pytestmark = pytest.mark.slow

VISIBLE = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const isOutlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return box.width > 0 && box.height > 0 && box.left >= 0 && isOutlined;
}"""
REACHABLE = """() => [...document.querySelectorAll(
  'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]'
)].filter((one) => one.checkVisibility()).length"""
PLACE = """() => {
  const one = document.activeElement;
  return [one.tagName, (one.innerText || one.id || '').trim()];
}"""

CURRENT_IN_VIEW = """() => {
  const box = document.querySelector(".places [aria-current]").getBoundingClientRect();
  return box.width > 0 && box.left >= 0 && box.right <= innerWidth;
}"""


@pytest.mark.parametrize(
    ("place", "query"),
    [("sessions", {}), ("file", {"path": "/notes/versions.md"}), ("facts", {"user": USER})],
)
def test_the_keyboard_goes_through_a_page_in_its_order_and_is_seen_where_it_is(
    seen: Seen, place: str, query: dict[str, str]
) -> None:
    tab = seen.go(place, **query)
    tab.keyboard.press("Tab")
    assert tab.evaluate(PLACE) == ["A", "Skip to main content"]
    assert tab.evaluate(VISIBLE)
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.getElementById('main').contains(document.activeElement)")
    tab.goto(tab.url.partition("#")[0])
    wanted = tab.evaluate(REACHABLE)
    reached, order = 0, []
    for _ in range(min(wanted, 40)):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement === document.body"):
            break
        assert tab.evaluate(VISIBLE), tab.evaluate(PLACE)
        order.append(
            tab.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"),
        )
        reached += 1
    assert order == sorted(order)
    assert reached >= min(wanted, 20)


def test_on_a_narrow_screen_the_place_one_is_at_is_in_view_and_the_keyboard_begins_before_it(
    seen: Seen,
) -> None:
    seen.tab.set_viewport_size(NARROW)
    tab = seen.go("settings")
    assert tab.evaluate("document.querySelector('.places').scrollLeft > 0")
    assert tab.evaluate(CURRENT_IN_VIEW)
    tab.keyboard.press("Tab")
    assert tab.evaluate(PLACE) == ["A", "Skip to main content"]


@pytest.mark.parametrize(
    "place", ["sessions", "files", "notebook", "boards", "memories", "knowledge"]
)
def test_a_stroke_goes_to_the_search(seen: Seen, place: str) -> None:
    tab = seen.go(place)
    tab.keyboard.press("/")
    assert tab.evaluate("document.activeElement.type") == "search"
    tab.keyboard.type("a/b")
    assert tab.evaluate("document.activeElement.value") == "a/b"


def test_sessions_are_found_as_somebody_types_and_the_address_stays(seen: Seen) -> None:
    tab = seen.go("sessions")
    tab.type("#q", "lon")
    tab.locator("#rows a", has_text=HOSTILE).wait_for(state="detached")
    assert tab.locator("#rows tbody tr").count() == 1
    assert tab.evaluate("document.activeElement.id") == "q"
    assert tab.url == seen.address("sessions")


def test_a_long_session_is_read_to_its_beginning(seen: Seen) -> None:
    tab = seen.go("session", id="long")
    while tab.locator("li.more a").count():
        before = tab.locator("li.turn").count()
        tab.locator("li.more a").click()
        tab.locator("li.turn").nth(before).wait_for()
    assert "Number 0 of 300" in tab.inner_text("main")
    assert tab.locator("li.turn").count() == 300


def test_somebody_finds_out_why_an_agent_knew_something(seen: Seen) -> None:
    """From a session to what its prompts had, to the fact, to the turn in which it was said, and
    what that one had."""
    tab = seen.go("session", id=HOSTILE)
    tab.get_by_role("link", name="Recalls").click()
    recalled = tab.locator("tr", has_text="home").filter(has_text="History").first
    recalled.get_by_role("link", name="History").click()
    assert tab.inner_text("h1") == "History"
    tab.locator("li", has_text="Kobe").get_by_role("link").click()
    said = tab.locator("li.turn[aria-current]")
    assert "I live in Kobe." in said.inner_text()
    assert tab.locator("li.turn").first.get_attribute("aria-current") == "true"
    said.get_by_role("link", name="What was recalled, and why").click()
    tab.locator(".crumbs a").last.click()
    assert tab.locator("li.turn").count() == 2


def test_a_link_in_a_document_leads_to_the_document(seen: Seen) -> None:
    tab = seen.go("notebook")
    tab.locator("article").get_by_role("link", name="[[plans]]").click()
    assert tab.inner_text("article h2") == "plans"
    assert "Second." in tab.inner_text("article")


def test_a_crowded_directory_is_shown_page_by_page(seen: Seen) -> None:
    tab = seen.go("files", path=CROWDED)
    assert tab.locator("tbody tr").count() == 101
    tab.locator("tr.more a").click()
    tab.locator("tbody tr").nth(150).wait_for()
    assert "00199.md" in tab.inner_text("tbody")


def test_pages_of_a_crowded_directory_work_without_scripts(plain: Seen) -> None:
    tab = plain.go("files", path=CROWDED)
    with tab.expect_navigation():
        tab.locator("tr.more a").click()
    assert "00199.md" in tab.inner_text("tbody")
    assert "00000.md" not in tab.inner_text("tbody")
