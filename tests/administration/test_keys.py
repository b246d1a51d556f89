"""Keys that manage keys: what each may give, what it cannot take away by accident, and who hears of
it."""

from asyncio import gather
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from memsvc.core.scope import Caller, Permission
from memsvc.gateway.auth import Authenticator, AuthOptions
from memsvc.store import keys
from memsvc.store.database import Database
from tests.door import Door
from tests.fakes import FakeClock, RecordingMeter

pytestmark = pytest.mark.anyio


@pytest.fixture
def doorman(database: Database, clock: FakeClock) -> Authenticator:
    """Lets in whoever has a key, and remembers none."""
    return Authenticator(database, AuthOptions(cache_s=0), clock, RecordingMeter())


@pytest.fixture
async def root(door: Door, database: Database, clock: FakeClock, doorman: Authenticator) -> Door:
    """The service as the first key of a tenant calls it, which may everything."""
    made = await keys.create_key(database, "root", clock.now(), tenant=door.caller.tenant)
    return await by(door, doorman, made.text)


async def by(door: Door, doorman: Authenticator, text: str) -> Door:
    """The service as a key calls it."""
    caller = await doorman.resolve(text)
    assert caller is not None
    return door.as_caller(caller)


async def narrow(root: Door, doorman: Authenticator, **rights: Any) -> Door:
    return await by(root, doorman, (await root("keys_create", label="narrow", **rights))["text"])


async def test_a_new_key_opens_the_same_tenant_and_may_what_was_said(
    root: Door, doorman: Authenticator
) -> None:
    made = await root(
        "keys_create",
        label="  laptop ",
        permissions=["read"],
        projects=["a", "b"],
        hidden_tools=["file_write"],
        expires_at="2026-02-01T00:00:00Z",
    )
    caller = await doorman.resolve(made["text"])
    assert caller == Caller(
        root.caller.tenant,
        "laptop",
        frozenset({Permission.READ}),
        frozenset({"a", "b"}),
        frozenset({"file_write"}),
        UUID(made["key"]["key_id"]),
    )
    assert made["key"] | {"key_id": "", "created_at": "", "last_used_at": None} == {
        "key_id": "",
        "label": "laptop",
        "state": "valid",
        "permissions": ["read"],
        "projects": ["a", "b"],
        "hidden_tools": ["file_write"],
        "created_at": "",
        "expires_at": "2026-02-01T00:00:00Z",
        "revoked_at": None,
        "last_used_at": None,
        "is_yours": False,
        "toolsets": [],
        "tenant": root.caller.tenant.hex(),
        "user_id": "",
    }


async def test_the_text_of_a_key_is_shown_once_and_stands_in_no_table(
    root: Door, clock: FakeClock, admin: asyncpg.Connection
) -> None:
    clock.advance(seconds=1)
    text = (await root("keys_create"))["text"]
    listed = await root("keys_list")
    assert [(key["label"], key["is_yours"]) for key in listed["keys"]] == [
        ("root", True),
        ("key", False),
    ]
    assert text not in str(listed)
    assert text not in str(await admin.fetch("SELECT * FROM api_keys"))


async def test_a_key_sees_and_changes_keys_of_its_own_tenant_alone(
    root: Door, other_call: Door
) -> None:
    mine = root.caller.key_id
    assert (await other_call("keys_list"))["keys"] == []
    for tool in ("keys_rotate", "keys_revoke", "keys_update"):
        await other_call.refuses("NOT_FOUND", tool, key_id=str(mine))
        await root.refuses("NOT_FOUND", tool, key_id=str(uuid4()))


@pytest.mark.parametrize("permission", ["read", "write"])
async def test_only_an_admin_key_manages_keys(
    root: Door, doorman: Authenticator, permission: str
) -> None:
    door = await narrow(root, doorman, permissions=[permission])
    await door.refuses("PERMISSION_DENIED", "keys_list")
    await door.refuses("PERMISSION_DENIED", "keys_create")
    await door.refuses("PERMISSION_DENIED", "keys_revoke", key_id=str(root.caller.key_id))


@pytest.mark.parametrize(
    ("mine", "more"),
    [
        ({"permissions": ["admin"]}, {"permissions": ["read", "admin"]}),
        ({"projects": ["a", "b"]}, {"projects": ["a", "c"]}),
        ({"expires_at": "2026-02-01T00:00:00Z"}, {"expires_at": "2026-02-01T00:00:01Z"}),
    ],
)
async def test_no_key_makes_a_key_that_may_more_than_itself(
    root: Door, doorman: Authenticator, mine: dict[str, Any], more: dict[str, Any]
) -> None:
    door = await narrow(root, doorman, **mine)
    await door.refuses("PERMISSION_DENIED", "keys_create", **more)
    made = await door("keys_create")
    assert {name: made["key"][name] for name in mine} == mine
    await door.refuses("PERMISSION_DENIED", "keys_update", key_id=made["key"]["key_id"], **more)


async def test_what_is_hidden_from_a_key_is_hidden_from_those_that_it_makes(
    root: Door, doorman: Authenticator
) -> None:
    door = await narrow(root, doorman, hidden_tools=["file_read"])
    assert (await door("keys_create"))["key"]["hidden_tools"] == ["file_read"]
    both = ["file_read", "file_write"]
    made = await door("keys_create", hidden_tools=both)
    assert made["key"]["hidden_tools"] == both
    about = {"key_id": made["key"]["key_id"]}
    for tool, hidden, arguments in (
        ("keys_create", ["file_write"], {}),
        ("keys_update", ["file_write"], about),
        ("keys_update", [], about),
    ):
        refused = await door.refuses("PERMISSION_DENIED", tool, hidden_tools=hidden, **arguments)
        assert "tools that are hidden from your own key" in refused["message"]
    assert (await door("keys_update", **about, label="x"))["key"]["hidden_tools"] == both
    changed = await door("keys_update", **about, hidden_tools=["file_read"])
    assert changed["key"]["hidden_tools"] == ["file_read"]
    changed = await root("keys_update", **about, hidden_tools=[])
    assert changed["key"]["hidden_tools"] == []


async def test_unknown_hidden_tool_is_refused_with_the_nearest_names(
    root: Door, database: Database, clock: FakeClock
) -> None:
    typo = await root.refuses("INVALID_ARGUMENT", "keys_create", hidden_tools=["file_wriet"])
    assert "unknown tool file_wriet" in typo["message"]
    assert "file_write" in typo["recovery"]
    secret = await root.refuses("INVALID_ARGUMENT", "keys_create", hidden_tools=["sk-1"])
    assert "sk-1" not in str(secret)
    assert len((await root("keys_list"))["keys"]) == 1

    # another version of memsvc had this tool
    old = await keys.create_key(
        database, "old", clock.now(), tenant=root.caller.tenant, hidden_tools=["gone"]
    )
    about = {"key_id": str(old.key.key_id)}
    changed = await root("keys_update", **about, hidden_tools=["gone", "file_write"])
    assert changed["key"]["hidden_tools"] == ["file_write", "gone"]
    await root.refuses("INVALID_ARGUMENT", "keys_update", **about, hidden_tools=["goen"])
    listed = {key["key_id"]: key for key in (await root("keys_list"))["keys"]}
    assert listed[about["key_id"]]["hidden_tools"] == ["file_write", "gone"]


async def test_a_key_keeps_its_toolsets_and_hands_them_on(
    root: Door, doorman: Authenticator
) -> None:
    made = await root("keys_create", toolsets=["files", "agent"])
    caller = await doorman.resolve(made["text"])
    assert caller is not None
    assert caller.toolsets == {"agent", "files"}
    about = {"key_id": made["key"]["key_id"]}
    rotated = await root("keys_rotate", **about)
    assert rotated["key"]["toolsets"] == ["agent", "files"]
    assert (await root("keys_update", **about, label="x"))["key"]["toolsets"] == ["agent", "files"]
    assert (await root("keys_update", **about, toolsets=[]))["key"]["toolsets"] == []
    await root.refuses("INVALID_ARGUMENT", "keys_create", toolsets=["flies"])


@pytest.mark.parametrize(
    "mine",
    [{"permissions": ["admin"]}, {"hidden_tools": ["file_read"]}],
    ids=["permissions", "hidden tools"],
)
async def test_a_key_that_may_more_cannot_be_rotated_revoked_or_changed(
    root: Door, doorman: Authenticator, mine: dict[str, Any]
) -> None:
    door = await narrow(root, doorman, **mine)
    for tool in ("keys_rotate", "keys_revoke", "keys_update"):
        await door.refuses("PERMISSION_DENIED", tool, key_id=str(root.caller.key_id))


async def test_a_key_confined_to_projects_knows_only_keys_so_confined(
    root: Door, doorman: Authenticator
) -> None:
    door = await narrow(root, doorman, projects=["a", "b"])
    within = (await root("keys_create", label="within", projects=["a"]))["key"]
    beyond = (await root("keys_create", label="beyond", projects=["a", "c"]))["key"]
    assert {key["label"] for key in (await door("keys_list"))["keys"]} == {"narrow", "within"}
    await door.refuses("NOT_FOUND", "keys_revoke", key_id=beyond["key_id"])
    await door.refuses("NOT_FOUND", "keys_rotate", key_id=str(root.caller.key_id))
    await door.refuses(
        "PERMISSION_DENIED", "keys_update", key_id=within["key_id"], all_projects=True
    )
    assert (await door("keys_revoke", key_id=within["key_id"]))["key"]["state"] == "revoked"


async def test_a_rotated_key_opens_until_the_overlap_is_over(
    root: Door, doorman: Authenticator, clock: FakeClock
) -> None:
    old = await root(
        "keys_create", permissions=["read"], projects=["a"], hidden_tools=["file_write"]
    )
    made = await root("keys_rotate", key_id=old["key"]["key_id"], overlap_hours=2)
    rights = ("permissions", "projects", "hidden_tools", "label")
    assert [made["key"][name] for name in rights] == [old["key"][name] for name in rights]
    assert made["key"]["expires_at"] is None
    assert made["old"]["expires_at"] == "2026-01-05T14:00:00Z"
    clock.advance(hours=1)
    assert await doorman.resolve(old["text"]) is not None
    clock.advance(hours=1)
    assert await doorman.resolve(old["text"]) is None
    assert await doorman.resolve(made["text"]) is not None
    await root.refuses("CONFLICT", "keys_rotate", key_id=old["key"]["key_id"])


async def test_rotation_never_prolongs_the_old_key_nor_the_one_that_rotates(
    root: Door, doorman: Authenticator, clock: FakeClock
) -> None:
    soon = clock.now() + timedelta(hours=1)
    door = await narrow(root, doorman, expires_at=soon.isoformat())
    made = await door("keys_rotate", key_id=str(door.caller.key_id), overlap_hours=100)
    assert made["key"]["expires_at"] == made["old"]["expires_at"] == "2026-01-05T13:00:00Z"


async def test_the_last_key_that_manages_keys_for_good_is_not_taken_away_by_accident(
    root: Door, doorman: Authenticator
) -> None:
    mine = str(root.caller.key_id)
    await root("keys_create", label="soon over", expires_at="2026-02-01T00:00:00Z")
    await root("keys_create", label="confined", projects=["a"])
    await root("keys_create", label="reads", permissions=["read", "write"])
    await root("keys_create", label="blind", hidden_tools=["keys_create"])
    for change in (
        {"permissions": ["read"]},
        {"projects": ["a"]},
        {"expires_at": "2026-02-01T00:00:00Z"},
        {"hidden_tools": ["keys_list"]},
    ):
        refused = await root.refuses("CONFLICT", "keys_update", key_id=mine, **change)
        assert "even_last" in refused["recovery"]
    await root.refuses("CONFLICT", "keys_revoke", key_id=mine)
    await root("keys_update", key_id=mine, label="still root")
    second = (await root("keys_create", label="second"))["key"]["key_id"]
    assert (await root("keys_revoke", key_id=mine))["key"]["state"] == "revoked"
    assert (await root("keys_revoke", key_id=second, even_last=True))["key"]["state"] == "revoked"


async def test_a_key_that_expires_does_not_rotate_the_last_one_that_does_not(
    root: Door, doorman: Authenticator
) -> None:
    brief = await narrow(root, doorman, expires_at="2026-02-01T00:00:00Z")
    last = str(root.caller.key_id)
    await brief.refuses("CONFLICT", "keys_rotate", key_id=last)
    assert len((await root("keys_list"))["keys"]) == 2
    await root("keys_create", label="another")
    assert (await brief("keys_rotate", key_id=last))["key"]["expires_at"] == "2026-02-01T00:00:00Z"


async def test_a_key_is_changed_in_what_is_given_and_stays_in_the_rest(
    root: Door, doorman: Authenticator
) -> None:
    made = await root(
        "keys_create", label="a", permissions=["read", "write"], expires_at="2026-02-01T00:00:00Z"
    )
    key_id = made["key"]["key_id"]
    changed = (await root("keys_update", key_id=key_id, label="b", projects=["p"]))["key"]
    assert changed == made["key"] | {"label": "b", "projects": ["p"], "last_used_at": None}
    widened = (await root("keys_update", key_id=key_id, all_projects=True, never_expires=True))[
        "key"
    ]
    assert (widened["projects"], widened["expires_at"]) == (None, None)
    assert (await doorman.resolve(made["text"])) is not None
    await root.refuses(
        "INVALID_ARGUMENT", "keys_update", key_id=key_id, projects=["p"], all_projects=True
    )
    await root.refuses(
        "INVALID_ARGUMENT", "keys_update", key_id=key_id, expires_at="2025-01-01T00:00:00Z"
    )
    await root("keys_revoke", key_id=key_id)
    await root.refuses("CONFLICT", "keys_update", key_id=key_id, label="c")


@pytest.mark.parametrize("empty", ["", " "])
async def test_empty_user_is_refused_and_binding_is_removed_by_name(root: Door, empty: str) -> None:
    before = await root("keys_list")
    await root.refuses("INVALID_ARGUMENT", "keys_create", user_id=empty)
    assert await root("keys_list") == before
    made = await root("keys_create", user_id="ada")
    about = {"key_id": made["key"]["key_id"]}
    await root.refuses("INVALID_ARGUMENT", "keys_update", **about, user_id=empty)
    assert (await root("keys_update", **about, label="x"))["key"]["user_id"] == "ada"
    assert (await root("keys_update", **about, any_user=True))["key"]["user_id"] == ""


async def test_a_tenant_of_open_mode_makes_keys_for_itself(
    call: Door, doorman: Authenticator
) -> None:
    made = await call("keys_create", label="now listed")
    caller = await doorman.resolve(made["text"])
    assert caller is not None
    assert caller.tenant == call.caller.tenant


async def test_agents_do_not_see_these_tools_unless_settings_say_so(call: Door) -> None:
    names = {tool.name for tool in call.dispatch.catalogue if tool.is_admin}
    assert {
        "keys_list",
        "keys_create",
        "keys_rotate",
        "keys_revoke",
        "keys_update",
        "calls_list",
    } <= names


async def test_of_two_keys_that_revoke_each_other_at_once_one_is_left(
    root: Door, doorman: Authenticator
) -> None:
    other = await narrow(root, doorman)
    outcomes = await gather(
        *(
            door.dispatch.call(
                door.caller,
                "keys_revoke",
                {"key_id": str(key_id)},
                surface="test",
                request_id="test",
            )
            for door, key_id in ((root, other.caller.key_id), (other, root.caller.key_id))
        )
    )
    assert sorted(outcome.body.get("code", "") for outcome in outcomes) == ["", "CONFLICT"]
