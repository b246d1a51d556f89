"""Resources, prompts and errors of the protocol, by the SDK's own client on both wires."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from mcp import MCPError

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Permission
from memsvc.store.calls import CallFilter, list_calls
from memsvc.store.database import Database
from memsvc.store.keys import create_key, hash_key
from tests.fakes import FakeClock
from tests.gateway.boards import BOARD, PROMPT, Boards
from tests.gateway.conftest import WIRES, Gateway, Running

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("wire", WIRES)]

ANNOUNCING = {"legacy": "legacy", "2026-07-28": "auto"}
"""The mode of a client that asks what there is."""
NOT_FOUND = {"legacy": -32002, "2026-07-28": -32602}


@pytest.fixture
def boards(database: Database) -> Boards:
    return Boards(database)


@pytest.fixture
async def board(running: Running, boards: Boards) -> AsyncIterator[Gateway]:
    """A gateway with boards, one of which is written."""
    async with running(tools=boards.catalogue(), prompts=[PROMPT]) as gateway:
        async with gateway.client("2026-07-28") as client:
            for user, conversation, project, text in (
                ("alice", "1", "default", "plans"),
                ("a/b", "メモ", "default", "slash"),
                ("alice", "1", "other", "elsewhere"),
            ):
                answer = await client.call_tool(
                    "board_write",
                    {
                        "user_id": user,
                        "conversation_id": conversation,
                        "project": project,
                        "text": text,
                    },
                )
                assert answer.is_error is False
        yield gateway


async def refused(client: Any, uri: str) -> Any:
    """The error of a read that has to fail."""
    with pytest.raises(MCPError) as raised:
        await client.read_resource(uri)
    return raised.value.error


async def test_a_template_is_listed_and_no_resource(board: Gateway, wire: str) -> None:
    async with board.client(ANNOUNCING[wire]) as client:
        [template] = (await client.list_resource_templates()).resource_templates
        assert (await client.list_resources()).resources == []
        capabilities = client.server_capabilities
    assert (template.uri_template, template.name, template.mime_type) == (
        BOARD.template,
        "board",
        "text/plain",
    )
    assert "?project=NAME" in str(template.description)
    assert capabilities.resources is not None
    assert capabilities.resources.subscribe is True
    assert capabilities.resources.list_changed in (None, False)
    assert capabilities.prompts is not None


async def test_a_server_without_resources_and_prompts_announces_none(
    gateway: Gateway, wire: str
) -> None:
    async with gateway.client(ANNOUNCING[wire]) as client:
        assert (client.server_capabilities.resources, client.server_capabilities.prompts) == (
            None,
            None,
        )
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed in (None, False)


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("memory://alice/1", "plans"),
        ("MEMORY://alice/1", "plans"),
        ("memory://%61lice/1", "plans"),
        ("memory://alice/1?project=default", "plans"),
        ("memory://alice/1?project=other", "elsewhere"),
        ("memory://a%2Fb/%E3%83%A1%E3%83%A2", "slash"),
        ("memory://a%2fb/メモ", "slash"),
        ("memory://nobody/1", ""),
        ("memory://%2E%2E/%2e", ""),
    ],
)
async def test_a_uri_is_read_as_the_client_wrote_it(
    board: Gateway, wire: str, uri: str, text: str
) -> None:
    async with board.client(wire) as client:
        [content] = (await client.read_resource(uri)).contents
    assert (content.uri, content.mime_type, content.text) == (uri, "text/plain", text)


@pytest.mark.parametrize(
    "uri",
    [
        "memory://alice/a/b",
        "memory://alice",
        "memory://alice/",
        "memory:///1",
        "memory://alice/1/",
        "memory://alice/1#part",
        "memory://alice/1?user=bob",
        "memory:alice/1",
        "board://alice/1",
        "alice",
        "",
    ],
)
async def test_a_uri_that_names_nothing_is_unknown(board: Gateway, wire: str, uri: str) -> None:
    async with board.client(wire) as client:
        error = await refused(client, uri)
    assert (error.code, error.message) == (NOT_FOUND[wire], f"Unknown resource: {uri}")
    assert (error.data["code"], error.data["retryable"]) == ("NOT_FOUND", False)


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("memory://alice/" + "a" * 2048, "longer than 2048"),
        ("memory://alice/a%00b", "control"),
        ("memory://alice/a\nb", "control"),
        ("memory://alice/%FF%FE", "UTF-8"),
        ("memory://alice/100%", "%"),
        ("memory://alice/%4", "%"),
        ("memory://alice/" + "a" * 129, "128 bytes"),
        ("memory://alice/1?project=a%2Fb", "project"),
    ],
)
async def test_a_uri_that_could_never_be_right_is_refused(
    board: Gateway, wire: str, uri: str, why: str
) -> None:
    async with board.client(wire) as client:
        error = await refused(client, uri)
    assert error.code == -32602
    assert why in error.message
    assert error.data["retryable"] is False


async def test_an_outage_is_an_error_and_never_an_empty_text(
    board: Gateway, boards: Boards, wire: str
) -> None:
    boards.fails = MemsvcError(
        Code.UNAVAILABLE, "the database cannot be reached at the moment", retry_after_s=1.0
    )
    async with board.client(wire) as client:
        error = await refused(client, "memory://alice/1")
        with pytest.raises(MCPError) as prompted:
            await client.get_prompt("board:show", {"user_id": "alice", "conversation_id": "1"})
    for one in (error, prompted.value.error):
        assert one.code == -32603
        assert one.data == {
            "code": "UNAVAILABLE",
            "message": "the database cannot be reached at the moment",
            "retryable": True,
            "retry_after_s": 1.0,
        }


async def test_another_tenant_reads_its_own_board(board: Gateway, wire: str) -> None:
    async with board.client(wire, "key-two") as client:
        [content] = (await client.read_resource("memory://alice/1")).contents
    assert content.text == ""


async def test_a_read_is_logged_and_counted_as_a_call_of_the_tool(
    board: Gateway, database: Database, scope: Any, wire: str
) -> None:
    async with board.client(wire) as client:
        await client.read_resource("memory://alice/1")
    await board.call_log.flush()
    async with database.begin_tenant(
        type(scope)(hash_key("key-one"), "default"), read_only=True
    ) as tx:
        [record, *_] = (
            await list_calls(tx, CallFilter(tool="board_read"), after=None, limit=10)
        ).calls
    assert (record.surface, record.status) == ("mcp", "success")
    # a URI names its project, whatever the connection's own is
    named = {"project": "default", "user_id": "alice", "conversation_id": "1"}
    assert record.arguments == named
    assert (
        'memsvc_calls_total{code="",status="success",tool="board_read"} 1.0'
        in board.metrics.text().decode()
    )


async def test_a_narrow_key_reads_what_it_may(
    board: Gateway, database: Database, clock: FakeClock, wire: str
) -> None:
    key = await create_key(
        database,
        "narrow",
        clock.now(),
        tenant=hash_key("key-one"),
        permissions=[Permission.READ],
        projects=["default"],
        expires_at=clock.now() + timedelta(days=1),
    )
    async with board.client(wire, key.text) as client:
        [content] = (await client.read_resource("memory://alice/1")).contents
        error = await refused(client, "memory://alice/1?project=other")
        message = (
            await client.get_prompt("board:show", {"user_id": "alice", "conversation_id": "1"})
        ).messages[0]
    assert content.text == "plans"
    assert (error.code, error.data["code"]) == (-32602, "PERMISSION_DENIED")
    assert message.content.text == "On the board: plans"


async def test_what_a_key_hides_is_unknown(
    board: Gateway, database: Database, clock: FakeClock, wire: str
) -> None:
    made = await create_key(
        database,
        "blind",
        clock.now(),
        tenant=hash_key("key-one"),
        hidden_tools=["board_read", "board_write"],
    )
    async with board.client(wire, made.text) as client:
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []
        error = await refused(client, "memory://alice/1")
        with pytest.raises(MCPError, match="Unknown prompt: board:show"):
            await client.get_prompt("board:show", {})
        hidden, unknown = (
            await client.call_tool("board_write", {}),
            await client.call_tool("nothing", {}),
        )
    assert (error.code, error.message) == (NOT_FOUND[wire], "Unknown resource: memory://alice/1")
    assert hidden.content[0].text == unknown.content[0].text.replace("nothing", "board_write")


async def test_what_is_switched_off_is_unknown_and_not_announced(
    running: Running, boards: Boards, wire: str
) -> None:
    off = frozenset({"board_read"})
    async with (
        running(tools=boards.catalogue(), prompts=[PROMPT], disabled=off) as gateway,
        gateway.client(ANNOUNCING[wire]) as client,
    ):
        assert (client.server_capabilities.resources, client.server_capabilities.prompts) == (
            None,
            None,
        )
        error = await refused(client, "memory://alice/1")
    assert error.code == -32601


async def test_a_prompt_is_one_message_of_the_user(board: Gateway, wire: str) -> None:
    async with board.client(wire) as client:
        [prompt] = (await client.list_prompts()).prompts
        got = await client.get_prompt(
            "board:show", {"user_id": "alice", "conversation_id": "1", "project": "other"}
        )
    assert (prompt.name, prompt.title, prompt.description) == (
        "board:show",
        "Board",
        "The board, as a message.",
    )
    assert [(one.name, one.required) for one in prompt.arguments or ()] == [
        ("user_id", True),
        ("conversation_id", True),
        ("project", False),
    ]
    [message] = got.messages
    assert (message.role, message.content.text) == ("user", "On the board: elsewhere")


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("board:show", {"user_id": "alice"}, "conversation_id is required"),
        (
            "board:show",
            {"user_id": "a", "conversation_id": "1", "odd": "x"},
            "unknown argument odd",
        ),
        ("board:hide", {}, "Unknown prompt: board:hide"),
    ],
)
async def test_a_prompt_that_cannot_be_made_is_an_error_of_the_protocol(
    board: Gateway, wire: str, name: str, arguments: dict[str, str], told: str
) -> None:
    async with board.client(wire) as client:
        with pytest.raises(MCPError) as raised:
            await client.get_prompt(name, arguments)
    assert (raised.value.error.code, raised.value.error.message) == (-32602, told)


async def test_a_value_that_is_no_text_is_told_as_json(board: Gateway, wire: str) -> None:
    async with board.client(wire) as client:
        answer = await client.call_tool("board_write", {"user_id": "u", "conversation_id": "c"})
    assert (answer.content[0].text, answer.structured_content) == ("true", {"result": True})


@pytest.mark.parametrize(
    ("arguments", "code", "data"),
    [
        (
            {"text": "no such board"},
            -32602,
            {"code": "NOT_FOUND", "message": "Error: id: not found", "id": "u"},
        ),
        (
            {"text": "busy"},
            -32603,
            {"code": "RESOURCE_BUSY", "retryable": True, "retry_after_s": 0.5},
        ),
        ({"text": "crash"}, -32603, {"code": "INTERNAL_ERROR", "message": "internal error"}),
        (
            {"odd": 1},
            -32602,
            {"code": "INVALID_ARGUMENT", "message": "unknown argument odd"},
        ),
    ],
)
async def test_a_tool_of_protocol_errors_raises_them_with_our_body_as_data(
    board: Gateway, wire: str, arguments: dict[str, Any], code: int, data: dict[str, Any]
) -> None:
    async with board.client(wire) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool(
                "board_write", {"user_id": "u", "conversation_id": "c"} | arguments
            )
    error = raised.value.error
    assert (error.code, error.message) == (code, error.data["message"])
    assert data.items() <= error.data.items()
    assert (
        f'code="{data["code"]}",status="error",tool="board_write"}} 1.0'
        in board.metrics.text().decode()
    )
