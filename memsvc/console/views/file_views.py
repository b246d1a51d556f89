"""Files: the tree, one file with its history, conflict-free editing, and search."""

from itertools import accumulate
from typing import Any, Final

from starlette.responses import Response

from memsvc.console.diff import difference
from memsvc.console.page import Page, form_action
from memsvc.core.errors import Code, MemsvcError, invalid_content, payload_too_large
from memsvc.core.paths import is_kept

PREVIEW_BYTES: Final = 200_000
"""Bytes of a file that a page shows; all of it can be edited and downloaded."""
EDIT_BYTES_MAX: Final = 1_500_000
CONFLICT_STATUS: Final = 409
ENTRIES_MAX: Final = 100


async def listed(page: Page) -> Response:
    """List a directory, or what a search finds below it.

    Write times of directories are shown on request only: they need a scan of all that is in them.
    """
    path, q, times = page.given_texts("path", "q", "dated")
    with_times = times == "1"
    if q:
        found = await page.call("file_search", query=q, path_prefix=path, limit=20)
        return page.render(
            "files_found.html",
            path=path,
            q=q,
            chunks=found["chunks"],
            **_path_context(path),
        )
    found = await _entries(page, path, with_times=with_times)
    entries = found["entries"]
    if [(one["path"], one["type"]) for one in entries] == [(path, "FILE")]:
        return page.go("file", path=path)
    params = {"path": path, "dated": "1" if with_times else ""}
    more = page.more("files", found, **params)
    return page.render(
        "files.html",
        part="parts/file_rows.html",
        path=path,
        q="",
        entries=entries,
        dated=with_times,
        undated=not with_times and any(one["type"] == "DIRECTORY" for one in entries),
        more=more,
        **_path_context(path),
    )


async def _entries(page: Page, path: str, *, with_times: bool) -> dict[str, Any]:
    try:
        return await page.call(
            "file_list",
            path=path,
            limit=ENTRIES_MAX,
            cursor=page.given_text("cursor"),
            directory_times=with_times,
        )
    except MemsvcError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        return {"entries": [], "next_cursor": None}


async def show(page: Page) -> Response:
    """Show a file, and its history."""
    path = page.given_text("path")
    stat = await page.call("file_stat", path=path)
    past = await page.call(
        "file_list_versions", path=path, limit=50, before_id=page.given_text("before") or None
    )
    content = None
    if stat["exists"] and stat["type"] == "FILE":
        content = await page.call("file_read", path=path, length=PREVIEW_BYTES)
    more = page.url("file", path=path, before=past["next_cursor"]) if past["next_cursor"] else None
    return page.render(
        "file.html",
        path=path,
        stat=stat,
        held=content,
        cut=stat["size"] > PREVIEW_BYTES,
        versions=past["versions"],
        more=more,
        kept=is_kept(path),
        **_path_context(path),
    )


async def version(page: Page) -> Response:
    """Show a file at a version, and the difference from now."""
    path, name = page.given_texts("path", "id")
    then = await page.call("file_read_version", path=path, history_id=name)
    stat = await page.call("file_stat", path=path)
    now = (
        await page.call("file_read", path=path, length=EDIT_BYTES_MAX)
        if stat["type"] == "FILE"
        else None
    )
    texts = then["content_encoding"] == "utf-8" and (
        now is None or now["content_encoding"] == "utf-8"
    )
    return page.render(
        "file_version.html",
        path=path,
        then=then,
        stat=stat,
        lines=difference(then["content"], now["content"] if now else "") if texts else None,
        kept=is_kept(path),
        **_path_context(path),
    )


restore = form_action(
    "file_restore_version",
    {"path": "path", "history_id": "id"},
    "file",
    {"path": "path"},
    saved="restored",
)


async def edit(page: Page) -> Response:
    """Show the editor of a file, or store an edit unless somebody wrote the file meanwhile."""
    if page.request.method == "POST":
        return await _store(page)
    path = page.given_text("path")
    stat = (
        await page.call("file_stat", path=path)
        if path and not path.endswith("/")
        else {"exists": False}
    )
    content, base = "", ""
    if stat["exists"]:
        if stat["size"] > EDIT_BYTES_MAX:
            raise payload_too_large("this file is too large to edit in the console")
        file = await page.call("file_read", path=path, length=EDIT_BYTES_MAX)
        if file["content_encoding"] != "utf-8":
            raise invalid_content("this file is not text")
        content, base = file["content"], file["version"] or ""
    return _editor(page, path, content, base)


async def _store(page: Page) -> Response:
    form = await page.form()
    path, base = form["path"], form["version"]
    content = form["content"].replace("\r\n", "\n")
    precondition = (
        {"expected_version": base}
        if base
        else {"create_only": "version" in form and not form["overwrite"]}
    )
    try:
        await page.call("file_write", path=path, content=content, mode="TRUNCATE", **precondition)
    except MemsvcError as error:
        if error.code not in (Code.VERSION_CONFLICT, Code.ALREADY_EXISTS):
            return _editor(
                page, path, content, base, problem=error.body(), status=error.http_status
            )
        return await _conflict(page, path, content, error)
    return page.go("file", path=path, saved="saved")


async def _conflict(page: Page, path: str, content: str, error: MemsvcError) -> Response:
    """Show the editor with the typed text, beside the file that somebody else wrote or deleted."""
    conflict = {"problem": error.body(), "status": CONFLICT_STATUS}
    stat = await page.call("file_stat", path=path)
    if not stat["exists"]:
        return _editor(page, path, content, "", deleted=True, **conflict)
    file = await page.call("file_read", path=path, length=EDIT_BYTES_MAX)
    lines = difference(file["content"], content) if file["content_encoding"] == "utf-8" else []
    return _editor(page, path, content, file["version"] or "", lines=lines, **conflict)


def _editor(page: Page, path: str, content: str, base: str, **more: Any) -> Response:
    context = {"problem": None, "lines": None, "deleted": False} | more
    return page.render(
        "file_edit.html",
        path=path,
        content=content,
        base=base,
        **context,
        **_path_context(path),
    )


rename = form_action("file_rename", {"from_path": "path", "to_path": "to"}, "files", {"path": "to"})


async def delete(page: Page) -> Response:
    """Delete a file, or a directory with all that is in it."""
    form = await page.form()
    path = form["path"]
    await page.call("file_delete", path=path, recursive=True)
    return page.go("files", path=path.rpartition("/")[0])


def _path_context(path: str) -> dict[str, Any]:
    """Return the breadcrumbs of a path: each directory above it by name."""
    names = [name for name in path.split("/") if name]
    paths = list(accumulate(f"/{name}" for name in names))
    return {
        "crumbs": list(zip(names[:-1], paths[:-1], strict=True)),
        "name": names[-1] if names else "/",
    }
