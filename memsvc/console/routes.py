"""Routes of the console: signing in and out, the pages behind that, and their static files."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from importlib.resources import files as resources
from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsvc.console.dependencies import ConsoleDependencies, ConsoleOptions
from memsvc.console.page import COOKIE, SEE_OTHER, CookieFactory, Page, environment, is_partial
from memsvc.console.views import administration_views, document_views, file_views, memory_views
from memsvc.core.errors import MemsvcError
from memsvc.core.frozen import frozen
from memsvc.core.paths import check_project
from memsvc.core.scope import DEFAULT_PROJECT, Caller
from memsvc.core.urls import CONSOLE_PATH

View = Callable[[Page], Awaitable[Response]]
PAGES: Final[Mapping[str, View]] = {
    "": administration_views.overview,
    "volume": administration_views.show_usage,
    "project": administration_views.go_to_project,
    "projects": administration_views.projects,
    "sessions": memory_views.sessions,
    "session": memory_views.timeline,
    "recall": memory_views.recall,
    "facts": memory_views.facts,
    "fact": memory_views.fact_history,
    "boards": document_views.boards,
    "board": document_views.board,
    "files": file_views.listed,
    "file": file_views.show,
    "file-version": file_views.version,
    "notebook": document_views.show,
    "memories": memory_views.memories,
    "memory": memory_views.memory_history,
    "knowledge": memory_views.listed,
    "block": memory_views.show,
    "calls": administration_views.calls,
    "jobs": administration_views.jobs,
    "settings": administration_views.settings,
    "keys": administration_views.keys,
    "key": administration_views.key,
    "usage": administration_views.usage,
}
"""The pages, by their paths below the project."""
FORMS: Final[Mapping[str, View]] = {
    "edit-file": file_views.edit,
    "edit-document": document_views.edit,
    "playground": administration_views.tool_form,
    "memory-settings": memory_views.memory_settings,
    "memory-prompt": memory_views.memory_prompt,
    "purge": administration_views.purge,
}
"""The pages with a form that is sent to them."""
ACTIONS: Final[Mapping[str, View]] = {
    "restore-board": document_views.restore_board,
    "delete-board": document_views.delete_board,
    "rename-file": file_views.rename,
    "delete-file": file_views.delete,
    "restore-file": file_views.restore,
    "restore-document": document_views.restore,
    "delete-memory": memory_views.delete_memory,
    "edit-block": memory_views.edit,
    "forget-block": memory_views.forget,
    "tell-outcome": memory_views.outcome,
    "connect-blocks": memory_views.connect,
    "disconnect-blocks": memory_views.disconnect,
    "curate": memory_views.curate,
    "dream": memory_views.dream,
    "settle-job": administration_views.settle_job,
    "create-key": administration_views.create_key,
    "update-key": administration_views.update_key,
    "rotate-key": administration_views.rotate_key,
    "revoke-key": administration_views.revoke_key,
    "correct-fact": memory_views.correct_fact,
    "forget-fact": memory_views.forget_fact,
}
"""What forms of other pages change."""

KEY_CHARS_MAX: Final = 8192
BODY_BYTES_MAX: Final = 12 * 1024 * 1024
"""A file of 10 MB, as a form sends it."""
KEY_BODY_BYTES_MAX: Final = 64 * 1024
"""Size of a form with a key, which anybody may send before signing in."""
BODY_S_MAX: Final = 30.0
"""Seconds that a form may take to arrive."""
SLOT_BYTES: Final = 9
REQUEST_ID: Final = "memsvc.request_id"
_MEDIA_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Console:
    """The console of one process, which identifies its users and takes up to BODY_BYTES_MAX."""

    def __init__(self, given: ConsoleDependencies, options: ConsoleOptions) -> None:
        self._given = given
        self._cookies = CookieFactory(given.secret, timedelta(hours=options.session_hours))
        self._static = _StaticFiles()
        environment.globals["drawn"] = self._static.url

    def app(self) -> ASGIApp:
        """Return the app at /console: the routes, with the headers that every answer carries."""
        routes: list[BaseRoute] = [
            Route("/", _sign_in_form(), methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/static/{name}", self._static.answer, methods=["GET"]),
            Route("/{slot}/sign-out", self._sign_out, methods=["POST"]),
            *(
                Route(f"/{{slot}}/{{project}}/{path}", self._handler(view), methods=methods)
                for methods, views in (
                    (["GET"], PAGES),
                    (["GET", "POST"], FORMS),
                    (["POST"], ACTIONS),
                )
                for path, view in views.items()
            ),
        ]
        app = Starlette(
            routes=[
                Route(
                    CONSOLE_PATH, RedirectResponse(f"{CONSOLE_PATH}/", SEE_OTHER), methods=["GET"]
                ),
                Mount(CONSOLE_PATH, app=Router(routes, redirect_slashes=False)),
            ],
            middleware=[Middleware(_Guard)],
            exception_handlers={HTTPException: _not_found},
        )
        app.router.redirect_slashes = False
        return app

    async def _sign_in(self, request: Request) -> Response:
        form = await request.form(max_files=0, max_fields=10)
        key = form.get("key")
        text = key.strip() if isinstance(key, str) else ""
        if not text or len(text) > KEY_CHARS_MAX:
            return _sign_in_form("Enter your API key.", status=400)
        try:
            found = await self._given.sign_in(request.scope, text)
            slot = secrets.token_urlsafe(SLOT_BYTES)
            response = RedirectResponse(
                f"{CONSOLE_PATH}/{slot}/{_first_project(found.caller)}/", SEE_OTHER
            )
            await self._set_cookie(response, request, slot, found.key_hash)
        except MemsvcError as error:
            return _sign_in_form(
                f"{error.message[:1].upper()}{error.message[1:]}.", status=error.http_status
            )
        return response

    async def _sign_out(self, request: Request) -> Response:
        slot = request.path_params["slot"]
        try:
            seal = await self._cookies.verify(
                slot, request.cookies.get(COOKIE, ""), self._given.clock.now()
            )
            if seal is not None:
                await self._given.close_session(seal.session, seal.expires_at)
        except MemsvcError as error:
            return _error_page(error, request)
        response = RedirectResponse(f"{CONSOLE_PATH}/", SEE_OTHER)
        response.delete_cookie(
            COOKIE, path=f"{CONSOLE_PATH}/{quote(slot, safe='')}/", httponly=True, samesite="strict"
        )
        response.headers["Clear-Site-Data"] = '"cache", "storage"'
        return response

    async def _set_cookie(
        self,
        response: Response,
        request: Request,
        slot: str,
        key_hash: bytes,
        started_at: datetime | None = None,
    ) -> None:
        """Set the cookie that identifies the tab of a slot from now on."""
        response.set_cookie(
            COOKIE,
            await self._cookies.create(slot, key_hash, self._given.clock.now(), started_at),
            path=f"{CONSOLE_PATH}/{slot}/",
            httponly=True,
            samesite="strict",
            secure=_is_https(request),
        )

    def _handler(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            slot, project = request.path_params["slot"], request.path_params["project"]
            now = self._given.clock.now()
            try:
                seal = await self._cookies.verify(slot, request.cookies.get(COOKIE, ""), now)
                if seal is None or await self._given.is_closed(seal.session):
                    return _signed_out(request)
                caller = await self._given.resolve_caller(seal.key_hash)
            except MemsvcError as error:
                return _error_page(error, request)
            if caller is None:
                return _signed_out(request)
            calls = self._given.calls(caller, request.scope[REQUEST_ID])
            page = Page(request, self._given, slot, DEFAULT_PROJECT, caller, seal, calls)
            try:
                check_project(project)
                page = Page(request, self._given, slot, project, caller, seal, calls)
                response = await view(page)
            except MemsvcError as error:
                response = page.error_page(error)
            if self._cookies.is_old(seal, now):
                await self._set_cookie(response, request, slot, seal.key_hash, seal.started_at)
            return response

        return answer


def _first_project(caller: Caller) -> str:
    """Return the project that a user sees first after signing in."""
    return (
        DEFAULT_PROJECT
        if caller.can_access(DEFAULT_PROJECT)
        else min(caller.projects or {DEFAULT_PROJECT})
    )


def _sign_in_form(message: str = "", *, status: int = 200) -> Response:
    return HTMLResponse(environment.get_template("sign_in.html").render(problem=message), status)


def _signed_out(request: Request) -> Response:
    """Redirect to the sign-in page, for users who are not signed in any more.

    A part of a page takes the whole tab there.
    """
    if is_partial(request):
        return Response(status_code=401, headers={"HX-Redirect": f"{CONSOLE_PATH}/"})
    return RedirectResponse(f"{CONSOLE_PATH}/", SEE_OTHER)


def _error_page(error: MemsvcError, request: Request) -> Response:
    """Render an error of identification: a page, or a part put into the current one."""
    template = "parts/error.html" if is_partial(request) else "away.html"
    text = environment.get_template(template).render(
        error=error.body(), sent=request.method == "POST"
    )
    return HTMLResponse(text, error.http_status)


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").startswith(
        "https"
    )


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = environment.get_template("nowhere.html").render(status=error.status_code)
    return HTMLResponse(text, error.status_code, error.headers)


class _StaticFiles:
    """Static files, each under a URL that changes with its content, so that caches may keep it."""

    def __init__(self) -> None:
        files = resources("memsvc.console").joinpath("static").iterdir()
        self._content = {
            one.name: one.read_bytes()
            for one in files
            if one.name.rpartition(".")[2] in _MEDIA_TYPES
        }
        self._content_hash = {
            name: sha256(data).hexdigest()[:12] for name, data in self._content.items()
        }

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{CONSOLE_PATH}/static/{name}?{self._content_hash[name]}"

    async def answer(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        if name not in self._content:
            raise HTTPException(404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(
            self._content[name], media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=headers
        )


@frozen
class _Guard:
    """ASGI middleware that sets security headers and limits the size and duration of bodies.

    No page is kept by any cache.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received_bytes, max_bytes = (
            0,
            KEY_BODY_BYTES_MAX if scope["path"] == f"{CONSOLE_PATH}/sign-in" else BODY_BYTES_MAX,
        )
        until: float | None = asyncio.get_running_loop().time() + BODY_S_MAX

        async def limited_receive() -> Message:
            nonlocal received_bytes, until
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            received_bytes += len(message.get("body", b""))
            if received_bytes > max_bytes:
                raise HTTPException(413)
            if not message.get("more_body", False):
                until = None
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *_HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, limited_receive, send_with_headers)
