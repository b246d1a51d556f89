"""The ASGI app, assembled: every route, and the order in which a request meets what stands before them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from memsvc.gateway import rest
from memsvc.gateway.audit import CallLog
from memsvc.gateway.auth import Authenticator, RequireCaller
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.files import is_upload
from memsvc.gateway.limits import CheckHost, LimitBody, LimitsOptions, RequestId
from memsvc.gateway.mcp import McpEndpoint
from memsvc.gateway.metrics import Metrics

Background = Callable[[], AbstractAsyncContextManager[None]]


def build(  # noqa: PLR0913 - one name a part, all of them by keyword
    *,
    dispatch: Dispatch,
    call_log: CallLog,
    metrics: Metrics,
    authenticator: Authenticator,
    limits: LimitsOptions,
    host: str,
    instructions: str,
    version: str,
    checks: Mapping[str, rest.Check],
    draining: rest.Draining,
    routes: Sequence[BaseRoute] = (),
    background: Sequence[Background] = (),
) -> Starlette:
    """The app of one process. `host` is the bind address, which decides whose Host and Origin are answered.

    `background` is entered before the gateway's own tasks and left after them; the database must outlive the app.
    """
    metrics.know_tools(dispatch.catalogue)
    metrics.watch("memsvc_audit_backlog", call_log.backlog)
    endpoint = McpEndpoint(dispatch, limits, instructions=instructions, version=version)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for enter in (*background, call_log.running, authenticator.running, endpoint.running):
                await stack.enter_async_context(enter())
            yield

    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=["POST"]) for path in rest.MCP_PATHS),
            *rest.routes(metrics, checks, draining),
            *routes,
        ],
        middleware=[
            Middleware(RequestId),
            Middleware(CheckHost, options=limits, host=host),
            Middleware(RequireCaller, authenticator=authenticator),
            Middleware(LimitBody, options=limits, streams=is_upload),
        ],
        exception_handlers=rest.EXCEPTION_HANDLERS,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app
