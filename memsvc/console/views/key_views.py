"""API keys: listing, making, changing, rotating and revoking them; and the usage of projects."""

from typing import Any

from starlette.datastructures import FormData
from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.form_fields import parse_number, parse_time, words
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.scope import Permission


async def listed(page: Page) -> Response:
    """List the keys that the caller may see."""
    found = await page.call("keys_list")
    return page.render(
        "keys.html",
        title="Keys and usage",
        here="keys",
        keys=found["keys"],
        permissions=[one.value for one in Permission if one in page.caller.permissions],
        done=page.given_text("done"),
    )


async def usage(page: Page) -> Response:
    """Show the usage of each project: a part of the page about keys, or a page of its own."""
    counted = await page.call("tenant_usage", project="*")
    template = "parts/usage.html" if page.partial else "usage.html"
    return page.render(template, title="Usage", here="keys", usage=counted)


async def create(page: Page) -> Response:
    """Make a key and show it, this once: no address shows it again."""
    form = await page.form()
    made = await page.call(
        "keys_create", **_key_properties(form), label=str(form.get("label", "")) or None
    )
    return page.render("key_made.html", title="A new key", here="keys", made=made, old=None)


async def rotate(page: Page) -> Response:
    """Make a key in place of another, which expires when the overlap is over."""
    form = await page.form()
    hours = parse_number(str(form.get("overlap", "")), "the overlap")
    made = await page.call("keys_rotate", key_id=str(form.get("id", "")), overlap_hours=hours)
    return page.render("key_made.html", title="A new key", here="keys", made=made, old=made["old"])


async def revoke(page: Page) -> Response:
    """Revoke a key."""
    form = await page.form()
    done = await page.call(
        "keys_revoke", key_id=str(form.get("id", "")), even_last="even_last" in form
    )
    return page.go("keys", done=f"{done['key']['label']} opens nothing any more.")


async def show(page: Page) -> Response:
    """Show one key, to be changed, rotated or revoked."""
    name = page.given_text("id")
    key = next(
        (one for one in (await page.call("keys_list"))["keys"] if one["key_id"] == name), None
    )
    if key is None:
        raise MemsvcError(Code.NOT_FOUND, "there is no such key")
    return page.render(
        "key.html",
        title="Key",
        here="keys",
        key=key,
        permissions=[one.value for one in Permission if one in page.caller.permissions],
    )


async def update(page: Page) -> Response:
    """Change the label, rights and expiry of a key."""
    form = await page.form()
    properties = _key_properties(form)
    done = await page.call(
        "keys_update",
        key_id=str(form.get("id", "")),
        label=str(form.get("label", "")) or None,
        **properties,
        hidden_tools=properties.get("hidden_tools", []),
        all_projects="projects" not in properties,
        never_expires="expires_at" not in properties,
        even_last="even_last" in form,
    )
    return page.go("keys", done=f"{done['key']['label']} was changed.")


def _key_properties(form: FormData) -> dict[str, Any]:
    """Return the properties of a key; empty fields are left out."""
    fields = {
        "permissions": [str(one) for one in form.getlist("permissions")],
        "projects": words(str(form.get("projects", ""))),
        "hidden_tools": words(str(form.get("hidden_tools", ""))),
        "expires_at": parse_time(str(form.get("expires_at", "")), "the end"),
    }
    return {name: value for name, value in fields.items() if value}
