"""One request to the console: its cookie, caller, project and tools, and the page that answers it.

A cookie holds the hash of the key, which opens nothing by itself, the start of its session and its
expiry. Each tab has its own slot, in the path of its pages and of its cookie, so that two tabs can
be two tenants. A key that is revoked ends its sessions: it is looked up again with each request,
and so is whether the session was closed.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memsvc.console.dependencies import ConsoleDependencies
from memsvc.core.errors import Code, MemsvcError, invalid, permission_denied
from memsvc.core.frozen import frozen
from memsvc.core.scope import Caller, Permission
from memsvc.core.tools import Tool, ToolCalls
from memsvc.core.urls import CONSOLE_PATH

COOKIE: Final = "memsvc_console"
_ALGORITHM: Final = "HS256"
_FORM_LABEL: Final = b"memsvc console form\0"
SESSION_MAX: Final = timedelta(days=7)
"""Lifetime of a session, however much is done in it."""


@frozen
class SessionCookie:
    """A verified cookie: the hash of its key, its session, start and expiry, and its form token."""

    key_hash: bytes
    session: bytes
    started_at: datetime
    valid_until: datetime
    form_token: str

    @property
    def expires_at(self) -> datetime:
        """Return when the last cookie of this session expires."""
        return self.started_at + SESSION_MAX


class CookieFactory:
    """Signs and verifies cookies; `secret` is the same for all replicas."""

    def __init__(self, secret: Callable[[], Awaitable[bytes]], lifetime: timedelta) -> None:
        self._load_secret = secret
        self._lifetime = lifetime
        self._secret: bytes | None = None

    async def create(
        self, slot: str, key_hash: bytes, now: datetime, started_at: datetime | None = None
    ) -> str:
        """Return the cookie of a slot for a key's hash, in a session that began now or before."""
        started_at = started_at or now
        until = min(now + self._lifetime, started_at + SESSION_MAX)
        times = {"iat": int(started_at.timestamp()), "exp": int(until.timestamp())}
        claims = {"aud": slot, "key": key_hash.hex()} | times
        secret = await self._shared_secret()
        import jwt  # noqa: PLC0415 - most servers have nobody signed in, and it takes long to load

        return jwt.encode(claims, secret, _ALGORITHM)

    async def verify(self, slot: str, cookie: str, now: datetime) -> SessionCookie | None:
        """Return the content of a cookie.

        None for one that is not of this slot, was not made here, or has expired.
        """
        secret = await self._shared_secret()
        import jwt  # noqa: PLC0415 - most servers have nobody signed in, and it takes long to load

        try:
            claims = jwt.decode(
                cookie,
                secret,
                [_ALGORITHM],
                {"verify_exp": False, "verify_iat": False},  # the times are checked here, by `now`
                audience=slot,
            )
        except jwt.InvalidTokenError:
            return None
        started_at, valid_until = (
            datetime.fromtimestamp(claims[name], tz=now.tzinfo) for name in ("iat", "exp")
        )
        if valid_until <= now:
            return None
        return SessionCookie(
            bytes.fromhex(claims["key"]),
            sha256(slot.encode()).digest(),
            started_at,
            valid_until,
            hmac.digest(secret, _FORM_LABEL + cookie.encode(), sha256).hex(),
        )

    def is_old(self, seal: SessionCookie, now: datetime) -> bool:
        """Return whether a cookie is to be renewed, so that an active user stays signed in."""
        return seal.valid_until - now < self._lifetime / 2 and seal.valid_until < seal.expires_at

    async def _shared_secret(self) -> bytes:
        if self._secret is None:
            await asyncio.to_thread(import_module, "jwt")  # it would keep the loop waiting
            self._secret = await self._load_secret()
        return self._secret


WHOLE_DIGITS_MAX: Final = 18


def parse_number(text: str, name: str) -> float:
    """Parse a number; 0 for an empty text, INVALID_ARGUMENT for any other."""
    try:
        return float(text or 0)
    except ValueError:
        raise invalid(f"{name} must be a number") from None


def parse_int(text: str, name: str) -> int:
    """Parse a whole number from 0 on; INVALID_ARGUMENT for anything else."""
    if not (text.isascii() and text.isdecimal() and len(text) <= WHOLE_DIGITS_MAX):
        raise invalid(f"{name} must be a whole number, 0 or greater")
    return int(text)


def parse_time(text: str, name: str) -> str | None:
    """Parse a date and time field, which has no zone and means UTC; None for an empty text."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(f"{name} must be a date and a time, such as 2026-01-31T12:00") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


def words(text: str) -> list[str]:
    """Split a text at commas and blanks; each word once, in order."""
    return list(dict.fromkeys(text.replace(",", " ").split()))


def filled(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the entries that are not empty."""
    return {name: text for name, text in fields.items() if text}


_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
# Control characters, what turns the direction of text, and what is invisible: shown by its number,
# to mislead nobody.
_SHOWN_CHARS: Final = {
    code: f"\\u{code:04x}"
    for code in (
        *(*range(9), 11, 12, *range(14, 32), 127, *range(0x80, 0xA0)),
        *(0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF),
    )
}


def format_time(value: str | datetime | None, *, now: datetime) -> Markup:
    """Format a time relative to now, with the exact one as its title."""
    if value is None:
        return Markup('<span class="none">never</span>')
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    exact = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(), exact, _relative_time(at, now)
    )


def _relative_time(at: datetime, now: datetime) -> str:
    elapsed_s = (now - at).total_seconds()
    if 0 <= elapsed_s < _MINUTE:
        return "just now"
    if 0 <= elapsed_s < _HOUR:
        return f"{int(elapsed_s // _MINUTE)} min ago"
    if 0 <= elapsed_s < _DAY:
        return f"{int(elapsed_s // _HOUR)} h ago"
    return f"{at:%b} {at.day}, {at:%H:%M}" if at.year == now.year else f"{at:%Y-%m-%d}"


def size(value: float) -> str:
    """Format bytes in the largest unit that leaves a whole number before the point."""
    at = 0
    while value >= 1000 and at < len(_UNITS) - 1:
        value, at = value / 1000, at + 1
    return f"{value:.0f} {_UNITS[at]}" if at == 0 or value >= 100 else f"{value:.1f} {_UNITS[at]}"


def number(value: float) -> str:
    """Format a number with separated thousands, and two decimal places unless it is whole."""
    return f"{value:,.{0 if value == int(value) else 2}f}".replace(",", "\u202f")


def share(value: float) -> str:
    """Format a share in percent."""
    return f"{100 * value:.0f}\u202f%"


def plain(value: object) -> str:
    """Return untrusted text with invisible characters made visible; the template escapes it."""
    return str(value).translate(_SHOWN_CHARS)


def json_of(value: object) -> str:
    """Format a value as indented JSON."""
    return plain(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())


def lines(value: object) -> Markup:
    """Format text with its line breaks kept."""
    return Markup('<span class="text">{}</span>').format(escape(plain(value)))


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "moment": format_time,
    "size": size,
    "number": number,
    "share": share,
    "plain": plain,
    "json_of": json_of,
    "lines": lines,
}


SEE_OTHER: Final = 303
UNAVAILABLE_TITLE: Final = "The database cannot be reached at the moment"

environment = Environment(
    loader=PackageLoader("memsvc.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(FILTERS)
environment.globals["root"] = CONSOLE_PATH


def is_partial(request: Request) -> bool:
    """Return whether a request is for a part of a page, to be put into the current one."""
    return request.headers.get("hx-request") == "true"


@frozen
class FormFields:
    """Texts of a submitted form: "" for a field that is missing."""

    data: FormData

    def __contains__(self, name: str) -> bool:
        return name in self.data

    def __getitem__(self, name: str) -> str:
        return str(self.data.get(name, ""))

    def texts(self, name: str) -> list[str]:
        """Return all texts of a field."""
        return [str(one) for one in self.data.getlist(name)]


@frozen
class Page:
    """Context of a view: the request, the caller and the tools.

    `project` is the one that the page is about, `allowed` the names of tools that the caller may
    use.
    """

    request: Request
    given: ConsoleDependencies
    slot: str
    project: str
    caller: Caller
    seal: SessionCookie
    calls: ToolCalls
    allowed: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Compute the allowed tools once: a page of many rows checks each."""
        allowed = (
            tool.name for tool in self.calls.tools() if tool.permission in self.caller.permissions
        )
        object.__setattr__(self, "allowed", frozenset(allowed))

    @property
    def partial(self) -> bool:
        """Return whether the request is for a part of a page, to be put into the current one."""
        return is_partial(self.request)

    @property
    def origin(self) -> str:
        """Return the address under which the browser found this server."""
        return f"{self.request.url.scheme}://{self.request.url.netloc}"

    def given_text(self, name: str, default: str = "") -> str:
        """Return a parameter of the query."""
        return self.request.query_params.get(name, default)

    def given_texts(self, *names: str) -> tuple[str, ...]:
        """Return parameters of the query."""
        return tuple(map(self.given_text, names))

    @property
    def permissions(self) -> list[str]:
        """Return what the caller may do, in the order of the permissions."""
        return [one.value for one in Permission if one in self.caller.permissions]

    def tool(self, name: str) -> Tool | None:
        """Return a tool that is there for the caller."""
        return next((tool for tool in self.calls.tools() if tool.name == name), None)

    def has(self, tool: str) -> bool:
        """Return whether the caller may use a tool."""
        return tool in self.allowed

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool in the page's project unless another is named, and return its answer.

        Raises the tool's error.
        """
        outcome = await self.calls.call(tool, {"project": self.project} | arguments)
        if outcome.error is not None:
            raise outcome.error
        return outcome.body

    async def form(self) -> FormFields:
        """Return the fields of a submitted form.

        Raises PERMISSION_DENIED unless it is one of this session's own.
        """
        async with self.given.body_slot(self.caller):
            form = FormFields(await self.request.form(max_files=0, max_fields=200))
        token = form["form_token"] or self.request.headers.get("x-form-token")
        if not hmac.compare_digest(str(token).encode(), self.seal.form_token.encode()):
            raise permission_denied(
                "this form belongs to another sign-in session of the console",
                recovery="reload the page and try again",
            )
        return form

    def url(self, page_path: str = "", *, project: str | None = None, **query: Any) -> str:
        """Return the URL of a page in the console.

        Names of sessions, files and the like are in the query.
        """
        path = f"{CONSOLE_PATH}/{self.slot}/{quote(project or self.project)}/{page_path}"
        params = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(params)}" if params else path

    def more(self, page_path: str, found: Mapping[str, Any], **query: Any) -> str | None:
        """Return the URL of the rest of what a tool found; None when that is all of it."""
        cursor = found["next_cursor"]
        return self.url(page_path, **query, cursor=cursor) if cursor else None

    def render(
        self, template: str, *, part: str | None = None, status: int = 200, **context: Any
    ) -> Response:
        """Render a page, or only its template `part` if the request replaces just that part.

        Its template sets `here`, the path of its place in the navigation, and `title`.
        """
        if part is not None and self.partial:
            template = part
        text = environment.get_template(template).render(self._common() | context)
        return HTMLResponse(text, status)

    def go(self, page_path: str, **query: Any) -> Response:
        """Redirect to another page, after something was done."""
        return RedirectResponse(self.url(page_path, **query), SEE_OTHER)

    def error_page(self, error: MemsvcError) -> Response:
        """Render the page about an error."""
        title = UNAVAILABLE_TITLE if error.code is Code.UNAVAILABLE else "The request failed"
        return self.render(
            "error.html",
            part="parts/error.html",
            status=error.http_status,
            error=error.body(),
            title=title,
            here=None,
        )

    def _common(self) -> dict[str, Any]:
        return {
            "page": self,
            "places": [place for place in PAGE_LINKS if place.tool is None or self.has(place.tool)],
            "form_token": self.seal.form_token,
            "key_label": self.caller.key_label,
            "version": self.given.version,
            "now": self.given.clock.now(),
            "done": self.given_text("done"),
            "saved": self.given_text("saved"),
        }


def form_action(
    tool: str,
    fields: Mapping[str, str],
    back: str,
    kept: Mapping[str, str],
    *,
    saved: str = "",
    done: str = "",
) -> Callable[[Page], Awaitable[Response]]:
    """Return a view that calls a tool for a submitted form and then redirects to the page `back`.

    `fields` are the form's fields by the tool's arguments, and `kept` those by parameters of the
    page. `done` is the member of the tool's answer that the page shows.
    """

    async def act(page: Page) -> Response:
        form = await page.form()
        answer = await page.call(tool, **{name: form[field] for name, field in fields.items()})
        query = {name: form[field] for name, field in kept.items()}
        return page.go(back, **query, saved=saved, done=answer.get(done))

    return act


@frozen
class PageLink:
    """An entry of the navigation, for everybody or for callers that may use the `tool`.

    `icon` names a drawing in parts/icons.html; groups are sorted by name, entries without one
    first.
    """

    path: str
    title: str
    icon: str
    tool: str | None
    group: str


PAGE_LINKS: Final = (
    PageLink("", "Overview", "gauge", None, ""),
    PageLink("sessions", "Sessions", "chat", "memory_list_sessions", "Memory"),
    PageLink("facts", "Facts", "spark", "memory_list_facts", "Memory"),
    PageLink("memories", "Memories", "timeline", "memories_list", "Memory"),
    PageLink("knowledge", "Knowledge", "graph", "elfmem_ls", "Memory"),
    PageLink("boards", "Boards", "board", "whiteboard_list", "Memory"),
    PageLink("notebook", "Notebook", "book", "get_document_tree", "Memory"),
    PageLink("files", "Files", "folder", "file_list", "Memory"),
    PageLink("calls", "Call log", "list", "calls_list", "Service"),
    PageLink("jobs", "Jobs", "queue", "tenant_jobs", "Service"),
    PageLink("playground", "Playground", "play", None, "Service"),
    PageLink("settings", "Settings", "sliders", None, "Service"),
    PageLink("keys", "Keys and usage", "key", "keys_list", "Service"),
)
