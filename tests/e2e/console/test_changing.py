"""What somebody changes in the console: with scripts and without, and without losing what others
write meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.console.conftest import Console
from tests.e2e.console.made_up import HOSTILE, MARKUP, USER, Caller, message
from tests.e2e.console.seen import Seen

pytestmark = pytest.mark.slow


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def editing(
    request: pytest.FixtureRequest, signed_in: Seen, without_scripts: Seen
) -> Iterator[Seen]:
    """Somebody who changes things, and agrees to every question."""
    seen = signed_in if request.param else without_scripts
    seen.as_new()
    seen.agrees = True
    yield seen
    assert seen.complaints == []


def submit(seen: Seen, button: str) -> Any:
    """Press a button of a form; the tab that shows what came of it."""
    with seen.tab.expect_navigation():
        seen.tab.locator("main").get_by_role("button", name=button).first.click()
    return seen.tab


def read(call: Caller, path: str) -> str:
    return str(call("file_read", path=path)["content"])


def test_a_file_is_made_edited_moved_and_deleted(editing: Seen, call: Caller) -> None:
    name = f"/made/{id(editing)}"
    tab = editing.go("files", path="/notes")
    tab.click("text=New file")
    tab.fill("#path", f"{name}.md")
    tab.fill("#content", f"first\n{MARKUP}\n\n")
    tab = submit(editing, "Save")
    assert "Saved" in tab.inner_text("main")
    assert read(call, f"{name}.md") == f"first\n{MARKUP}\n\n"
    tab.click("text=Edit")
    assert tab.input_value("#content") == f"first\n{MARKUP}\n\n"
    tab.fill("#content", "second")
    submit(editing, "Save")
    assert read(call, f"{name}.md") == "second"
    tab.click("summary:has-text('Move')")
    tab.fill("#to", f"{name}.txt")
    with tab.expect_navigation():
        tab.locator("details button").click()
    assert "second" in tab.inner_text("pre")
    assert not call("file_stat", path=f"{name}.md")["exists"]
    submit(editing, "Delete")
    assert not call("file_stat", path=f"{name}.txt")["exists"]


def test_what_somebody_else_wrote_meanwhile_is_shown_and_nothing_is_lost(
    editing: Seen, call: Caller
) -> None:
    path = "/notes/shared.md"
    call("file_write", path=path, content="one\ntwo\nthree\n", mode="TRUNCATE")
    tab = editing.go("edit-file", path=path)
    call("file_write", path=path, content="one\ntheirs\nthree\n", mode="TRUNCATE")
    tab.fill("#content", "one\nmine\nthree\n")
    editing.expected = ("status of 409",)
    tab = submit(editing, "Save")
    assert "Somebody else changed this file in the meantime" in tab.inner_text("[role=alert]")
    assert tab.inner_text("tr.removed .text") == "theirs"
    assert tab.inner_text("tr.added .text") == "mine"
    assert tab.input_value("#content") == "one\nmine\nthree\n"
    assert read(call, path) == "one\ntheirs\nthree\n"
    tab.fill("#content", "one\ntheirs and mine\nthree\n")
    tab = submit(editing, "Save")
    assert "Saved" in tab.inner_text("main")
    assert read(call, path) == "one\ntheirs and mine\nthree\n"
    assert tab.locator("li", has_text="Compare with the current version").count() >= 2


def test_a_file_that_was_deleted_while_it_was_edited_is_not_made_again_unasked(
    editing: Seen, call: Caller
) -> None:
    path = "/notes/vanishing.md"
    call("file_write", path=path, content="here", mode="TRUNCATE")
    tab = editing.go("edit-file", path=path)
    call("file_delete", path=path)
    tab.fill("#content", "what I typed")
    editing.expected = ("status of 4",)
    tab = submit(editing, "Save")
    assert "Somebody else deleted this file in the meantime" in tab.inner_text("[role=alert]")
    assert tab.input_value("#content") == "what I typed"
    assert not call("file_stat", path=path)["exists"]
    submit(editing, "Save")
    assert read(call, path) == "what I typed"


def test_a_new_file_does_not_replace_one_that_is_there(editing: Seen, call: Caller) -> None:
    path = "/notes/taken.md"
    call("file_write", path=path, content="here before", mode="TRUNCATE")
    tab = editing.go("edit-file", path="/notes/")
    tab.fill("#path", path)
    tab.fill("#content", "mine")
    editing.expected = ("status of 409",)
    tab = submit(editing, "Save")
    assert "here before" in tab.inner_text("tr.removed")
    assert read(call, path) == "here before"


def test_a_version_of_a_file_is_brought_back(editing: Seen, call: Caller) -> None:
    path = "/notes/returning.md"
    for content in ("as it was", "as it is"):
        call("file_write", path=path, content=content, mode="TRUNCATE")
    [before] = call("file_list_versions", path=path)["versions"][:1]
    tab = editing.go("file-version", path=path, id=before["id"])
    assert "as it was" in tab.inner_text("tr.removed")
    tab = submit(editing, "Restore this version")
    assert "Restored" in tab.inner_text("main")
    assert read(call, path) == "as it was"


def test_a_document_that_somebody_else_wrote_meanwhile_is_shown_beside_what_was_typed(
    editing: Seen, call: Caller
) -> None:
    call("update_document", id="later", content="# Later\nAs it was.\n")
    tab = editing.go("edit-document", id="later")
    call("update_document", id="later", content="# Later\nTheirs.\n")
    tab.fill("#content", "# Later\nMine.\n")
    editing.expected = ("status of 409",)
    tab = submit(editing, "Save")
    assert "Somebody else changed this document in the meantime" in tab.inner_text("[role=alert]")
    assert "Theirs." in tab.inner_text("tr.removed")
    assert "Mine." in tab.inner_text("tr.added")
    tab = submit(editing, "Save")
    assert "Mine." in call("read_document", id="later")["text"]
    tab.get_by_text("Compare with the current version").nth(1).click()
    tab = submit(editing, "Restore this version")
    assert "Mine." not in call("read_document", id="later")["text"]


def test_a_fact_is_corrected_and_restored(editing: Seen, call: Caller) -> None:
    user = f"gil{id(editing)}"
    call(
        "memory_after_turn",
        session_id="correcting",
        user_id=user,
        turn_id=f"t{id(editing)}",
        input_items=[message("I live in Lima.")],
    )
    tab = editing.go("facts", user=user)
    tab.click("summary:has-text('Correct')")
    tab.get_by_label("Corrected value").fill("I live in Quito.")
    tab = submit(editing, "Save")
    assert "corrected by a person" in tab.inner_text("main")
    told = call("memory_before_turn", user_id=user, current_input="Where do I live?")
    assert "Quito" in str(told["input_items"])
    tab = submit(editing, "Restore this value: Lima")
    [held] = call("memory_list_facts", user_id=user, reach="user")["facts"]
    assert (held["value"], held["evidence"]["origin"]) == ("Lima", "person")


def test_a_fact_is_forgotten(editing: Seen, call: Caller) -> None:
    call(
        "memory_after_turn",
        session_id="forgetting",
        user_id="fay",
        turn_id=f"t{id(editing)}",
        input_items=[message("My name is Fay. I live in Lima.")],
    )
    tab = editing.go("facts", user="fay")
    before = tab.locator("tbody tr").count()
    with tab.expect_navigation():
        tab.locator("tr", has_text="Lima").get_by_role("button", name="Forget").click()
    assert "Lima" not in tab.inner_text("main")
    assert tab.locator("tbody tr").count() == before - 1
    assert all(
        one["value"] != "Lima"
        for one in call("memory_list_facts", user_id="fay", reach="user")["facts"]
    )


def test_a_memory_is_deleted(editing: Seen, call: Caller) -> None:
    call("memories_add", user_id="mia", messages=[{"role": "user", "content": "My name is Mia."}])
    tab = editing.go("memories", user="mia")
    assert "Mia" in tab.inner_text("#rows")
    while tab.locator(".memory").count():
        with tab.expect_navigation():
            tab.locator(".memory form button").first.click()
    assert call("memories_list", user_id="mia")["results"] == []


def test_a_board_is_brought_back(editing: Seen, call: Caller) -> None:
    whose = {"user_id": USER, "conversation_id": f"{HOSTILE[:60]} {id(editing)}"}
    for said in ("We decided to sail to Bergen.", "We decided to sail to Riga."):
        call("context_update", **whose, entries=[message(said)])
    [first] = call("whiteboard_history", **whose)["versions"][-1:]
    tab = editing.go("board", user=USER, id=whose["conversation_id"], version=first["version"])
    assert "Riga" in tab.inner_text("tr.added")
    tab = submit(editing, "Restore this version")
    assert "Riga" not in tab.inner_text("section")
    assert "Riga" not in call("whiteboard_get", **whose)["text"]


def test_the_settings_of_memories_are_kept(editing: Seen, call: Caller) -> None:
    tab = editing.go("memory-settings")
    tab.fill("#decay", "30")
    tab.fill("#limit", "7")
    tab = submit(editing, "Save")
    assert "Saved" in tab.inner_text("main")
    held = call("memories_get_settings")
    assert (held["decayDays"], held["searchLimit"]) == (30, 7)
    call("memories_put_settings", decayDays=0, searchLimit=0)


def test_a_tool_is_called_in_the_playground(editing: Seen) -> None:
    tab = editing.go("playground", tool="file_stat")
    tab.fill("#argument-path", "/notes/versions.md")
    tab.locator("main button[type=submit]").click()
    tab.locator("#outcome pre").wait_for()
    assert '"exists": true' in tab.inner_text("#outcome")
    tab.fill("#argument-path", "/../up")
    tab.locator("main button[type=submit]").click()
    tab.locator("#outcome .tag.bad").wait_for()
    assert "INVALID_PATH" in tab.inner_text("#outcome")


def test_nothing_is_deleted_when_the_question_is_answered_with_no(
    signed_in: Seen, call: Caller
) -> None:
    signed_in.as_new()
    path = "/notes/kept.md"
    call("file_write", path=path, content="here", mode="TRUNCATE")
    signed_in.expected = ("dialog: Delete this file?",)
    signed_in.go("file", path=path).locator("main .danger").click()
    assert call("file_stat", path=path)["exists"]
    assert signed_in.complaints == []


def test_a_form_of_another_session_changes_nothing(
    console: Console, opened: Callable[..., Seen], call: Caller
) -> None:
    seen = opened()
    seen.sign_in(console.keys.full)
    call("file_write", path="/notes/guarded.md", content="here", mode="TRUNCATE")
    tab = seen.go("file", path="/notes/guarded.md")
    tab.evaluate(
        "document.querySelectorAll('[name=form_token]').forEach((one) => { one.value = 'another';"
        " })"
    )
    seen.agrees = True
    seen.expected = ("status of 403",)
    submit(seen, "Delete")
    assert "this form belongs to another sign-in session of the console" in tab.inner_text("main")
    assert call("file_stat", path="/notes/guarded.md")["exists"]
