"""The OpenAPI document says what is served, and is one."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest
from jsonschema import Draft202012Validator

from memsvc.core.scope import Permission
from memsvc.gateway import file_routes
from memsvc.gateway.memory_routes import OPERATIONS
from memsvc.gateway.openapi import OPENAPI_PATH, document
from tests.contract.catalogue import TOOLS
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

METHODS = {"get", "put", "post", "delete"}
DOCUMENT = document(TOOLS.values(), "1.2.3")
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        yield service


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation with its path and method."""
    for path, methods in DOCUMENT["paths"].items():
        for method, told in methods.items():
            yield path, method, told


def schemas(part: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a part of the document."""
    if isinstance(part, dict):
        if isinstance(part.get("schema"), dict):
            yield part["schema"]
        for inner in part.values():
            yield from schemas(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from schemas(inner)


def test_it_has_the_form_of_openapi_3_1() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT.keys() == {"openapi", "info", "security", "paths", "components"}
    assert DOCUMENT["info"].keys() == {"title", "version", "description"}
    for path, method, told in operations():
        assert path.startswith("/api/")
        assert method in METHODS, (path, method)
        assert told.keys() <= {
            *(
                "operationId",
                "summary",
                "description",
                "tags",
                "parameters",
                "requestBody",
                "responses",
            )
        }
        assert told["responses"].keys() >= {"200", "default"}
        for one in told["parameters"]:
            assert one.keys() == {"name", "in", "required", "description", "schema"}
            assert one["in"] in ("path", "query", "header")
    names = [told["operationId"] for _, _, told in operations()]
    assert len(set(names)) == len(names)
    scheme = DOCUMENT["components"]["securitySchemes"]
    assert {name for one in DOCUMENT["security"] for name in one} == scheme.keys()


def test_every_placeholder_of_a_path_is_told_and_no_two_paths_differ_by_its_name_alone() -> None:
    for path, method, told in operations():
        declared = [one["name"] for one in told["parameters"] if one["in"] == "path"]
        assert sorted(declared) == sorted(PLACEHOLDER.findall(path)), (method, path)
        assert all(one["required"] for one in told["parameters"] if one["in"] == "path")
    shapes = [PLACEHOLDER.sub("{}", path) for path in DOCUMENT["paths"]]
    assert len(set(shapes)) == len(shapes)


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    found = list(schemas(DOCUMENT))
    assert len(found) > 100
    for schema in found:
        if "$ref" in schema:
            assert (
                schema["$ref"].removeprefix("#/components/schemas/")
                in DOCUMENT["components"]["schemas"]
            )
        else:
            Draft202012Validator.check_schema(schema)
    for _, _, told in operations():
        reference = told["responses"]["default"]["$ref"]
        assert (
            reference.removeprefix("#/components/responses/") in DOCUMENT["components"]["responses"]
        )


def test_it_tells_of_every_tool_every_noun_of_files_and_every_operation_of_memories() -> None:
    paths = DOCUMENT["paths"]
    assert {
        path.rpartition("/")[2] for path in paths if path.startswith("/api/tools/")
    } == TOOLS.keys()
    for one in (*OPERATIONS, *file_routes.OPERATIONS):
        assert one.method == "HEAD" or one.method.lower() in paths[one.path], one


def test_a_body_holds_what_is_neither_in_the_path_nor_in_the_query() -> None:
    paths = DOCUMENT["paths"]
    body = paths["/api/memories"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"].keys() == {
        *("user_id", "agent_id", "run_id"),
        *("messages", "metadata", "infer"),
    }
    assert body["required"] == ["messages", "user_id"]
    changed = paths["/api/memories/{user_id}/{memory_id}"]["put"]
    assert changed["requestBody"]["content"]["application/json"]["schema"]["properties"].keys() == {
        "memory",
        "metadata",
    }
    listed = {one["name"]: one for one in paths["/api/memories/{id}"]["get"]["parameters"]}
    assert listed.keys() == {"id", "limit", "agent_id", "run_id", "project"}
    assert listed["limit"]["schema"]["default"] == 10_000


@pytest.mark.anyio
async def test_it_is_told_to_whoever_has_a_key_as_far_as_that_goes(service: Service) -> None:
    async with service.http(None) as nobody:
        assert (await nobody.get(OPENAPI_PATH)).status_code == 401
    async with service.http() as http:
        told = (await http.get(OPENAPI_PATH)).json()
    assert "/api/memories/{id}" in told["paths"]
    hiding = await service.key(
        permissions=frozenset(Permission), hidden_tools=["memories_list", "file_read"]
    )
    async with service.http(hiding) as http:
        less = (await http.get(OPENAPI_PATH)).json()["paths"]
    assert "get" not in less["/api/memories/{id}"]
    assert "/api/tools/file_read" not in less


@pytest.mark.anyio
async def test_everything_that_it_tells_of_is_served(service: Service) -> None:
    """Whatever an operation says to these arguments, it is there and takes the method."""
    missing = []
    async with service.http() as http:
        for path, method, _ in operations():
            if path.endswith("/events"):
                continue  # it goes on until the client leaves
            filled = PLACEHOLDER.sub("1", path)
            answer = await http.request(method.upper(), filled, json={})
            if answer.headers["content-type"] == "application/x-tar":
                continue
            if (
                answer.status_code == 405
                or answer.json().get("message") == "this path does not exist"
            ):
                missing.append((method, path))
    assert missing == []
