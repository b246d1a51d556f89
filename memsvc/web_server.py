"""The web server of a process: uvicorn, with the configured limits."""

from typing import Literal

import uvicorn
from starlette.applications import Starlette

from memsvc.gateway.connections import limited_protocol
from memsvc.gateway.limits import LimitsOptions

KEEP_ALIVE_S = 75


def configured(
    asgi: Starlette,
    limits: LimitsOptions,
    *,
    lifespan: Literal["on", "off"],
    timeout_graceful_shutdown: int,
) -> uvicorn.Config:
    """Return the uvicorn configuration that serves this app."""
    return uvicorn.Config(
        asgi,
        http=limited_protocol(limits),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=timeout_graceful_shutdown,
    )
