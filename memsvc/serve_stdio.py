"""The server process of a host that talks to it over standard input and output."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvloop

from memsvc.adapters.standard_streams import StandardStreams, claimed_streams
from memsvc.core.background import in_background
from memsvc.database_setup import DatabaseUrls, database_starting, migrate_database
from memsvc.process import begin, ready, taken_over
from memsvc.settings import Settings

if TYPE_CHECKING:
    from memsvc.stdio_app import ServerProfile


def run(settings: Settings, key: str | None, profile: "ServerProfile | None" = None) -> None:
    """Serve until stdin ends, SIGTERM or SIGINT.

    Without a key the one of the data folder is used, and made at the first start. Raises
    PERMISSION_DENIED when the key is unknown.
    """
    with claimed_streams() as streams:
        begin(settings)
        with (
            database_starting(settings) as started,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            runner.run(_serve(settings, started, streams, key, profile))


async def _serve(
    settings: Settings,
    started: Callable[[], DatabaseUrls],
    streams: StandardStreams,
    key: str | None,
    profile: "ServerProfile | None",
) -> None:
    from memsvc.stdio_app import ServerProfile, opened  # noqa: PLC0415 - takes a second or more, in which PostgreSQL starts

    urls = started()
    await migrate_database(urls, settings)
    async with opened(settings, urls.app, streams, key, profile or ServerProfile()) as served:
        ready()
        with taken_over(served.stop):
            async with in_background(served.warm()):
                await served.endpoint.serve()
