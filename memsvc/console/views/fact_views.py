"""Facts of a session and a user, their past values and sources; correcting, forgetting them."""

from itertools import groupby
from typing import Any, Final

from starlette.responses import Response

from memsvc.console.page import Page

STATES: Final = {"active": "held now", "past": "held before", "all": "all"}
SCOPES: Final = {"all": "session and user", "session": "this session", "user": "this user"}
FACTS_MAX: Final = 50
VALUES_MAX: Final = 500


async def listed(page: Page) -> Response:
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
        **params,
    )


async def history(page: Page) -> Response:
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


async def forget(page: Page) -> Response:
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


async def correct(page: Page) -> Response:
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
