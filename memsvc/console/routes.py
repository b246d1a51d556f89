"""Routes of the console: signing in and out, the pages behind that, and their static files."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
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

from memsvc.console.given import Given
from memsvc.console.options import ConsoleOptions
from memsvc.console.page import PROJECT, SEE_OTHER, Page, environment
from memsvc.console.seals import COOKIE, Seals
from memsvc.console.views import VIEWS
from memsvc.console.views.view import View
from memsvc.core.errors import MemsvcError
from memsvc.core.paths import check_project
from memsvc.core.scope import Caller
from memsvc.core.urls import CONSOLE_PATH

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


def console_app(given: Given, options: ConsoleOptions) -> ASGIApp:
    """Return the app at /console, which identifies its users and takes up to BODY_BYTES_MAX."""
    return Console(given, options).app()


class Console:
    """The console of one process."""

    def __init__(self, given: Given, options: ConsoleOptions) -> None:
        self._given = given
        self._seals = Seals(given.secret, timedelta(hours=options.session_hours))
        self._drawn = _Drawn.read()
        environment.globals["drawn"] = self._drawn.url

    def app(self) -> ASGIApp:
        """Return the routes, with the headers that every answer carries."""
        routes: list[BaseRoute] = [
            Route("/", self._door, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/static/{name}", self._drawn.answer, methods=["GET"]),
            Route("/{slot}/sign-out", self._sign_out, methods=["POST"]),
            *(
                Route(f"/{{slot}}/{{project}}/{path}", self._viewed(view), methods=list(view.methods))
                for path, view in VIEWS.items()
            ),
        ]
        app = Starlette(
            routes=[
                Route(CONSOLE_PATH, self._to_door, methods=["GET"]),
                Mount(CONSOLE_PATH, app=Router(routes, redirect_slashes=False)),
            ],
            middleware=[Middleware(_Guarded)],
            exception_handlers={HTTPException: _not_there},
        )
        app.router.redirect_slashes = False
        return app

    async def _to_door(self, _: Request) -> Response:
        return RedirectResponse(f"{CONSOLE_PATH}/", SEE_OTHER)

    async def _door(self, request: Request) -> Response:
        return _signing_in()

    async def _sign_in(self, request: Request) -> Response:
        form = await request.form(max_files=0, max_fields=10)
        key = form.get("key")
        text = key.strip() if isinstance(key, str) else ""
        if not text or len(text) > KEY_CHARS_MAX:
            return _signing_in("Type your API key.", status=400)
        try:
            found = await self._given.sign_in(request.scope, text)
            slot = secrets.token_urlsafe(SLOT_BYTES)
            answer = RedirectResponse(f"{CONSOLE_PATH}/{slot}/{_first_project(found.caller)}/", SEE_OTHER)
            await self._give(answer, request, slot, found.key_hash)
        except MemsvcError as error:
            return _signing_in(f"{error.message[:1].upper()}{error.message[1:]}.", status=error.http_status)
        return answer

    async def _sign_out(self, request: Request) -> Response:
        slot = request.path_params["slot"]
        try:
            seal = await self._seals.opened(slot, request.cookies.get(COOKIE, ""), self._given.clock.now())
            if seal is not None:
                await self._given.end_session(seal.session, seal.ends)
        except MemsvcError as error:
            return _told(error, request)
        answer = RedirectResponse(f"{CONSOLE_PATH}/", SEE_OTHER)
        answer.delete_cookie(COOKIE, path=f"{CONSOLE_PATH}/{quote(slot, safe='')}/", httponly=True, samesite="strict")
        answer.headers["Clear-Site-Data"] = '"cache", "storage"'
        return answer

    async def _give(
        self, answer: Response, request: Request, slot: str, key_hash: bytes, began: datetime | None = None
    ) -> None:
        """Set the cookie that identifies the tab of a slot from now on."""
        answer.set_cookie(
            COOKIE,
            await self._seals.made(slot, key_hash, self._given.clock.now(), began),
            path=f"{CONSOLE_PATH}/{slot}/",
            httponly=True,
            samesite="strict",
            secure=_is_https(request),
        )

    def _viewed(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            slot, project = request.path_params["slot"], request.path_params["project"]
            now = self._given.clock.now()
            try:
                seal = await self._seals.opened(slot, request.cookies.get(COOKIE, ""), now)
                if seal is None or await self._given.has_ended(seal.session):
                    return _away(request)
                caller = await self._given.recognise(seal.key_hash)
            except MemsvcError as error:
                return _told(error, request)
            if caller is None:
                return _away(request)
            calls = self._given.calls(caller, request.scope[REQUEST_ID])
            page = Page(request, self._given, slot, PROJECT, caller, seal, calls)
            try:
                check_project(project)
                page = Page(request, self._given, slot, project, caller, seal, calls)
                answered = await view.show(page)
            except MemsvcError as error:
                answered = page.refused(error)
            if self._seals.is_old(seal, now):
                await self._give(answered, request, slot, seal.key_hash, seal.began)
            return answered

        return answer


def _first_project(caller: Caller) -> str:
    """Return the project that a user sees first after signing in."""
    return PROJECT if caller.may_touch(PROJECT) else min(caller.projects or {PROJECT})


def _signing_in(problem: str = "", *, status: int = 200) -> Response:
    return HTMLResponse(environment.get_template("sign_in.html").render(problem=problem), status)


def _away(request: Request) -> Response:
    """Redirect to the sign-in page, for users who are not signed in any more.

    A part of a page takes the whole tab there.
    """
    if request.headers.get("hx-request") == "true":
        return Response(status_code=401, headers={"HX-Redirect": f"{CONSOLE_PATH}/"})
    return RedirectResponse(f"{CONSOLE_PATH}/", SEE_OTHER)


def _told(error: MemsvcError, request: Request) -> Response:
    """Render an error of identification: a page, or a part put into the current one."""
    template = "parts/error.html" if request.headers.get("hx-request") == "true" else "away.html"
    text = environment.get_template(template).render(error=error.body(), sent=request.method == "POST")
    return HTMLResponse(text, error.http_status)


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").startswith("https")


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = environment.get_template("nowhere.html").render(status=error.status_code)
    return HTMLResponse(text, error.status_code, error.headers)


class _Drawn:
    """Static files, each under a URL that changes with its content, so that caches may keep it."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self._content = content
        self._marks = {name: sha256(held).hexdigest()[:12] for name, held in content.items()}

    @classmethod
    def read(cls) -> "_Drawn":
        """Read every static file that the package ships."""
        there = resources("memsvc.console").joinpath("static").iterdir()
        return cls({one.name: one.read_bytes() for one in there if one.name.rpartition(".")[2] in _MEDIA_TYPES})

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{CONSOLE_PATH}/static/{name}?{self._marks[name]}"

    async def answer(self, request: Request) -> Response:
        name: str = request.path_params["name"]
        if name not in self._content:
            raise HTTPException(404)
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self._content[name], media_type=_MEDIA_TYPES[name.rpartition(".")[2]], headers=kept)


class _Guarded:
    """ASGI middleware that sets security headers and limits the size and duration of bodies.

    No page is kept by any cache.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        got_bytes, most_bytes = 0, KEY_BODY_BYTES_MAX if scope["path"] == f"{CONSOLE_PATH}/sign-in" else BODY_BYTES_MAX
        until: float | None = asyncio.get_running_loop().time() + BODY_S_MAX

        async def measured() -> Message:
            nonlocal got_bytes, until
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            got_bytes += len(message.get("body", b""))
            if got_bytes > most_bytes:
                raise HTTPException(413)
            if not message.get("more_body", False):
                until = None
            return message

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *_HEADERS]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, measured, guarded)
