"""What tests of whole processes share, as a process takes seconds to start: a server, and a data
folder to copy."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import Served, on, typed
from tests.servers import DatabaseUrls, TestServer


@pytest.fixture(scope="session")
def shared_urls(server: TestServer) -> Iterator[DatabaseUrls]:
    """The database of `shared`."""
    name = asyncio.run(server.create())
    yield server.urls(name)
    asyncio.run(server.drop(name))


@pytest.fixture(scope="session")
def shared(shared_urls: DatabaseUrls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that bring a key, and thereby a tenant, of their own, and stop
    nothing."""
    with Served(tmp_path_factory.mktemp("shared") / "data", **on(shared_urls)) as served:
        yield served


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose embedded database is at the newest revision, and from which nobody has
    served yet."""
    folder = tmp_path_factory.mktemp("migrated") / "data"
    done = typed("migrate", "--data-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def data_folder(migrated: Path, tmp_path: Path) -> Path:
    """A copy of it for this test alone: to make another one takes as long as to start a server."""
    return copied(migrated, tmp_path / "data")


def copied(folder: Path, to: Path) -> Path:
    """Copy a data folder that no process uses, with the owners of its files; return where the copy
    is."""
    subprocess.run(["cp", "-a", str(folder), str(to)], check=True, timeout=60)
    return to
