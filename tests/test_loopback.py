"""No test can reach a model, or anything else that is not this machine, whichever way it tries."""

import asyncio
import socket

import httpx2
import pytest
from pydantic_ai import Agent

pytestmark = pytest.mark.anyio
ELSEWHERE = "203.0.113.7"
"""An address of nobody, kept for documentation."""


async def test_a_socket_connects_to_no_other_host() -> None:
    for address in ((ELSEWHERE, 443), ("2001:db8::1", 443)):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with socket.socket(family) as plain:
            for connect in (plain.connect, plain.connect_ex):
                with pytest.raises(AssertionError, match="loopback"):
                    connect(address)
        with pytest.raises(AssertionError, match="loopback"):
            await asyncio.open_connection(*address)


async def test_a_client_of_its_own_reaches_no_other_host() -> None:
    with pytest.raises(AssertionError, match="loopback"):
        httpx2.get(f"http://{ELSEWHERE}/v1/models", timeout=5, trust_env=False)


@pytest.mark.slow
async def test_a_real_model_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody")
    for model in ("openai:m", "anthropic:m"):
        with pytest.raises(Exception) as refused:
            await Agent(model).run("hello", model_settings={"timeout": 5})
        whole: BaseException | None = refused.value
        told = []
        while whole is not None:
            told.append(str(whole))
            whole = whole.__cause__ or whole.__context__
        assert any("loopback" in text for text in told), told


async def test_this_machine_is_reached() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
