"""Which access tokens are good, and whom they stand for. What is not good is refused without a word
why."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import ValidationError

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import ALL_PERMISSIONS, Caller, Permission
from memsvc.gateway.oauth import InsufficientScopeError, OAuthOptions, TokenVerifier, tenant_of
from memsvc.store.keys import hash_key
from tests.fakes import FakeClock
from tests.gateway.issuer import (
    KEYS,
    PUBLISHED,
    RESOURCE,
    Issuer,
    issuing,
    jwks,
    part,
    public_bytes,
    signed,
)
from tests.waiting import until

pytestmark = pytest.mark.anyio
READ, WRITE, ADMIN = Permission
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
Made = Callable[..., str]


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    file.write_bytes(jwks(*PUBLISHED))
    return file


@pytest.fixture
def tokens(keys_file: Path, clock: FakeClock) -> Callable[..., TokenVerifier]:
    def made(**options: Any) -> TokenVerifier:
        given = {"issuer": Issuer.url, "resource": RESOURCE, "jwks_file": keys_file} | options
        return TokenVerifier(OAuthOptions(**given), clock)

    return made


@pytest.fixture
def token(clock: FakeClock) -> Made:
    """Makes tokens that are good now, but for what is said."""
    issuer = Issuer()

    def made(key: str = "rsa", header: dict[str, Any] | None = None, **claims: Any) -> str:
        return issuer.token(key, header, now=clock.now(), **claims)

    return made


@pytest.mark.parametrize("key", ["rsa", "ec", "ed"])
async def test_a_good_token_stands_for_its_subject_at_its_issuer(
    tokens: Callable[..., TokenVerifier], token: Made, clock: FakeClock, key: str
) -> None:
    caller = await tokens().caller(token(key))
    assert caller == Caller(tenant_of(Issuer.url, "alice"), "oauth:agent", frozenset({READ, WRITE}))
    assert caller.expires_at == clock.now() + timedelta(seconds=600)


def test_tenants_differ_by_issuer_and_name_and_from_those_of_any_key() -> None:
    made = {tenant_of(issuer, name) for issuer in ("a", "ab") for name in ("bc", "c", "a")}
    assert len(made) == 6
    assert tenant_of("a", "bc") != hash_key("memsvc\0oauth\0abc")
    assert not made & {hash_key(text) for text in ("bc", "abc", "a", "ab")}


def forged(header: dict[str, Any], secret: bytes) -> str:
    """A token whose signature is a MAC."""
    whole = {"typ": "at+jwt", "kid": "rsa"} | header
    written = f"{part(whole)}.{part(Issuer().claims(NOON))}"
    return f"{written}.{part(hmac.digest(secret, written.encode(), sha256))}"


def unsigned(algorithm: str, signature: str = "") -> str:
    claims = Issuer().claims(NOON)
    return f"{part({'alg': algorithm, 'typ': 'at+jwt', 'kid': 'rsa'})}.{part(claims)}.{signature}"


def raw(payload: str, header: str = '{"alg":"RS256","kid":"rsa","typ":"at+jwt"}') -> str:
    """A token of this very text, truly signed; `CLAIMS` stands for the good ones."""
    good = json.dumps(Issuer().claims(NOON))[1:-1]
    return signed(header.encode(), payload.replace("CLAIMS", good).encode())


def odd(**claims: Any) -> str:
    """A token with claims that no library would write, truly signed."""
    whole = Issuer().claims(NOON) | claims
    return signed(b'{"alg":"RS256","kid":"rsa","typ":"at+jwt"}', json.dumps(whole).encode())


JWK = json.loads(jwks("new"))["keys"][-1]
ATTACKS: dict[str, Callable[[Made], str]] = {
    "no algorithm": lambda _: unsigned("none"),
    "no algorithm, oddly written": lambda _: unsigned("nOnE", "AA"),
    "an unknown algorithm": lambda _: unsigned("RS1", "AA"),
    "HS256 with the public key as it is published": lambda _: forged(
        {"alg": "HS256"}, public_bytes("rsa")
    ),
    "HS256 with the public key in its other form": lambda _: forged(
        {"alg": "HS256"}, public_bytes("rsa", Encoding.DER)
    ),
    "HS256 with the secret in the document": lambda _: forged(
        {"alg": "HS256", "kid": "oct"}, b"s" * 32
    ),
    "RS256 signed as a MAC": lambda _: forged({"alg": "RS256"}, public_bytes("rsa")),
    "another algorithm than that of the key": lambda token: token("ec", {"kid": "rsa"}),
    "RS256 by the id of an ES256 key": lambda token: token("rsa", {"kid": "ec"}),
    "a key that is not published": lambda token: token("new"),
    "a key that is not published under the id of one that is": lambda token: token(
        "new", {"kid": "rsa"}
    ),
    "a key that is too weak": lambda token: token("weak"),
    "a key that the token brings": lambda token: token("new", {"jwk": JWK}),
    "a key that the token brings, under a known id": lambda token: token(
        "new", {"jwk": JWK, "kid": "rsa"}
    ),
    "a document that the token names": lambda token: token(
        "new", {"jku": "https://evil.example/keys"}
    ),
    "certificates that the token names": lambda token: token(
        "new", {"x5u": "https://evil.example/", "x5c": ["AA"]}
    ),
    "a key id that is a path": lambda token: token("new", {"kid": "../../../dev/null"}),
    "a key id that is SQL": lambda token: token("new", {"kid": "x' UNION SELECT 'a"}),
    "a key id that is a URL": lambda token: token("new", {"kid": "http://127.0.0.1:1/keys"}),
    "a key id of a megabyte's kin": lambda token: token("new", {"kid": "k" * 300}),
    "a key id that is a number": lambda _: raw(
        "{CLAIMS}", '{"alg":"RS256","kid":1,"typ":"at+jwt"}'
    ),
    "no key id where there are several keys": lambda _: raw(
        "{CLAIMS}", '{"alg":"RS256","typ":"at+jwt"}'
    ),
    "a header that must be understood": lambda token: token(header={"crit": ["exp"], "exp": 1}),
    "a payload that is not encoded": lambda _: raw(
        "{CLAIMS}", '{"alg":"RS256","kid":"rsa","typ":"at+jwt","b64":true}'
    ),
    "an ID token's type": lambda token: token(header={"typ": "id+jwt"}),
    "no type": lambda _: raw("{CLAIMS}", '{"alg":"RS256","kid":"rsa"}'),
    "another audience": lambda token: token(aud="https://other.example/mcp"),
    "a longer audience": lambda token: token(aud=RESOURCE + "/x"),
    "no audience": lambda token: token(aud=None),
    "an empty list of audiences": lambda token: token(aud=[]),
    "an audience that is an object": lambda _: odd(aud={RESOURCE: RESOURCE}),
    "another issuer": lambda token: token(iss="https://evil.example/"),
    "the issuer without its slash": lambda token: token(iss=Issuer.url.rstrip("/")),
    "no issuer": lambda token: token(iss=None),
    "an end that is over": lambda _: odd(exp=NOON.timestamp() - 30),
    "no end": lambda token: token(exp=None),
    "an end that is text": lambda _: odd(exp="9999999999"),
    "an end that is true": lambda _: odd(exp=True),
    "an end that is no number": lambda _: odd(exp=float("nan")),
    "an end that is endless": lambda token: token(exp=2**60),
    "a beginning that is to come": lambda _: odd(nbf=NOON.timestamp() + 31),
    "an issue that is to come": lambda _: odd(iat=NOON.timestamp() + 31),
    "a claim twice": lambda _: raw('{CLAIMS, "sub": "bob"}'),
    "a claim twice, further in": lambda _: raw('{CLAIMS, "x": {"a": 1, "a": 2}}'),
    "a header twice": lambda _: raw(
        "{CLAIMS}", '{"alg":"RS256","alg":"RS256","kid":"rsa","typ":"at+jwt"}'
    ),
    "no subject": lambda token: token(sub=None),
    "an empty subject": lambda token: token(sub=""),
    "a subject of spaces": lambda token: token(sub="  "),
    "a subject that is a number": lambda _: odd(sub=5),
    "a subject that is an object": lambda _: odd(sub={"a": "b"}),
    "a subject that is true": lambda _: odd(sub=True),
    "a subject that is a list": lambda _: odd(sub=["alice"]),
    "a subject of two lines": lambda token: token(sub="alice\nbob"),
    "a subject without end": lambda token: token(sub="a" * 257),
    "scopes that are an object": lambda token: token(scope={"memsvc:read": True}),
    "scopes that are numbers": lambda token: token(scope=[1, 2]),
    "an array": lambda _: raw("[1]"),
    "nothing": lambda _: raw("null"),
    "what is not JSON": lambda _: raw("{CLAIMS"),
    "what is not UTF-8": lambda _: signed(
        b'{"alg":"RS256","kid":"rsa","typ":"at+jwt"}', b"\xff\xfe{}"
    ),
    "what is nested": lambda _: raw('{CLAIMS, "x": ' + "[" * 1000 + "]" * 1000 + "}"),
    "what is too long": lambda token: token(x="x" * 9000),
    "a signature cut short": lambda token: token()[:-2],
    "a signature of another token": lambda token: (
        token().rpartition(".")[0] + "." + token(sub="b").rpartition(".")[2]
    ),
    "padding": lambda token: token() + "=",
    "four parts": lambda token: token() + ".AA",
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_what_is_not_good_stands_for_nobody(
    tokens: Callable[..., TokenVerifier], token: Made, attack: str
) -> None:
    verifier = tokens()
    assert await verifier.caller(token()) is not None
    assert await verifier.caller(ATTACKS[attack](token)) is None


@pytest.mark.parametrize(
    ("claims", "options"),
    [
        ({"exp": NOON.timestamp() - 29}, {}),
        ({"nbf": NOON.timestamp() + 30, "iat": NOON.timestamp() + 30}, {}),
        ({"aud": ["other", RESOURCE]}, {}),
        ({"aud": "api://memory"}, {"audiences": ("api://memory",)}),
        ({"sub": None, "org": "alice"}, {"tenant_claim": "org"}),
        ({"scope": None, "scp": ["memsvc:read", "memsvc:write"]}, {"scopes_claim": "scp"}),
        ({"scope": ""}, {"read_scopes": (), "write_scopes": ()}),
        ({"scope": "memsvc:read memsvc:write use"}, {"required_scopes": ("use",)}),
        ({"client_id": None, "azp": "agent"}, {}),
    ],
)
async def test_these_are_good_too(
    tokens: Callable[..., TokenVerifier],
    token: Made,
    claims: dict[str, Any],
    options: dict[str, Any],
) -> None:
    expected = Caller(tenant_of(Issuer.url, "alice"), "oauth:agent", frozenset({READ, WRITE}))
    assert await tokens(**options).caller(token(**claims)) == expected


@pytest.mark.parametrize(
    ("scope", "permissions"),
    [
        ("memsvc:admin", {ADMIN}),
        ("memsvc:read openid", {READ}),
        ("memsvc:admin memsvc:write memsvc:read", ALL_PERMISSIONS),
    ],
)
async def test_scopes_are_permissions(
    tokens: Callable[..., TokenVerifier], token: Made, scope: str, permissions: set[Permission]
) -> None:
    caller = await tokens().caller(token(scope=scope))
    assert caller is not None
    assert caller.permissions == permissions


@pytest.mark.parametrize("scope", ["openid", "", "MEMSVC:READ", "memsvc:readx", None])
async def test_a_token_that_may_nothing_is_told_what_it_lacks(
    tokens: Callable[..., TokenVerifier], token: Made, scope: str | None
) -> None:
    with pytest.raises(InsufficientScopeError) as refused:
        await tokens(required_scopes=("use",)).caller(token(scope=scope))
    assert refused.value.scopes == "use memsvc:read memsvc:write"


@pytest.mark.parametrize(
    ("claimed", "projects"),
    [
        (["a", "b"], {"a", "b"}),
        ("a b", {"a", "b"}),
        (["a", "*"], None),
        ([], set()),
        (None, set()),
    ],
)
async def test_projects_are_those_of_the_claim(
    tokens: Callable[..., TokenVerifier], token: Made, claimed: Any, projects: set[str] | None
) -> None:
    caller = await tokens(projects_claim="projects").caller(token(projects=claimed))
    assert caller is not None
    assert caller.projects == projects


@pytest.mark.parametrize("claimed", [["../a"], {"a": 1}, 1, [""], [f"p{n}" for n in range(101)]])
async def test_projects_that_are_none_are_refused(
    tokens: Callable[..., TokenVerifier], token: Made, claimed: Any
) -> None:
    assert await tokens(projects_claim="projects").caller(token(projects=claimed)) is None


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as made:
        yield made


def asking(issuer: Issuer, clock: FakeClock, **options: Any) -> TokenVerifier:
    return TokenVerifier(OAuthOptions(**issuer.options, **options), clock)


async def test_keys_are_fetched_once_and_without_telling_anything(
    issuer: Issuer, clock: FakeClock
) -> None:
    tokens = asking(issuer, clock)
    for _ in range(3):
        assert await tokens.caller(issuer.token(now=clock.now())) is not None
    assert issuer.asked == 1
    assert b"authorization" not in issuer.requests[0].lower()


async def test_an_unknown_key_id_makes_one_look_and_not_another(
    issuer: Issuer, clock: FakeClock
) -> None:
    tokens = asking(issuer, clock, jwks_again_s=1)
    assert await tokens.caller(issuer.token(now=clock.now())) is not None
    issuer.document = jwks("rsa", "new")
    for number in range(5):
        assert (
            await tokens.caller(issuer.token("new", {"kid": f"k{number}"}, now=clock.now())) is None
        )
    assert issuer.asked == 1
    tokens._keys._last_attempt_at -= 2
    assert await tokens.caller(issuer.token("new", now=clock.now())) is not None
    assert issuer.asked == 2
    assert await tokens.caller(issuer.token("ec", now=clock.now())) is None


@pytest.mark.parametrize(
    "document", [b"", b"<html>", b'{"keys": []}', b'{"keys": 1}', b"[]", b"x" * 300_000]
)
async def test_what_is_known_outlives_a_document_that_is_none(
    issuer: Issuer, clock: FakeClock, document: bytes
) -> None:
    tokens = asking(issuer, clock)
    assert await tokens.caller(issuer.token(now=clock.now())) is not None
    issuer.document = document
    tokens._keys._last_attempt_at -= 60
    assert await tokens.caller(issuer.token("new", now=clock.now())) is None
    assert issuer.asked == 2
    assert await tokens.caller(issuer.token(now=clock.now())) is not None


async def test_while_the_issuer_is_silent_known_keys_wait_for_nothing(
    issuer: Issuer, clock: FakeClock
) -> None:
    tokens = asking(issuer, clock)
    assert await tokens.caller(issuer.token(now=clock.now())) is not None
    tokens._keys._last_attempt_at -= 60
    issuer.holds = asyncio.Event()
    unknown = asyncio.create_task(tokens.caller(issuer.token("new", now=clock.now())))
    await until(lambda: issuer.asked == 2)
    assert await tokens.caller(issuer.token(now=clock.now())) is not None
    assert not unknown.done()
    issuer.status = 500
    issuer.holds.set()
    assert await unknown is None


async def test_whoever_nobody_can_judge_yet_is_told_to_come_again(
    issuer: Issuer, clock: FakeClock
) -> None:
    tokens = asking(issuer, clock)
    issuer.status = 500
    with pytest.raises(MemsvcError) as refused:
        await tokens.caller(issuer.token(now=clock.now()))
    assert (refused.value.code, refused.value.retryable) == (Code.UNAVAILABLE, True)
    assert await tokens.caller(issuer.token(now=clock.now(), aud="x", header={"typ": "x"})) is None


async def test_no_redirect_is_followed(issuer: Issuer, clock: FakeClock) -> None:
    issuer.status = 302
    with pytest.raises(MemsvcError):
        await asking(issuer, clock).caller(issuer.token(now=clock.now()))
    assert issuer.asked == 1


@pytest.mark.parametrize(
    "options",
    [
        {
            "issuer": "http://issuer.example",
            "resource": RESOURCE,
            "jwks_url": "https://issuer.example/k",
        },
        {"issuer": "https://issuer.example", "resource": RESOURCE},
        {"issuer": "https://issuer.example", "jwks_url": "https://issuer.example/k"},
        {"issuer": "https://i.example", "resource": RESOURCE, "jwks_url": "http://i.example/k"},
        {
            "issuer": "https://i.example",
            "resource": RESOURCE,
            "jwks_url": "https://i.example/k",
            "jwks_file": "k",
        },
        {
            "issuer": "https://i.example",
            "resource": RESOURCE,
            "jwks_url": "https://a:b@i.example/k",
        },
        {
            "issuer": "https://i.example",
            "resource": RESOURCE,
            "jwks_file": "k",
            "algorithms": ["HS256"],
        },
        {
            "issuer": "https://i.example",
            "resource": RESOURCE,
            "jwks_file": "k",
            "algorithms": ["none"],
        },
    ],
)
def test_settings_that_would_let_in_too_many_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OAuthOptions.model_validate(options)


def test_no_key_of_the_tests_is_left_out() -> None:
    assert set(KEYS) == {*PUBLISHED, "new"}
