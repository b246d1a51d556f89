"""`memsvc` with jobs of its own to run: what they did stands in the folder of JOBS_FOLDER, a file
each.

A job waits there for a file `release`, if the subject says so.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from memsvc import app, worker_app
from memsvc.cli import main as cli
from memsvc.core.scope import Scope
from memsvc.core.tools import Job, Published

FOLDER = Path(os.environ["JOBS_FOLDER"])


async def note(_: Scope, subject: str) -> None:
    """Note the beginning, wait where that is asked for, and note the end."""
    attempt = sum(name.startswith(f"{subject}.begun.") for name in os.listdir(FOLDER)) + 1  # noqa: PTH208
    (FOLDER / f"{subject}.begun.{attempt}").touch()
    while subject.startswith("slow") and not (FOLDER / "release").exists():  # noqa: ASYNC110 - another process's doing
        await asyncio.sleep(0.02)
    if subject.startswith("bad"):
        raise RuntimeError
    (FOLDER / f"{subject}.ended.{attempt}").touch()


def published(*_: Any) -> Published:
    return Published(tools=[], jobs=[Job("note", note, attempts_max=1)])


if __name__ == "__main__":
    app.published = worker_app.published = published
    cli.main()
