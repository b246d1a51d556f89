"""How keys are read off a request, and what a request without a good one gets."""

import pytest

from memsvc.gateway.auth import AuthOptions
from memsvc.gateway.credentials import credentials, key_of
from tests.gateway.conftest import OutOfReach, Running


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("Bearer abc", "abc"),
        ("bearer BEARER Bearer abc", "abc"),
        ("  Bearer   abc  ", "abc"),
        ("abc", "abc"),
        ("abc def", "abc"),
        ("Bearer", None),
        ("", None),
        ("   ", None),
        ("Basic dXNlcjpwYXNz", None),
        ("Digest username=x", None),
        ("bearertoken", "bearertoken"),
        ("Bearer alice@sk-1234", "sk-1234"),
        ("Bearer alice@rk-1234", "rk-1234"),
        ("Bearer workspace:alice@1234", "1234"),
        ("Bearer alice@1234", "alice@1234"),
        ("Bearer alice@example.com", "alice@example.com"),
        ("Bearer mailto:alice@example.com", "mailto:alice@example.com"),
        ("Bearer a@b@sk-1234", "a@b@sk-1234"),
        ("Bearer alice@sk-12.34", "sk-12.34"),
        ("Bearer alice@", "alice@"),
        ("Bearer alice@msk_1234", "msk_1234"),
    ],
)
def test_the_key_is_what_follows_bearer_without_a_legacy_identity(
    value: str, key: str | None
) -> None:
    assert key_of(value) == key


def presented_key(
    headers: dict[bytes, bytes], query_string: bytes, *, key_in_query: bool
) -> str | None:
    shown = credentials(headers, query_string, key_in_query=key_in_query)
    return None if shown is None else shown.text


def test_authorization_wins_over_x_api_key_and_both_over_the_query() -> None:
    two = {b"x-api-key": b"two"}
    both = two | {b"authorization": b"Bearer one"}
    assert presented_key(both, b"APIKEY=three", key_in_query=True) == "one"
    assert presented_key(two, b"APIKEY=three", key_in_query=True) == "two"
    of_another_scheme = two | {b"authorization": b"Basic eDp5"}
    assert presented_key(of_another_scheme, b"", key_in_query=False) == "two"
    assert presented_key({b"authorization": b"\xff\xfe"}, b"", key_in_query=False) is None


@pytest.mark.parametrize("query", [b"APIKEY=k1", b"a=b&apikey=k1", b"api_key=Bearer%20k1"])
def test_the_query_gives_a_key_only_where_it_is_allowed(query: bytes) -> None:
    assert presented_key({}, query, key_in_query=True) == "k1"
    assert presented_key({}, query, key_in_query=False) is None


@pytest.mark.parametrize("query", [b"ApiKey=k1", b"apikey=", b"apikey=%ff%fe", b"\xff=1", b""])
def test_other_queries_give_none(query: bytes) -> None:
    assert presented_key({}, query, key_in_query=True) is None


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
async def test_a_key_that_nobody_made_opens_nothing_unless_any_key_is_to(
    running: Running, host: str
) -> None:
    async with running(AuthOptions(), host=host) as gateway, gateway.http("tpyo") as http:
        answer = await http.post("/mcp", json={})
        assert (answer.status_code, answer.json()["code"]) == (401, "PERMISSION_DENIED")
        assert answer.json()["message"] == "this API key is unknown, revoked or expired"
    async with (
        running(AuthOptions(mode="open"), host=host) as gateway,
        gateway.http("tpyo") as http,
    ):
        assert (await http.post("/nowhere", json={})).status_code == 404


@pytest.mark.anyio
async def test_wrong_key_is_refused_without_a_path_of_the_server(
    running: Running,
) -> None:
    async with running(AuthOptions()) as gateway:
        for key, told in (
            ("tpyo", "this API key is unknown, revoked or expired"),
            ("YOUR_KEY", "the request contains a placeholder instead of the API key"),
            ("<the", "the request contains a placeholder instead of the API key"),
        ):
            for client in (("127.0.0.1", 1), ("203.0.113.7", 1)):
                async with gateway.http(key, client=client) as http:
                    assert (await http.get("/nowhere")).json()["message"] == told


@pytest.mark.anyio
async def test_a_request_without_a_key_is_401_on_every_path_but_the_public_ones(
    running: Running,
) -> None:
    async with running() as gateway, gateway.http(key=None) as http:
        for path in ("/mcp", "/", "/anything", "/healthz/", "/metrics/x"):
            answer = await http.post(path, json={})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
            assert answer.json()["code"] == "PERMISSION_DENIED"
            assert answer.json()["retryable"] is False
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await http.get(path)).status_code == 200, path


@pytest.mark.anyio
@pytest.mark.parametrize("key", ["x" * 513, "a\tb\x7f", "k\u00e9y\u200b"])
async def test_an_overlong_or_unprintable_key_is_401(running: Running, key: str) -> None:
    async with running() as gateway, gateway.http(key=None) as http:
        answer = await http.post("/mcp", json={}, headers={"X-API-Key": key.encode()})
        assert answer.status_code in ((401,) if "\t" not in key else (400, 401))


@pytest.mark.anyio
async def test_an_outage_is_503_and_never_401(running: Running) -> None:
    async with running(database=OutOfReach()) as gateway, gateway.http() as http:
        answer = await http.post("/mcp", json={})
        assert answer.status_code == 503
        assert (answer.json()["code"], answer.json()["retryable"]) == ("UNAVAILABLE", True)
        assert answer.headers["retry-after"] == "1"
