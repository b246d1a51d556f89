"""How long a host waits for `memsvc hook prompt` beside a Python that does nothing: `python -m
benchmarks.hooks`.

Processes are started as a host starts them, in interleaved rounds, while the service runs and while
something listens that never answers.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from itertools import chain, count
from pathlib import Path

from benchmarks import table
from benchmarks.chatter import Chatter
from benchmarks.command import Command, Size
from benchmarks.report import Report, Table, judged
from benchmarks.rounds import interleaved
from benchmarks.service import Service, add_arguments, service

MEMSVC = Path(sys.executable).with_name("memsvc")
SIZES = {
    "rounds": Size(5, 3, "interleaved rounds"),
    "calls": Size(20, 10, "processes of each kind in a round"),
}
HEADINGS = ("process", "median ms", "slowest ms")


def hook(event: str, url: str, key: str, folder: str) -> Callable[[], Awaitable[None]]:
    """Run a hook of Claude Code with a prompt of a session, each time the next one."""
    chatter, prompts = Chatter(seed=3), count()
    variables = {"MEMSVC_URL": url, "MEMSVC_API_KEY": key, "MEMSVC_HOOKS_DIR": folder}

    async def run() -> None:
        said = {"prompt": chatter.question(), "prompt_id": f"p{next(prompts)}"}
        payload = {"session_id": "measured", "cwd": folder} | said
        command = (str(MEMSVC), "hook", event, "--host", "claude-code")
        await ended(*command, payload=payload, environment=os.environ | variables)

    return run


async def ended(*command: str, payload: object = None, environment: dict[str, str]) -> None:
    """Run a process to its end."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    await process.communicate(json.dumps(payload).encode())
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")


async def timings(running: Service, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Milliseconds of each process."""
    with socket.socket() as silent, tempfile.TemporaryDirectory() as folder:
        silent.bind(("127.0.0.1", 0))
        silent.listen(2**10)
        nobody = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kinds = {
            "Python": lambda: ended(sys.executable, "-c", "pass", environment=dict(os.environ)),
            "prompt": hook("prompt", running.url, running.key, f"{folder}/one"),
            "prompt, no answer": hook("prompt", nobody, running.key, f"{folder}/two"),
        }
        measured = await interleaved(
            kinds, rounds=arguments.rounds, calls=arguments.calls, warm_up=3
        )
    return {name: [*chain(*rounds)] for name, rounds in measured.rounds.items()}


async def measure(arguments: argparse.Namespace) -> Report:
    """Start the service, and hooks beside it."""
    async with service(arguments) as running:
        found = await timings(running, arguments)
    rows = [[name, table.p50(spent), max(spent)] for name, spent in found.items()]
    figures = {
        "`memsvc hook prompt`, p50": table.p50(found["prompt"]),
        "`memsvc hook prompt`, slowest without an answer": max(found["prompt, no answer"]) / 1000,
    }
    shown = Table("Hooks: what a host waits for", HEADINGS, rows)
    return Report("hooks", "Hooks beside their goals", [shown], judged("hooks", figures))


COMMAND = Command(__doc__, measure, SIZES, add_arguments)

if __name__ == "__main__":
    sys.exit(COMMAND.run())
