"""The console of the whole service, visited as a browser would without scripts."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import asyncpg
import httpx2
import pytest

from tests.gateway.conftest import ORIGIN
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')
FORM_TOKEN = re.compile(r'"X-Form-Token": "([0-9a-f]+)"')


@dataclass
class Visit:
    """A browser that is signed in; addresses are those below a project."""

    http: httpx2.AsyncClient
    slot: str
    project: str = "default"

    def address(self, path: str, project: str | None = None) -> str:
        return f"/console/{self.slot}/{project or self.project}/{path}"

    async def get(
        self, path: str = "", /, *, project: str | None = None, **query: str
    ) -> httpx2.Response:
        return await self.http.get(self.address(path, project), params=query)

    async def text(self, path: str = "", /, **query: str) -> str:
        """A page that has to come."""
        answer = await self.get(path, **query)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[-2000:])
        return answer.text

    async def part(self, path: str, /, **query: str) -> str:
        """A part of a page, as htmx asks for it."""
        answer = await self.http.get(
            self.address(path), params=query, headers={"HX-Request": "true"}
        )
        assert answer.status_code == 200, (path, answer.status_code, answer.text[-2000:])
        assert "<html" not in answer.text
        return answer.text

    async def token(self) -> str:
        found = FORM_TOKEN.search((await self.get("settings")).text.replace("&#34;", '"'))
        assert found is not None
        return found[1]

    async def send(self, path: str, /, **form: Any) -> httpx2.Response:
        """Send a form of this visit; where it leads is the answer."""
        data = {"form_token": await self.token()} | form
        return await self.http.post(self.address(path), data=data)


@asynccontextmanager
async def visiting(service: Service, key: str = "key-one") -> AsyncIterator[Visit]:
    """Signed in with a key."""
    async with service.http(None) as http:
        answer = await http.post("/console/sign-in", data={"key": key})
        assert answer.status_code == 303, answer.text
        _, _, slot, project, _ = answer.headers["location"].split("/", 4)
        yield Visit(http, slot, project)


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


@pytest.fixture
async def visit(service: Service) -> AsyncIterator[Visit]:
    async with visiting(service) as visit:
        yield visit


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def check_harmless(text: str) -> None:
    """No page has a script or style but those of files, and no element calls one."""
    for tag, attributes in Elements(text).found:
        assert tag not in ("style", "iframe", "object", "embed", "base"), tag
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/console/static/"), attributes
        assert not any(name == "style" or name.startswith("on") for name in attributes), (
            tag,
            attributes,
        )
        for name in ("href", "src", "action"):
            at = attributes.get(name) or ""
            assert not at or at.startswith(("/", "#")), (tag, at)


async def fill(service: Service, *, text: str = "plain", name: str = "plain") -> dict[str, str]:
    """Something for each page, with a text and a name in it that somebody chose; what it is known
    by."""
    async with service.http() as http:

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await http.post(f"/api/tools/{tool}", json=arguments)
            assert answer.status_code == 200, (tool, answer.text)
            body: dict[str, Any] = answer.json()
            return body

        said = [{"role": "user", "content": f"My name is Ada. {text}"}]
        answered = [{"role": "assistant", "content": f"Hello. {text}"}]
        turn = {"session_id": name, "turn_id": f"{name}1", "user_id": name}
        await call("memory_after_turn", **turn, input_items=said, output_items=answered)
        await call("memory_before_turn", session_id=name, user_id=name, current_input="Ada?")
        await call("file_write", project="default", path="/notes/a.md", content=text)
        await call("context_update", user_id=name, conversation_id=name, entries=said)
        await call("update_document", id="root", content=f"# All\n\n{text}\n")
        memory = await call(
            "memories_add", user_id=name, messages=[{"role": "user", "content": f"I like {text}."}]
        )
        block = await call(
            "elfmem_remember", content=f"A block: {text}", tags=[name], category=name, cue=text
        )
        other = await call("elfmem_remember", content=f"Another block: {text}")
        await call(
            "elfmem_connect",
            source=block["block_id"],
            target=other["block_id"],
            relation=name,
            note=text,
        )
        await call("keys_list")
        refused = await http.post("/api/tools/elfmem_show", json={"block_id": name})
        assert refused.status_code == 404
    await service.calls("elfmem_show")
    assert memory
    return {"block": block["block_id"], "other": other["block_id"]}


__all__ = ["ORIGIN", "Elements", "Service", "Visit", "check_harmless", "fill", "visiting"]
