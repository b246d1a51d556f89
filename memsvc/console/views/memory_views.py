"""The panel of long-term memories: those of a user, newest first, their search and settings."""

from typing import Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.core.errors import invalid

MEMORIES_MAX: Final = 100


async def listed(page: Page) -> Response:
    """List the memories of a user, newest first, or those that a search finds."""
    user, query = page.given_text("user"), page.given_text("q")
    found = []
    if user:
        args = {"user_id": user, "limit": MEMORIES_MAX}
        found = (
            await page.call("memories_search", query=query, **args)
            if query
            else await page.call("memories_list", **args)
        )["results"]
    template = "parts/memory_items.html" if page.partial else "memories.html"
    return page.render(
        template,
        title="Project Long Term Memory",
        here="memories",
        user=user,
        q=query,
        memories=found,
        tab="memories",
    )


async def history(page: Page) -> Response:
    """Show the changes of a memory and their origins."""
    user, memory = page.given_text("user"), page.given_text("id")
    found = await page.call("memories_history", user_id=user, memory_id=memory)
    return page.render(
        "memory.html",
        title="A memory",
        here="memories",
        user=user,
        memory=memory,
        changes=found["results"][::-1],
    )


async def delete(page: Page) -> Response:
    """Delete one memory of a user."""
    form = await page.form()
    user = str(form.get("user", ""))
    await page.call("memories_delete", user_id=user, memory_id=str(form.get("id", "")))
    return page.go("memories", user=user)


async def settings(page: Page) -> Response:
    """Show and change the settings of the project's memories."""
    if page.request.method == "POST":
        form = await page.form()
        await page.call(
            "memories_put_settings",
            memoryEnabled="enabled" in form,
            decayDays=_number(str(form.get("decay", "")), "Memory Decay Window"),
            searchLimit=int(_number(str(form.get("limit", "")), "Memory Search Limit")),
        )
        return page.go("memory-settings", saved=1)
    current = await page.call("memories_get_settings")
    return page.render(
        "memory_settings.html",
        title="Project Long Term Memory",
        here="memories",
        held=current,
        tab="settings",
        saved=page.given_text("saved"),
    )


async def prompt(page: Page) -> Response:
    """Show and change the prompt that extracts facts from conversations in this project."""
    if page.request.method == "POST":
        form = await page.form()
        if "reset" in form:
            await page.call("memories_reset_prompt")
        else:
            await page.call("memories_put_prompt", prompt=str(form.get("prompt", "")))
        return page.go("memory-prompt", saved=1)
    current = await page.call("memories_get_prompt")
    return page.render(
        "memory_prompt.html",
        title="Project Long Term Memory",
        here="memories",
        held=current,
        tab="prompt",
        saved=page.given_text("saved"),
    )


def _number(text: str, name: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise invalid(f"{name} must be a number") from None
