"""What a process loads is what it needs: every module is paid for at each start, and stays in
memory."""

import gzip
import subprocess
import sys
from pathlib import Path

import orjson
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
LOADING = """
import asyncio, sys, threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memsvc.adapters.jwks import Jwks
from memsvc.console.page import CookieFactory

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "jwt":
            loop = threading.current_thread() is threading.main_thread()
            print("loop" if loop else "thread", file=sys.stderr)

async def secret():
    return b"s" * 32

async def cookie_of(_):
    now = datetime.now(UTC)
    cookies = CookieFactory(secret, timedelta(hours=1))
    assert await cookies.verify("slot", "", now) is None
    assert await cookies.verify("slot", await cookies.create("slot", b"k", now), now)

async def key_of(file):
    assert await Jwks(Path(file), timeout_s=10, refresh_s=60, retry_s=60).find("a")

sys.meta_path.insert(0, Finder())
asyncio.run(globals()[sys.argv[1]](sys.argv[2]))
"""


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
    assert helping & {*SERVING, *MIGRATING, *ANSWERING, "httpx2", "memsvc.cli.tool_client"} == set()
    asking = loads(RUN, "files", "ls", "/", "--url", "http://127.0.0.1:1")
    assert "memsvc.cli.file_commands" in asking
    assert asking & {*SERVING, *MIGRATING, *ANSWERING} == set()


@pytest.mark.slow
@pytest.mark.parametrize("first_use", ["cookie_of", "key_of"])
def test_whoever_first_needs_what_reads_tokens_keeps_nobody_waiting_for_it(
    first_use: str, tmp_path: Path
) -> None:
    key = {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "A" * 43}
    (tmp_path / "keys.json").write_bytes(orjson.dumps({"keys": [key]}))
    assert loads(LOADING, first_use, str(tmp_path / "keys.json")) == {"thread"}


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
    assert [(line["log_level"], "reinstall memsvc" in line["fault"]) for line in told] == [
        ("error", True)
    ]


WARMED = """
import sys
from memsvc.core.question_kinds import kind_of
from memsvc.core.analysis import content_terms
from memsvc.core.rules.changes import changes_in
from memsvc.core.rules.extraction import extract
from memsvc.runtime import read_examples

read_examples()
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
for text in ("I live in Graz and cannot eat nuts. I no longer smoke.", "Ich wohne jetzt in Wien.",
             "J'habite à Lyon.", "Vivo en Lima.", "我住在北京。", "私は東京に住んでいます。"):
    extract([("", text)], session="", turn="", user="")
    changes_in(text)
    kind_of(text)
    content_terms(text)
print(*opened, "end", file=sys.stderr)
"""


def test_first_texts_after_the_start_load_no_file() -> None:
    assert loads(WARMED) == {"end"}
