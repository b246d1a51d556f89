"""What the OpenAPI document says is served is served: every request that it allows, and those just
beside it, is answered in time, without a fault of ours, with a status and a body that it tells
of."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from memsvc.gateway.openapi import document
from tests.contract.catalogue import EXAMPLES, TOOLS
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
REQUESTS = int(os.environ.get("MEMSVC_FUZZ_REQUESTS", "600"))
ANSWER_S_MAX = 30
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
STREAMS = {"memories_events"}
"""Operations whose answer does not end."""

SCHEMA = schemathesis.openapi.from_dict(document(TOOLS.values(), "1.2.3"))
OPERATIONS = [
    operation
    for operation in (one.ok() for one in SCHEMA.get_all_operations())
    if operation.definition.raw["operationId"] not in STREAMS
]
CASES = st.sampled_from(OPERATIONS).flatmap(
    lambda operation: st.sampled_from(GenerationMode).flatmap(operation.as_strategy)
)


@pytest.fixture
async def service(database_urls: DatabaseUrls, admin: asyncpg.Connection) -> AsyncIterator[Service]:
    async with served(database_urls, admin) as service:
        async with service.http() as http:
            for name in ("memory_after_turn", "file_write", "memories_add"):
                assert (
                    await http.post(f"/api/tools/{name}", json=EXAMPLES[name])
                ).status_code == 200
        yield service


async def sent(service: Service, case: Any) -> schemathesis.Response:
    """The answer to a request, byte for byte as the generator would have sent it."""
    asked = case.as_transport_kwargs(
        "http://127.0.0.1:8080", headers={"Authorization": "Bearer key-one"}
    )
    prepared = requests.Request(**asked).prepare()
    body = prepared.body or b""
    async with service.http() as http, asyncio.timeout(ANSWER_S_MAX):
        answered = await http.request(
            prepared.method or "",
            prepared.url or "",
            content=body.encode() if isinstance(body, str) else body,
            headers=[
                (name, value)
                for name, value in prepared.headers.items()
                if name.lower() != "content-length"
            ],
        )
    headers: dict[str, list[str]] = {}
    for name, value in answered.headers.multi_items():
        headers.setdefault(name, []).append(value)
    return schemathesis.Response(
        answered.status_code, headers, answered.content, prepared, 0.0, verify=False
    )


@settings(
    max_examples=REQUESTS,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    derandomize="MEMSVC_FUZZ_REQUESTS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(case=CASES)
async def test_requests_within_and_beside_the_document_are_answered_as_it_says(
    service: Service, case: Any
) -> None:
    answered = await sent(service, case)
    try:
        case.validate_response(answered, checks=CHECKS)
    except (
        FailureGroup
    ) as failed:  # which is no Exception, and would take the service of the test down with it
        raise AssertionError("\n".join(str(one) for one in failed.exceptions)) from None


def test_all_operations_are_tried() -> None:
    assert len(OPERATIONS) > len(TOOLS) + 20
