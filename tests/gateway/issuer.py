"""An issuer of tokens on the loopback: keys of every kind that is taken, and of some that are
not."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

RESOURCE: Final = "http://127.0.0.1:8080/mcp"
KEYS: Final[dict[str, tuple[str, Any]]] = {
    "rsa": ("RS256", rsa.generate_private_key(65537, 2048)),
    "ec": ("ES256", ec.generate_private_key(ec.SECP256R1())),
    "ed": ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
    "new": ("RS256", rsa.generate_private_key(65537, 2048)),
    "weak": ("RS256", rsa.generate_private_key(65537, 1024)),
}
"""By the key id: how it signs, and the key."""
PUBLISHED: Final = ("rsa", "ec", "ed", "weak")


def jwks(*names: str) -> bytes:
    """The document in which an issuer publishes these keys."""
    made = []
    for name in names:
        algorithm, key = KEYS[name]
        public = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
        made.append(public | {"kid": name, "use": "sig", "alg": algorithm})
    secret = {"kty": "oct", "kid": "oct", "k": base64.urlsafe_b64encode(b"s" * 32).decode()}
    return json.dumps({"keys": [secret, "nothing", {"kty": "RSA"}, *made]}).encode()


def public_bytes(name: str, encoding: Encoding = Encoding.PEM) -> bytes:
    """A public key as anybody may have it."""
    return bytes(
        KEYS[name][1].public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    )


def part(content: bytes | dict[str, Any]) -> str:
    """A part of a token, written by hand."""
    plain = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(plain).rstrip(b"=").decode()


def signed(header: bytes, payload: bytes, key: str = "rsa") -> str:
    """A token of these very bytes, truly signed."""
    algorithm, private = KEYS[key]
    written = f"{part(header)}.{part(payload)}"
    signature = jwt.get_algorithm_by_name(algorithm).sign(written.encode(), private)
    return f"{written}.{part(signature)}"


@dataclass
class Issuer:
    """The server: `document` is what it publishes, `holds` lets it answer nothing until it is
    set."""

    url: str = "https://issuer.example/"
    document: bytes = field(default_factory=lambda: jwks(*PUBLISHED))
    status: int = 200
    asked: int = 0
    holds: asyncio.Event | None = None
    requests: list[bytes] = field(default_factory=list)

    @property
    def options(self) -> dict[str, Any]:
        """The settings that take its tokens."""
        return {"issuer": self.url, "resource": RESOURCE, "jwks_url": f"{self.url}/keys"}

    def claims(self, now: datetime | None = None, **changed: Any) -> dict[str, Any]:
        """The claims of a good token; None takes one out."""
        at = int((now or datetime.now(UTC)).timestamp())
        whole = {
            "iss": self.url,
            "aud": RESOURCE,
            "sub": "alice",
            "exp": at + 600,
            "iat": at,
            "scope": "memsvc:read memsvc:write",
            "client_id": "agent",
        }
        return {name: value for name, value in (whole | changed).items() if value is not None}

    def token(self, key: str = "rsa", header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token with these claims instead of its own."""
        algorithm, private = KEYS[key]
        headers = {"kid": key, "typ": "at+jwt"} | (header or {})
        made: str = jwt.encode(self.claims(**claims), private, algorithm=algorithm, headers=headers)
        return made

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            self.asked += 1
            if self.holds is not None:
                await self.holds.wait()
            head = (
                f"HTTP/1.1 {self.status} X\r\nContent-Length:"
                f" {len(self.document)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + self.document)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    """An issuer that listens until the block ends."""
    made = Issuer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        if made.holds is not None:
            made.holds.set()
        server.close()
        await server.wait_closed()
