"""The notebook and the boards: what is written, its history, editing, and search."""

import re
from collections.abc import Collection
from itertools import islice
from typing import Any, Final

import yaml
from starlette.responses import Response

from memsvc.console.diff import difference
from memsvc.console.page import Page, form_action
from memsvc.core.errors import Code, MemsvcError

DOCUMENTS_MAX: Final = 2000
"""Documents that the tree shows; of a larger one only the top."""
CONFLICT_STATUS: Final = 409
_LINK: Final = re.compile(r"\[\[([^\[\]\r\n]+)\]\]")


async def show(page: Page) -> Response:
    """Show a document beside the tree, or what a search finds."""
    q = page.given_text("q")
    if q:
        found = await page.call("search_documents", query=q, limit=20)
        return page.render(
            "notebook_found.html",
            q=q,
            passages=found["passages"],
        )
    name, version = page.given_text("id", "root"), page.given_text("version")
    current = await page.call("read_document", id=name)
    past = await page.call(
        "document_history", id=name, limit=20, cursor=page.given_text("cursor") or None
    )
    then = await page.call("read_document", id=name, version=version) if version else None
    tree = await page.call("get_document_tree")
    documents = _tree(tree["text"], DOCUMENTS_MAX)
    more = page.more("notebook", past, id=name)
    return page.render(
        "notebook.html",
        name=name,
        held=current,
        tree=documents,
        pieces=_linked_parts(current["text"], {document for _, document in documents}),
        documents=tree["documents"],
        shown_most=DOCUMENTS_MAX,
        versions=past["versions"],
        more=more,
        version=version,
        lines=difference(then["text"], current["text"]) if then else None,
    )


async def edit(page: Page) -> Response:
    """Show the editor of a document, or store an edit unless somebody wrote it meanwhile."""
    if page.request.method == "GET":
        name = page.given_text("id", "root")
        document = await page.call("read_document", id=name)
        return _editor(page, name, document["text"], document["version"] or "")
    form = await page.form()
    name, base = form["id"], form["version"]
    content = form["content"].replace("\r\n", "\n")
    try:
        done = await page.call(
            "update_document", id=name, content=content, expected_version=base or None
        )
    except MemsvcError as error:
        if error.code is not Code.VERSION_CONFLICT:
            return _editor(
                page, name, content, base, problem=error.body(), status=error.http_status
            )
        document = await page.call("read_document", id=name)
        lines = difference(document["text"], content)
        return _editor(
            page,
            name,
            content,
            document["version"] or "",
            problem=error.body(),
            lines=lines,
            status=CONFLICT_STATUS,
        )
    return page.go("notebook", id=name, saved=done["text"])


restore = form_action(
    "restore_document",
    {"id": "id", "version": "version"},
    "notebook",
    {"id": "id"},
    saved="Restored",
)


def _editor(page: Page, name: str, content: str, base: str, **more: Any) -> Response:
    context = {"problem": None, "lines": None} | more
    return page.render(
        "notebook_edit.html",
        name=name,
        content=content,
        base=base,
        **context,
    )


def _linked_parts(text: str, documents: Collection[str]) -> list[tuple[str, str]]:
    """Split a text into parts, each with the document that it links, or "" if it links none."""
    parts = []
    at = 0
    for link in _LINK.finditer(text):
        if link[1].strip() in documents:
            parts += [(text[at : link.start()], ""), (link[0], link[1].strip())]
            at = link.end()
    return [*parts, (text[at:], "")]


def _tree(text: str, limit: int) -> list[tuple[int, str]]:
    """Return the documents of a tree in YAML with the depth of each, in order, up to a limit.

    Each is a line, as the tool writes them: parsing the tree as YAML would block everybody for
    long, and a deep one could not be parsed at all.
    """
    return [_document(line) for line in islice(text.removesuffix("\n").split("\n"), limit)]


def _document(line: str) -> tuple[int, str]:
    stripped = line.lstrip(" ")
    depth = (len(line) - len(stripped)) // 2 + 1 if stripped.startswith("- ") else 0
    name = (stripped[2:] if depth else stripped).removesuffix(":")
    if name.startswith("'"):
        return depth, name[1:-1].replace("''", "'")
    return depth, str(yaml.safe_load(name)) if name.startswith('"') else name


async def boards(page: Page) -> Response:
    """List the boards of the project, or of one user."""
    user = page.given_text("user")
    found = await page.call(
        "whiteboard_list", user_id=user, limit=100, cursor=page.given_text("cursor")
    )
    more = page.more("boards", found, user=user)
    return page.render("boards.html", boards=found["boards"], more=more, user=user)


async def board(page: Page) -> Response:
    """Show a board, its history, and the difference from a past version."""
    user, conversation, version = page.given_texts("user", "id", "version")
    board_key = {"user_id": user, "conversation_id": conversation}
    board = await page.call("whiteboard_get", **board_key)
    history = await page.call(
        "whiteboard_history", **board_key, limit=50, cursor=page.given_text("cursor") or None
    )
    past = next((one for one in history["versions"] if one["version"] == version), None)
    then = (
        await page.call("whiteboard_get", **board_key, as_of=past["updated_at"]) if past else None
    )
    more = page.more("board", history, user=user, id=conversation)
    return page.render(
        "board.html",
        user=user,
        conversation=conversation,
        board=board,
        versions=history["versions"],
        more=more,
        past=past,
        lines=difference(then["text"], board["text"]) if then else [],
    )


BOARD_FIELDS: Final = {"user_id": "user", "conversation_id": "id"}
restore_board = form_action(
    "whiteboard_restore",
    BOARD_FIELDS | {"version": "version"},
    "board",
    {"user": "user", "id": "id"},
)


delete_board = form_action("whiteboard_delete", BOARD_FIELDS, "boards", {})
