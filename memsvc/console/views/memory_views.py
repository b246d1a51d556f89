"""Sessions, facts, blocks of knowledge and memories: lists, recalls, and actions on one."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from starlette.responses import Response

from memsvc.console import charts
from memsvc.console.page import Page, filled, form_action, parse_number
from memsvc.core.json_text import JsonObject


async def sessions(page: Page) -> Response:
    """List the sessions of the project, latest first, found by part of a name or by user."""
    q, user = page.given_texts("q", "user")
    found = await page.call(
        "memory_list_sessions", q=q, user_id=user, limit=50, cursor=page.given_text("cursor")
    )
    return page.render(
        "sessions.html",
        part="parts/session_rows.html",
        sessions=found["sessions"],
        more=page.more("sessions", found, q=q, user=user),
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
    more = page.more("session", page_of_items, id=session)
    if page.partial:
        return page.render("parts/turns.html", session=session, meant=turn, turns=turns, more=more)
    latest = await page.call("memory_list_recalls", session_id=session, limit=1)
    known = bool(turns) or await _has_session(page, session)
    return page.render(
        "session.html",
        status=200 if known else 404,
        known=known,
        session=session,
        meant=turn,
        turns=turns,
        more=more,
        user=next((one["user_id"] for one in latest["recalls"] if one["user_id"]), ""),
    )


async def _has_session(page: Page, session: str) -> bool:
    """Return whether a session, of which nothing may be left to show, is there."""
    found = await page.call("memory_list_sessions", q=session)
    return any(each["session_id"] == session for each in found["sessions"])


async def recall(page: Page) -> Response:
    """Show what the prompts of a turn had from memory and what not, with reasons."""
    session, turn = page.given_texts("id", "turn")
    if not session:
        return page.go("sessions")
    found = await page.call("memory_list_recalls", session_id=session, turn_id=turn, limit=5)
    return page.render(
        "recall.html",
        part="parts/recalls.html",
        session=session,
        turn=turn,
        recalls=found["recalls"],
    )


def _turns(items: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the items by turn, the turns as they came and the items of each in order."""
    for turn, turn_items in groupby(items, key=itemgetter("turn_id")):
        latest_first = list(turn_items)
        yield {"turn_id": turn, "items": latest_first[::-1], "said_at": latest_first[-1]["said_at"]}


STATES: Final = {"active": "current", "past": "past", "all": "all"}
SCOPES: Final = {
    "all": "this session and this user",
    "session": "this session",
    "user": "this user",
}
FACTS_MAX: Final = 50
VALUES_MAX: Final = 500


async def facts(page: Page) -> Response:
    """List the facts of a session and of its user, the latest first, with their states."""
    session, user = page.given_texts("session", "user")
    if not (session or user):
        found = await page.call("memory_list_sessions", limit=20)
        return page.render("facts_of.html", sessions=found["sessions"])
    filters: JsonObject = {
        "tier": page.given_text("tier"),
        "state": page.given_text("state", "active"),
        "reach": page.given_text("reach", _reach(session, user)),
    }
    found = await page.call(
        "memory_list_facts",
        session_id=session,
        user_id=user,
        **filters,
        limit=FACTS_MAX,
        cursor=page.given_text("cursor"),
    )
    params = filters | {"session": session, "user": user}
    profile = None
    if user and not page.partial and page.has("memory_profile"):
        profile = await page.call("memory_profile", user_id=user)
    return page.render(
        "facts.html",
        part="parts/fact_rows.html",
        facts=found["facts"],
        more=page.more("facts", found, **params),
        states=STATES,
        reaches=SCOPES,
        profile=profile,
        undo=page.given_text("undo"),
        elsewhere=page.given_text("elsewhere"),
        **params,
    )


async def fact_history(page: Page) -> Response:
    """Show the values that a fact had, the latest first, with replacements and sources."""
    fact, session, user = page.given_texts("id", "session", "user")
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
    by_key = itemgetter("key")
    values_by_key = [
        list(values) for _, values in groupby(sorted(found["facts"], key=by_key), key=by_key)
    ]
    return page.render(
        "fact.html",
        fact=fact,
        chains=values_by_key,
        session=session,
        user=user,
        reach=scope,
    )


async def forget_fact(page: Page) -> Response:
    """Forget one value of a fact, or take such a forget back."""
    form = await page.form()
    session, user, undo = form["session"], form["user"], form["undo"]
    targets: JsonObject = {"fact_ids": [form["fact"]], "dry_run": False}
    if undo:
        targets = {"undo": undo, "erase": form["erase"] == "1"}
    done = await page.call("memory_forget", session_id=session, user_id=user, **targets)
    return page.go(
        "facts",
        session=session,
        user=user,
        undo=done["forget_id"] or "",
        elsewhere=len(done["also_in"]) or "",
    )


async def correct_fact(page: Page) -> Response:
    """Correct the words or the value of a fact, or restore a value of it."""
    form = await page.form()
    session, user = form["session"], form["user"]
    change = {form["part"] or "value": form["text"]} if "text" in form else {"restore": True}
    corrected = await page.call(
        "memory_correct_fact",
        session_id=session,
        user_id=user,
        reach=_reach(session, user),
        record_id=form["record"],
        **change,
    )
    return page.go("fact", id=corrected["fact"]["fact_id"], session=session, user=user)


def _reach(session: str, user: str) -> str:
    return "all" if session and user else "session" if session else "user"


BLOCKS_MAX: Final = 100
FRAMES: Final = {
    "attention": "knowledge blocks relevant to the question",
    "self": "identity",
    "task": "goals",
    "simulate": "minds",
}
EDGE_KINDS: Final = ("similar", "elaborates", "supports", "contradicts", "predicts", "validates")
ARCHIVE_LEVEL: Final = 0.05
"""Strength at which a block may be archived."""


async def listed(page: Page) -> Response:
    """List the blocks of the project, the surest first; the pending or archived ones; or a recall.

    The state of the memory is shown with them.
    """
    q, frame = page.given_texts("q", "frame")
    if q or frame:
        return await _recalled(page, q, frame or "attention")
    tag, category, where = page.given_texts("tag", "category", "where")
    if where == "inbox":
        found = await page.call("elfmem_inbox", max_count=BLOCKS_MAX)
    else:
        archived = where == "archived"
        filters = {"category": category} if archived else {"tag": tag, "category": category}
        found = await page.call("elfmem_ls", **filled(filters), limit=BLOCKS_MAX, archived=archived)
    return page.render(
        "knowledge.html",
        blocks=found["result"],
        standing=await page.call("elfmem_status") if page.has("elfmem_status") else None,
        tag=tag,
        category=category,
        where=where,
        most=BLOCKS_MAX,
        frames=FRAMES,
    )


async def _recalled(page: Page, q: str, frame: str) -> Response:
    found = await page.call(
        "elfmem_recall",
        query=q,
        frame=frame,
        top_k=parse_number(page.given_text("top"), "top") or None,
    )
    return page.render(
        "knowledge_recall.html",
        q=q,
        frame=frame,
        top=page.given_text("top"),
        found=found,
        frames=FRAMES,
    )


async def show(page: Page) -> Response:
    """Show one block: its confidence with reasons, its decay, and its edges."""
    block = await page.call("elfmem_show", block_id=page.given_text("id"))
    unused_h = max(0.0, block["now_h"] - block["reinforced_h"])
    chart = charts.decay_chart(
        block["decay_per_h"], unused_h, block["faded_h"] - block["reinforced_h"], ARCHIVE_LEVEL
    )
    return page.render(
        "block.html",
        block=block,
        unused_h=unused_h,
        curve=chart,
        graph=charts.graph(block["edges"]),
        relations=EDGE_KINDS,
    )


async def edit(page: Page) -> Response:
    """Edit the content or the cue of a block."""
    form = await page.form()
    block = form["id"]
    content, keywords = (form[name].replace("\r\n", "\n") for name in ("content", "cue"))
    done = await page.call("elfmem_edit", block_id=block, content=content, cue=keywords)
    return page.go("block", id=block, done=done["summary"])


forget = form_action("elfmem_forget", {"block_id": "id"}, "knowledge", {}, done="summary")


async def outcome(page: Page) -> Response:
    """Record the outcome of a block's use."""
    form = await page.form()
    block = form["id"]
    done = await page.call(
        "elfmem_outcome",
        block_ids=[block],
        signal=parse_number(form["signal"], "the outcome"),
        source=form["source"] or "console",
    )
    return page.go("block", id=block, done=_outcome_summary(done))


async def connect(page: Page) -> Response:
    """Connect a block to another one."""
    form = await page.form()
    block = form["id"]
    done = await page.call(
        "elfmem_connect",
        source=block,
        target=form["target"].strip(),
        **filled({name: form[name] for name in ("relation", "note")}),
        if_exists="update",
    )
    return page.go("block", id=block, done=done["summary"])


disconnect = form_action(
    "elfmem_disconnect", {"source": "id", "target": "target"}, "block", {"id": "id"}, done="summary"
)


curate = form_action("elfmem_curate", {}, "knowledge", {}, done="summary")


async def dream(page: Page) -> Response:
    """Consolidate the inbox."""
    form = await page.form()
    done = await page.call("elfmem_dream", no_llm="rules" in form)
    return page.go("knowledge", done=done["summary"])


def _outcome_summary(done: JsonObject) -> str:
    """Return the summary of an outcome, or why a block did not change."""
    if not done["skipped"]:
        return str(done["summary"])
    why = {
        "constitutional": (
            "the knowledge block is constitutional, so outcomes do not change its confidence"
        ),
        "pending_inbox": "the knowledge block is still waiting in the inbox to be consolidated",
        "archived": "the knowledge block is archived",
        "unmatched": "the knowledge block does not exist",
    }
    return "Nothing was learned: " + ", ".join(why[one["reason"]] for one in done["skipped"])


MEMORIES_MAX: Final = 100


async def memories(page: Page) -> Response:
    """List the memories of a user, newest first, or those that a search finds."""
    user, query = page.given_texts("user", "q")
    found = []
    if user:
        tool = "memories_search" if query else "memories_list"
        args = filled({"user_id": user, "query": query})
        found = (await page.call(tool, **args, limit=MEMORIES_MAX))["results"]
    return page.render(
        "memories.html",
        part="parts/memory_items.html",
        user=user,
        q=query,
        memories=found,
        tab="memories",
    )


async def memory_history(page: Page) -> Response:
    """Show the changes of a memory and their origins."""
    user, memory = page.given_texts("user", "id")
    found = await page.call("memories_history", user_id=user, memory_id=memory)
    return page.render(
        "memory.html",
        user=user,
        memory=memory,
        changes=found["results"][::-1],
    )


delete_memory = form_action(
    "memories_delete", {"user_id": "user", "memory_id": "id"}, "memories", {"user": "user"}
)


async def memory_settings(page: Page) -> Response:
    """Show and change the settings of the project's memories."""
    if page.request.method == "POST":
        form = await page.form()
        await page.call(
            "memories_put_settings",
            memoryEnabled="enabled" in form,
            decayDays=parse_number(form["decay"], "Memory Decay Window"),
            searchLimit=int(parse_number(form["limit"], "Memory Search Limit")),
        )
        return page.go("memory-settings", saved=1)
    current = await page.call("memories_get_settings")
    return page.render(
        "memory_settings.html",
        held=current,
        tab="settings",
    )


async def memory_prompt(page: Page) -> Response:
    """Show and change the prompt that extracts facts from conversations in this project."""
    if page.request.method == "POST":
        form = await page.form()
        if "reset" in form:
            await page.call("memories_reset_prompt")
        else:
            await page.call("memories_put_prompt", prompt=form["prompt"])
        return page.go("memory-prompt", saved=1)
    current = await page.call("memories_get_prompt")
    return page.render(
        "memory_prompt.html",
        held=current,
        tab="prompt",
    )
