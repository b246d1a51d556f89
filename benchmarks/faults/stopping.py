"""SIGTERM under load, and a worker that is frozen past its lease: what is under way ends, and ends
once."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic

import httpx2
import orjson

from benchmarks.faults.audit import audit
from benchmarks.faults.serving import Ground, command, postgres, queue_emptied, ready
from benchmarks.faults.trial import Trial
from benchmarks.faults.writing import Writers
from tests.e2e.process import Served, free_port

NOTICE_S = 1.0
LOOK_EVERY_S = 0.1
LEASE_S = 1.0
FROZEN_S = (2.0, 3.0)


class Balancer:
    """What stands before replicas: clients connect to it, and it forwards to one that says that it
    is ready."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.ready: list[int] = []
        self._ports = ports
        self._turn = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Its address, while it runs."""
        looking = asyncio.create_task(self._look())
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            looking.cancel()

    async def until_ready(self, port: int) -> None:
        """Wait until a replica gets calls."""
        async with asyncio.timeout(60):
            while port not in self.ready:  # noqa: ASYNC110 - another process's doing
                await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        while True:
            states = await asyncio.gather(
                *(ready(f"http://127.0.0.1:{port}") for port in self._ports)
            )
            self.ready = [
                port for port, is_ready in zip(self._ports, states, strict=True) if is_ready
            ]
            await asyncio.sleep(LOOK_EVERY_S)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection, over a connection of its own, so that each call is sent to who
        is ready then."""
        try:
            request = await _whole_request(reader)
            if not self.ready:
                return
            self._turn += 1
            port = self.ready[self._turn % len(self.ready)]
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            far_writer.write(request)
            writer.write(await far_reader.read())
            await writer.drain()
            far_writer.close()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _whole_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = [
        line for line in head.split(b"\r\n") if line and not line.lower().startswith(b"connection:")
    ]
    length = next(
        (int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")),
        0,
    )
    return b"\r\n".join([*lines, b"connection: close", b"", await reader.readexactly(length)])


async def terminated(folder: Path, *, times: int) -> Trial:
    """SIGTERM to one of two replicas behind a balancer that looks at their readiness, by turns."""
    trial = Trial(f"SIGTERM {times} times to one of two replicas, under 8 writers")
    with postgres(folder / "data") as database:
        notice = {"MEMSVC_SHUTDOWN_NOTICE_S": str(NOTICE_S)}
        ground = Ground(folder, **(database.settings() | notice))
        ports = [ground.port, free_port()]
        balancer = Balancer(ports)
        codes, spent, unready = [], [], 0
        try:
            servers = [await ground.serve_beside(port) for port in ports]
            async with balancer.running() as url:
                await balancer.until_ready(ports[0])
                await balancer.until_ready(ports[1])
                writers = Writers(ground, url=url)
                async with writers.running() as acknowledged:
                    for number in range(times):
                        await acknowledged.reaches(acknowledged.count + 5)
                        one = number % 2
                        begun = monotonic()
                        servers[one].process.send_signal(signal.SIGTERM)
                        unready += await _says_that_it_stops(ports[one])
                        codes.append(await asyncio.to_thread(servers[one].process.wait, 60))
                        spent.append(monotonic() - begun)
                        servers[one] = await ground.serve_beside(ports[one])
                        await balancer.until_ready(ports[one])
                    await ground.scrape()
            trial.equal(
                "calls lost or cut", ground.seen.codes["lost"] + ground.seen.codes["closed"], 0
            )
            trial.equal("times that /readyz failed while calls were still answered", unready, times)
            trial.equal("exit codes other than 0", len(codes) - codes.count(0), 0)
            trial.note("seconds until it had ended, at the most", max(spent))
            await audit(ground, acknowledged, trial)
            ground.judge_answers(trial)
            await _stop_all(servers)
            trial.equal("jobs that a stopped server still holds", _running(ground), 0)
        finally:
            await ground.end()
    return trial


async def _says_that_it_stops(port: int) -> bool:
    """Whether a server that was told to stop answers on new connections that it is not ready."""
    url = f"http://127.0.0.1:{port}/readyz"
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
        with suppress(httpx2.HTTPError):
            for _ in range(50):
                if (await http.get(url, headers={"Connection": "close"})).status_code == 503:
                    return True
                await asyncio.sleep(0.01)
    return False


async def _stop_all(servers: Sequence[Served]) -> None:
    await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))


def _running(ground: Ground) -> int:
    listed = command(
        ground, "jobs", "list", "--state", "running", "--json", "--data-dir", str(ground.data_dir)
    )
    return len(orjson.loads(listed.stdout))


async def frozen(folder: Path, *, times: int) -> Trial:
    """A server whose worker is stopped past its lease and goes on later, while another one does its
    jobs."""
    trial = Trial(
        f"a server frozen past the lease of its jobs, {times} times, beside one that goes on"
    )
    chance = random.Random(8)
    with postgres(folder / "data") as database:
        quick = {"MEMSVC_WORKER__LEASE_S": str(LEASE_S), "MEMSVC_WORKER__POLL_S": "0.2"}
        ground = Ground(folder, **(database.settings() | quick))
        try:
            await ground.serve()
            freezing = await ground.serve_beside(free_port())
            writers = Writers(ground)
            async with writers.running() as acknowledged:
                for _ in range(times):
                    await acknowledged.reaches(acknowledged.count + 30)
                    freezing.process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(chance.uniform(*FROZEN_S))
                    freezing.process.send_signal(signal.SIGCONT)
                    await asyncio.sleep(chance.uniform(0, 0.5))
                await ground.scrape()
            trial.equal(
                "exit code of the one that was frozen", await asyncio.to_thread(freezing.stop), 0
            )
            trial.most("seconds until no job was left", await queue_emptied(ground, 60), 60)
            await audit(ground, acknowledged, trial)
            ground.judge_answers(trial)
        finally:
            await ground.end()
    return trial
