"""Who comes in, what the browser keeps of it, and how it ends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.console.conftest import Console, served_on
from tests.e2e.console.made_up import HOSTILE
from tests.e2e.console.seen import Seen
from tests.e2e.process import Served

pytestmark = pytest.mark.slow


def test_the_door_is_for_everybody(console: Console, opened: Callable[..., Seen]) -> None:
    seen = opened()
    seen.tab.goto(f"{console.url}/console/")
    assert seen.tab.evaluate("document.activeElement.id") == "key"
    assert seen.barriers() == []
    seen.tab.emulate_media(color_scheme="dark")
    assert seen.barriers() == []
    assert seen.shifted() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_a_wrong_key_and_one_that_expired_are_told_apart_by_nobody(
    console: Console, opened: Callable[..., Seen], scripts: bool
) -> None:
    seen = opened(java_script_enabled=scripts)
    seen.expected = ("status of 403",)
    for key in ("nobody's key", console.keys.expired):
        seen.tab.goto(f"{console.url}/console/")
        seen.tab.fill("#key", key)
        seen.tab.click("button[type=submit]")
        assert "unknown, revoked or expired" in seen.tab.inner_text("[role=alert]")
        assert seen.tab.input_value("#key") == ""
    assert seen.context.cookies() == []


def test_whoever_guesses_keys_is_told_to_wait(
    console: Console, opened: Callable[..., Seen], tmp_path: Path
) -> None:
    with Served(
        tmp_path / "data", **served_on(console.urls), MEMSVC_AUTH__FAILURES_A_MINUTE="2"
    ) as served:
        seen = opened(url=served.url)
        seen.expected = ("status of 4",)
        for number in range(3):
            seen.tab.goto(f"{served.url}/console/")
            seen.tab.fill("#key", f"guess {number}")
            seen.tab.click("button[type=submit]")
        assert "Too many invalid keys" in seen.tab.inner_text("[role=alert]")


def test_signing_out_leaves_nothing_and_going_back_shows_nothing(
    console: Console, opened: Callable[..., Seen]
) -> None:
    seen = opened()
    seen.sign_in(console.keys.full)
    seen.go("session", id=HOSTILE)
    seen.go("sessions")
    [cookie] = seen.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert console.keys.full not in str(cookie)
    with seen.tab.expect_navigation():
        seen.tab.click("text=Sign out")
    assert seen.tab.url == f"{console.url}/console/"
    assert seen.context.cookies() == []
    for _ in range(2):
        seen.tab.go_back()
        seen.tab.wait_for_url(f"{console.url}/console/")
        assert HOSTILE not in seen.tab.content()
        assert seen.tab.locator("#key").count() == 1
    assert seen.tab.evaluate("localStorage.length + sessionStorage.length") == 0
    assert seen.tab.evaluate("async () => [await caches.keys(), await indexedDB.databases()]") == [
        [],
        [],
    ]
    assert (
        seen.tab.evaluate("async () => (await navigator.serviceWorker.getRegistrations()).length")
        == 0
    )


def test_two_tabs_of_one_browser_are_two_tenants_at_once(
    console: Console, opened: Callable[..., Seen]
) -> None:
    seen = opened()
    full = seen.sign_in(console.keys.full)
    other = seen.context.new_page()
    empty = seen.sign_in(console.keys.empty, other)
    assert full != empty
    for _ in range(2):
        assert HOSTILE in seen.go("sessions").inner_text("main")
        other.goto(f"{empty}sessions")
        assert "No sessions yet" in other.inner_text("main")
    with other.expect_navigation():
        other.click("text=Sign out")
    assert HOSTILE in seen.go("sessions").inner_text("main")


def test_a_slot_does_not_open_to_the_cookie_of_another(
    console: Console, opened: Callable[..., Seen]
) -> None:
    one, two = opened(), opened()
    one.sign_in(console.keys.full)
    two.sign_in(console.keys.empty)
    [cookie] = two.context.cookies()
    slot = one.base.split("/")[4]
    two.context.add_cookies([cookie | {"path": f"/console/{slot}/"}])
    two.tab.goto(one.base)
    assert two.tab.url == f"{console.url}/console/"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_key_that_is_revoked_ends_at_the_next_click(
    console: Console, opened: Callable[..., Seen], scripts: bool
) -> None:
    call = console.caller()
    made = call("keys_create", label="for a while", permissions=["read"])
    seen = opened(java_script_enabled=scripts)
    seen.sign_in(made["text"])
    seen.tab.click("nav >> text=Sessions")
    assert HOSTILE in seen.tab.inner_text("main")
    call("keys_revoke", key_id=made["key"]["key_id"])
    call.close()
    seen.tab.click("nav >> text=Files")
    seen.tab.wait_for_url(f"{console.url}/console/")


def test_a_key_that_is_revoked_ends_while_somebody_types(
    console: Console, opened: Callable[..., Seen]
) -> None:
    call = console.caller()
    made = call("keys_create", label="for a while", permissions=["read"])
    seen = opened()
    seen.expected = ("status of 401",)
    seen.sign_in(made["text"])
    seen.go("sessions")
    call("keys_revoke", key_id=made["key"]["key_id"])
    call.close()
    seen.tab.type("#q", "lo")
    seen.tab.wait_for_url(f"{console.url}/console/")


def test_a_key_that_may_only_read_is_shown_no_forms_that_write(
    console: Console, opened: Callable[..., Seen]
) -> None:
    call = console.caller()
    made = call("keys_create", label="reader", permissions=["read"])
    call.close()
    seen = opened()
    seen.sign_in(made["text"])
    for place, query in (
        ("file", {"path": "/notes/versions.md"}),
        ("notebook", {"id": "plans"}),
        ("memory-settings", {}),
        ("memory-prompt", {}),
        ("knowledge", {}),
    ):
        tab = seen.go(place, **query)
        assert tab.locator("main form[method=post] button[type=submit]").count() == 0, place
    assert seen.tab.locator("nav a", has_text="Keys and usage").count() == 0
