"""Health, readiness, metrics, and HTTP errors in the one shape."""

import asyncio

import pytest

from tests.gateway.conftest import Gateway, OutOfReach, Running

pytestmark = pytest.mark.anyio


async def test_a_ready_gateway_says_so_until_it_drains(gateway: Gateway) -> None:
    async with gateway.http(key=None) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {
            "status": "ready",
            "database": True,
            "draining": False,
        }
        gateway.draining.started = True
        answer = await http.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"] == {"database": True, "draining": True}
        assert (await http.get("/healthz")).status_code == 200


async def test_not_ready_while_the_database_is_away_a_check_fails_or_is_slow(
    running: Running,
) -> None:
    async def behind() -> bool:
        return False

    async def slow() -> bool:
        await asyncio.sleep(60)
        return True

    async with running(
        database=OutOfReach(), checks={"migrations": behind, "slow": slow}
    ) as gateway:
        async with gateway.http(key=None) as http:
            answer = await http.get("/readyz")
        assert answer.status_code == 503
        assert (answer.json()["code"], answer.json()["retryable"]) == ("UNAVAILABLE", True)
        assert answer.json()["checks"] == {
            "database": False,
            "migrations": False,
            "slow": False,
            "draining": False,
        }


async def test_metrics_are_text(gateway: Gateway) -> None:
    async with gateway.http(key=None) as http:
        answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'memsvc_refused_total{reason="' in answer.text
    assert "\nmemsvc_audit_dropped_total 0.0\n" in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "NOT_FOUND"),
        ("GET", "/mcp", 405, "INVALID_ARGUMENT"),
        ("DELETE", "/mcp", 405, "INVALID_ARGUMENT"),
        ("POST", "/healthz", 405, "INVALID_ARGUMENT"),
    ],
)
async def test_http_errors_have_the_one_shape(
    gateway: Gateway, method: str, path: str, status: int, code: str
) -> None:
    async with gateway.http() as http:
        answer = await http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["code"] == code
    assert answer.json()["retryable"] is False
    assert answer.json()["message"]
    if status == 405:
        assert answer.headers["allow"]
