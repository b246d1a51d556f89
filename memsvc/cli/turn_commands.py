"""Command `memsvc turns`: messages and facts of a session, and what a question recalls."""

from typing import Annotated, Any

from typer import Argument, Option

from memsvc.cli.tool_client import (
    OR_STDIN,
    CommandOutput,
    RemoteTools,
    columns,
    command_group,
    text_or_stdin,
)
from memsvc.core.errors import not_found
from memsvc.core.items import message_at, role_of, text_of

Session = Annotated[str, Argument(help="The id of the session.")]
User = Annotated[
    str | None,
    Option(
        "--user",
        help="The user whose facts and other sessions are used in addition to this session.",
    ),
]


async def ls(call: RemoteTools) -> CommandOutput:
    """List the sessions of a project, latest first: last write, id and user."""
    found = await call.list_all("memory_list_sessions", "sessions")
    sessions = [
        {
            "updated_at": one["updated_at"],
            "session": one["session_id"],
            "user": f"{one['user_id']} and others" if one["shared"] else one["user_id"],
        }
        for one in found
    ]
    return CommandOutput(
        {"sessions": sessions},
        ["\t".join(sessions[0]), *columns(sessions, *sessions[0])] if sessions else [],
    )


async def show(
    call: RemoteTools,
    session: Session,
    last: Annotated[
        int,
        Option(
            min=1,
            help="Maximum number of items (messages and tool calls) to show; older items are"
            " left out.",
        ),
    ] = 100,
) -> CommandOutput:
    """Show the messages of a session, oldest first: time, turn, speaker or role, and text.

    The time shown is the time at which the message was written or, if that is unknown, stored."""
    found = await call.list_all("memory_list_turns", "items", limit=last + 1, session_id=session)
    if not found:
        raise not_found(
            f"session {session} does not exist", recovery="list the sessions with `memsvc turns ls`"
        )
    shown, has_more = [_shown(one) for one in reversed(found[:last])], len(found) > last
    return CommandOutput(
        {"session": session, "items": shown, "has_more": has_more},
        columns(shown, "time", "turn", "speaker", "text"),
        f"There are older items: show them with a --last higher than {last}." if has_more else "",
    )


async def facts(
    call: RemoteTools,
    session: Session,
    user: User = None,
    past: Annotated[
        bool,
        Option("--past", help="Include facts that were replaced or withdrawn, or have expired."),
    ] = False,
) -> CommandOutput:
    """List the facts of a session and its user."""
    state = "all" if past else "active"
    user_id = user or await _user_of(call, session)
    found = await call.list_all(
        "memory_list_facts", "facts", session_id=session, user_id=user_id, state=state
    )
    return CommandOutput(
        {"facts": found}, columns(found, "state", "tier", "key", "value", "confidence", "record_id")
    )


async def correct(
    call: RemoteTools,
    session: Session,
    record: Annotated[
        str,
        Argument(help="The record_id of the fact to correct, as `memsvc turns facts` prints it."),
    ],
    user: User = None,
    statement: Annotated[
        str | None,
        Option(help="The corrected fact, worded as the user would say it, in the first person."),
    ] = None,
    value: Annotated[
        str | None, Option(help="The corrected value only, not a whole sentence.")
    ] = None,
    restore: Annotated[
        bool,
        Option(
            "--restore",
            help="Make the value with this record_id current again, if the value was replaced"
            " or questioned.",
        ),
    ] = False,
) -> CommandOutput:
    """Correct a fact; the old value is kept in its history."""
    user_id = user or await _user_of(call, session)
    arguments = {"statement": statement, "value": value, "restore": restore}
    body = await call(
        "memory_correct_fact", session_id=session, user_id=user_id, record_id=record, **arguments
    )
    return CommandOutput(
        body, columns([body["fact"]], "state", "tier", "key", "value", "record_id")
    )


async def forget(
    call: RemoteTools,
    session: Session,
    facts: Annotated[
        list[str] | None,
        Argument(
            help="The fact_id or record_id of each fact to forget. `memsvc turns facts --json`"
            " prints both."
        ),
    ] = None,
    user: User = None,
    query: Annotated[
        str | None, Option(help="A description of the facts and turns to forget.")
    ] = None,
    turn: Annotated[
        list[str] | None,
        Option(help="The id of a turn to forget completely; the option can be repeated."),
    ] = None,
    yes: Annotated[
        bool,
        Option(
            "--yes",
            help="Forget the facts and turns that were found. Without this option, they are only"
            " listed.",
        ),
    ] = False,
    erase: Annotated[
        bool,
        Option(
            "--erase",
            help="Delete the facts and turns at once and for good; this cannot be undone.",
        ),
    ] = False,
    undo: Annotated[
        str | None,
        Option(
            help="Undo the deletion with this forget_id, which `memsvc turns forget` printed."
            " With --erase, make that deletion final instead."
        ),
    ] = None,
) -> CommandOutput:
    """Forget facts or turns, and remove their text from the stored messages."""
    user_id = user or await _user_of(call, session)
    targets = {"undo": undo} if undo else {"fact_ids": facts, "query": query, "turn_ids": turn}
    body = await call(
        "memory_forget",
        session_id=session,
        user_id=user_id,
        dry_run=None if undo else not yes,
        erase=erase,
        **targets,
    )
    lines = [
        *columns(body["facts"], "key", "value", "record_id"),
        *columns(body["sentences"], "session_id", "turn_id", "text"),
        *columns(body["turns"], "turn_id", "items"),
        *(f"The text is also contained in {one['kind']}: {one['id']}" for one in body["also_in"]),
        *(f"Not found: {name}" for name in body["not_found"]),
        *(f"Perhaps you mean: {one['text']}" for one in body["candidates"]),
    ]
    is_erased = undo is not None and erase
    summary = "The facts and turns were deleted for good." if is_erased else _forget_summary(body)
    return CommandOutput(body, [*lines, summary, *filter(None, [body["note"]])])


def _forget_summary(body: dict[str, Any]) -> str:
    """Return a sentence on what was done, and what can be done now."""
    if body["restored"]:
        return "Restored."
    if not (body["facts"] or body["sentences"] or body["turns"]):
        return "Nothing found."
    if body["dry_run"]:
        return (
            "Nothing was changed. Run the command again with --yes to forget these facts and turns."
        )
    if body["forget_id"] is None:
        return "Forgotten for good."
    return (
        f"Forgotten. You can undo this until {body['undo_until']}: run the command with"
        f" --undo {body['forget_id']}"
    )


async def recall(
    call: RemoteTools,
    session: Session,
    question: Annotated[
        str, Argument(help=f"The next message of the user{OR_STDIN}", callback=text_or_stdin)
    ],
    user: User = None,
) -> CommandOutput:
    """Show what a model would receive for a question (memory and earlier messages), and why."""
    body = await call(
        "memory_before_turn",
        session_id=session,
        user_id=user,
        current_input_text=question,
        explain=True,
    )
    lines = [f"{role_of(item)}: {text_of(item)}" for item in body["input_items"]]
    return CommandOutput(body, [*lines, f"({body['context_token_count']} tokens)"])


async def _user_of(call: RemoteTools, session: str) -> str | None:
    """Return the last user of a session; None where that is not known."""
    found = await call.list_all("memory_list_sessions", "sessions", q=session)
    return next((one["user_id"] or None for one in found if one["session_id"] == session), None)


def _shown(listed: dict[str, Any]) -> dict[str, Any]:
    item = listed["item"]
    said_at = message_at(item or {})
    return {
        "time": said_at.isoformat().replace("+00:00", "Z") if said_at else listed["said_at"],
        "turn": listed["turn_id"],
        "role": listed["role"],
        "speaker": listed["speaker"] or listed["role"],
        "text": text_of(item) if item else listed["text"] + (" ..." if listed["cut"] else ""),
    } | ({"item": item} if item and item.get("type", "message") != "message" else {})


commands = command_group(
    {"ls": ls, "show": show, "facts": facts, "correct": correct, "forget": forget, "recall": recall}
)
