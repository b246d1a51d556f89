"""Setup of the embedded PostgreSQL: its user, roles, settings, authentication and initial SQL."""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.frozen import frozen

MAJOR_VERSION: Final = "18"
DATABASE: Final = "memsvc"
SUPERUSER_DATABASE: Final = "postgres"
SUPERUSER_ROLE: Final = "postgres"
OWNER_ROLE: Final = "memsvc_owner"
APP_ROLE: Final = "memsvc_app"
ROLES: Final = (SUPERUSER_ROLE, OWNER_ROLE, APP_ROLE)
PORT: Final = "5432"
SOCKET_NAME: Final = f".s.PGSQL.{PORT}"
SETTINGS_FILE: Final = "memsvc.conf"
STATEMENT_TIMEOUT: Final = "MEMSVC_STATEMENT_TIMEOUT"

INITDB_OPTIONS: Final = (
    "--pgdata=.",
    f"--username={SUPERUSER_ROLE}",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    "--locale=C",
    # the same order and case rules on every machine, whatever its C library
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
)

CLIENT_AUTHENTICATION: Final = f"""\
# Written by memsvc at each start. Clients must connect over the Unix socket with a password.
local all all scram-sha-256
local replication {SUPERUSER_ROLE} scram-sha-256
"""
"""The second line is for backups."""

PROVISION: Final = rf"""
\getenv owner_password {OWNER_ROLE.upper()}_PASSWORD
\getenv app_password {APP_ROLE.upper()}_PASSWORD
\getenv statement_timeout {STATEMENT_TIMEOUT}
SELECT format('CREATE ROLE %I', name) FROM (VALUES ('{OWNER_ROLE}'),
    ('{APP_ROLE}')) AS wanted (name)
 WHERE name NOT IN (SELECT rolname FROM pg_roles) \gexec
ALTER ROLE {OWNER_ROLE} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD
    :'owner_password';
ALTER ROLE {APP_ROLE} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD
    :'app_password';
-- The message of an error may quote a value. The client gets it; the log of these two roles does
-- not.
ALTER ROLE {OWNER_ROLE} SET log_min_messages = fatal;
ALTER ROLE {APP_ROLE} SET log_min_messages = fatal;
ALTER ROLE {APP_ROLE} SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE {APP_ROLE} SET statement_timeout = :'statement_timeout';
SELECT 'CREATE DATABASE {DATABASE} OWNER {OWNER_ROLE}'
 WHERE '{DATABASE}' NOT IN (SELECT datname FROM pg_database) \gexec
REVOKE ALL ON DATABASE {DATABASE}, {SUPERUSER_DATABASE}, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE {DATABASE} TO {APP_ROLE};
\connect {DATABASE}
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS vector;
"""  # noqa: S608 - the names are constants of this file
"""Script for psql as the superuser, with passwords and the timeout in the environment; idempotent.
"""

RETRY_MESSAGES: Final = (
    "pre-existing shared memory block",
    'lock file "postmaster.pid" already exists',
)
DISK_FULL_MESSAGE: Final = "No space left on device"
DISK_FULL_ADVICE: Final = (
    "the disk is full: free some space or set MEMSVC_DATA_DIR to a folder on another disk"
)


class EmbeddedPostgresError(MemsvcError):
    """The embedded PostgreSQL cannot be used; the message says why and what to do about it."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.UNAVAILABLE, message)


def settings(socket_place: str) -> str:
    """Return the configuration file for a small server; `ALTER SYSTEM` overrides it."""
    return f"""\
# Written by memsvc at each start of the server. To differ, use ALTER SYSTEM.
listen_addresses = ''
unix_socket_directories = '{socket_place.replace("'", "''")}'
unix_socket_permissions = 0700
port = {PORT}
password_encryption = 'scram-sha-256'

max_connections = 60
shared_buffers = '128MB'
wal_level = replica
synchronous_commit = on
# whole pages are logged after each checkpoint: fewer checkpoints and smaller pages, cheaper commits
wal_compression = on
checkpoint_timeout = '15min'
max_wal_size = '1GB'
jit = off
# every statement has one good plan: planning it for each call would cost as much as running it
plan_cache_mode = force_generic_plan
autovacuum_naptime = '15s'
autovacuum_vacuum_insert_scale_factor = 0.05
timezone = 'UTC'

# The log says what the server does, not what it stores: no statements, parameters or error details.
logging_collector = on
log_directory = 'log'
log_filename = 'postgresql-%a.log'
log_rotation_age = '1d'
log_truncate_on_rotation = on
log_timezone = 'UTC'
log_statement = none
log_min_duration_statement = -1
log_min_error_statement = panic
log_error_verbosity = terse
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
"""


def new_passwords() -> dict[str, str]:
    """Return a random password for each role, in characters that need no quoting in URLs or SQL."""
    return {role: secrets.token_urlsafe(32) for role in ROLES}


if sys.platform != "win32":
    import fcntl
    import pwd

SYSTEM_USER: Final = "pgserver"


@frozen
class ServerUser:
    """The operating system user of PostgreSQL where memsvc runs as root, which that refuses."""

    user_id: int
    group_id: int


def server_user_of(folder: Path) -> ServerUser | None:
    """Return the server's user; None for this process's, for root the owner or a new one."""
    if os.geteuid() != 0:
        return None
    if folder.exists() and (owner := folder.stat()).st_uid != 0:
        return ServerUser(owner.st_uid, owner.st_gid)
    # One process at a time: another's user is found before it is there for everybody.
    lock = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entry = _system_user()
    finally:
        os.close(lock)
    return ServerUser(entry.pw_uid, entry.pw_gid)


def _system_user() -> "pwd.struct_passwd":
    """Return the entry of SYSTEM_USER, which is added where there is none."""
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        command = [
            "useradd",
            "--system",
            "--no-create-home",
            "--shell",
            "/usr/sbin/nologin",
            SYSTEM_USER,
        ]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and the user {SYSTEM_USER} could not be"
                " created: create that user, run memsvc as an ordinary user, or set"
                " database.url to the URL of a PostgreSQL server"
            ) from error
    return pwd.getpwnam(SYSTEM_USER)


def open_to(user: ServerUser, folder: Path, program_dir: Path) -> None:
    """Let the account enter `folder` and the programs' folder, without listing those above them."""
    installed = program_dir.parent
    for parent in {*folder.parents, *program_dir.parents}:
        status = parent.stat()
        if not status.st_mode & 0o001 and status.st_uid != user.user_id:
            parent.chmod(status.st_mode | 0o001)
    # installed under umask 077
    if (installed / "bin" / "postgres").stat().st_mode & 0o005 != 0o005:
        package = installed.parent
        for part in (installed, package.with_name(f"{package.name}.libs")):
            for path in (part, *part.rglob("*")):
                mode = path.stat().st_mode
                path.chmod(mode | (0o005 if mode & 0o100 else 0o004))


def write(path: Path, text: str, user: ServerUser | None) -> None:
    """Replace a file atomically and durably; only its owner may read it."""
    temp_path = path.with_name(f"{path.name}.unfinished")
    temp_path.unlink(missing_ok=True)
    with open(os.open(temp_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - a mode
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        set_owner(temp_path, user)
    temp_path.replace(path)


def set_owner(path: Path, user: ServerUser | None) -> None:
    """Give the file or folder to the account."""
    if user:
        os.chown(path, user.user_id, user.group_id, follow_symlinks=False)
