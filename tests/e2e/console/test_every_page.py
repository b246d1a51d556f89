"""Each page of the console in a browser: it shows what there is, to everybody, on a phone, and
without scripts."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.e2e.console.conftest import Console
from tests.e2e.console.made_up import CROWDED, HOSTILE, LONG_PATH, USER, Caller
from tests.e2e.console.seen import NARROW, Seen, Spoken

pytestmark = pytest.mark.slow

Query = dict[str, str]

SHIFT_MAX = 0.05
CONTROLS = frozenset(
    {
        "link",
        "button",
        "textbox",
        "searchbox",
        "combobox",
        "checkbox",
        "spinbutton",
        "img",
        "image",
        "meter",
        "Date",
    }
)

PAGES: dict[str, tuple[str, Callable[[Caller], Query], str]] = {
    "overview": ("", lambda call: {}, "Overview"),
    "volume": ("volume", lambda call: {}, "sessions"),
    "sessions": ("sessions", lambda call: {}, HOSTILE),
    "sessions of a user": ("sessions", lambda call: {"user": USER}, HOSTILE),
    "session": ("session", lambda call: {"id": HOSTILE}, "I live in Kobe."),
    "long session": ("session", lambda call: {"id": "long"}, "Number 299 of 300"),
    "recalls": ("recall", lambda call: {"id": HOSTILE}, "In the prompt"),
    "recall": ("recall", lambda call: {"id": HOSTILE, "turn": "t3"}, "In the prompt"),
    "owner of the facts": ("facts", lambda call: {}, HOSTILE),
    "facts": ("facts", lambda call: {"session": HOSTILE, "user": USER}, "Oslo"),
    "past facts": ("facts", lambda call: {"user": USER, "state": "all"}, "superseded"),
    "fact": ("fact", lambda call: {"user": USER, "id": _fact(call)}, "Kobe"),
    "user id": ("memories", lambda call: {}, "Choose a user"),
    "memories": ("memories", lambda call: {"user": USER}, HOSTILE),
    "memories found": ("memories", lambda call: {"user": USER, "q": "chess"}, "found"),
    "memory": ("memory", lambda call: {"user": USER, "id": _memory(call)}, "UPDATE"),
    "memory settings": ("memory-settings", lambda call: {}, "Memory Decay Window"),
    "memory prompt": ("memory-prompt", lambda call: {}, "Reset to default"),
    "knowledge": ("knowledge", lambda call: {}, "Ships to Oslo"),
    "recalled knowledge": ("knowledge", lambda call: {"q": "ships to Bergen"}, "Ships to Bergen"),
    "block": ("block", lambda call: {"id": _block(call)}, "Ships to Oslo"),
    "boards": ("boards", lambda call: {}, HOSTILE),
    "board": ("board", lambda call: {"user": USER, "id": HOSTILE}, "Oslo"),
    "board compared": (
        "board",
        lambda call: {"user": USER, "id": HOSTILE, "version": _board_version(call)},
        "Restore this version",
    ),
    "notebook": ("notebook", lambda call: {}, "Everything"),
    "hostile document": ("notebook", lambda call: {"id": "hostile"}, "<svg onload"),
    "document compared": (
        "notebook",
        lambda call: {"id": "plans", "version": _document_version(call)},
        "Restore this version",
    ),
    "document edited": ("edit-document", lambda call: {"id": "plans"}, "Edit plans"),
    "documents found": ("notebook", lambda call: {"q": "plans"}, "Passages for"),
    "files": ("files", lambda call: {}, "notes"),
    "crowded directory": ("files", lambda call: {"path": CROWDED}, "00099.md"),
    "files found": ("files", lambda call: {"q": "half"}, "two and a half"),
    "file": ("file", lambda call: {"path": "/notes/hostile.html"}, "<script>"),
    "deep file": ("file", lambda call: {"path": LONG_PATH}, "Donaudampfschiff"),
    "file compared": (
        "file-version",
        lambda call: {"path": "/notes/versions.md", "id": _file_version(call)},
        "Changes since this version",
    ),
    "file edited": ("edit-file", lambda call: {"path": "/notes/versions.md"}, "Content"),
    "new file": ("edit-file", lambda call: {"path": "/notes/"}, "New file"),
    "calls": ("calls", lambda call: {"tool": "memory_import_session"}, "memory_import_session"),
    "playground": ("playground", lambda call: {}, "file_write"),
    "tool": ("playground", lambda call: {"tool": "memory_after_turn"}, "session_id"),
    "session from a turn": (
        "session",
        lambda call: {"id": HOSTILE, "turn": "t1"},
        "Whole session",
    ),
    "archived knowledge": (
        "knowledge",
        lambda call: {"where": "archived"},
        "The text was forgotten.",
    ),
    "jobs": ("jobs", lambda call: {}, "Failed permanently"),
    "settings": ("settings", lambda call: {}, "Retention"),
    "keys": ("keys", lambda call: {}, "full <b>key</b>"),
    "key": ("key", lambda call: {"id": call("keys_list")["keys"][0]["key_id"]}, "Rotate"),
    "usage": ("usage", lambda call: {}, "default"),
    "purge": ("purge", lambda call: {}, "The first step only counts the data"),
}


def _fact(call: Caller) -> str:
    facts = call("memory_list_facts", user_id=USER, state="all", reach="user")["facts"]
    return next(str(one["fact_id"]) for one in facts if one["value"] == "Kobe")


def _memory(call: Caller) -> str:
    return next(
        str(one["id"])
        for one in call("memories_list", user_id=USER)["results"]
        if "img" in one["memory"]
    )


def _block(call: Caller) -> str:
    return next(
        str(one["id"]) for one in call("elfmem_ls")["result"] if "Oslo leave" in one["content"]
    )


def _board_version(call: Caller) -> str:
    return str(
        call("whiteboard_history", user_id=USER, conversation_id=HOSTILE)["versions"][-1]["version"]
    )


def _document_version(call: Caller) -> str:
    return str(call("document_history", id="plans")["versions"][-1]["version"])


def _file_version(call: Caller) -> str:
    return str(call("file_list_versions", path="/notes/versions.md")["versions"][-1]["id"])


@pytest.fixture(scope="module")
def known() -> dict[str, Query]:
    """The queries that were made up already, since some of them ask the server."""
    return {}


@pytest.fixture(params=PAGES)
def wanted(
    request: pytest.FixtureRequest, known: dict[str, Query], call: Caller
) -> tuple[str, Query, str]:
    """A page, and words that stand on it."""
    place, query, words = PAGES[request.param]
    if request.param not in known:
        known[request.param] = query(call)
    return place, known[request.param], words


def check_spoken(page: list[Spoken]) -> None:
    """A page says where one is in it, in an order that makes sense, and what each of its controls
    is for."""
    assert [one.role for one in page if one.role in ("banner", "main")] == ["banner", "main"]
    assert "Console" in [one.name for one in page if one.role == "navigation"]
    levels = [one.level for one in page if one.role == "heading"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= level + 1 for level, later in pairwise(levels)), levels
    assert [one for one in page if one.role in CONTROLS and not one.name] == []
    assert "status" in [one.role for one in page]


def test_a_page_shows_what_there_is_to_everybody(
    seen: Seen, wanted: tuple[str, Query, str]
) -> None:
    """By its words, without moving while it loads; for screen readers, keyboards and eyes, in light
    and in dark, on a phone too; and nothing that anybody wrote has run."""
    place, query, words = wanted
    tab = seen.go(place, **query)
    assert words in tab.inner_text("main")
    check_spoken(seen.spoken())
    assert seen.shifted() < SHIFT_MAX
    assert seen.barriers() == []
    tab.emulate_media(color_scheme="dark")
    assert seen.barriers() == []
    assert tab.evaluate("window.__pwned") is None
    assert tab.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0
    tab.set_viewport_size(NARROW)
    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert seen.barriers("scrollable-region-focusable", "target-size", "meta-viewport") == []


@pytest.mark.parametrize(("place", "menu"), [("file", "Move"), ("block", "Edit")])
def test_a_menu_opens_on_the_screen_of_a_phone(
    seen: Seen, call: Caller, place: str, menu: str
) -> None:
    query = {"path": "/notes/versions.md"} if place == "file" else {"id": _block(call)}
    seen.tab.set_viewport_size(NARROW)
    tab = seen.go(place, **query)
    tab.locator("summary", has_text=menu).click()
    box = tab.locator(".menu form").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= NARROW["width"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


def test_a_page_says_it_without_scripts(plain: Seen, wanted: tuple[str, Query, str]) -> None:
    place, query, words = wanted
    assert words in plain.go(place, **query).inner_text("main")


@pytest.mark.parametrize(
    "place", ["", "sessions", "facts", "memories", "knowledge", "boards", "notebook", "files"]
)
def test_a_page_of_which_there_is_nothing_is_for_everybody_too(
    console: Console, opened: Callable[..., Seen], place: str
) -> None:
    seen = opened()
    seen.sign_in(console.keys.empty)
    tab = seen.go(place)
    assert tab.locator("main .empty, main article, main .tiles, main form").count() > 0
    assert "The request failed" not in tab.inner_text("main")
    assert seen.barriers() == []


@pytest.mark.parametrize(
    ("place", "query", "words"),
    [
        ("session", {"id": "no such session"}, "This session does not exist"),
        ("session", {}, "The conversations in this project"),
        ("session", {"id": "x" * 400}, "The request failed"),
        ("fact", {"id": "nothing", "user": USER}, "This fact does not exist"),
        ("file", {"path": "/no/such/file"}, "the file does not exist"),
        ("file", {"path": "/../up"}, "The request failed"),
        ("files", {"path": "/no/such"}, "This folder is empty"),
        ("board", {"user": "nobody", "id": "nothing"}, "This board does not exist"),
        ("notebook", {"id": "no-such-document"}, "The request failed"),
        ("block", {"id": "0" * 16}, "The request failed"),
        ("memory", {"user": USER, "id": "mem_none"}, ""),
        ("playground", {"tool": "no_such_tool"}, "The request failed"),
        ("key", {"id": "no-key"}, "The request failed"),
    ],
)
def test_what_is_not_there_is_told_and_the_way_on_is_shown(
    seen: Seen, place: str, query: Query, words: str
) -> None:
    seen.expected = ("status of 4",)
    tab = seen.go(place, **query)
    assert words in tab.inner_text("main")
    assert tab.locator("nav a", has_text="Overview").count() == 1
    assert seen.barriers() == []


def test_a_bad_project_is_told(seen: Seen) -> None:
    seen.expected = ("status of 4",)
    tab: Any = seen.tab
    tab.goto(seen.base.replace("/default/", "/no%20project/") + "sessions")
    assert "The request failed" in tab.inner_text("main")
    assert seen.barriers() == []
