"""Programs that were written for another server of long-term memories run here as they are, but for
address and key."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.e2e.memory_samples import BASE_URL, CURL, JAVASCRIPT, PYTHON
from tests.e2e.process import Served, on
from tests.endpoints import Provider, provider
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.slow

KEY = "key-of-the-samples"
ASKS_WITH_KEY = (
    "import requests\nrequests ="
    f" requests.Session()\nrequests.headers['Authorization'] = 'Bearer {KEY}'\n"
)
FETCHES_WITH_KEY = f"""
const plainly = globalThis.fetch;
globalThis.fetch = (url, options = {{}}) =>
    plainly(url, {{ ...options, headers: {{ ...options.headers, Authorization: 'Bearer {KEY}' }} }});
"""


def ran(command: list[str], text: str, folder: Path) -> str:
    """What a program writes; curl finds the key in its configuration."""
    (folder / ".curlrc").write_text(f'silent\nheader = "Authorization: Bearer {KEY}"\n')
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"HOME": str(folder), "CURL_HOME": str(folder), "NO_PROXY": "*"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def needed(program: str) -> str:
    """Where a program is; a run without it says that it left something out."""
    return shutil.which(program) or pytest.skip(
        f"{program} is not installed, so its sample was not run"
    )


def test_the_sample_in_python(shared: Served, tmp_path: Path) -> None:
    written = PYTHON.replace("import requests\n", ASKS_WITH_KEY).replace(BASE_URL, shared.url)
    told = dict(
        line.split(": ", 1) for line in ran([sys.executable, "-"], written, tmp_path).splitlines()
    )
    added = ast.literal_eval(told["Added"])
    assert added["message"] == "Added 1 memories successfully"
    text = "Working on a Python project using FastAPI"
    assert [one["memory"] for one in ast.literal_eval(told["Search results"])["results"]] == [text]
    assert [one["memory"] for one in ast.literal_eval(told["All memories"])["results"]] == [text]


def test_the_sample_in_javascript(shared: Served, tmp_path: Path) -> None:
    node = needed("node")
    written = FETCHES_WITH_KEY + JAVASCRIPT.replace(BASE_URL, shared.url)
    told = ran([node, "--input-type=module", "-"], written, tmp_path)
    added, found = told.split("Search results:")
    assert "Added 1 memories successfully" in added
    assert "memory: 'Prefers dark mode in all applications'" in found


def test_the_sample_for_curl(shared: Served, tmp_path: Path) -> None:
    needed("curl")
    told = ran(
        ["sh"], CURL.replace(BASE_URL, shared.url).replace("\ncurl", "\necho; curl"), tmp_path
    )
    added, found, listed, gone = (json.loads(line) for line in told.split("\n") if line)
    assert [one["memory"] for one in added["results"]] == ["Name is Alex", "Likes hiking"]
    assert [one["memory"] for one in found["results"]] == ["Likes hiking"]
    assert sorted(one["memory"] for one in listed["results"]) == ["Likes hiking", "Name is Alex"]
    assert (gone["code"], gone["message"]) == ("NOT_FOUND", "Memory not found")


def test_those_who_wait_for_memories_are_let_go_when_the_server_stops(
    shared: Served, shared_urls: DatabaseUrls, tmp_path: Path
) -> None:
    """On a server of its own, which shares the database of the other one."""
    headers = {"Authorization": f"Bearer {KEY}"}
    with (
        Served(tmp_path / "data", **on(shared_urls)) as other,
        httpx2.stream(
            "GET", f"{other.url}/api/memories/events", headers=headers, timeout=60
        ) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")
        body = {"messages": [{"role": "user", "content": "I like snow."}], "user_id": "alex"}
        with heard(other):
            httpx2.post(
                f"{shared.url}/api/memories", json=body, headers=headers, timeout=60
            ).raise_for_status()
        event = next(line for line in lines if line.startswith("data: "))
        assert json.loads(event.removeprefix("data: "))["facts"] == ["Likes snow"]
        assert other.stop() == 0
        assert "data" not in "".join(lines)


@contextmanager
def heard(server: Served) -> Iterator[None]:
    """Once a server hears of what others change."""
    while "memsvc_changes_heard 1.0" not in server.get("/metrics").text:
        assert server.process.poll() is None
    yield


@pytest.fixture
async def model() -> AsyncIterator[Provider]:
    async with provider() as model:
        yield model


@pytest.mark.anyio
async def test_the_model_is_gpt_5_mini_by_the_responses_api_where_only_its_endpoint_is_told(
    database_urls: DatabaseUrls, tmp_path: Path, model: Provider
) -> None:
    model.says = (
        '{"facts": ["Likes tea"], "memory": [{"id": "1", "text": "Likes tea", "event": "ADD"}]}'
    )
    named = {
        "MEMSVC_MODEL__BASE_URL": model.url,
        "MEMSVC_MODEL__API_KEY": "sk-1",
        "MEMORY_DECAY_DAYS": "6",
    }
    with Served(tmp_path / "data", **named, **on(database_urls)) as one:
        async with httpx2.AsyncClient(
            base_url=one.url, headers={"Authorization": "Bearer another"}, timeout=60
        ) as http:
            body = {"messages": [{"role": "user", "content": "tea, please"}], "user_id": "alex"}
            added = (await http.post("/api/memories", json=body)).json()
            settings = (await http.get("/api/memories/settings")).json()
    assert [one["memory"] for one in added["results"]] == ["Likes tea"]
    assert settings == {"memoryEnabled": True, "decayDays": 6, "searchLimit": 5}
    assert [(call.path, call.body["model"]) for call in model.calls] == [
        ("/v1/responses", "gpt-5-mini")
    ] * 2
    assert set(model.keys) == {"Bearer sk-1"}
    assert "user: tea, please" in json.dumps(model.calls[0].body["input"])
    assert not model.calls[0].body.get("store")
