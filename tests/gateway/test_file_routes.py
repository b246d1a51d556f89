"""Files over plain HTTP: bytes in both directions, preconditions, ranges, and the file tools by
path and query."""

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from hashlib import sha256
from typing import Any

import asyncpg
import pytest

from memsvc.core.scope import Permission
from memsvc.gateway.limits import LimitsOptions
from memsvc.settings import Settings
from memsvc.styles.files.options import FilesOptions
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio

FILE = "/api/files/p/content/a/f.txt"
CANARY = b"canary-91ab3"
OLD = "0" * 32 + ":1"
Messages = list[MutableMapping[str, Any]]


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


@pytest.fixture
async def small(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    """A service whose files hold 20,000 bytes, which is more than a request of another kind may."""
    files, limits = FilesOptions(file_bytes_max=20_000), LimitsOptions(request_bytes_max=1024)
    async with served(database_urls, admin, files=files, limits=limits) as service:
        yield service


def noise(size_bytes: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


async def send_raw(
    service: Service,
    path: str,
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    *,
    method: str = "PUT",
    on_body: Callable[[bytes], Awaitable[None]] | None = None,
    **headers: str,
) -> Messages:
    """One request at the level of ASGI; the messages of its answer."""
    answered: Messages = []

    async def send(message: MutableMapping[str, Any]) -> None:
        answered.append(message)
        if message["type"] == "http.response.body" and on_body is not None:
            await on_body(message.get("body", b""))

    named = {"host": "127.0.0.1:8080", "authorization": "Bearer key-one"} | headers
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in named.items()
        ],
    }
    await service.app(scope, receive, send)
    return answered


async def test_what_is_put_is_got_with_its_headers(service: Service) -> None:
    async with service.http() as http:
        put = await http.put(FILE, content="grüße\n".encode())
        assert (put.status_code, put.json()["bytes_written"]) == (201, 8)
        assert put.headers["etag"] == f'"{put.json()["version"]}"'
        got = await http.get(FILE)
        assert (got.status_code, got.content) == (200, "grüße\n".encode())
        assert got.headers["etag"] == put.headers["etag"]
        assert got.headers["content-type"] == "text/plain; charset=utf-8"
        assert got.headers["content-length"] == "8"
        assert got.headers["accept-ranges"] == "bytes"
        assert got.headers["cache-control"] == "private, no-cache"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert (
            got.headers["content-disposition"]
            == "attachment; filename=\"f.txt\"; filename*=UTF-8''f.txt"
        )
        assert got.headers["last-modified"].endswith(" GMT")
        head = await http.head(FILE)
        assert (head.status_code, head.content) == (200, b"")
        assert {**head.headers, "x-request-id": ""} == {**got.headers, "x-request-id": ""}
        assert (await http.put(FILE, content=b"\xff\x00")).status_code == 200
        assert (await http.get(FILE)).headers["content-type"] == "application/octet-stream"
        odd = await http.put("/api/files/p/content/50%25.txt", content=b"")
        assert odd.status_code == 201
        got = await http.get("/api/files/p/content/50%25.txt")
        assert (got.content, got.headers["content-length"]) == (b"", "0")
        assert (
            got.headers["content-disposition"]
            == "attachment; filename=\"50_.txt\"; filename*=UTF-8''50%25.txt"
        )


async def test_head_sends_no_body(service: Service) -> None:
    async with service.http() as http:
        await http.put(FILE, content=b"hello")

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    start, *bodies = await send_raw(service, FILE, receive, method="HEAD")
    assert start["status"] == 200
    assert (b"content-length", b"5") in start["headers"]
    assert b"".join(message["body"] for message in bodies) == b""


async def test_ten_megabytes_go_up_and_down_byte_for_byte(service: Service) -> None:
    content = noise(10_000_000)

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 300_007):
            yield content[at : at + 300_007]

    async with service.http() as http:
        for body in (content, chunks()):
            put = await http.put(FILE, content=body)
            assert (put.status_code, put.json()["bytes_written"]) in (
                (201, len(content)),
                (200, len(content)),
            )
            assert sha256((await http.get(FILE)).content).digest() == sha256(content).digest()
        # what is larger than a tool call may be is brought back all the same
        await http.put(FILE, content=b"small")
        [newest, *_] = (await http.get("/api/files/p/versions/a/f.txt")).json()["versions"]
        restored = await http.post(f"/api/files/p/restore/{newest['id']}/a/f.txt")
        assert (restored.status_code, restored.json()["bytes_written"]) == (200, len(content))
        assert (await http.get(FILE)).content == content
    calls = await service.calls("file_write", 3)
    assert calls[0]["arguments"] == {
        "project": "p",
        "path": "/a/f.txt",
        "mode": "TRUNCATE",
        "content": {"redacted": True, "bytes": len(content)},
    }
    assert (calls[0]["surface"], calls[0]["project"], calls[0]["status"]) == (
        "rest",
        "p",
        "success",
    )


async def test_post_appends(service: Service) -> None:
    async with service.http() as http:
        assert (await http.post(FILE, content=b"one ")).status_code == 201
        second = await http.post(FILE, content=b"two")
        assert second.status_code == 200
        assert (await http.get(FILE)).content == b"one two"
        again = await http.post(FILE, content=b"", headers={"If-Match": second.headers["etag"]})
        assert (again.status_code, again.headers["etag"]) == (200, second.headers["etag"])


async def test_a_file_that_changes_while_it_is_downloaded_is_delivered_as_it_was(
    service: Service,
) -> None:
    before, after = noise(3_500_000), noise(3_000_000, seed=2)
    sizes: list[int] = []
    async with service.http() as http:
        await http.put(FILE, content=before)

        async def rewrite(piece: bytes) -> None:
            if not sizes:
                assert (await http.put(FILE, content=after)).status_code == 200
                assert (await http.delete(FILE)).status_code == 200
            sizes.append(len(piece))

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        _, *bodies = await send_raw(service, FILE, receive, method="GET", on_body=rewrite)
    assert b"".join(message["body"] for message in bodies) == before
    assert max(sizes) == 1024 * 1024
    assert (await service.calls("file_read"))[0]["status"] == "success"


async def test_a_download_whose_version_is_purged_meanwhile_breaks_off(service: Service) -> None:
    async with service.http() as http:
        await http.put(FILE, content=noise(3_500_000))
    got = b""

    async def purge(piece: bytes) -> None:
        nonlocal got
        got += piece
        await service.admin.execute("DELETE FROM blocks")

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    with pytest.raises(RuntimeError, match="response already started"):
        await send_raw(service, FILE, receive, method="GET", on_body=purge)
    assert len(got) == 1024 * 1024


async def test_a_client_that_goes_away_in_the_middle_of_an_upload_has_written_nothing(
    service: Service,
) -> None:
    async with service.http() as http:
        await http.put(FILE, content=b"before")
        for method in ("PUT", "POST"):
            left = [
                {"type": "http.request", "body": CANARY, "more_body": True},
                {"type": "http.disconnect"},
            ]

            async def receive(left: Messages = left) -> MutableMapping[str, Any]:
                return left.pop(0)

            await send_raw(service, FILE, receive, method=method, content_length="1000")
        assert (await http.get(FILE)).content == b"before"
    [*_, put, post] = await service.calls("file_write", 3)
    for call in (put, post):
        assert (call["status"], call["code"]) == ("error", "INVALID_CONTENT")
        assert call["arguments"]["content"] == {"redacted": True, "bytes": len(CANARY)}


async def test_an_upload_is_bounded_by_the_file_and_not_by_the_request(small: Service) -> None:
    async def chunks(size_bytes: int) -> AsyncIterator[bytes]:
        for _ in range(size_bytes // 1000):
            yield b"x" * 1000

    async with small.http() as http:
        for content in (b"x" * 20_000, chunks(20_000)):
            assert (await http.put(FILE, content=content)).json()["bytes_written"] == 20_000
        for content in (b"x" * 20_001, chunks(21_000)):
            refused = await http.put(FILE, content=content)
            assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
        refused = await http.post(FILE, content=b"x")
        assert (refused.status_code, refused.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert (await http.get(FILE)).content == b"x" * 20_000
        for path in ("rename", "restore/x/content/f", "stat/content/f"):
            assert (
                await http.post(f"/api/files/p/{path}", content=b"x" * 2000)
            ).status_code == 413, path


async def test_a_declared_length_over_the_limit_is_refused_before_a_byte_is_read(
    small: Service,
) -> None:
    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body was read")

    start, _ = await send_raw(small, FILE, receive, content_length="20001")
    assert start["status"] == 413


async def test_an_endless_body_is_refused_as_soon_as_it_is_over(small: Service) -> None:
    given = 0

    async def receive() -> MutableMapping[str, Any]:
        nonlocal given
        given += 1
        return {"type": "http.request", "body": b"x" * 6000, "more_body": True}

    start, _ = await send_raw(small, FILE, receive)
    assert (start["status"], given) == (413, 4)


async def test_one_range_of_bytes(service: Service) -> None:
    content = "äöüß".encode() + b"xy"
    asked: list[tuple[str, int, tuple[int, int]]] = [
        ("bytes=0-0", 206, (0, 1)),
        ("bytes=2-5", 206, (2, 6)),
        ("Bytes=1-", 206, (1, 10)),
        ("bytes=-3", 206, (7, 10)),
        ("bytes=-99", 206, (0, 10)),
        ("bytes=8-999999999999999999999999", 206, (8, 10)),
        ("bytes=5-2", 200, (0, 10)),
        ("bytes=0-1,4-5", 200, (0, 10)),
        ("bytes=", 200, (0, 10)),
        ("bytes=-", 200, (0, 10)),
        ("bytes=a-b", 200, (0, 10)),
        ("lines=0-1", 200, (0, 10)),
        ("", 200, (0, 10)),
    ]
    async with service.http() as http:
        await http.put(FILE, content=content)
        for text, status, (start, stop) in asked:
            got = await http.get(FILE, headers={"Range": text})
            assert (got.status_code, got.content) == (status, content[start:stop]), text
            assert got.headers["content-length"] == str(stop - start)
            assert got.headers.get("content-range") == (
                f"bytes {start}-{stop - 1}/10" if status == 206 else None
            )
        for text in ("bytes=10-", "bytes=99999999999999999999999-", "bytes=-0"):
            got = await http.get(FILE, headers={"Range": text})
            assert (got.status_code, got.headers["content-range"]) == (416, "bytes */10"), text
            assert (got.json()["code"], got.json()["size"]) == ("INVALID_OFFSET", 10)


async def test_an_empty_file_has_no_range(service: Service) -> None:
    async with service.http() as http:
        await http.put(FILE, content=b"")
        assert (await http.get(FILE, headers={"Range": "bytes=0-"})).headers[
            "content-range"
        ] == "bytes */0"
        assert (await http.get(FILE, headers={"Range": "bytes=-5"})).status_code == 200


async def test_a_large_range_crosses_pieces(service: Service) -> None:
    content = noise(3_000_000)
    async with service.http() as http:
        await http.put(FILE, content=content)
        got = await http.get(FILE, headers={"Range": "bytes=1000-2900000"})
    assert (got.status_code, got.content) == (206, content[1000:2_900_001])


async def test_conditions_of_a_download(service: Service) -> None:
    async with service.http() as http:
        tag = (await http.put(FILE, content=b"hello")).headers["etag"]
        for held in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            answer = await http.get(FILE, headers={"If-None-Match": held})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (
                304,
                b"",
                tag,
            ), held
        assert (await http.get(FILE, headers={"If-None-Match": '"other"'})).status_code == 200
        for match, status in (
            (tag, 200),
            ("*", 200),
            (f'"other" , {tag}', 200),
            ('"other"', 412),
            (f"W/{tag}", 412),
            ("no quotes", 400),
            (f'{tag}"', 400),
            ("", 400),
        ):
            for method in ("GET", "HEAD"):
                answer = await http.request(method, FILE, headers={"If-Match": match})
                assert answer.status_code == status, (match, method)
        for given, status in (
            (tag, 206),
            ('"other"', 200),
            (f"W/{tag}", 200),
            ("Sat, 21 Nov 2026 12:00:00 GMT", 200),
        ):
            got = await http.get(FILE, headers={"Range": "bytes=1-2", "If-Range": given})
            assert got.status_code == status, given


async def test_conditions_of_an_upload(service: Service) -> None:
    async with service.http() as http:
        first = await http.put(FILE, content=b"one", headers={"If-None-Match": "*"})
        assert first.status_code == 201
        taken = await http.put(FILE, content=b"two", headers={"If-None-Match": "*"})
        assert (taken.status_code, taken.json()["code"]) == (412, "ALREADY_EXISTS")
        second = await http.put(FILE, content=b"two", headers={"If-Match": first.headers["etag"]})
        assert second.status_code == 200
        for method in ("PUT", "POST", "DELETE"):
            stale = await http.request(
                method, FILE, content=b"x", headers={"If-Match": first.headers["etag"]}
            )
            assert (stale.status_code, stale.json()["code"]) == (412, "VERSION_CONFLICT")
        tag = second.headers["etag"]
        for headers in (
            {"If-Match": "*"},
            {"If-Match": f"W/{tag}"},
            {"If-Match": f"{tag}, {tag}"},
            {"If-Match": tag.strip('"')},
            {"If-Match": '"other"'},
            {"If-None-Match": tag},
            {"If-None-Match": "*", "If-Match": tag},
            {"If-Unmodified-Since": "Sat, 21 Nov 2026 12:00:00 GMT"},
            {"Content-Range": "bytes 0-1/5"},
        ):
            for method in ("PUT", "POST"):
                refused = await http.request(method, FILE, content=b"x", headers=headers)
                assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_ARGUMENT"), (
                    headers
                )
        encoded = await http.put(FILE, content=b"x", headers={"Content-Encoding": "gzip"})
        assert (encoded.status_code, encoded.json()["code"]) == (415, "INVALID_CONTENT")
        assert (await http.delete(FILE, headers={"If-None-Match": "*"})).status_code == 400
        assert (await http.get(FILE)).content == b"two"
        deleted = await http.delete(FILE, headers={"If-Match": tag})
        assert (deleted.status_code, deleted.json()) == (200, {"deleted_count": 1})
        assert (await http.get(FILE)).status_code == 404


async def test_the_file_tools_by_path_and_query(service: Service) -> None:
    async with service.http() as http:
        for name in ("a/1", "a/2", "b"):
            await http.put(f"/api/files/p/content/{name}", content=f"otter {name}".encode())
        await http.put("/api/files/q/content/c", content=b"otter c")
        assert (await http.get("/api/files")).json()["projects"] == ["p", "q"]
        assert (await http.get("/api/files/?q=q&limit=1")).json()["projects"] == ["q"]
        assert (await http.get("/api/files/p/stat/a/1?content_sha256=true")).json()["size"] == 9
        assert (await http.get("/api/files/p/stat/nothing")).json()["exists"] is False
        for root in ("/api/files/p/list", "/api/files/p/list/"):
            assert [one["path"] for one in (await http.get(root)).json()["entries"]] == ["/a", "/b"]
        page = (await http.get("/api/files/p/list?depth=2&limit=2")).json()
        assert page["next_cursor"] == "/a/1"
        rest = (await http.get(f"/api/files/p/list?depth=2&cursor={page['next_cursor']}")).json()
        assert [one["path"] for one in rest["entries"]] == ["/a/2", "/b"]
        found = (await http.get("/api/files/p/search?query=otter&path_prefix=/a&limit=5")).json()[
            "chunks"
        ]
        assert {one["file_path"] for one in found} == {"/a/1", "/a/2"}
        everywhere = (await http.get("/api/files/*/search?query=otter")).json()["chunks"]
        assert {one["project"] for one in everywhere} == {"p", "q"}
        moved = await http.post("/api/files/p/rename", json={"from_path": "/b", "to_path": "/d/e"})
        assert (moved.status_code, moved.json()) == (200, {"moved_count": 1})
        assert (await http.delete("/api/files/p/content/a")).status_code == 409
        assert (await http.delete("/api/files/p/content/a?recursive=true")).json() == {
            "deleted_count": 2
        }


async def test_past_versions(service: Service) -> None:
    async with service.http() as http:
        tags = [
            (await http.put(FILE, content=text)).headers["etag"]
            for text in (b"one", b"two", b"three")
        ]
        page = (await http.get("/api/files/p/versions/a/f.txt?limit=1")).json()
        assert (f'"{page["versions"][0]["id"]}"', page["has_more"]) == (tags[1], True)
        second = (
            await http.get(f"/api/files/p/versions/a/f.txt?before_id={page['next_cursor']}")
        ).json()
        assert [f'"{one["id"]}"' for one in second["versions"]] == tags[:1]
        version = f"/api/files/p/version/{second['versions'][0]['id']}/a/f.txt"
        got = await http.get(version, headers={"Range": "bytes=1-"})
        assert (got.status_code, got.content, got.headers["etag"]) == (206, b"ne", tags[0])
        assert (await http.get(version, headers={"If-None-Match": tags[0]})).status_code == 304
        assert (await http.head(version)).headers["content-length"] == "3"
        restore = version.replace("/version/", "/restore/")
        assert (await http.post(restore, headers={"If-Match": tags[0]})).status_code == 412
        assert (await http.post(restore, headers={"If-None-Match": "*"})).status_code == 412
        restored = await http.post(restore, headers={"If-Match": tags[2]})
        assert restored.status_code == 200
        assert restored.headers["etag"] == f'"{restored.json()["version"]}"'
        assert (await http.get(FILE)).content == b"one"
        assert (await http.get(f"/api/files/p/version/{OLD}/a/f.txt")).status_code == 404
        assert (await http.get("/api/files/p/version/x/a/f.txt")).status_code == 400


async def test_a_rendered_file_has_a_tag_of_its_content(service: Service) -> None:
    turn = {"session_id": "s", "user_id": "ada", "turn_id": "1"}
    said = {
        "input_items": [{"role": "user", "content": "My name is Ada. I prefer trains to planes."}]
    }
    async with service.http() as http:
        done = await http.post(
            "/api/tools/memory_after_turn", json=turn | said | {"output_items": []}
        )
        assert done.status_code == 200, done.text
        path = "/api/files/default/content/memory/s/indexes/active_facts.json"
        got = await http.get(path)
        tag = got.headers["etag"]
        assert (got.status_code, b"Ada" in got.content) == (200, True)
        assert tag == f'"sha256-{sha256(got.content).hexdigest()}"'
        assert (await http.get(path, headers={"If-None-Match": tag})).status_code == 304
        assert (
            await http.get(path, headers={"If-Match": tag, "Range": "bytes=-2"})
        ).content == got.content[-2:]
        refused = await http.put(path, content=b"x")
        assert (refused.status_code, refused.json()["code"]) == (403, "PERMISSION_DENIED")


IMPOSSIBLE = [
    "p/content/a%2Fb",
    "p/content/a/%2e%2e/b",
    "p/content/%2E/b",
    "p/content//a",
    "p/content/a//b",
    "p/content/a/",
    "p/content/a%00b",
    "p/content/a%0Ab",
    "p/content/a%0A",
    "p/content/%C3%BC",
    "p/content/%FF",
    "p/content/a%20b",
    "p/content/" + "a" * 600,
    "p%2Fcontent%2Fx/content/a",
    "p%2Fx/content/a",
    "p%2Fcontent/a",
    "%2E%2E%2F/content/a",
    "p%00/content/a",
    "p%0A/content/a",
    "%20p/content/a",
    "/content/a",
    "*/content/a",
    "%2A/content/a",
    "a" * 129 + "/content/a",
]


async def test_a_path_that_cannot_be_is_invalid_and_nowhere_else(service: Service) -> None:
    async with service.http() as http:
        for path in IMPOSSIBLE:
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
                answer = await http.request(method, f"/api/files/{path}", content=b"x")
                assert answer.status_code == 400, (method, path)
                assert method == "HEAD" or answer.json()["code"] == "INVALID_PATH"
        assert (await http.get("/api/files")).json()["projects"] == []


NOT_THERE = [
    ("GET", "p", 404),
    ("GET", "p/", 404),
    ("GET", "p/nothing/f", 404),
    ("GET", "p/version", 404),
    ("GET", "p/search/x?query=x", 404),
    ("POST", "p/rename/x", 404),
    ("PATCH", "p/content/f", 405),
    ("DELETE", "p/list/f", 405),
    ("POST", "p/search", 405),
    ("GET", "p/rename", 405),
    ("GET", "p/content/", 400),
    ("GET", "p/content/f?x=1", 400),
    ("PUT", "p/content/f?mode=APPEND", 400),
    ("GET", "p/stat/f?limit=1", 400),
    ("GET", "p/list?limit=1&limit=2", 400),
    ("GET", "p/list?limit=x", 400),
    ("GET", "p/search", 400),
    ("GET", "p/content/f?apikey=x", 404),
]


async def test_what_is_not_there_or_not_understood(service: Service) -> None:
    async with service.http() as http:
        for method, path, status in NOT_THERE:
            answer = await http.request(method, f"/api/files/{path}")
            assert answer.status_code == status, (method, path)
            assert answer.json()["message"]
            assert ("allow" in answer.headers) is (status == 405)


async def test_rename_takes_its_project_from_the_path_alone(service: Service) -> None:
    async with service.http() as http:
        body = {"project": "q", "from_path": "/a", "to_path": "/b"}
        assert (await http.post("/api/files/p/rename", json=body)).status_code == 400
        assert (await http.post("/api/files/p/rename", json=[])).status_code == 400


async def test_tenants_projects_permissions_and_hidden_tools(service: Service) -> None:
    async with service.http() as http:
        version = (await http.put(FILE, content=b"mine")).json()["version"]
        await http.put(FILE, content=b"still mine")
    past = f"/api/files/p/version/{version}/a/f.txt"
    async with service.http("key-two") as http:
        assert (await http.get(FILE)).status_code == 404
        assert (await http.get(past)).status_code == 404
        assert (await http.get("/api/files")).json()["projects"] == []
        assert (
            await http.put(FILE, content=b"theirs", headers={"If-None-Match": "*"})
        ).status_code == 201
    confined = await service.key(projects=["q"])
    async with service.http(confined) as http:
        for method, path in (
            ("GET", FILE),
            ("PUT", FILE),
            ("POST", FILE),
            ("DELETE", FILE),
            ("GET", past),
        ):
            answer = await http.request(method, path, content=b"x")
            assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED")
        assert (await http.put("/api/files/q/content/f", content=b"x")).status_code == 201
        assert (await http.get("/api/files")).json()["projects"] == ["q"]
    async with service.http(await service.key(permissions=[Permission.READ])) as http:
        assert (await http.get(FILE)).content == b"still mine"
        for method in ("PUT", "POST", "DELETE"):
            assert (await http.request(method, FILE, content=b"x")).status_code == 403
    blind = await service.key(hidden_tools=["file_write", "file_read_version", "file_delete"])
    async with service.http(blind) as http:
        assert (await http.get(FILE)).content == b"still mine"
        for method, path in (("PUT", FILE), ("POST", FILE), ("DELETE", FILE), ("GET", past)):
            answer = await http.request(method, path, content=b"x")
            assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    async with service.http() as http:
        assert (await http.get(FILE)).content == b"still mine"


async def test_a_key_that_may_not_write_is_refused_before_a_byte_is_read(service: Service) -> None:
    key = await service.key(permissions=[Permission.READ])

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("the body was read")

    start, _ = await send_raw(service, FILE, receive, authorization=f"Bearer {key}")
    assert start["status"] == 403


async def test_without_the_file_tools_there_are_no_routes(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    off = Settings(settings={"mcp": {"tools": {"file_io": {"enabled": False}}}}).settings
    async with served(database_urls, admin, settings=off) as service, service.http() as http:
        assert (await http.put(FILE, content=b"x")).status_code == 404
        assert (await http.get("/api/files")).status_code == 404


async def test_content_is_told_nowhere(
    service: Service, log_lines: Any, admin: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(
        logging.WARNING, logger="httpx2"
    )  # the test's own client tells the queries that it sends
    canary = CANARY.decode()
    async with service.http() as http:
        await http.put(FILE, content=CANARY)
        await http.post(FILE, content=CANARY, headers={"If-Match": canary})
        await http.put(FILE, content=CANARY, headers={"If-None-Match": "*"})
        await http.get(FILE)
        await http.get(f"/api/files/p/search?query={canary}")
        await http.get(f"/api/files/p/list?{canary}={canary}")
        await http.post(
            "/api/tools/file_write",
            json={"project": "p", "path": "/g", "content": canary, canary: 1},
        )
        await http.post(
            "/api/tools/file_write", content=CANARY, headers={"Content-Type": "application/json"}
        )
        metrics = (await http.get("/metrics")).text
    await service.calls("file_write", 3)
    rows = "\n".join(row[0] for row in await admin.fetch("SELECT c::text FROM calls AS c"))
    for told in (log_lines.getvalue().decode(), rows, metrics):
        assert "file_write" in told
        assert canary not in told


@pytest.mark.slow
async def test_no_header_brings_it_down(service: Service) -> None:
    chance = random.Random(7)
    async with service.http() as http:
        tag = (await http.put(FILE, content=b"0123456789")).headers["etag"]
        parts = [
            tag,
            "W/",
            '"',
            ",",
            " ",
            "\t",
            "*",
            "bytes=",
            "-",
            "0",
            "9",
            "99999999999999999999",
            "=",
            "x",
            "é",
            "=?",
        ]
        names = (
            "Range",
            "If-Range",
            "If-Match",
            "If-None-Match",
            "Content-Range",
            "If-Modified-Since",
            "Content-Type",
        )
        seen = set()
        for _ in range(1000):
            headers = [
                (
                    chance.choice(names).encode(),
                    "".join(chance.choices(parts, k=chance.randint(0, 6))).encode("latin-1"),
                )
                for _ in range(chance.randint(1, 3))
            ]
            headers = [(name, value.strip(b" \t")) for name, value in headers]
            method = chance.choice(["GET", "GET", "HEAD", "PUT", "POST", "DELETE"])
            path = chance.choice(
                [FILE, FILE, "/api/files/p/version/" + tag.strip('"') + "/a/f.txt"]
            )
            answer = await http.request(method, path, content=b"0123456789", headers=headers)
            seen.add(answer.status_code)
            assert answer.status_code < 500, (method, headers)
    assert {200, 400, 404, 405} <= seen
