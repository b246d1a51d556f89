"""What a process loads is what it needs: every module is paid for at each start, and stays in
memory."""

import gzip
import subprocess
import sys

import pytest
import structlog

from memsvc.app import opened
from memsvc.cli.main import COMMANDS, loaded
from memsvc.gateway.rest import Draining
from memsvc.settings import Settings
from tests.e2e.process import environment
from tests.servers import DatabaseUrls

RUN = """
import sys
from memsvc.start import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
SERVING = {"asyncpg", "pgqueuer", "starlette", "structlog", "tiktoken", "uvicorn", "yaml"}
MIGRATING = {"alembic", "sqlalchemy"}
ANSWERING = {
    "jinja2",
    "mcp",
    "mcp_types",
    "memsvc.app",
    "memsvc.console.routes",
}


def loads(program: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.slow
def test_help_loads_no_command_and_a_command_that_asks_a_server_loads_nothing_of_one() -> None:
    helping = loads(RUN, "--help")
    assert "memsvc.cli.main" in helping
    assert helping & {*SERVING, *MIGRATING, *ANSWERING, "httpx", "memsvc.cli.tool_client"} == set()
    asking = loads(RUN, "files", "ls", "/", "--url", "http://127.0.0.1:1")
    assert "memsvc.cli.file_commands" in asking
    assert asking & {*SERVING, *MIGRATING, *ANSWERING} == set()


@pytest.mark.slow
def test_a_worker_loads_nothing_that_answers_calls_or_migrates() -> None:
    working = loads(
        "import sys, memsvc.cli.serve, memsvc.worker_app; print(*sys.modules, file=sys.stderr)"
    )
    assert "memsvc.worker" in working
    assert working & {*MIGRATING, *ANSWERING} == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_it_says_of_itself(name: str) -> None:
    first = (loaded(name).help or "").split("\n\n")[0]
    assert COMMANDS[name][1] == " ".join(first.split())


async def test_a_server_whose_vocabulary_is_damaged_says_so_and_goes_on(
    database_urls: DatabaseUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gzip, "decompress", lambda _: b"")
    async with opened(Settings(), database_urls.app, Draining()) as app:
        with structlog.testing.capture_logs() as told:
            await app.warm()
    assert [(line["log_level"], "install memsvc anew" in line["fault"]) for line in told] == [
        ("error", True)
    ]
