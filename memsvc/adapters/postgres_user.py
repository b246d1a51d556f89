"""The operating system user that PostgreSQL runs as, and the files that belong to it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memsvc.adapters.postgres_setup import EmbeddedPostgresError

if sys.platform != "win32":
    import pwd

SYSTEM_USER: Final = "pgserver"


@dataclass(frozen=True, slots=True)
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
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
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
                f"PostgreSQL does not run as root, and the user {SYSTEM_USER} could not be added:"
                " add it, run memsvc as an ordinary user, or set database.url to a server"
            ) from error
        entry = pwd.getpwnam(SYSTEM_USER)
    return ServerUser(entry.pw_uid, entry.pw_gid)


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
