"""Archives over plain HTTP: out as a stream, in as one, and refused to whoever may not."""

import asyncio
import gzip
import io
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.administration.archive_tools import ArchiveOptions
from memsvc.core.scope import Permission
from memsvc.gateway import file_routes
from tests.gateway.served import served
from tests.gateway.wired import wired
from tests.servers import DatabaseUrls
from tests.waiting import until

pytestmark = pytest.mark.anyio
NOISE = bytes(range(256)) * 5000


async def fill(http: Any, project: str = "default") -> None:
    stored = await http.put(f"/api/files/{project}/content/a/b.bin", content=NOISE)
    assert stored.status_code == 201
    told = {"project": project, "content": "The kestrel hovers."}
    assert (await http.post("/api/tools/elfmem_remember", json=told)).status_code == 200


async def test_an_archive_is_streamed_out_and_in(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service:
        async with service.http("key-one") as http, service.http("key-two") as other:
            await fill(http)
            got = await http.get("/api/archive", params={"project": "default", "gzip": "true"})
            assert got.headers["content-type"] == "application/gzip"
            assert got.headers["content-disposition"] == 'attachment; filename="default.tar.gz"'
            with tarfile.open(fileobj=io.BytesIO(got.content)) as tar:
                content = tar.extractfile("projects/default/files/a/b.bin")
                assert content is not None
                assert content.read() == NOISE
            for checked in ("true", "false"):
                sent = await other.post(
                    "/api/archive", params={"check": checked}, content=got.content
                )
                assert (sent.status_code, sent.json()["checked_only"]) == (200, checked == "true")
            assert (await other.get("/api/files/default/content/a/b.bin")).content == NOISE
            again = await other.post(
                "/api/archive", params={"project": "elsewhere"}, content=got.content
            )
            assert [one["into"] for one in again.json()["projects"]] == ["elsewhere"]
            refused = await other.post("/api/archive", content=got.content[:-20])
            assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_CONTENT")
            full = await http.post(
                "/api/archive", content=(await other.get("/api/archive")).content
            )
            assert (full.status_code, full.json()["code"]) == (409, "CONFLICT")
        told = [(call["status"], call["code"]) for call in await service.calls("archive_import", 5)]
        assert told == [
            ("success", None),
            ("success", None),
            ("success", None),
            ("error", "INVALID_CONTENT"),
            ("error", "CONFLICT"),
        ]
        (call,) = await service.calls("archive_export", 1)
        assert call["project"] == "*"


async def test_archives_are_for_keys_with_the_admin_permission(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, service.http("key-one") as http:
        await fill(http)
        narrow = await service.key(permissions=frozenset({Permission.READ, Permission.WRITE}))
        confined = await service.key(projects=frozenset({"aside"}))
        async with service.http(narrow) as less:
            assert (await less.get("/api/archive")).status_code == 403
            assert (await less.post("/api/archive", content=b"x")).status_code == 403
        async with service.http(confined) as aside:
            assert (
                await aside.get("/api/archive", params={"project": "default"})
            ).status_code == 403
            assert (await aside.get("/api/archive")).json()["code"] == "NOT_FOUND"
        async with service.http(None) as nobody:
            assert (await nobody.get("/api/archive")).status_code == 401


async def test_an_upload_is_bounded_by_an_option_of_its_own(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    small = ArchiveOptions(archive_bytes_max=1024)
    async with served(database_urls, admin, archives=small) as service, service.http() as http:
        for body in (b"x" * 1025, stream(b"x" * 1025)):
            refused = await http.post("/api/archive", content=body)
            assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
        wrong = await http.post("/api/archive", params={"into": "x"}, content=b"x")
        assert (wrong.status_code, wrong.json()["code"]) == (400, "INVALID_ARGUMENT")


async def test_one_tenant_takes_not_every_place(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with (
        served(database_urls, admin) as service,
        service.http() as http,
        service.http("key-two") as other,
    ):
        await fill(http)
        await fill(other)
        seen: list[int] = []

        async def body() -> Any:
            yield b"x"
            seen.extend([(await one.get("/api/archive")).status_code for one in (http, other)])

        await http.post("/api/archive", content=body())
    assert seen == [429, 200]


async def test_an_export_that_nobody_takes_is_ended(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin, archives=ArchiveOptions(idle_s_max=0.05)) as service:
        async with service.http() as http:
            await fill(http)
            request = http.build_request("GET", "/api/archive")

        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not messages:
                await asyncio.Event().wait()
            return messages.pop()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()  # nobody reads what is sent

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/archive",
            "raw_path": b"/api/archive",
            "query_string": b"",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        async with asyncio.timeout(30):
            await service.app(scope, receive, send)
        (call,) = await service.calls("archive_export")
        assert (call["status"], call["code"]) == ("error", "UNAVAILABLE")


async def test_an_export_that_is_taken_slowly_holds_no_transaction_open(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service, service.http() as http:
        for number in range(8):
            stored = await http.put(
                f"/api/files/default/content/{number}.bin", content=os.urandom(1_400_000)
            )
            assert stored.status_code == 201
        async with wired(service.app) as url:
            with socket.socket() as reader:
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
                reader.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(reader, ("127.0.0.1", int(url.rpartition(":")[2])))
                asked = (
                    "GET /api/archive HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer"
                    " key-one\r\n"
                )
                await loop.sock_sendall(reader, f"{asked}Connection: close\r\n\r\n".encode())
                answer = await loop.sock_recv(reader, 4096)

                async def nothing_is_open() -> bool:
                    held = (
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    )
                    return not await admin.fetchval(
                        f"{held} AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
                    )

                await until(nothing_is_open)
                assert not await admin.fetch(
                    "SELECT FROM calls WHERE tool = 'archive_export'"
                )  # it is still sent
                while piece := await loop.sock_recv(reader, 2**20):
                    answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in head.lower()
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            assert "projects/default/files/7.bin" in tar.getnames()
        (call,) = await service.calls("archive_export")
        assert call["status"] == "success"


async def test_an_archive_has_its_bounds_on_disk(
    database_urls: DatabaseUrls,
    admin: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    small = ArchiveOptions(export_bytes_max=10_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with served(database_urls, admin, archives=small) as service, service.http() as http:
        await fill(http)
        refused = await http.get("/api/archive")
        assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert "archives.export_bytes_max" in refused.json()["recovery"]
        packed = {"gzip": "true"}
        taken = (await http.get("/api/archive", params=packed)).content
        assert gzip.decompress(taken)
        monkeypatch.setattr(file_routes, "FREE_BYTES_MIN", 2**62)
        for full in (
            await http.get("/api/archive", params=packed),
            await http.post("/api/archive", content=taken),
        ):
            assert (full.status_code, full.json()["code"]) == (503, "UNAVAILABLE")
            assert "TMPDIR" in full.json()["recovery"]
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
        assert (await http.get("/api/archive", params=packed)).json()["code"] == "UNAVAILABLE"
    assert not os.listdir(tmp_path)  # noqa: PTH208 - nothing else runs


async def test_so_many_archives_at_once_and_no_more(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    one = ArchiveOptions(at_once_max=1)
    async with served(database_urls, admin, archives=one) as service, service.http() as http:
        await fill(http)
        archive = (await http.get("/api/archive")).content
        seen: list[Any] = []

        async def body() -> Any:
            yield archive[:1000]
            seen.append(await http.get("/api/archive"))
            yield archive[1000:]

        async with service.http("key-two") as other:
            sent = await other.post("/api/archive", content=body())
        assert (seen[0].status_code, seen[0].json()["code"]) == (429, "RATE_LIMITED")
        assert sent.status_code == 200
        assert orjson.loads(sent.content)["projects"][0]["written"]


async def test_an_export_that_its_reader_leaves_ends_and_is_told_as_failed(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with served(database_urls, admin) as service:
        async with service.http() as http:
            await fill(http)
            request = http.build_request("GET", "/api/archive")
        left = asyncio.Event()
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                left.set()
                await asyncio.Event().wait()  # nobody reads what is sent

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/archive",
            "raw_path": b"/api/archive",
            "query_string": b"",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
        }
        async with asyncio.timeout(30):
            await service.app(scope, receive, send)
        (call,) = await service.calls("archive_export")
        assert (call["status"], call["code"]) == ("error", "UNAVAILABLE")
        assert (
            await admin.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            )
            == 0
        )


async def stream(content: bytes) -> Any:
    yield content
