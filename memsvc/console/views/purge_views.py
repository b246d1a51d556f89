"""Purging for good: a count first, then the purge when its name was typed."""

from typing import Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.core.errors import Code, MemsvcError

LEVELS: Final = {
    "session": "a session of this project",
    "user": "a user of this project",
    "path": "a file or directory of this project",
    "project": "this project, all of it",
    "tenant": "everything that this key's tenant has, of all projects",
}


async def purge(page: Page) -> Response:
    """Show a form, then what would be removed, then the receipt."""
    if page.request.method == "GET":
        if not page.has("tenant_purge"):
            raise MemsvcError(Code.PERMISSION_DENIED, "this key may not purge")
        return page.render(
            "purge.html",
            title="Purge",
            here="keys",
            levels=LEVELS,
            level=page.given_text("level"),
            name=page.given_text("name"),
        )
    form = await page.form()
    level, name = str(form.get("level", "")), str(form.get("name", ""))
    args = {"project": "*" if level == "tenant" else page.project, "level": level}
    name_args = {"name": name} if level not in ("tenant", "project") else {}
    if "confirm" not in form:
        preview = await page.call("tenant_purge", **args, **name_args, dry_run=True)
        return page.render(
            "purge_confirm.html",
            title="Purge",
            here="keys",
            would=preview,
            name=name,
            levels=LEVELS,
            problem=None,
        )
    try:
        receipt = await page.call(
            "tenant_purge", **args, **name_args, confirm=str(form.get("confirm", ""))
        )
    except MemsvcError as error:
        if error.code is not Code.INVALID_ARGUMENT:
            raise
        preview = await page.call("tenant_purge", **args, **name_args, dry_run=True)
        return page.render(
            "purge_confirm.html",
            status=error.http_status,
            title="Purge",
            here="keys",
            would=preview,
            name=name,
            levels=LEVELS,
            problem=error.body(),
        )
    return page.render("purged.html", title="Purged", here="keys", receipt=receipt)
