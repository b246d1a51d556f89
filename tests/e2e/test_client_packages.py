"""The samples for other people's packages run as they stand, with the newest of these, against a
model on the loopback. `make test-clients` installs them."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.process import CHECKOUT, Served, environment
from tests.e2e.samples import QUICKSTART, README, blocks, filled
from tests.endpoints import Call, Fault, Provider, provider

FOLDER = os.environ.get("MEMSVC_TEST_CLIENTS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.anyio,
    pytest.mark.skipif(FOLDER is None, reason="make test-clients runs it: it installs packages"),
]
INSTALL_S, RUN_S = 600, 120


class Speaker(Provider):
    """A model that answers, and calls no tool."""

    def _written(self, call: Call, fault: Fault) -> dict[str, Any]:
        call.body["tools"] = []
        return super()._written(call, fault)


@pytest.fixture
async def model() -> AsyncIterator[Provider]:
    async with provider(Speaker) as model:
        yield model


def installed(*packages: str) -> Path:
    """The folder of the programs of an environment in which nothing is but these packages."""
    name = re.match(r"[\w-]+", packages[0]) if packages else None
    folder = Path(str(FOLDER), name[0] if name else "empty")
    if not (folder / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_S)
    if packages:
        pip = [str(folder / "bin/pip"), "install", "--quiet", "--upgrade", *packages]
        subprocess.run(pip, check=True, timeout=INSTALL_S)
    return folder / "bin"


async def ran(programs: Path, command: list[str], model: Provider, said: str = "") -> str:
    """What a command prints that finds these programs first."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=CHECKOUT,
        env=environment(
            PATH=f"{programs}:{os.environ['PATH']}",
            PYTHONPATH="",
            OPENAI_BASE_URL=model.url,
            OPENAI_API_KEY="sk-fake",
            OPENAI_AGENTS_DISABLE_TRACING="1",
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(said.encode()), RUN_S)
    assert process.returncode == 0, errors.decode()[-2000:]
    return output.decode()


async def python(sample: str, packages: list[str], url: str, key: str, model: Provider) -> str:
    """What a sample in Python prints."""
    programs = await asyncio.to_thread(installed, *packages)
    return await ran(programs, [str(programs / "python"), "-c", filled(sample, url, key)], model)


def texts(served: Served, key: str) -> list[str]:
    """What is stored of the session of the samples, oldest first."""
    headers = {"Authorization": f"Bearer {key}"}
    address = f"{served.url}/api/tools/memory_list_turns"
    answer = httpx2.post(address, json={"session_id": "trip"}, headers=headers, timeout=60)
    return [item["text"] for item in reversed(answer.raise_for_status().json()["items"])]


def sample_of(package: str) -> str:
    """The quick start's block that imports a package."""
    (sample,) = (code for code in blocks(QUICKSTART, "python") if f"from {package}" in code)
    return sample


async def test_the_loop_of_the_readme(shared: Served, model: Provider, tmp_path: Path) -> None:
    (sample,) = blocks(README, "python")
    key = "key-of-the-newest-mcp"
    (tmp_path / "api-key").write_text(key)
    here = sample.replace(".memsvc/api-key", str(tmp_path / "api-key"))
    output = await python(here, ["mcp>=2.3,<3", "httpx2"], shared.url, key, model)
    assert "I prefer trains to planes." in output.partition("Friday:")[2]


async def test_the_complete_agent(shared: Served, model: Provider) -> None:
    (commands,) = (code for code in blocks(QUICKSTART, "sh") if "pip install" in code)
    key = "key-of-the-newest-agent"
    programs = await asyncio.to_thread(installed)
    script = filled(commands, shared.url, key).replace("pip install", "pip install -qU")
    assert await ran(programs, ["bash", "-ec", script], model, "Hello.\n") == f"{model.says}\n"
    assert texts(shared, key) == ["Hello.", model.says]


async def test_openai_agents(shared: Served, model: Provider) -> None:
    key = "key-of-openai-agents"
    sample = sample_of("agents")
    assert await python(sample, ["openai-agents"], shared.url, key, model) == f"{model.says}\n"
    assert texts(shared, key) == ["How should I travel to Vienna?", model.says]


async def test_pydantic_ai(shared: Served, model: Provider) -> None:
    key, packages = "key-of-ai", ["pydantic-ai-slim[mcp,openai]"]
    output = await python(sample_of("pydantic_ai"), packages, shared.url, key, model)
    assert output == f"{model.says}\n"
    assert texts(shared, key) == ["How should I travel to Vienna?", model.says]


async def test_langchain(shared: Served, model: Provider) -> None:
    key, packages = "key-of-lc", ["langchain-mcp-adapters", "langchain-openai"]
    output = await python(sample_of("langchain_mcp_adapters"), packages, shared.url, key, model)
    assert output == f"{model.says}\n"
    assert texts(shared, key) == ["How should I travel to Vienna?", model.says]
