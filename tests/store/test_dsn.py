"""What the URL of a database may be, and what is said of one that leads nowhere."""

import asyncpg
import pytest

from memsvc.core.errors import Code, MemsvcError
from memsvc.gateway.metrics import Metrics
from memsvc.store.connections import checked_dsn, connection_error
from memsvc.store.database import Database, DatabaseOptions
from tests.e2e.process import free_port

SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize(
    "url",
    ["mysql://x", "localhost/db", "postgresql:/x", "postgres://h:70000/db", "postgres://h:x/d"],
)
def test_a_url_of_something_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|invalid"):
        checked_dsn(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h/db",
        "postgres://h:5433,i:5434/db?sslmode=require",
        "postgresql:///db?host=/run/pg&port=1",
    ],
)
def test_a_url_of_postgresql_is_taken(url: str) -> None:
    assert checked_dsn(url) == url


@pytest.mark.anyio
async def test_what_keeps_a_connection_from_being_made_is_named_and_the_password_is_not() -> None:
    port = free_port()
    reasons = {
        f"postgresql://u:{SECRET}@127.0.0.1:{port}/db": f"nothing listens at 127.0.0.1:{port}",
        f"postgresql://u:{SECRET}@no-such-host.invalid/db": "cannot resolve the host name"
        " (no-such-host.invalid:5432)",
        f"postgresql://u:{SECRET}@127.0.0.1:{port}/db?sslmode=never": "options that the driver does"
        " not support",
    }
    for url, reason in reasons.items():
        with pytest.raises(MemsvcError) as refused:
            await Database.open(url, DatabaseOptions(pool_min=1), Metrics())
        assert refused.value.code is Code.UNAVAILABLE
        assert reason in refused.value.message
        assert "database.url" in (refused.value.recovery or "")
        assert SECRET not in str(refused.value.body())
    missing = connection_error(
        f"postgresql://ada:{SECRET}@h/nowhere",
        asyncpg.InvalidCatalogNameError("no"),
        "database.url",
    )
    assert "the database nowhere does not exist at h:5432" in missing.message
    refused_role = connection_error(
        f"postgresql://ada:{SECRET}@h/db", asyncpg.InvalidPasswordError("no"), "database.url"
    )
    assert "rejects the role ada or its password" in refused_role.message
