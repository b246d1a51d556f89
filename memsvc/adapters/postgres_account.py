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
class Account:
    """The operating system user of PostgreSQL where memsvc runs as root, which that refuses."""

    uid: int
    gid: int


def account_for(folder: Path) -> Account | None:
    """Return the server's user; None for this process's, for root the owner or a new one."""
    if os.geteuid() != 0:
        return None
    if folder.exists() and (owner := folder.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and the user {SYSTEM_USER} could not be added: add it, run memsvc "
                "as an ordinary user, or set database.url to a server"
            ) from error
        entry = pwd.getpwnam(SYSTEM_USER)
    return Account(entry.pw_uid, entry.pw_gid)


def open_to(account: Account, folder: Path, programs: Path) -> None:
    """Let the account enter `folder` and the programs' folder, without listing those above them."""
    installed = programs.parent
    for above in {*folder.parents, *programs.parents}:
        status = above.stat()
        if not status.st_mode & 0o001 and status.st_uid != account.uid:
            above.chmod(status.st_mode | 0o001)
    # installed under umask 077
    if (installed / "bin" / "postgres").stat().st_mode & 0o005 != 0o005:
        wheel = installed.parent
        for part in (installed, wheel.with_name(f"{wheel.name}.libs")):
            for path in (part, *part.rglob("*")):
                mode = path.stat().st_mode
                path.chmod(mode | (0o005 if mode & 0o100 else 0o004))


def write(path: Path, text: str, account: Account | None) -> None:
    """Replace a file atomically and durably; only its owner may read it."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - a mode
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        own(unfinished, account)
    unfinished.replace(path)


def own(path: Path, account: Account | None) -> None:
    """Give the file or folder to the account."""
    if account:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
