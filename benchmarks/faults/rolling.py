"""Two versions of the server on one database, while its schema is brought up to date and taken down
again. Across a revision that no older server may work on, one after the other."""

import asyncio
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks.faults import all_styles
from benchmarks.faults.all_styles import Rounds
from benchmarks.faults.audit import audit
from benchmarks.faults.calling import OK, TEMPORARY, TENANTS, Caller, Seen
from benchmarks.faults.serving import Ground, checked, command, postgres, ready
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import Acknowledged, Writers, spoken
from memsvc.package_files import migrations_dir
from memsvc.store.revisions import Revisions
from tests.e2e.process import CHECKOUT, free_port
from tests.servers import current_revision

AT_ONCE = 4
TURNS = 60
ROUNDS = 6
AGAIN_EVERY = 7
DERIVED_FROM_TEXTS = frozenset({"entries", "facts"})
"""Rows that a version may derive from the same texts otherwise than the one before."""
STOPPED_BEFORE = "0025"
"""A server of an older schema does not start on this one or a newer one."""
BACK = ("--even-with-loss", "--down-to")
_APPLIED = re.compile(r"\b\d{4}\b")


async def rolled(folder: Path, *, old: str | None) -> Trial:
    """Upgrade and go back, under writers of every style. `old` is a revision of git; else the one
    before the newest migration."""
    revision, checkout = await asyncio.to_thread(_checked_out, folder / "old", old)
    trial = Trial(f"an upgrade from {revision[:12]}, under writers")
    before = {"PYTHONPATH": str(checkout), "PYTHONSAFEPATH": "1"}
    with postgres(folder / "data") as database:
        ground = Ground(folder, **database.settings())
        try:
            old_server = await ground.serve(**before)
            old_head = await current_revision(database.urls.app_url)
            trial.note("revisions", f"{old_head} to {Revisions.read_package().head}")
            rolls = old_head is not None and old_head >= STOPPED_BEFORE
            exchange = _exchanged if rolls else _stopped
            turns, rounds = await exchange(ground, old_head, trial)
            await asyncio.to_thread(old_server.stop)
            trial.equal(
                "the old version starts on the new schema, without the owner's DSN",
                await _starts(ground, **before, MEMSVC_DATABASE__ADMIN_URL=""),
                rolls,
            )
            await ground.serve()
            await _sent_again(ground, turns, trial)
            await _answered(ground, turns, rounds, "of the new version, nothing rebuilt", trial)
            await _reread(ground, trial)
            await audit(ground, turns, trial)
            await all_styles.audit(ground, rounds, trial)
            await ground.end()
            await _migrated_down(ground, old_head, trial)
            back = await ground.serve(**before)
            await _answered(ground, turns, rounds, "of the old version, gone back to", trial)
            third = Writers(ground, writers=12, first=8)
            async with third.running() as later:
                await later.reaches(TURNS)
            await asyncio.to_thread(back.stop)
            up = await asyncio.to_thread(
                command, ground, "migrate", "--data-dir", str(ground.data_dir)
            )
            trial.equal("exit code of going up again", up.returncode, 0)
            await ground.serve()
            both = _both(turns, later)
            await _answered(ground, both, rounds, "after going down and up", trial)
            after = Trial("")
            await _reread(ground, after)
            await audit(ground, both, after)
            _judge_faults(after, "faults after going down and up", trial)
            ground.judge_answers(trial)
        finally:
            await ground.end()
    trial.equal(
        "servers ready of those started at once on nothing",
        await _started_at_once(Ground(folder / "old")),
        AT_ONCE,
    )
    return trial


async def _exchanged(
    ground: Ground, old_head: str | None, trial: Trial
) -> tuple[Acknowledged, tuple[Rounds, Rounds]]:
    """Migrate up and down again under the old server, with the new one beside it in between."""
    first = Writers(ground, writers=4)
    async with (
        all_styles.writing(ground, ground.url, "old") as old_rounds,
        first.running() as acknowledged,
    ):
        await acknowledged.reaches(TURNS)
        applied = await _migrated_at_once(ground)
        trial.equal(
            "revisions that were applied twice",
            sum(times > 1 for times in applied.values()),
            0,
        )
        trial.equal(
            "revision afterwards",
            await current_revision(ground.variables["MEMSVC_DATABASE__URL"]),
            Revisions.read_package().head,
        )
        trial.equal("the old version is ready on the new schema", await ready(ground.url), True)
        port = free_port()
        new_server = await ground.serve_beside(port)
        url = f"http://127.0.0.1:{port}"
        second = Writers(ground, writers=8, url=url, first=4)
        async with (
            all_styles.writing(ground, url, "new") as new_rounds,
            second.running() as beside,
        ):
            await acknowledged.reaches(acknowledged.count + TURNS)
            await beside.reaches(TURNS)
            await new_rounds.reaches(ROUNDS)
        trial.equal("calls that the old version failed on the new schema", _failed(ground.seen), 0)
        await asyncio.to_thread(new_server.stop)
        await _migrated_down(ground, old_head, trial)
        await acknowledged.reaches(acknowledged.count + TURNS)
        await old_rounds.reaches(old_rounds.count + ROUNDS)
        wrong = _failed(ground.seen, TEMPORARY)
        trial.equal("calls not answered or told to be sent again, up and down", wrong, 0)
        await _migrated_at_once(ground)
    return _both(acknowledged, beside), (old_rounds, new_rounds)


async def _stopped(
    ground: Ground, old_head: str | None, trial: Trial
) -> tuple[Acknowledged, tuple[Rounds, Rounds]]:
    """Migrate behind a running old server, which then fails and tells nothing wrong, and back."""
    first = Writers(ground, writers=4)
    async with (
        all_styles.writing(ground, ground.url, "old") as old_rounds,
        first.running() as acknowledged,
    ):
        await acknowledged.reaches(TURNS)
        await old_rounds.reaches(ROUNDS)
    applied = await _migrated_at_once(ground)
    trial.equal("revisions that were applied twice", sum(n > 1 for n in applied.values()), 0)
    async with Caller(ground.url, TENANTS[0], "rest", Seen()) as caller:
        asked = await caller.call("memory_before_turn", session_id="s", current_input="anything?")
        trial.equal("the old version answers as if nothing were there", asked.code == OK, False)
    await _migrated_down(ground, old_head, trial)
    second = Writers(ground, writers=8, first=4)
    async with second.running() as later:
        await later.reaches(TURNS)
    trial.equal("calls not answered or told to be sent again", _failed(ground.seen, TEMPORARY), 0)
    await _migrated_at_once(ground)
    return _both(acknowledged, later), (old_rounds, old_rounds)


async def _starts(ground: Ground, **more: str) -> bool:
    """Start a server, stop it again, and return whether it became ready."""
    try:
        started = await ground.serve(**more)
    except (RuntimeError, AssertionError, TimeoutError):
        return False
    is_ready = await ready(ground.url)
    await asyncio.to_thread(started.stop)
    return is_ready


async def _migrated_down(ground: Ground, revision: str | None, trial: Trial) -> None:
    """Take the schema back to a revision, whoever serves meanwhile."""
    down = await asyncio.to_thread(
        command, ground, "migrate", *BACK, str(revision), "--data-dir", str(ground.data_dir)
    )
    trial.equal("exit code of going down", down.returncode, 0)
    trial.remarks += [down.stderr[-500:]] if down.returncode else []


async def _reread(ground: Ground, trial: Trial) -> None:
    """Let the new version derive anew what it reads in texts otherwise than the old one; the audit
    then finds no difference. What says that a turn is stored is never made anew."""
    told = await asyncio.to_thread(checked, ground)
    kinds: Counter[str] = Counter()
    for project in told["projects"]:
        kinds.update(project["differences"])
    trial.note("rows that the new version derives otherwise", str(dict(kinds)))
    kept = sum(times for kind, times in kinds.items() if kind not in DERIVED_FROM_TEXTS)
    trial.equal("rows of turns and sessions that differ", kept, 0)
    trial.note("answers until then", ground.seen.told())
    rebuilt = await asyncio.to_thread(
        command, ground, "maintain", "--rebuild", "--all", "--data-dir", str(ground.data_dir)
    )
    trial.equal("exit code of rebuilding", rebuilt.returncode, 0)


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


def _failed(seen: Seen, allowed: Collection[str] = ("RESOURCE_BUSY",)) -> int:
    return sum(times for code, times in seen.codes.items() if code not in {OK, *allowed})


async def _sent_again(ground: Ground, turns: Acknowledged, trial: Trial) -> None:
    """Send acknowledged turns once more to the new version, which finds each done; whoever is told
    otherwise, the audit finds a turn twice."""
    refused = 0
    for tenant, sessions in turns.turns.items():
        async with Caller(ground.url, tenant, "rest", ground.seen) as caller:
            for turn, session in sorted(sessions.items())[::AGAIN_EVERY]:
                answer = await caller.until_answered(
                    "memory_after_turn", **spoken(tenant, turn, session)
                )
                refused += answer.code != OK or answer.body["stored_items"] != 2
    trial.equal("turns refused or stored otherwise when sent again", refused, 0)


async def _answered(
    ground: Ground, turns: Acknowledged, rounds: Sequence[Rounds], when: str, trial: Trial
) -> None:
    """Judge what public tools answer just then, whatever derived rows are to be made anew."""
    found = Trial("")
    await audit(ground, turns, found, rows=False)
    await all_styles.audit(ground, rounds, found)
    _judge_faults(found, f"faults in answers {when}", trial)


def _judge_faults(found: Trial, what: str, trial: Trial) -> None:
    faults = [one for one in found.figures if not one.held]
    trial.equal(what, len(faults), 0)
    trial.remarks += [f"{what}: {one.what}: {one.value}" for one in faults] + found.remarks


def _both(*many: Acknowledged) -> Acknowledged:
    """What several groups of writers were told, as one."""
    merged = Acknowledged()
    for one in many:
        merged.refused += one.refused
        for tenant, turns in one.turns.items():
            merged.turns[tenant] |= turns
    return merged
