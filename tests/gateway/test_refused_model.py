"""A key that a model's endpoint refuses is an operator's to mend: told where operators look, and no
reason to stop."""

import asyncpg
import pytest

from memsvc.adapters.options import ModelOptions
from tests.endpoints import provider
from tests.gateway.served import Service, served
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.anyio
NOTE = {
    "user_id": "alice",
    "conversation_id": "c",
    "entries": [{"role": "user", "content": "We meet on Monday."}],
}


async def told(service: Service) -> tuple[int, bool, float]:
    """The status of readiness, what it says of the model, and the metric."""
    async with service.http(key=None) as http:
        ready, metrics = await http.get("/readyz"), (await http.get("/metrics")).text
    [refused] = [line for line in metrics.splitlines() if line.startswith("memsvc_model_refused ")]
    return ready.status_code, ready.json()["model"], float(refused.split()[1])


async def test_a_refused_key_shows_in_readiness_and_metrics_until_it_is_taken(
    database_urls: DatabaseUrls, admin: asyncpg.Connection
) -> None:
    async with provider() as there:
        there.plan.append("refuses the key")
        model = ModelOptions(model="openai:m", base_url=there.url, api_key="sk-1", retries=0)
        async with served(database_urls, admin, model=model) as service, service.http() as http:
            assert await told(service) == (200, True, 0)
            refused = await http.post("/api/tools/context_update", json=NOTE)
            assert (refused.status_code, refused.headers.get("Retry-After")) == (503, None)
            assert await told(service) == (200, False, 1)
            assert (await http.post("/api/tools/context_update", json=NOTE)).status_code == 200
            assert await told(service) == (200, True, 0)
