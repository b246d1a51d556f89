"""Secrets are kept, masked in all that is stored, or refused, as the policy of the project says."""

from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from memsvc.adapters.tokens import O200kCounter
from memsvc.core.scope import Scope
from memsvc.core.secrets import PolicyOptions, replace_secrets
from memsvc.store.database import Database
from tests.door import Door, open_door
from tests.fakes import FakeClock, RecordingMeter

pytestmark = pytest.mark.anyio

SECRET = "xq7-hunter2"
TEXT = f"In Lisbon the password is {SECRET} and the printer stands in the hall"
USER = {"type": "message", "role": "user", "content": TEXT}
ANSWER = {"type": "message", "role": "assistant", "content": f"Noted, the password: {SECRET}"}
CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "log_in",
    "arguments": f'{{"user": "ada", "password": "{SECRET}"}}',
}
TURN = {"session_id": "s", "user_id": "ada", "turn_id": "t1"}

Doors = Callable[[PolicyOptions], Door]


@pytest.fixture
def doors(
    database: Database, clock: FakeClock, tokens: O200kCounter, meter: RecordingMeter, scope: Scope
) -> Doors:
    """The same memory under several policies."""
    return lambda policy: open_door(database, clock, tokens, meter, scope, policy=policy)


MASK, REFUSE = PolicyOptions(secrets="mask"), PolicyOptions(secrets="refuse")

WRITES: dict[str, tuple[str, dict[str, Any]]] = {
    "turns": ("memory_after_turn", TURN | {"input_items": [USER, CALL], "output_items": [ANSWER]}),
    "knowledge": ("elfmem_remember", {"content": TEXT, "cue": TEXT}),
    "memories": (
        "memories_add",
        {"user_id": "ada", "messages": [{"role": "user", "content": f"I live in Rome. {TEXT}"}]},
    ),
    "whiteboard": (
        "context_update",
        {"user_id": "ada", "conversation_id": "c", "entries": [{"role": "user", "content": TEXT}]},
    ),
    "notebook": ("update_document", {"id": "root", "content": f"# All\n\n{TEXT}\n"}),
    "files": ("file_write", {"project": "default", "path": "/a", "content": TEXT}),
    "bytes": (
        "file_write",
        {
            "project": "default",
            "path": "/b",
            "content": b64encode(TEXT.encode()).decode(),
            "content_encoding": "base64",
        },
    ),
    "directory": ("memory", {"command": "create", "path": "/memories/a", "file_text": TEXT}),
}


async def stored(admin: asyncpg.Connection) -> str:
    """All that the tables hold, as text."""
    rows = await admin.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    )
    found = []
    for row in rows:
        name = row["relname"]
        found += [str(dict(one)) for one in await admin.fetch(f'SELECT * FROM "{name}"')]
    return "\n".join(found)


@pytest.mark.parametrize("style", WRITES)
async def test_what_is_written_is_kept_masked_or_refused(
    doors: Doors, style: str, admin: asyncpg.Connection
) -> None:
    tool, arguments = WRITES[style]
    body = await doors(REFUSE).refuses("SECRET_REFUSED", tool, **arguments)
    assert SECRET not in str(body)
    assert "hall" not in await stored(admin)
    await doors(MASK)(tool, **arguments)
    held = await stored(admin)
    assert SECRET not in held
    assert ("[secret]" in held) == (style != "memories")  # what is no fact is not kept at all
    if style in ("files", "bytes", "directory"):
        await doors(PolicyOptions())(tool, **arguments | {"path": "/memories/kept"})
        assert SECRET in await stored(admin)


@pytest.mark.parametrize("first", [PolicyOptions(), MASK])
async def test_a_stored_turn_answers_the_same_under_every_policy(
    doors: Doors, first: PolicyOptions
) -> None:
    tool, arguments = WRITES["turns"]
    answered = await doors(first)(tool, **arguments)
    assert answered["stored_items"] == 3
    for policy in (PolicyOptions(), MASK, REFUSE):
        assert await doors(policy)(tool, **arguments) == answered
        other = USER | {"content": f"{TEXT}, still"}
        await doors(policy).refuses("CONFLICT", tool, **TURN, input_items=[other])


async def test_a_turn_in_two_calls_is_masked_and_the_model_gets_what_was_said(
    doors: Doors, admin: asyncpg.Connection
) -> None:
    call = doors(MASK)
    begun = await call("memory_run_turn", **TURN, current_input=[USER])
    assert SECRET in str(begun["input_items"])
    await call("memory_commit_turn", operation_token=begun["operation_token"])
    assert SECRET not in await stored(admin)


async def test_history_that_the_client_sends_is_known_though_it_was_masked(
    doors: Doors, clock: FakeClock
) -> None:
    call = doors(MASK)
    tool, arguments = WRITES["turns"]
    await call(tool, **arguments)
    clock.advance(timedelta(minutes=1))
    following = {"type": "message", "role": "user", "content": "Where does it stand?"}
    items = [USER, CALL, ANSWER, following]
    again = TURN | {"turn_id": "t2"}
    prepared = await call(
        "memory_before_turn", **again, conversation_items=items, current_input_start=3
    )
    said = str(prepared["input_items"])
    assert said.count("stands in the hall") == 1
    assert SECRET in said
    stored_now = await call(tool, **again, input_items=items)
    assert stored_now["stored_items"] == 1


async def test_a_project_may_have_a_policy_of_its_own(doors: Doors) -> None:
    call = doors(PolicyOptions(secrets="refuse", secrets_by_project=("open=keep",)))
    await call("elfmem_remember", project="open", content=TEXT)
    await call.refuses("SECRET_REFUSED", "elfmem_remember", project="other", content=TEXT)


def test_a_policy_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="PROJECT=mask"):
        PolicyOptions(secrets_by_project=("open",))


def test_a_secret_across_the_slices_of_a_long_text_is_masked() -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{'abc ' * 1500}\n-----END PRIVATE KEY-----"
    for size in range(16_000, 16_500, 45):
        text = "word " * (size // 5) + f"password is {SECRET} and " + "more " * 2000 + key + " end"
        shown = replace_secrets(text)
        assert SECRET not in shown
        assert "abc" not in shown
        assert shown.endswith("[secret] end")
    assert replace_secrets("x" * 60_000) == "x" * 60_000
