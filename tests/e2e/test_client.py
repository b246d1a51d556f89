"""An agent remembers through the SDK's client: both wires, one lifecycle, nobody else's memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.conftest import copied
from tests.e2e.process import Served, typed
from tests.e2e.sdk import WIRES, connected, used

pytestmark = pytest.mark.slow

SECOND_TENANT = "ab" * 32


@pytest.fixture(scope="module")
def data_dir(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(migrated, tmp_path_factory.mktemp("client") / "data")


@pytest.fixture(scope="module")
def served(data_dir: Path) -> Iterator[Served]:
    with Served(data_dir, MEMSVC_AUTH__MODE="listed") as served:
        yield served


@pytest.fixture(scope="module")
def key(served: Served, data_dir: Path) -> str:
    assert served.url
    return (data_dir / "api-key").read_text().strip()


@pytest.mark.parametrize("wire", WIRES)
async def test_what_a_turn_said_is_recalled_before_the_next(
    served: Served, key: str, wire: str
) -> None:
    async with connected(served.url, key, wire) as client:
        assert client.protocol_version == WIRES[wire]
        where = {"session_id": f"on {wire}", "user_id": f"user of {wire}"}
        first = await used(
            client, "memory_before_turn", **where, current_input="My name is Ada Lovelace."
        )
        assert len(first["input_items"]) == 1
        turn = {"turn_id": first["turn_id"], "input_items": first["input_items"]}
        answer = {"role": "assistant", "content": "Nice to meet you."}
        stored = await used(client, "memory_after_turn", **where, **turn, output_items=[answer])
        assert (stored["ok"], stored["turn_id"], stored["stored_items"]) == (
            True,
            first["turn_id"],
            2,
        )
        assert (
            await used(client, "memory_after_turn", **where, **turn, output_items=[answer])
            == stored
        )
        second = await used(client, "memory_before_turn", **where, current_input="What is my name?")
    [named] = second["recall_fact_ids"]
    assert named in second["input_items"][1]["content"][0]["text"]
    assert "Ada Lovelace" in second["input_items"][1]["content"][0]["text"]
    assert second["input_items"][-1]["content"][0]["text"] == "What is my name?"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_fault_of_the_input_is_an_answer_that_the_model_can_read(
    served: Served, key: str, wire: str
) -> None:
    async with connected(served.url, key, wire) as client:
        answer = await client.call_tool(
            "memory_before_turn", {"session_id": "a\nb", "current_input": "x"}
        )
    assert answer.is_error
    body: Any = answer.structured_content
    assert body is None or (body["code"], body["retryable"]) == ("INVALID_ARGUMENT", False)
    assert '"code":"INVALID_ARGUMENT"' in answer.content[0].text


@pytest.mark.parametrize("presented", ["wrong", "", None])
async def test_a_wrong_key_is_refused_and_no_empty_memory(
    served: Served, key: str, presented: str | None
) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    if presented is not None:
        headers["Authorization"] = f"Bearer {presented or key[:-1]}"
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "memory_before_turn", "arguments": {}},
    }
    async with httpx2.AsyncClient() as http:
        refused = await http.post(f"{served.url}/mcp", json=call, headers=headers)
    assert refused.status_code == 401
    assert "www-authenticate" in refused.headers


async def test_two_tenants_see_nothing_of_each_other(
    served: Served, key: str, data_dir: Path
) -> None:
    made = typed("key", "create", "--tenant", SECOND_TENANT, "--data-dir", str(data_dir))
    assert made.returncode == 0, made.stderr
    other_key = next(
        word for word in made.stdout.split() if word.startswith(key.split("_", maxsplit=1)[0] + "_")
    )
    where = {"session_id": "shared name", "user_id": "same user"}
    async with connected(served.url, key) as one, connected(served.url, other_key) as other:
        said = [{"role": "user", "content": "My name is Grace Hopper."}]
        await used(one, "memory_after_turn", **where, turn_id="t1", input_items=said)
        asked = await used(other, "memory_before_turn", **where, current_input="What is my name?")
        assert len(asked["input_items"]) == 1
        assert (await used(other, "memory_list_dir_with_abstract", session_id="shared name"))[
            "summaries"
        ] == []
        assert (await used(other, "file_list", project="default", path="/"))["entries"] == []
        theirs = [{"role": "user", "content": "My name is Mary."}]
        stored = await used(other, "memory_after_turn", **where, turn_id="t1", input_items=theirs)
        assert stored["stored_items"] == 1
        again = await used(one, "memory_before_turn", **where, current_input="What is my name?")
        assert "Grace Hopper" in again["input_items"][1]["content"][0]["text"]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_goes_through_all_of_a_turn(served: Served, key: str, wire: str) -> None:
    told: list[tuple[float, float | None]] = []

    async def hear(done: float, total: float | None, _: str | None) -> None:
        told.append((done, total))

    async with connected(served.url, key, wire) as client:
        where = {"session_id": f"whole on {wire}", "user_id": f"whole of {wire}"}
        run_turn = await used(
            client, "memory_run_turn", **where, current_input="My name is Ada Lovelace."
        )
        said = [{"role": "assistant", "content": "Nice to meet you."}]
        committed = await used(
            client,
            "memory_commit_turn",
            operation_token=run_turn["operation_token"],
            output_items=said,
        )
        assert committed["stored_items"] == 2
        session = {"session_id": where["session_id"]}
        done = await client.call_tool("memory_run_maintenance", session, progress_callback=hear)
        assert done.structured_content is not None
        assert done.structured_content["ok"] is True
        assert told[-1] == (6, 6)
        listed = await used(client, "memory_list_dir_with_abstract", **session)
        assert listed["summaries"]
        uris = {one.uri for one in (await client.list_resources()).resources}
        assert f"memsvc://default/sessions/whole%20on%20{wire}" in uris
