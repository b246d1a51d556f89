"""A turn in two calls: whoever holds the token of the first can complete it once, and nobody else
can do anything."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Caller, Permission, Scope
from memsvc.store.server_secrets import SECRET_BYTES
from memsvc.styles.turns.turn_tokens import SIGNED_AS
from memsvc.styles.turns.turns import REFUSED_NOTE
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import ask, assistant, events, row_counts, say, unblocked, user, values

RUN, COMMIT = "memory_run_turn", "memory_commit_turn"


async def run(door: Door, text: str = "My name is Ada.", **more: Any) -> dict[str, Any]:
    return await door(RUN, current_input=text, **{"session_id": "s1"} | more)


async def test_a_turn_is_prepared_and_committed_with_nothing_but_the_token_and_the_answer(
    door: Door,
) -> None:
    begun = await run(door, turn_id="t1", user_id="u1")
    assert begun["input_items"] == [user("My name is Ada.")]
    done = await door(
        COMMIT, operation_token=begun["operation_token"], output_items=[assistant("Hello Ada.")]
    )
    assert (done["ok"], done["turn_id"], done["stored_items"], done["note"]) == (
        True,
        "t1",
        2,
        None,
    )
    assert [record["item"] for record in await events(door)] == [
        user("My name is Ada."),
        assistant("Hello Ada."),
    ]
    assert {record["user_id"] for record in await events(door)} == {"u1"}
    assert values(await ask(door, "What is my name?", session="another", user_id="u1")) == ["Ada"]


async def test_it_prepares_what_before_turn_prepares(door: Door) -> None:
    await say(door, "t1", "My name is Ada and I keep bees.", answer="Noted.")
    asked = {
        "current_input": "What is my name?",
        "session_id": "s1",
        "turn_id": "t2",
        "explain": True,
    }
    begun = await door(RUN, **asked)
    prepared = await door("memory_before_turn", **asked)
    assert {name: begun[name] for name in prepared} == prepared


async def test_only_the_new_input_is_stored_whatever_was_recalled_beside_it(door: Door) -> None:
    conversation = []
    for turn in range(3):
        conversation.append(user("yes"))
        begun = await door(
            RUN,
            session_id="s1",
            conversation_items=conversation,
            current_input_start=len(conversation) - 1,
        )
        assert unblocked(begun) == conversation
        conversation.append(assistant(f"ok {turn}"))
        await door(COMMIT, operation_token=begun["operation_token"], output_items=conversation[-1:])
    assert [record["item"] for record in await events(door)] == conversation


async def test_beginning_a_turn_writes_no_memory(door: Door, admin: asyncpg.Connection) -> None:
    before = await row_counts(admin)
    await run(door)
    await run(door)
    assert await row_counts(admin) == before


async def test_a_commit_that_is_sent_again_is_stored_once_and_with_another_answer_it_is_a_conflict(
    door: Door, admin: asyncpg.Connection
) -> None:
    token = (await run(door))["operation_token"]
    first = await door(COMMIT, operation_token=token, output_items=[assistant("Hello.")])
    before = await row_counts(admin)
    assert await door(COMMIT, operation_token=token, output_items=[assistant("Hello.")]) == first
    await door.refuses("CONFLICT", COMMIT, operation_token=token, output_items=[assistant("Bye.")])
    assert await row_counts(admin) == before


async def test_each_begun_turn_without_an_id_is_a_turn_of_its_own(door: Door) -> None:
    tokens = [(await run(door, "yes"))["operation_token"] for _ in range(2)]
    for token in tokens:
        await door(COMMIT, operation_token=token, output_items=[assistant("ok")])
    assert [record["item"] for record in await events(door)] == [user("yes"), assistant("ok")] * 2


async def test_a_token_is_of_no_use_to_another_tenant_or_in_another_project(
    door: Door, other_scope: Scope
) -> None:
    token = (await run(door))["operation_token"]
    given = {"operation_token": token, "output_items": [assistant("Hello.")]}
    refused = [
        await door.as_tenant(other_scope).refuses("PERMISSION_DENIED", COMMIT, **given),
        await door.refuses("PERMISSION_DENIED", COMMIT, project="elsewhere", **given),
        await door.refuses(
            "PERMISSION_DENIED", COMMIT, **given | {"operation_token": changed(token, at=20)}
        ),
    ]
    assert (
        refused[0] == refused[1] == refused[2]
    )  # what is wrong with a token is told to nobody who does not hold it
    assert "Ada" not in str(refused)
    for tenant, project in ((door, "elsewhere"), (door.as_tenant(other_scope), "default")):
        assert (await tenant("file_list", project=project))["entries"] == []
    await door(COMMIT, **given)


def changed(token: str, *, at: int) -> str:
    raw = bytearray(urlsafe_b64decode(token + "=="))
    raw[at] ^= 1
    return urlsafe_b64encode(bytes(raw)).decode().rstrip("=")


async def test_a_token_with_any_bit_changed_or_any_end_cut_off_is_refused(
    door: Door, admin: asyncpg.Connection
) -> None:
    token = (await run(door))["operation_token"]
    before = await row_counts(admin)
    size = len(urlsafe_b64decode(token + "=="))
    for at in range(size):
        outcome = await door.dispatch.call(
            door.caller,
            COMMIT,
            {"operation_token": changed(token, at=at)},
            surface="test",
            request_id="r",
        )
        assert outcome.body["code"] in ("PERMISSION_DENIED", "INVALID_ARGUMENT"), at
        assert outcome.body["retryable"] is False
    for length in range(len(token)):
        await door.refuses("INVALID_ARGUMENT", COMMIT, operation_token=token[:length])
    for wrong in ("", "é", token * 2, token + "A" * 4, "=" * 40, "A" * 4000000):
        await door.refuses("INVALID_ARGUMENT", COMMIT, operation_token=wrong)
    assert await row_counts(admin) == before


async def test_a_token_is_taken_until_its_time_is_over(opened: Opened, clock: FakeClock) -> None:
    door = opened(operation_token_ttl_s=60)
    begun, late = await run(door, turn_id="t1"), await run(door, turn_id="t2")
    assert begun["expires_at"] == "2026-01-05T12:01:00Z"
    clock.advance(seconds=59)
    await door(COMMIT, operation_token=begun["operation_token"])
    clock.advance(seconds=1)
    body = await door.refuses("INVALID_ARGUMENT", COMMIT, operation_token=late["operation_token"])
    assert "expired" in body["message"]
    assert "memory_run_turn" in body["recovery"]
    again = await run(door, turn_id="t2")
    assert (await door(COMMIT, operation_token=again["operation_token"]))["turn_id"] == "t2"


async def test_every_server_of_a_database_takes_the_tokens_of_the_others(
    opened: Opened, admin: asyncpg.Connection
) -> None:
    one, other = opened(), opened()
    token = (await run(one))["operation_token"]
    await other(COMMIT, operation_token=token, output_items=[assistant("Hello.")])
    [secret] = await admin.fetch("SELECT secret FROM server_secrets WHERE name = $1", SIGNED_AS)
    assert len(secret["secret"]) == SECRET_BYTES
    configured, same, differs = (opened(operation_token_secret=letter * 32) for letter in "aab")
    token = (await run(configured))["operation_token"]
    await differs.refuses("PERMISSION_DENIED", COMMIT, operation_token=token)
    await other.refuses("PERMISSION_DENIED", COMMIT, operation_token=token)
    await same(COMMIT, operation_token=token)


async def test_an_input_too_large_for_a_token_is_told_what_to_use_instead(opened: Opened) -> None:
    door = opened(operation_token_bytes_max=1024)
    await run(door, "word " * 5000)  # it is compressed
    noise = "".join(chr(0x4E00 + (number * 7919) % 20000) for number in range(2000))
    body = await door.refuses("INVALID_ARGUMENT", RUN, current_input=noise)
    assert "1024" in body["message"]
    assert "memory_before_turn and memory_after_turn" in body["recovery"]


async def test_a_key_that_may_only_read_can_begin_a_turn_and_not_commit_it(door: Door) -> None:
    reader = door.as_caller(
        Caller(door.caller.tenant, "reader", permissions=frozenset({Permission.READ}))
    )
    token = (await run(reader))["operation_token"]
    await reader.refuses("PERMISSION_DENIED", COMMIT, operation_token=token)


@pytest.mark.parametrize(
    "given", [{}, {"current_input": 5}, {"current_input": [{"type": "message", "role": 1}]}]
)
async def test_what_before_turn_refuses_is_refused(door: Door, given: dict[str, Any]) -> None:
    await door.refuses("INVALID_ARGUMENT", RUN, **given)


async def test_items_come_through_a_token_whole(door: Door) -> None:
    items = [
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "é🙂"}],
            "x": 2**63,
        },
        user("look", status=None, extra={"deep": [[{"a": 0.1}]]}),
    ]
    begun = await door(RUN, session_id="s1", current_input=items)
    await door(COMMIT, operation_token=begun["operation_token"])
    assert [record["item"] for record in await events(door)] == items


async def test_committed_turn_notes_a_secret_that_becomes_no_fact(door: Door) -> None:
    begun = await run(door, "Remember that my password is hunter22.", turn_id="t1")
    done = await door(
        COMMIT, operation_token=begun["operation_token"], output_items=[assistant("Noted.")]
    )
    assert (done["ok"], done["note"]) == (True, REFUSED_NOTE)
