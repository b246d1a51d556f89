"""Who is let into the console, and what every answer of it carries."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from memsvc.console.dependencies import ConsoleOptions
from memsvc.console.page import CookieFactory
from memsvc.core.scope import Permission
from memsvc.gateway.auth import AuthOptions
from tests.console.conftest import Service, Visit, fill, visiting
from tests.gateway.served import served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
DOOR = "/console/"


async def test_who_has_not_signed_in_is_sent_to_the_door(service: Service) -> None:
    async with service.http(None) as http:
        for path in ("/console", "/console/AAAA/default/", "/console/AAAA/default/keys"):
            answer = await http.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, DOOR)
        answer = await http.post("/console/AAAA/default/create-key", data={"label": "x"})
        assert (answer.status_code, answer.headers["location"]) == (303, DOOR)
        part = await http.get("/console/AAAA/default/sessions", headers={"HX-Request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, DOOR)


async def test_the_bare_address_leads_to_the_console(service: Service) -> None:
    async with service.http(None) as http:
        answer = await http.get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")


async def test_a_cookie_of_another_slot_opens_nothing(service: Service, visit: Visit) -> None:
    cookie = visit.http.cookies.get("memsvc_console")
    assert cookie is not None
    async with service.http(None) as http:
        for slot, status in ((visit.slot, 200), (visit.slot[:-1] + "_", 303), ("other", 303)):
            headers = {"Cookie": f"memsvc_console={cookie}"}
            answer = await http.get(f"/console/{slot}/default/settings", headers=headers)
            assert answer.status_code == status
        for broken in (cookie[:-2], "AAAA", "!" * 96, cookie[:40] + "AA" + cookie[42:]):
            headers = {"Cookie": f"memsvc_console={broken}"}
            answer = await http.get(f"/console/{visit.slot}/default/settings", headers=headers)
            assert answer.status_code == 303


async def test_a_cookie_is_good_for_a_time(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    over = ConsoleOptions(session_hours=1e-9)
    async with served(database_urls, admin, console=over) as service, visiting(service) as visit:
        answer = await visit.get("settings")
        assert (answer.status_code, answer.headers["location"]) == (303, DOOR)


async def test_who_signed_out_is_out_on_every_replica_with_every_cookie_of_the_session(
    service: Service, visit: Visit, database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    cookie = {"Cookie": f"memsvc_console={visit.http.cookies.get('memsvc_console')}"}
    page = visit.address("settings")
    async with (
        served(database_urls, admin) as beside,
        service.http(None) as one,
        beside.http(None) as other,
    ):
        for http in (one, other):
            assert (await http.get(page, headers=cookie)).status_code == 200
        await other.post(
            f"/console/{visit.slot}/sign-out"
        )  # without the cookie: this ends nobody's session
        assert (await one.get(page, headers=cookie)).status_code == 200
        assert (await visit.http.post(f"/console/{visit.slot}/sign-out")).status_code == 303
        for http in (one, other):
            answer = await http.get(page, headers=cookie)
            assert (answer.status_code, answer.headers["location"]) == (303, DOOR)


async def test_a_session_that_is_used_all_the_time_ends_after_a_week() -> None:
    async def secret() -> bytes:
        return b"s" * 32

    seals, began = CookieFactory(secret, timedelta(hours=12)), datetime(2026, 1, 5, tzinfo=UTC)
    now, cookie = began, await seals.create("slot", b"k" * 32, began)
    while (seal := await seals.verify("slot", cookie, now)) is not None:
        assert (seal.key_hash, seal.started_at) == (b"k" * 32, began)
        if seals.is_old(seal, now):
            cookie = await seals.create("slot", seal.key_hash, now, seal.started_at)
        now += timedelta(hours=1)
    assert now - began == timedelta(days=7)


async def test_a_revoked_key_ends_its_pages(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(
        database_urls, admin, auth=AuthOptions(mode="open", cache_s=0)
    ) as service:  # whether or not it was told
        key = await service.key(permissions=frozenset({Permission.READ}))
        async with visiting(service, key) as visit, visiting(service) as owner:
            assert (await visit.get("settings")).status_code == 200
            assert (
                await owner.send("revoke-key", id=await key_id(owner, "narrow"))
            ).status_code == 303
            assert (await visit.get("settings")).status_code == 303


async def key_id(visit: Visit, label: str) -> str:
    outcome = await visit.text("keys")
    before = outcome[: outcome.index(f"<bdi>{label}</bdi>")]
    return before[before.rindex("id=") + 3 :].partition('"')[0]


async def test_signing_out_takes_the_cookie_away(visit: Visit) -> None:
    answer = await visit.http.post(f"/console/{visit.slot}/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, DOOR)
    assert (await visit.get("settings")).status_code == 303


async def test_every_answer_says_what_a_page_may_do_and_is_kept_by_nobody(
    service: Service, visit: Visit
) -> None:
    async with service.http(None) as http:
        answers = [
            await http.get(DOOR),
            await http.get("/console/nowhere/at/all"),
            await http.get("/console/AAAA/default/"),
            await http.post("/console/sign-in", data={"key": ""}),
            await visit.get(""),
            await visit.get("block", id="nobody"),
            await visit.get("session", id="nobody"),
            await visit.http.post(visit.address("curate"), data={"form_token": "wrong"}),
        ]
        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
        sheet = await http.get("/console/static/console.css")
        assert "immutable" in sheet.headers["cache-control"]
        assert "content-security-policy" in sheet.headers


async def test_two_tabs_of_one_browser_may_show_two_tenants(service: Service) -> None:
    await fill(service, name="of-the-first")
    async with service.http(None) as http:
        visits = []
        for key in ("key-one", "key-two"):
            answer = await http.post("/console/sign-in", data={"key": key})
            visits.append(Visit(http, answer.headers["location"].split("/")[2]))
        first, second = [await one.text("sessions") for one in visits]
        assert "of-the-first" in first
        assert "of-the-first" not in second
        stolen = await http.post(
            visits[1].address("curate"), data={"form_token": await visits[0].token()}
        )
        assert stolen.status_code == 403
        stolen = await http.get(visits[1].address("session"), params={"id": "of-the-first"})
        assert "My name is Ada" not in stolen.text


async def test_a_key_that_a_password_manager_fills_in_with_blanks_opens(service: Service) -> None:
    async with service.http(None) as http:
        assert (
            await http.post("/console/sign-in", data={"key": "  key-one \n"})
        ).status_code == 303
        assert (await http.post("/console/sign-in", data={"key": "   "})).status_code == 400
