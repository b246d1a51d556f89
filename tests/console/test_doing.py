"""What is done by the forms of the console."""

import re
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from memsvc.console.routes import ACTIONS, FORMS
from memsvc.core.scope import Permission, Scope
from memsvc.store import jobs, keys
from tests.console.conftest import Elements, Service, Visit, fill, visiting
from tests.gateway.test_jobs import fail

pytestmark = pytest.mark.anyio


async def test_no_form_does_anything_without_the_token_of_this_visit(
    service: Service, visit: Visit
) -> None:
    known = await fill(service)
    for path in (*FORMS, *ACTIONS):
        for token in ({}, {"form_token": ""}, {"form_token": "0" * 64}):
            answer = await visit.http.post(
                visit.address(path), data={"id": known["block"], **token}
            )
            assert answer.status_code == 403, path
            assert "belongs to another sign-in session" in answer.text
    assert "A block: plain" in await visit.text("block", id=known["block"])


async def test_what_writes_answers_no_get(visit: Visit) -> None:
    for path in ACTIONS:
        assert (await visit.get(path)).status_code == 405, path


async def test_every_form_of_a_page_carries_the_token(service: Service, visit: Visit) -> None:
    known = await fill(service)
    pages = [
        ("block", {"id": known["block"]}),
        ("knowledge", {}),
        ("keys", {}),
        ("purge", {}),
        ("memories", {}),
    ]
    for path, query in pages:
        text = await visit.text(path, **query)
        posts = [
            one
            for one in re.findall(r"<form\b.*?</form>", text, re.DOTALL)
            if 'method="post"' in one
        ]
        for form in posts:
            assert "sign-out" in form or 'name="form_token"' in form, form[:200]


async def test_a_block_is_edited_weighed_connected_and_forgotten(
    service: Service, visit: Visit
) -> None:
    known = await fill(service)
    block, other = known["block"], known["other"]
    done = await visit.send("edit-block", id=block, content="It says\r\nthis now.", cue="")
    assert done.status_code == 303
    shown = await visit.text("block", id=block)
    assert "It says\nthis now." in shown
    assert (await visit.send("dream", rules="1")).status_code == 303
    done = await visit.send("tell-outcome", id=block, signal="1", source="review")
    assert "Updated" in note(done.headers["location"]) or note(done.headers["location"])
    assert "<bdi>review</bdi>" in await visit.text("block", id=block)
    assert (await visit.send("disconnect-blocks", id=block, target=other)).status_code == 303
    done = await visit.send(
        "connect-blocks", id=block, target=f" {other} ", relation="supports", note="seen"
    )
    assert done.status_code == 303
    assert "<bdi>supports</bdi>" in await visit.text("block", id=block)
    assert (await visit.send("connect-blocks", id=block, target="nobody")).status_code == 404
    assert (await visit.send("tell-outcome", id=block, signal="much")).status_code == 400
    assert (await visit.send("curate")).status_code == 303
    done = await visit.send("forget-block", id=block)
    assert urlsplit(done.headers["location"]).path == visit.address("knowledge")
    forgotten = await visit.text("block", id=block)
    assert "The block was forgotten, and its text was deleted." in forgotten
    assert "this now" not in forgotten


def note(location: str) -> str:
    return parse_qs(urlsplit(location).query)["done"][0]


async def test_an_outcome_of_a_block_that_waits_says_why_nothing_was_learnt(
    service: Service, visit: Visit
) -> None:
    known = await fill(service)
    done = await visit.send("tell-outcome", id=known["block"], signal="1")
    assert note(done.headers["location"]) == (
        "Nothing was learned: the knowledge block is still waiting in the inbox to be consolidated"
    )


async def test_an_empty_project_says_how_to_connect_and_stores_a_first_turn(visit: Visit) -> None:
    overview = await visit.text()
    assert "/mcp&#34;" in overview or '/mcp"' in overview
    hidden = {
        one["name"]: one["value"]
        for one in Elements(overview).all("input")
        if one.get("type") == "hidden" and one["name"] not in ("form_token", None)
    }
    answer = await visit.send("playground", **hidden)
    assert "success" in answer.text
    assert "Send a first turn" not in await visit.text()
    assert "My name is Ada" in await visit.text("session", id="first")


async def test_a_new_key_is_shown_once_and_opens(service: Service, visit: Visit) -> None:
    made = await visit.send(
        "create-key", label="for <b>Bo</b>", permissions="read", projects="notes, mine"
    )
    assert made.status_code == 200
    [field] = [one for one in Elements(made.text).all("input") if one.get("id") == "made"]
    key = field["value"]
    assert key
    listed = await visit.text("keys")
    assert key not in listed
    assert "for &lt;b&gt;Bo&lt;/b&gt;" in listed
    async with visiting(service, key) as other:
        assert other.project == "mine"
        settings = await other.text("settings")
        assert "for &lt;b&gt;Bo" in settings
        assert visit.address("keys") not in settings


async def test_the_user_and_hidden_tools_of_a_key_are_shown_and_changed(
    service: Service, visit: Visit
) -> None:
    made = await visit.send(
        "create-key", label="bound", permissions="read", user_id=" ada ", hidden_tools="file_read"
    )
    assert made.status_code == 200
    listed = await visit.text("keys")
    assert "<bdi>ada</bdi>" in listed
    assert "1 tool is hidden from this key" in listed
    key = re.findall(r'key\?id=([0-9a-f-]{36})"><bdi>bound', listed)[0]
    assert 'name="user_id" maxlength="128" dir="auto" value="ada"' in await visit.text(
        "key", id=key
    )
    wanted = {"label": "bound", "permissions": "read", "hidden_tools": "file_read, file_stat"}
    await visit.send("update-key", id=key, user_id="bea", **wanted)
    listed = await visit.text("keys")
    assert "<bdi>bea</bdi>" in listed
    assert "2 tools are hidden from this key" in listed
    await visit.send("update-key", id=key, user_id="", **wanted)
    listed = await visit.text("keys")
    assert "bea" not in listed


async def test_a_key_is_changed_rotated_and_revoked(service: Service, visit: Visit) -> None:
    text = await service.key()
    listed = await visit.text("keys")
    key = re.findall(r'key\?id=([0-9a-f-]{36})"><bdi>narrow', listed)[0]
    wanted = {
        "label": "changed",
        "permissions": ["read"],
        "projects": "mine",
        "expires_at": "2099-01-31T12:00",
    }
    last = await visit.send("update-key", id=key, **wanted)
    assert (last.status_code, "last permanent key" in last.text) == (409, True)
    changed = await visit.send("update-key", id=key, **wanted, even_last="on")
    assert note(changed.headers["location"]) == "The key changed was changed."
    page = await visit.text("key", id=key)
    assert 'value="2099-01-31T12:00"' in page
    assert 'value="mine"' in page
    await visit.send("update-key", id=key, label="changed", permissions=["read"])
    page = await visit.text("key", id=key)
    assert ">all<" not in page
    assert 'name="projects" value=""' in page
    assert 'name="expires_at" type="datetime-local" value=""' in page
    rotated = await visit.send("rotate-key", id=key, overlap="0")
    assert "Copy the key now" in rotated.text
    assert (await visit.send("update-key", id=key, label="x", expires_at="once")).status_code == 400
    done = await visit.send("revoke-key", id=key)
    assert note(done.headers["location"]) == "The key changed was revoked."
    async with service.http(None) as http:
        assert (await http.post("/console/sign-in", data={"key": text})).status_code == 403
    assert (await visit.get("key", id="00000000-0000-4000-8000-000000000000")).status_code == 404


async def test_a_job_that_failed_is_tried_again_and_then_dropped(
    service: Service, visit: Visit
) -> None:
    async with service.database.begin(Scope(keys.hash_key("key-one"), "default")) as tx:
        await jobs.enqueue(tx, "tidy", "<b>a</b>", now=datetime.now(UTC))
    job = await service.admin.fetchval("SELECT id FROM memsvc_queue WHERE entrypoint = 'tidy'")
    assert "&lt;b&gt;a&lt;/b&gt;" in await visit.text("jobs", state="waiting")
    assert "Retry" not in await visit.text("jobs")
    await fail(service.database, service.admin, job, "<b>a</b>")
    assert "INTERNAL_ERROR" in await visit.text("jobs", state="failed")
    assert "1 job has failed permanently" in await visit.text("")
    async with visiting(
        service, await service.key(permissions=frozenset({Permission.READ}))
    ) as reader:
        assert "Retry" not in await reader.text("jobs")
    done = await visit.send("settle-job", id=str(job), action="retry", state="failed")
    assert note(done.headers["location"]) == "tidy will be retried."
    assert "No job has failed" in await visit.text("jobs", state="failed")
    assert (await visit.send("settle-job", id=str(job), action="retry")).status_code == 409
    done = await visit.send("settle-job", id=str(job), action="drop")
    assert note(done.headers["location"]) == "tidy was removed from the queue."
    assert f"no. {job}<" not in await visit.text("jobs")
    for wrong in ("", "x", "1e3", "9" * 40):
        assert (await visit.send("settle-job", id=wrong, action="drop")).status_code == 400


async def test_a_purge_is_counted_then_confirmed_by_its_name(
    service: Service, visit: Visit
) -> None:
    await fill(service)
    counted = await visit.send("purge", level="session", name="plain")
    assert "To be deleted" in counted.text
    assert '<td class="mono">sessions</td><td class="number">1</td>' in counted.text
    assert "My name is Ada" in await visit.text("session", id="plain")
    mistyped = await visit.send("purge", level="session", name="plain", confirm="plane")
    assert mistyped.status_code == 400
    assert "To be deleted" in mistyped.text
    assert "My name is Ada" in await visit.text("session", id="plain")
    gone = await visit.send("purge", level="session", name="plain", confirm="plain")
    assert "Receipt" in gone.text
    assert "Nothing of this name" not in counted.text + gone.text
    unknown = await visit.send("purge", level="session", name="plane")
    assert "Nothing of this name is stored" in unknown.text
    left = await visit.get("session", id="plain")
    assert (left.status_code, "My name is Ada" in left.text) == (404, False)
    assert (await visit.send("purge", level="nothing", name="plain")).status_code == 400


async def test_a_project_is_purged_by_typing_its_name(service: Service, visit: Visit) -> None:
    await fill(service)
    counted = await visit.send("purge", level="project", name="")
    assert "To be deleted: <bdi>default</bdi>" in counted.text
    gone = await visit.send("purge", level="project", confirm="default")
    assert "Receipt" in gone.text
    assert "No sessions yet" in await visit.text("sessions")


async def test_a_fact_is_corrected_and_a_past_value_restored(
    service: Service, visit: Visit
) -> None:
    await fill(service)
    owner = {"session": "plain", "user": "plain"}

    async def record(value: str) -> str:
        listed = await visit.text("fact", id="user_name", **owner)
        rows = re.findall(r"<li class=\"row\">.*?</li>", listed, re.DOTALL)
        [row] = [row for row in rows if f"<bdi>{value}</bdi></b>" in row]
        return str(re.findall(r'name="record" value="([0-9a-f]{12})"', row)[0])

    done = await visit.send(
        "correct-fact", **owner, record=await record("Ada"), part="value", text="Grace"
    )
    assert done.status_code == 303
    history = await visit.text("fact", id="user_name", **owner)
    assert "corrected by a person" in history
    assert "Restore this value" in history
    await visit.send("correct-fact", **owner, record=await record("Ada"))
    [latest, *_] = re.findall(
        r"<li class=\"row\">.*?</li>", await visit.text("fact", id="user_name", **owner), re.DOTALL
    )
    assert "<bdi>Ada</bdi></b>" in latest
    bad = await visit.send(
        "correct-fact", **owner, record=await record("Grace"), part="value", text="Eve"
    )
    assert (
        bad.status_code,
        "the value with this record_id is not the current value of the fact" in bad.text,
    ) == (
        409,
        True,
    )
