"""Whatever one tenant was ever told leads another one nowhere: ids, paths, versions, cursors,
tokens, URIs."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx2
import orjson
import pytest

from memsvc.core.scope import Permission
from memsvc.store import keys
from tests.contract.catalogue import EXAMPLES, MARK, TOOLS
from tests.contract.test_isolation import rows
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CANARY = "ambergris"
"""A word of what is stored; no name has it."""

PLAIN = {
    *(
        "type",
        "role",
        "kind",
        "tier",
        "state",
        "origin",
        "code",
        "status",
        "category",
        "content_encoding",
        "reason",
    ),
    *(
        "created_at",
        "updated_at",
        "expires_at",
        "valid_from",
        "last_consolidated",
        "text",
        "frame_name",
        "key",
    ),
    *(
        "relation",
        "action",
        "mime_type",
        "protocolVersion",
        "scored_by",
        "started_at",
        "queued_at",
        "method",
    ),
}
"""Names in answers under which nothing stands that could lead anywhere."""

CONTENT = {
    *(
        "content",
        "current_input",
        "file_text",
        "input_items",
        "messages",
        "new_text",
        "old_text",
        "output_items",
    ),
    *(
        "conversation_items",
        "query",
        "prompt",
        "note",
        "cue",
        "reason",
        "memory",
        "steps",
        "entries",
        "vars",
    ),
}
"""Arguments that say something and lead nowhere."""

TOLD_ON_PURPOSE = {"find_tool", "elfmem_guide"}
"""Tools that say the same to everybody."""


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


class Asking:
    """One client over plain HTTP and MCP, which keeps what it was told."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.told: dict[str, dict[str, None]] = defaultdict(dict)

    async def tool(self, name: str, arguments: dict[str, Any]) -> str:
        """The answer of a tool, an error or not, but never a fault of ours."""
        answered = await self.http.post(f"/api/tools/{name}", json=arguments)
        assert answered.status_code < 500, (name, arguments, answered.text)
        self.keep(name, answered)
        return answered.text

    async def get(self, path: str, method: str = "GET") -> str:
        """The answer of a route."""
        answered = await self.http.request(method, path)
        assert answered.status_code < 500, (path, answered.text)
        self.keep(path, answered)
        return answered.text

    async def mcp(self, method: str, **params: Any) -> str:
        """The answer of an MCP method."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        sent = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
        name = params.get("uri") or params.get("name") or ""
        wire = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
        }
        wire |= {"mcp-method": method} | ({"mcp-name": quote(name, safe=":/?=%")} if name else {})
        answered = await self.http.post("/mcp", json=sent, headers=wire)
        assert answered.status_code < 500, (method, answered.text)
        return answered.text

    def keep(self, where: str, answered: httpx2.Response) -> None:
        """Keep every short value of an answer that may mean something to the service."""
        for name in ("etag", "last-event-id"):
            if name in answered.headers:
                self.told[name].setdefault(answered.headers[name].strip('"'))
        try:
            body = orjson.loads(answered.content)
        except orjson.JSONDecodeError:
            return
        for name, value in leaves(body, where):
            if (
                isinstance(value, str)
                and 0 < len(value) < 600
                and CANARY not in value
                and not value.count(" ")
            ):
                self.told[name].setdefault(value)
            elif (
                isinstance(value, int)
                and not isinstance(value, bool)
                and name in ("id", "job", "number")
            ):
                self.told[name].setdefault(str(value))

    def values(self) -> list[str]:
        """What was told: of each name that it stood under, the last, which is of the newest
        answer."""
        kept = dict.fromkeys(
            list(told)[-1] for name, told in self.told.items() if name not in PLAIN
        )
        return [value for value in kept if value not in ORDINARY]


OF_CALLS = {"calls", "rates", "recalls"}
KINDS = {"operation_token", "record_id", "version", "id", "path", "uri", "etag", "next_cursor"}
ORDINARY = {"default"}


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every value that is neither a list nor an object, with the name that it stands under."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from leaves(inner, key)
        case list():
            for inner in value:
                yield from leaves(inner, name)
        case _:
            yield name, value


def with_the_canary(value: Any) -> Any:
    """An example whose texts, but not its names, have the canary in them."""
    match value:
        case dict():
            return {key: with_the_canary(inner) for key, inner in value.items()}
        case list():
            return [with_the_canary(inner) for inner in value]
        case str() if " " in value and "\n" not in value and "{conversation}" not in value:
            return f"{value} The {CANARY} is in Ravenna."
        case _:
            return value


async def fill(asking: Asking) -> None:
    """Tell of everything, be told of everything."""
    for name, example in EXAMPLES.items():
        if TOOLS[name].destructive or TOOLS[name].is_admin:
            continue
        arguments = with_the_canary(example)
        if "operation_token" in example:
            continue  # it stays open, so that its token is worth something
        await asking.tool(name, arguments)
    user, board = f"{MARK}-u", f"{MARK}-c"
    said = [{"role": "user", "content": f"I collect {CANARY}. I like the {MARK} coast."}]
    await asking.tool("memories_add", {"user_id": user, "messages": said})
    again = {"path": f"/{MARK}/f.txt", "content": f"The {CANARY} again.", "mode": "TRUNCATE"}
    for name in ("file_write", "file_list_versions"):
        await asking.tool(
            name,
            {"project": "default"} | (again if name == "file_write" else {"path": again["path"]}),
        )
    await asking.tool("file_list", {"project": "default", "path": "", "depth": 9, "limit": 2})
    await asking.tool("memory_list_facts", {"session_id": f"{MARK}-s", "user_id": user, "limit": 1})
    assert CANARY in await asking.get(f"/api/files/default/content/{MARK}/f.txt")
    for path in (f"/api/memories/{user}", "/api/jobs", "/api/files", "/api/files/default/list/"):
        await asking.get(path)
    for method, params in MCP_CALLS:
        await asking.mcp(method, **params)
    asking.told["uri"] |= dict.fromkeys(
        (f"memory://{user}/{board}", f"memory://{user}/{board}?project=default")
    )
    assert CANARY in await asking.mcp("resources/read", uri=f"memory://{user}/{board}")


MCP_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
)
ROUTES = (
    "/api/files/default/content/{}",
    "/api/files/default/stat/{}",
    "/api/files/default/list/{}",
    "/api/files/default/versions/{}",
    f"/api/files/default/version/{{}}/{MARK}/f.txt",
    "/api/files/{}/list/",
    "/api/files?after={}",
    "/api/files/default/list/?cursor={}",
    "/api/memories/{}",
    f"/api/memories/{MARK}-u/{{}}",
    f"/api/memories/{MARK}-u/{{}}/history",
    "/api/memories?user_id={}",
    "/api/tools/{}",
)
CHANGING = ("/api/jobs/{}/retry", f"/api/files/default/restore/{{}}/{MARK}/f.txt")


def texts_of(name: str) -> list[str]:
    """The arguments of a tool that take a text."""
    fields = TOOLS[name].arguments.model_fields
    named = {one for one, field in fields.items() if "str" in str(field.annotation)}
    return sorted(named - CONTENT - {"project"})


async def led(asking: Asking, value: str, project: str) -> AsyncIterator[tuple[str, str]]:
    """Where routes, URIs, prompts and pipelines lead with a value, and what they answered."""
    for route in ROUTES:
        path = route.format(quote(value, safe="")).replace("/default/", f"/{project}/")
        yield route, await asking.get(path + ("&" if "?" in path else "?") + f"project={project}")
    for route in CHANGING:
        yield route, await asking.get(route.format(quote(value, safe="")), "POST")
    for uri in (value, f"memory://{quote(value, safe='')}/x"):
        yield "resources/read", await asking.mcp("resources/read", uri=uri)
    whose = {"user_id": value, "conversation_id": f"{MARK}-c"}
    yield "prompts/get", await asking.mcp("prompts/get", name="memory:whiteboard", arguments=whose)
    pipe = {
        "steps": [{"id": "a", "tool": "file_read", "args": {"path": value}}],
        "return": {"$ref": "last"},
    }
    yield "mcp_pipe", await asking.tool("mcp_pipe", pipe)


async def tried(asking: Asking, values: list[str], project: str) -> tuple[int, list[str]]:
    """Ask for each value wherever it could lead; how often, and where it led to what others
    stored."""
    count, leaks = 0, []

    def look(where: str, value: str, answered: str) -> None:
        nonlocal count
        count += 1
        if CANARY in answered:
            leaks.append(f"{where} {value}: {answered[:300]}")

    for name, example in EXAMPLES.items():
        if name in TOLD_ON_PURPOSE or TOOLS[name].is_admin:
            continue
        beside = {"project": project} if "project" in example else {}
        if "operation_token" in example:
            beside = {}
        look(name, "as its example has it", await asking.tool(name, example | beside))
        for argument in texts_of(name):
            for value in values:
                look(name, value, await asking.tool(name, example | beside | {argument: value}))
    for value in values:
        for where, answered in [one async for one in led(asking, value, project)]:
            look(where, value, answered)
    return count, leaks


async def test_what_one_tenant_was_told_leads_another_nowhere(
    service: Service, admin: asyncpg.Connection
) -> None:
    tenant = keys.hash_key("key-one")
    async with service.http("key-one") as one, service.http("key-two") as other:
        owner = Asking(one)
        await fill(owner)
        before = await kept(admin, tenant)
        values = owner.values()
        assert owner.told.keys() >= KINDS, sorted(owner.told)
        count, leaks = await tried(Asking(other), values, "default")
        assert leaks == []
        assert count > 4000
        assert await kept(admin, tenant) == before
        assert CANARY in await owner.get(f"/api/files/default/content/{MARK}/f.txt")


async def kept(admin: asyncpg.Connection, tenant: bytes) -> dict[str, list[str]]:
    """Everything that a tenant has, but what notes its calls."""
    return {
        table: held
        for table, held in (await rows(admin, tenant, "default")).items()
        if table not in OF_CALLS
    }


async def test_a_key_of_one_project_is_led_into_no_other(
    service: Service, admin: asyncpg.Connection
) -> None:
    tenant = keys.hash_key("key-one")
    narrow = await service.key(permissions=frozenset(Permission), projects=["elsewhere"])
    async with service.http("key-one") as one, service.http(narrow) as other:
        owner = Asking(one)
        await fill(owner)
        before = await kept(admin, tenant)
        values = owner.values()[::2]
        confined = Asking(other)
        count, leaks = await tried(confined, values, "elsewhere")
        for project in ("default", "*", ""):
            further, found = await tried(confined, values[:2], project)
            count, leaks = count + further, leaks + found
        assert leaks == []
        assert count > 1500
        after = await kept(admin, tenant)
        before.pop("usage")
        assert {table: after[table] for table in before} == before
