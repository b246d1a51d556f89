"""Sessions: their list, the messages of one, and what each of its turns recalled and why."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from starlette.responses import Response

from memsvc.console.page import Page


async def listed(page: Page) -> Response:
    """List the sessions of the project, latest first, found by part of a name or by user."""
    q, user = page.given_text("q"), page.given_text("user")
    found = await page.call(
        "memory_list_sessions", q=q, user_id=user, limit=50, cursor=page.given_text("cursor")
    )
    template = "parts/session_rows.html" if page.partial else "sessions.html"
    return page.render(
        template,
        title="Sessions",
        here="sessions",
        sessions=found["sessions"],
        more=page.url("sessions", q=q, user=user, cursor=found["next_cursor"])
        if found["next_cursor"]
        else None,
        q=q,
        user=user,
    )


async def timeline(page: Page) -> Response:
    """Show the messages of a session by turn, the latest first; each turn links to its recalls."""
    session = page.given_text("id")
    if not session:
        return page.go("sessions")
    turn = page.given_text("turn")
    page_of_items = await page.call(
        "memory_list_turns",
        session_id=session,
        turn_id=turn,
        limit=60,
        cursor=page.given_text("cursor"),
    )
    turns = list(_turns(page_of_items["items"]))
    more = (
        page.url("session", id=session, cursor=page_of_items["next_cursor"])
        if page_of_items["next_cursor"]
        else None
    )
    if page.partial:
        return page.render("parts/turns.html", session=session, meant=turn, turns=turns, more=more)
    latest = await page.call("memory_list_recalls", session_id=session, limit=1)
    return page.render(
        "session.html",
        title="Session",
        here="sessions",
        session=session,
        meant=turn,
        turns=turns,
        more=more,
        user=next((one["user_id"] for one in latest["recalls"] if one["user_id"]), ""),
    )


async def recall(page: Page) -> Response:
    """Show what the prompts of a turn had from memory and what not, with reasons."""
    session, turn = page.given_text("id"), page.given_text("turn")
    if not session:
        return page.go("sessions")
    found = await page.call("memory_list_recalls", session_id=session, turn_id=turn, limit=5)
    template = "parts/recalls.html" if page.partial else "recall.html"
    return page.render(
        template,
        title="What was recalled",
        here="sessions",
        session=session,
        turn=turn,
        recalls=found["recalls"],
    )


def _turns(items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the items by turn, the turns as they came and the items of each in order."""
    for turn, turn_items in groupby(items, key=itemgetter("turn_id")):
        latest_first = list(turn_items)
        yield {"turn_id": turn, "items": latest_first[::-1], "said_at": latest_first[-1]["said_at"]}
