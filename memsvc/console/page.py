"""One request to the console: caller, project, tools, and the page that answers it."""

from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memsvc.console import value_format
from memsvc.console.dependencies import ConsoleDependencies
from memsvc.console.links import PAGE_LINKS
from memsvc.console.session_cookies import SessionCookie
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Caller
from memsvc.core.tools import ToolCalls
from memsvc.core.urls import CONSOLE_PATH

SEE_OTHER: Final = 303
PROJECT: Final = "default"
UNAVAILABLE_TITLE: Final = "The memory is out of reach just now"

environment = Environment(
    loader=PackageLoader("memsvc.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(value_format.FILTERS)
environment.globals["root"] = CONSOLE_PATH


@dataclass(frozen=True, slots=True)
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
        return self.request.headers.get("hx-request") == "true"

    @property
    def origin(self) -> str:
        """Return the address under which the browser found this server."""
        return f"{self.request.url.scheme}://{self.request.url.netloc}"

    def given_text(self, name: str, default: str = "") -> str:
        """Return a parameter of the query."""
        return self.request.query_params.get(name, default)

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

    async def form(self) -> FormData:
        """Return the data of a submitted form.

        Raises PERMISSION_DENIED unless it is one of this session's own.
        """
        async with self.given.body_slot(self.caller):
            form = await self.request.form(max_files=0, max_fields=200)
        token = form.get("form_token") or self.request.headers.get("x-form-token")
        if not compare_digest(str(token).encode(), self.seal.form_token.encode()):
            raise MemsvcError(
                Code.PERMISSION_DENIED,
                "this form is not of this session",
                recovery="open the page again, and repeat it",
            )
        return form

    def url(self, page_path: str = "", *, project: str | None = None, **query: Any) -> str:
        """Return the URL of a page in the console.

        Names of sessions, files and the like are in the query.
        """
        path = f"{CONSOLE_PATH}/{self.slot}/{quote(project or self.project)}/{page_path}"
        params = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{path}?{urlencode(params)}" if params else path

    def render(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """Render a page, or a part of one."""
        text = environment.get_template(template).render(self._common() | context)
        return HTMLResponse(text, status)

    def go(self, page_path: str, **query: Any) -> Response:
        """Redirect to another page, after something was done."""
        return RedirectResponse(self.url(page_path, **query), SEE_OTHER)

    def error_page(self, error: MemsvcError) -> Response:
        """Render the page about an error."""
        template = "parts/error.html" if self.partial else "error.html"
        title = UNAVAILABLE_TITLE if error.code is Code.UNAVAILABLE else "That did not work"
        return self.render(
            template, status=error.http_status, error=error.body(), title=title, here=None
        )

    def _common(self) -> dict[str, Any]:
        return {
            "page": self,
            "places": [place for place in PAGE_LINKS if place.tool is None or self.has(place.tool)],
            "form_token": self.seal.form_token,
            "key_label": self.caller.key_label,
            "version": self.given.version,
            "now": self.given.clock.now(),
        }
