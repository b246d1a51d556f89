"""A network that drops, delays, truncates and swallows: before PostgreSQL, and before the
server."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from urllib.parse import parse_qs, urlsplit

from benchmarks.faults.audit import audit
from benchmarks.faults.calling import OK, TENANTS, Caller
from benchmarks.faults.serving import Ground, postgres, until_ready
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import USER, Writers

STATEMENT_S = 3.0
"""statement_timeout_ms of the server behind a bad network; the driver gives up 5 seconds later."""
CALL_S_MAX = 5.0 + (STATEMENT_S + 5.0) + 2.0
"""The time limits of a call that meets a dead connection: to get one, the statement, and to leave
the transaction."""
CLIENT_WAITS_S = 5.0
PIECE_BYTES = 65536
QUIET_CALLS = 100
RECOVER_S_MAX = 10.0


@dataclass
class Weather:
    """How bad the network is: the share of pieces and of connections that meet with each fault."""

    drop: float = 0.003
    truncate: float = 0.003
    swallow: float = 0.002
    delay: float = 0.05
    delay_s_max: float = 0.2
    refuse: float = 0.05

    @classmethod
    def fine(cls) -> "Weather":
        """No faults."""
        return cls(drop=0, truncate=0, swallow=0, delay=0, refuse=0)


@dataclass
class BadNetwork:
    """Forwards connections to a port or a Unix socket, as its weather has it; the same seed rolls
    the same dice."""

    host: str
    port: int
    weather: Weather
    chance: random.Random
    did: Counter[str] = field(default_factory=Counter)
    open: list[asyncio.StreamWriter] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> "BadNetwork":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self.open:
            writer.transport.abort()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    @property
    def near(self) -> int:
        """The port to connect to."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._rolls("refuse", self.weather.refuse):
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await self._far()
        except OSError:
            writer.transport.abort()
            return
        both = (writer, far_writer)
        self.open += both
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, target, both))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _far(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self.host}/.s.PGSQL.{self.port}")
        return await asyncio.open_connection(self.host, self.port)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        swallowing = False
        with suppress(OSError):
            while piece := await source.read(PIECE_BYTES):
                if swallowing:
                    continue
                swallowing = self._rolls("swallow", self.weather.swallow)
                if swallowing:
                    continue
                if self._rolls("delay", self.weather.delay):
                    await asyncio.sleep(self.chance.uniform(0, self.weather.delay_s_max))
                if self._rolls("drop", self.weather.drop):
                    break
                if self._rolls("truncate", self.weather.truncate):
                    target.write(piece[: self.chance.randrange(len(piece))])
                    await target.drain()
                    break
                target.write(piece)
                await target.drain()
            else:
                if not swallowing:
                    target.close()
                return
        for writer in both:
            writer.transport.abort() if writer is not target else writer.close()

    def _rolls(self, what: str, share: float) -> bool:
        hit = self.chance.random() < share
        self.did[what] += hit
        return hit


async def before_database(folder: Path, *, seconds: float) -> Trial:
    """The bad network between server and PostgreSQL."""
    trial = Trial(f"a bad network before PostgreSQL for {seconds:.0f} s, under 8 writers")
    with postgres(folder / "data") as database:
        parts = urlsplit(database.urls.app_url)
        host, port = (parse_qs(parts.query)[name][0] for name in ("host", "port"))
        async with BadNetwork(host, int(port), Weather.fine(), random.Random(4)) as network:
            near = parts._replace(
                netloc=f"{parts.netloc}127.0.0.1:{network.near}", query=""
            ).geturl()
            timeout = {"MEMSVC_DATABASE__STATEMENT_TIMEOUT_MS": str(round(STATEMENT_S * 1000))}
            ground = Ground(
                folder, **(database.settings() | {"MEMSVC_DATABASE__URL": near} | timeout)
            )
            try:
                await ground.serve()
                writers = Writers(ground)
                await _weathered(ground, network, writers, trial, seconds)
            finally:
                await ground.end()
    return trial


async def before_server(folder: Path, *, seconds: float) -> Trial:
    """The bad network between clients and server."""
    trial = Trial(f"a bad network before the server for {seconds:.0f} s, under 8 writers")
    ground = Ground(folder)
    try:
        await ground.serve()
        async with BadNetwork(
            "127.0.0.1", ground.port, Weather.fine(), random.Random(5)
        ) as network:
            writers = Writers(
                ground, url=f"http://127.0.0.1:{network.near}", timeout_s=CLIENT_WAITS_S
            )
            await _weathered(
                ground, network, writers, trial, seconds, Weather(drop=0.02, truncate=0.02)
            )
    finally:
        await ground.end()
    return trial


async def _weathered(
    ground: Ground,
    network: BadNetwork,
    writers: Writers,
    trial: Trial,
    seconds: float,
    weather: Weather | None = None,
) -> None:
    async with writers.running() as acknowledged:
        await acknowledged.reaches(20)
        network.weather = weather or Weather()
        await asyncio.sleep(seconds)
        network.weather = Weather.fine()
        mended = monotonic()
        await _until_quiet(ground)
        recovered_s = monotonic() - mended
        await ground.scrape()
    trial.note(
        "what the network did", ", ".join(f"{what} {times}" for what, times in network.did.items())
    )
    trial.most("slowest answer, in seconds", ground.seen.slowest_s, CALL_S_MAX)
    trial.most(
        f"seconds until {QUIET_CALLS} calls in a row were answered", recovered_s, RECOVER_S_MAX
    )
    trial.note("seconds until ready", await until_ready(ground.url))
    await audit(ground, acknowledged, trial)
    ground.judge_answers(trial)


async def _until_quiet(ground: Ground) -> None:
    """Until so many calls in a row succeed."""
    async with Caller(ground.url, TENANTS[0], "rest", ground.seen) as caller:
        row = 0
        while row < QUIET_CALLS:
            answer = await caller.call(
                "memory_before_turn", session_id="s0", user_id=USER, current_input="What tea?"
            )
            row = row + 1 if answer.code == OK else 0
