"""Writes of rendered files: the few that a style accepts, each as a whole."""

import hashlib

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Scope
from memsvc.core.tools import Views
from memsvc.styles.files.precondition import CHANGED, Precondition


async def write_rendered(
    view: Views, scope: Scope, path: str, content: bytes, *, whole: bool, when: Precondition
) -> None:
    """Pass the new content of a rendered file to the style behind a view.

    INVALID_ARGUMENT unless the write is `whole`, ALREADY_EXISTS or VERSION_CONFLICT (`when`; such a
    file has no versions), or the style's own errors."""
    if not whole:
        raise MemsvcError(
            Code.INVALID_ARGUMENT,
            "this file can only be written as a whole",
            recovery="use mode TRUNCATE",
        )
    if when.any:
        when.validate()
        current = await view.read(scope, path)
        if current is not None and when.must_not_exist:
            raise MemsvcError(Code.ALREADY_EXISTS, "the file exists already")
        same = (
            current is not None
            and hashlib.sha256(current.content).hexdigest() == (when.content_sha256 or "").lower()
        )
        if when.expected_version is not None or (when.content_sha256 is not None and not same):
            raise MemsvcError(Code.VERSION_CONFLICT, CHANGED)
    await view.write(scope, path, content)
