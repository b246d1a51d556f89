"""What nobody can make the console do: wait, hold what it was sent, or think for long."""

import asyncio
from base64 import urlsafe_b64encode
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from memsvc.console import routes
from memsvc.console.diff import LINES_MAX, DiffLine, difference
from memsvc.console.views.document_views import _tree
from memsvc.core.errors import Code, MemsvcError
from memsvc.gateway.admission import SlotOptions
from memsvc.gateway.limits import LimitsOptions
from memsvc.store import server_secrets
from memsvc.styles.notebook.notebook_reader import block_style
from tests.console.conftest import Service, Visit, visiting
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio


async def test_who_is_not_signed_in_may_send_a_key_and_no_more(service: Service) -> None:
    async with service.http(None) as http:
        answer = await http.post("/console/sign-in", data={"key": "k" * routes.KEY_BODY_BYTES_MAX})
        assert answer.status_code == 413
        read: list[bytes] = []

        async def body() -> Any:
            for _ in range(100):
                read.append(b"x")
                yield b"content=" + b"x" * 100_000

        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await http.post("/console/AAAA/default/edit-file", content=body(), headers=form)
        assert answer.status_code == 303


async def test_a_form_that_does_not_come_is_not_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "BODY_S_MAX", 0.05)
    never = asyncio.Event()

    async def body() -> Any:
        yield b"key="
        await never.wait()

    async with service.http(None) as http:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await http.post("/console/sign-in", content=body(), headers=form)
    assert (answer.status_code, answer.headers["connection"]) == (408, "close")


async def test_forms_on_their_way_take_the_places_of_bodies(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    one = LimitsOptions(slots=SlotOptions(bodies_max=1))
    async with served(database_urls, admin, limits=one) as service, visiting(service) as visit:
        token, seen = await visit.token(), []

        async def body() -> Any:
            yield f"form_token={token}&".encode()
            seen.append(await visit.http.post(visit.address("curate"), data={"form_token": token}))
            yield b"x=y"

        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await visit.http.post(visit.address("curate"), content=body(), headers=form)
    assert (answer.status_code, seen[0].status_code) == (303, 503)


async def test_without_the_database_the_console_says_so(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> bytes:
        raise MemsvcError(Code.UNAVAILABLE, "the database is out of reach")

    monkeypatch.setattr(server_secrets, "get_or_create", away)
    async with service.http(None) as http:
        cookie = {"Cookie": "memsvc_console=" + "A" * 107 + "="}
        for answer in (
            await http.get("/console/AAAA/default/settings", headers=cookie),
            await http.post("/console/sign-in", data={"key": "key-one"}),
        ):
            assert answer.status_code == 503
            assert "out of reach" in answer.text


async def test_no_address_leads_to_where_somebody_said(visit: Visit) -> None:
    answer = await visit.http.get(
        visit.address("settings/"), headers={"X-Forwarded-Host": "evil.example"}
    )
    assert (answer.status_code, "location" in answer.headers) == (404, False)
    answer = await visit.http.post("/console/a%3B%20path=%20x/sign-out")
    assert "; path=%20x" not in answer.headers.get("set-cookie", "").lower()
    assert answer.headers["set-cookie"].lower().count("path=/") == 1


async def test_a_cursor_that_was_made_up_is_refused(visit: Visit) -> None:
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        cursor = urlsafe_b64encode(f'["{moment}","a"]'.encode()).decode().rstrip("=")
        assert (await visit.get("sessions", cursor=cursor)).status_code == 400


async def test_deep_arguments_are_refused_as_over_rest(visit: Visit) -> None:
    for depth in (100, 900, 5000):
        deep = "[" * depth + "]" * depth
        answer = await visit.send(
            "playground", tool="mcp_pipe", **{"argument-steps": deep, "argument-pipeline": deep}
        )
        assert answer.status_code in (200, 400), (depth, answer.status_code)


@pytest.mark.parametrize("repeated", [["x"], ["x", "y"], ["x", "y", "z"]])
def test_texts_that_repeat_themselves_are_compared_in_no_time(repeated: list[str]) -> None:
    before = [repeated[number % len(repeated)] for number in range(LINES_MAX)]
    after = ["same", *(line for number in range(LINES_MAX // 2) for line in (f"new {number}", "x"))]
    lines = difference("\n".join(["same", *before]), "\n".join(after))
    assert lines[0] == DiffLine("same", "same")
    assert {line.kind for line in lines} == {"same", "added", "removed"}


def test_what_did_not_change_is_told_as_such() -> None:
    before = [f"line {number}" for number in range(20)]
    after = [*before[:9], "new", *before[10:]]
    told = [(line.kind, line.text) for line in difference("\n".join(before), "\n".join(after))]
    assert told == [
        ("skipped", "6"),
        *(("same", f"line {number}") for number in (6, 7, 8)),
        ("removed", "line 9"),
        ("added", "new"),
        *(("same", f"line {number}") for number in (10, 11, 12)),
        ("skipped", "7"),
    ]


def test_the_tree_of_a_notebook_is_read_however_deep_and_whatever_its_names_are() -> None:
    names = [
        "root",
        "it's",
        '"said"',
        "- dash",
        "a: b",
        "null",
        "1e3",
        "é😀",
        "end:",
        *map(str, range(1000)),
    ]
    deep = {name: [below] for name, below in pairwise(names)}
    assert _tree(block_style("root", deep), len(names)) == list(enumerate(names))
    assert _tree(block_style("root", deep), 3) == [(0, "root"), (1, "it's"), (2, '"said"')]
