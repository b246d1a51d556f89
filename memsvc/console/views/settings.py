"""Settings: what the key may do, which tools there are, what holds in the project; and going to another project."""

from typing import Any, Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import check_project
from memsvc.core.tools import Tool

PROJECTS_OFFERED: Final = 100
GROUPS: Final = {
    "file": "Files",
    "memory": "Turn memory",
    "elfmem": "Knowledge",
    "memories": "Memories",
    "whiteboard": "Boards",
    "context": "Boards",
    "keys": "Administration",
    "calls": "Administration",
    "tenant": "Administration",
    "archive": "Administration",
}


async def shown(page: Page) -> Response:
    """What the key may, and which tools it has."""
    memories = await page.call("memories_get_settings") if page.has("memories_get_settings") else None
    groups: dict[str, list[dict[str, Any]]] = {}
    for tool in page.calls.tools():
        groups.setdefault(_group(tool), []).append(
            {"tool": tool, "allowed": tool.permission in page.caller.permissions}
        )
    return page.render(
        "settings.html",
        title="Settings",
        here="settings",
        caller=page.caller,
        groups=dict(sorted(groups.items())),
        hidden=sorted(page.caller.hidden_tools),
        memories=memories,
        signed_in_until=page.seal.good_until,
    )


async def go_to_project(page: Page) -> Response:
    """On to the overview of another project."""
    name = check_project(page.given_text("name").strip())
    if not page.caller.may_touch(name):
        raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch that project")
    return page.go("", project=name)


async def projects(page: Page) -> Response:
    """The projects that hold anything, as what a field offers."""
    names = sorted(page.caller.projects or ())
    if page.has("file_projects"):
        names = (await page.call("file_projects", project="*", limit=PROJECTS_OFFERED))["projects"]
    return page.render("parts/projects.html", names=names)


def _group(tool: Tool) -> str:
    if "document" in tool.name:
        return "Notebook"
    return GROUPS.get(tool.name.partition("_")[0], "General")
