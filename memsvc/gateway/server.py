"""The ASGI app, assembled: every route, and the order in which a request meets what stands before them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from memsvc.core.tools import Prompt
from memsvc.gateway import rest
from memsvc.gateway.audit import CallLog
from memsvc.gateway.auth import Authenticator, RequireCaller
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.files import is_upload
from memsvc.gateway.limits import CheckHost, LimitBody, LimitsOptions, RequestId
from memsvc.gateway.mcp.http import McpEndpoint
from memsvc.gateway.mcp.server import Offer
from memsvc.gateway.mcp.sse import SseEndpoint, SseOptions
from memsvc.gateway.mcp.subscriptions import Subscriptions
from memsvc.gateway.metrics import Metrics
from memsvc.store.changes import Changes

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
    prompts: Sequence[Prompt] = (),
    changes: Changes | None = None,
    sse: SseOptions | None = None,
    administration: bool = False,
    routes: Sequence[BaseRoute] = (),
    listening: Callable[[Subscriptions | None], Sequence[BaseRoute]] = lambda _: (),
    background: Sequence[Background] = (),
) -> Starlette:
    """The app of one process. `host` is the bind address, which decides whose Host and Origin are answered.

    `changes` is what is heard of changes of resources; it runs in the `background`, which is entered before the
    gateway's own tasks and left after them. The database must outlive the app. `listening` makes routes that tell of
    changes, from whoever hears of them. `administration`: agents get the administrative tools too.
    """
    metrics.know_tools(dispatch.catalogue)
    metrics.watch("memsvc_audit_backlog", call_log.backlog)
    subscriptions = None
    if changes is not None:
        subscriptions = Subscriptions(changes, limits)
        metrics.watch("memsvc_changes_heard", lambda: float(changes.listening))
        metrics.watch("memsvc_listeners_open", subscriptions.count)
        draining.then(subscriptions.close)
    offer = Offer(
        dispatch=dispatch,
        instructions=instructions,
        version=version,
        limits=limits,
        prompts=prompts,
        subscriptions=subscriptions,
        administration=administration,
    )
    endpoint = McpEndpoint(offer, authenticator, limits)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for enter in (*background, call_log.running, authenticator.running, endpoint.running):
                await stack.enter_async_context(enter())
            yield

    app = Starlette(
        routes=[
            *(Route(path, endpoint, methods=["POST"]) for path in rest.MCP_PATHS),
            *_sse_routes(offer, authenticator, sse, metrics, draining),
            *rest.routes(metrics, checks, draining),
            *routes,
            *listening(subscriptions),
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


def _sse_routes(
    offer: Offer, authenticator: Authenticator, options: SseOptions | None, metrics: Metrics, draining: rest.Draining
) -> list[BaseRoute]:
    if options is None or not options.enabled:
        return []
    endpoint = SseEndpoint(offer, authenticator, options)
    metrics.watch("memsvc_sse_open", endpoint.clients)
    draining.then(endpoint.end)
    return endpoint.routes()
