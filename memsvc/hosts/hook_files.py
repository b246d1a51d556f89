"""Files of the hooks: where the server is, turns that wait to be stored, prompts not answered yet.

All of them are in one folder that only its owner may read."""

import json
import os
import pwd
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from memsvc.variables import (
    HOOKS_DIR_VARIABLE,
    KEY_VARIABLE,
    PROJECT_VARIABLE,
    URL_VARIABLE,
    USER_VARIABLE,
)

DEFAULT_URL: Final = "http://127.0.0.1:8080"
SPOOL_FILES_MAX: Final = 2_000
SEEN_MAX: Final = 500
DAY_S: Final = 86_400
STATE_DAYS: Final = 30

_REMOTE_URL: Final = re.compile(r'\[remote "origin"\][^\[]*?\burl\s*=\s*(\S+)')


class HookSettings(NamedTuple):
    """The server to call, its key, and whose memory it is; no project means one a repository."""

    url: str
    key: str
    user: str
    project: str


class HookFiles:
    """The folder of the hooks that the environment names, or else that of the account."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        config = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        self.folder = Path(environment.get(HOOKS_DIR_VARIABLE) or Path(config, "memsvc/hooks"))
        self.settings_file = self.folder / "hosts.json"
        self._environment = environment
        self._spool = self.folder / "spool"
        self._sessions = self.folder / "sessions"

    def installed(self) -> dict[str, Any]:
        """Return what `memsvc install` wrote; {} where it was not run."""
        with suppress(FileNotFoundError):
            found = json.loads(self.settings_file.read_bytes())
            if isinstance(found, dict):
                return found
        return {}

    def settings(self) -> HookSettings:
        """Return the settings: the environment over the file.

        The key of the file goes to the URL of the file alone."""
        found, file = self._environment.get, self.installed()
        url = found(URL_VARIABLE) or file.get("url") or DEFAULT_URL
        key = file.get("key", "") if url == file.get("url") else ""
        return HookSettings(
            url,
            found(KEY_VARIABLE, "").strip() or key,
            found(USER_VARIABLE) or file.get("user") or pwd.getpwuid(os.getuid()).pw_name,
            found(PROJECT_VARIABLE) or file.get("project") or "",
        )

    def spool(self, turn: dict[str, Any]) -> None:
        """Keep a turn until `memory_after_turn` has taken it. Raises OSError when it cannot."""
        self._spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        if len(os.listdir(self._spool)) >= SPOOL_FILES_MAX:  # noqa: PTH208 - much quicker
            raise OSError(
                f"the turn was not saved, because {SPOOL_FILES_MAX} unsent turns are already"
                f" waiting in {self._spool}"
            )
        write_private(self._spool / f"{time.time_ns():020}-{os.getpid()}.json", json.dumps(turn))

    def spool_size(self) -> int:
        """Return how many turns wait to be stored."""
        with suppress(FileNotFoundError):
            return sum(name.endswith(".json") for name in os.listdir(self._spool))  # noqa: PTH208 - as above
        return 0

    def spool_files(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yield the turns that wait, the oldest first."""
        for path in sorted(self._spool.glob("*.json")):
            with suppress(FileNotFoundError, ValueError):  # another hook was quicker; no turn
                yield path, json.loads(path.read_bytes())

    def session(self, name: str) -> dict[str, Any]:
        """Return what is known of a session: `turns` begun, `pending` prompt, `seen` turn ids."""
        with suppress(FileNotFoundError, ValueError):
            found = json.loads(self._session_file(name).read_bytes())
            if isinstance(found, dict):
                return found
        return {"since": int(time.time()), "turns": 0, "pending": None, "seen": []}

    def keep_session(self, name: str, state: dict[str, Any]) -> None:
        """Keep what is known of a session."""
        self._sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = state | {"seen": state["seen"][-SEEN_MAX:]}
        write_private(self._session_file(name), json.dumps(kept))

    def expired_prompts(self, now: float) -> Iterator[dict[str, Any]]:
        """Yield turns whose prompt has had no answer for a day; forget sessions after a month."""
        for path in self._sessions.glob("*.json"):
            with suppress(FileNotFoundError, ValueError):
                age_s = now - path.stat().st_mtime
                state = json.loads(path.read_bytes()) if age_s > DAY_S else {}
                if state.get("pending"):
                    yield state["pending"]
                    write_private(path, json.dumps(state | {"pending": None}))
                elif age_s > STATE_DAYS * DAY_S:
                    path.unlink()

    def clear(self) -> int:
        """Delete the turns and prompts that wait; return how many turns there were."""
        waiting = sum(path.suffix in (".json", ".refused") for path in self._spool.glob("*.*"))
        for folder in (self._spool, self._sessions):
            for path in folder.glob("*"):
                path.unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                folder.rmdir()
        with suppress(OSError):  # there are other files in it
            self.folder.rmdir()
        return waiting

    def _session_file(self, name: str) -> Path:
        return self._sessions / f"{sha256(name.encode()).hexdigest()[:32]}.json"


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file at once: it has either its old or its new content, whatever happens."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def project_of(folder: str) -> str:
    """Return the project of a folder: that of its repository, `default` outside of one.

    The name is that of `origin`, or else of the repository's folder, and six digits tell apart
    repositories of the same name."""
    for place in (Path(folder), *Path(folder).parents) if folder else ():
        git = place / ".git"
        if not git.exists():
            continue
        if git.is_file():  # a worktree or submodule; the repository is where it points
            git = Path(place, git.read_text("utf-8").partition("gitdir:")[2].strip())
            git = git.parent.parent if git.parent.name == "worktrees" else git
        config = git / "config"
        found = _REMOTE_URL.search(config.read_text("utf-8") if config.exists() else "")
        origin = found[1] if found else str(git.resolve().parent)
        # the same for whoever clones it, by whatever protocol
        identity = re.sub(r"\A\w+://|(?:\.git)?/*\Z", "", origin)
        identity = identity.rpartition("@")[2].replace(":", "/")
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", identity.rpartition("/")[2])[:100]
        return f"{name}-{sha256(identity.encode()).hexdigest()[:6]}"
    return "default"
