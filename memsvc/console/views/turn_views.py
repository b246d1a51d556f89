"""Sessions and facts: their lists, the messages and recalls of one, and what became of a fact."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from starlette.responses import Response

from memsvc.console.page import Page


async def sessions(page: Page) -> Response:
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


STATES: Final = {"active": "held now", "past": "held before", "all": "all"}
SCOPES: Final = {"all": "session and user", "session": "this session", "user": "this user"}
FACTS_MAX: Final = 50
VALUES_MAX: Final = 500


async def facts(page: Page) -> Response:
    """List the facts of a session and of its user, the latest first, with their states."""
    session, user = page.given_text("session"), page.given_text("user")
    if not (session or user):
        found = await page.call("memory_list_sessions", limit=20)
        return page.render("facts_of.html", title="Facts", here="facts", sessions=found["sessions"])
    args = _query_args(page)
    found = await page.call(
        "memory_list_facts", **args, limit=FACTS_MAX, cursor=page.given_text("cursor")
    )
    params = {name: args[name] for name in ("tier", "state", "reach")} | {
        "session": session,
        "user": user,
    }
    profile = None
    if user and not page.partial and page.has("memory_profile"):
        profile = await page.call("memory_profile", user_id=user)
    return page.render(
        "parts/fact_rows.html" if page.partial else "facts.html",
        title="Facts",
        here="facts",
        facts=found["facts"],
        more=page.url("facts", **params, cursor=found["next_cursor"])
        if found["next_cursor"]
        else None,
        states=STATES,
        reaches=SCOPES,
        profile=profile,
        **params,
    )


async def fact_history(page: Page) -> Response:
    """Show the values that a fact had, the latest first, with replacements and sources."""
    fact, session, user = page.given_text("id"), page.given_text("session"), page.given_text("user")
    if not fact:
        return page.go("facts")
    scope = _reach(session, user)
    found = await page.call(
        "memory_list_facts",
        session_id=session,
        user_id=user,
        reach=scope,
        state="all",
        fact_id=fact,
        limit=VALUES_MAX,
    )
    values_by_key = [
        list(values) for _, values in groupby(sorted(found["facts"], key=_slot), key=_slot)
    ]
    return page.render(
        "fact.html",
        title="Fact",
        here="facts",
        fact=fact,
        chains=values_by_key,
        session=session,
        user=user,
        reach=scope,
    )


async def forget_fact(page: Page) -> Response:
    """Forget a fact with every value that it had, for good."""
    form = await page.form()
    session, user = str(form.get("session", "")), str(form.get("user", ""))
    await page.call(
        "memory_forget",
        session_id=session,
        user_id=user,
        fact_ids=[str(form.get("fact", ""))],
        dry_run=False,
    )
    return page.go("facts", session=session, user=user)


async def correct_fact(page: Page) -> Response:
    """Correct the words or the value of a fact, or restore a value of it."""
    form = await page.form()
    session, user = str(form.get("session", "")), str(form.get("user", ""))
    text = form.get("text")
    change = {"restore": True} if text is None else {str(form.get("part", "value")): str(text)}
    corrected = await page.call(
        "memory_correct_fact",
        session_id=session,
        user_id=user,
        reach=_reach(session, user),
        record_id=str(form.get("record", "")),
        **change,
    )
    return page.go("fact", id=corrected["fact"]["fact_id"], session=session, user=user)


def _reach(session: str, user: str) -> str:
    return "all" if session and user else "session" if session else "user"


def _query_args(page: Page) -> dict[str, Any]:
    session, user = page.given_text("session"), page.given_text("user")
    scope = page.given_text("reach", _reach(session, user))
    return {
        "session_id": session,
        "user_id": user,
        "tier": page.given_text("tier"),
        "state": page.given_text("state", "active"),
        "reach": scope,
    }


def _slot(fact: dict[str, Any]) -> str:
    return str(fact["key"])
