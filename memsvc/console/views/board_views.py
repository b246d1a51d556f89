"""Whiteboards: their list, one with its history and differences, and restoring a version."""

from starlette.responses import Response

from memsvc.console.diff import difference
from memsvc.console.page import Page


async def listed(page: Page) -> Response:
    """List the boards of the project, or of one user."""
    user = page.given_text("user")
    found = await page.call(
        "whiteboard_list", user_id=user, limit=100, cursor=page.given_text("cursor")
    )
    more = (
        page.url("boards", user=user, cursor=found["next_cursor"]) if found["next_cursor"] else None
    )
    return page.render(
        "boards.html", title="Boards", here="boards", boards=found["boards"], more=more, user=user
    )


async def show(page: Page) -> Response:
    """Show a board, its history, and the difference from a past version."""
    user, conversation, version = (
        page.given_text("user"),
        page.given_text("id"),
        page.given_text("version"),
    )
    board_key = {"user_id": user, "conversation_id": conversation}
    board = await page.call("whiteboard_get", **board_key)
    history = await page.call(
        "whiteboard_history", **board_key, limit=50, cursor=page.given_text("cursor") or None
    )
    past = next((one for one in history["versions"] if one["version"] == version), None)
    then = (
        await page.call("whiteboard_get", **board_key, as_of=past["updated_at"]) if past else None
    )
    more = (
        page.url("board", user=user, id=conversation, cursor=history["next_cursor"])
        if history["next_cursor"]
        else ""
    )
    return page.render(
        "board.html",
        title="Board",
        here="boards",
        user=user,
        conversation=conversation,
        board=board,
        versions=history["versions"],
        more=more,
        past=past,
        lines=difference(then["text"], board["text"]) if then else [],
    )


async def restore(page: Page) -> Response:
    """Restore a board to a version."""
    form = await page.form()
    user, conversation = str(form.get("user", "")), str(form.get("id", ""))
    await page.call(
        "whiteboard_restore",
        user_id=user,
        conversation_id=conversation,
        version=str(form.get("version", "")),
    )
    return page.go("board", user=user, id=conversation)


async def delete(page: Page) -> Response:
    """Delete a board for good."""
    form = await page.form()
    await page.call(
        "whiteboard_delete",
        user_id=str(form.get("user", "")),
        conversation_id=str(form.get("id", "")),
    )
    return page.go("boards")
