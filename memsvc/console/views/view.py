"""A view: the handler of one path."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from memsvc.console.page import Page


@dataclass(frozen=True, slots=True)
class View:
    """Handler of one path and its methods; one that changes something takes POST."""

    show: Callable[[Page], Awaitable[Response]]
    methods: tuple[str, ...] = ("GET",)
