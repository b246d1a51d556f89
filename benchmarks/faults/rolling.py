"""Two versions of the server on one database, while its schema is brought up to date and taken down
again."""

import asyncio
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.faults.audit import audit
from benchmarks.faults.calling import Seen
from benchmarks.faults.serving import Ground, command, postgres, ready
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import Acknowledged, Writers
from memsvc.package_files import migrations_dir
from memsvc.store.migrate import current_revision
from memsvc.store.revisions import Revisions
from tests.e2e.process import CHECKOUT, free_port

AT_ONCE = 4
TURNS = 60
BACK = ("--even-with-loss", "--down-to")
_APPLIED = re.compile(r"\b\d{4}\b")


async def rolled(folder: Path, *, old: str | None) -> Trial:
    """Upgrade and go back, under writers. `old` is a revision of git; else the one before the
    newest migration."""
    revision, checkout = await asyncio.to_thread(_checked_out, folder / "old", old)
    trial = Trial(f"a rolling upgrade from {revision[:12]}, under writers of both versions")
    before = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
    with postgres(folder / "data") as database:
        ground = Ground(folder, **database.settings())
        try:
            old_server = await ground.serve(**before)
            old_head = await current_revision(database.urls.app_url)
            trial.note("revisions", f"{old_head} to {Revisions.read_package().head}")
            first = Writers(ground, writers=4)
            async with first.running() as acknowledged:
                await acknowledged.reaches(TURNS)
                applied = await _migrated_at_once(ground)
                trial.equal(
                    "revisions that were applied twice",
                    sum(times > 1 for times in applied.values()),
                    0,
                )
                trial.equal(
                    "revision afterwards",
                    await current_revision(database.urls.app_url),
                    Revisions.read_package().head,
                )
                trial.equal(
                    "the old version is ready on the new schema", await ready(ground.url), True
                )
                port = free_port()
                await ground.serve_beside(port)
                second = Writers(ground, writers=8, url=f"http://127.0.0.1:{port}", first=4)
                async with second.running() as beside:
                    await acknowledged.reaches(acknowledged.count + TURNS)
                    await beside.reaches(TURNS)
                trial.equal(
                    "calls that the old version failed on the new schema", _failed(ground.seen), 0
                )
            await asyncio.to_thread(old_server.stop)
            again = await ground.serve(**before, MEMSVC_DATABASE__ADMIN_URL="")
            trial.equal(
                "the old version starts again, without the owner's DSN",
                await ready(ground.url),
                True,
            )
            await asyncio.to_thread(again.stop)
            await ground.serve()
            await audit(ground, _both(acknowledged, beside), trial)
            await ground.end()
            down = await asyncio.to_thread(
                command, ground, "migrate", *BACK, str(old_head), "--data-dir", str(ground.data_dir)
            )
            trial.equal("exit code of going down", down.returncode, 0)
            trial.remarks += [down.stderr[-500:]] if down.returncode else []
            back = await ground.serve(**before)
            third = Writers(ground, writers=12, first=8)
            async with third.running() as later:
                await later.reaches(TURNS)
            await asyncio.to_thread(back.stop)
            up = await asyncio.to_thread(
                command, ground, "migrate", "--data-dir", str(ground.data_dir)
            )
            trial.equal("exit code of going up again", up.returncode, 0)
            await ground.serve()
            after = Trial("")
            await audit(ground, _both(acknowledged, beside, later), after)
            trial.equal(
                "faults after going down and up", sum(not one.held for one in after.figures), 0
            )
            ground.judge_answers(trial)
        finally:
            await ground.end()
    trial.equal(
        "servers ready of those started at once on nothing",
        await _started_at_once(Ground(folder / "old")),
        AT_ONCE,
    )
    return trial


def _checked_out(place: Path, old: str | None) -> tuple[str, Path]:
    """A revision of git in a folder of its own."""
    newest = max((migrations_dir() / "versions").glob("[0-9]*.py")).name
    if old is None:
        added = _git(
            "log", "--format=%H", "-n1", "--diff-filter=A", "--", f"migrations/versions/{newest}"
        )
        old = f"{added}^" if added else "HEAD"
    revision = _git("rev-parse", old)
    place.mkdir()
    archive = place.with_suffix(".tar")
    _git("archive", "--output", str(archive), revision)
    shutil.unpack_archive(archive, place)
    return revision, place


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"git {arguments[0]}: {done.stderr.strip()}; this part needs the history of the project"
        )
    return done.stdout.strip()


async def _migrated_at_once(ground: Ground) -> Counter[str]:
    """Let several processes migrate at the same moment; how often each revision was applied."""
    done = await asyncio.gather(
        *(
            asyncio.to_thread(command, ground, "migrate", "--data-dir", str(ground.data_dir))
            for _ in range(AT_ONCE)
        )
    )
    failed = [one.stderr[-500:] for one in done if one.returncode]
    if failed:
        raise RuntimeError(failed[0])
    return Counter(
        revision
        for one in done
        if "nothing" not in one.stdout
        for revision in _APPLIED.findall(one.stdout)
    )


async def _started_at_once(ground: Ground) -> int:
    """How many of several servers become ready that start at the same moment where there is not
    even a database."""
    try:
        ports = [free_port() for _ in range(AT_ONCE)]
        await asyncio.gather(*(ground.serve_beside(port) for port in ports))
        return sum(await asyncio.gather(*(ready(f"http://127.0.0.1:{port}") for port in ports)))
    finally:
        await ground.end()


def _failed(seen: Seen) -> int:
    return sum(times for code, times in seen.codes.items() if code not in {"ok", "RESOURCE_BUSY"})


def _both(*many: Acknowledged) -> Acknowledged:
    """What several groups of writers were told, as one."""
    merged = Acknowledged()
    for one in many:
        merged.refused += one.refused
        for tenant, turns in one.turns.items():
            merged.turns[tenant] |= turns
    return merged
