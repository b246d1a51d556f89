"""Settings: rights of the key, its tools, limits of the project; and switching projects."""

from typing import Any, Final

from starlette.responses import Response

from memsvc.console.page import Page
from memsvc.console.views.tool_groups import group_of
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import check_project

PROJECTS_MAX: Final = 100
KINDS: Final = {
    "retention": "How long it is kept",
    "quota": "How much there may be",
    "rate": "How often you may call",
}


async def show(page: Page) -> Response:
    """Show what the key may do, its limits, and its tools."""
    memories = (
        await page.call("memories_get_settings") if page.has("memories_get_settings") else None
    )
    limits = (await page.call("tenant_limits"))["limits"] if page.has("tenant_limits") else []
    groups: dict[str, list[dict[str, Any]]] = {}
    for tool in page.calls.tools():
        groups.setdefault(group_of(tool), []).append(
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
        limits={
            title: [one for one in limits if one["kind"] == kind] for kind, title in KINDS.items()
        },
        signed_in_until=page.seal.valid_until,
    )


async def go_to_project(page: Page) -> Response:
    """Redirect to the overview of another project."""
    name = check_project(page.given_text("name").strip())
    if not page.caller.can_access(name):
        raise MemsvcError(Code.PERMISSION_DENIED, "this key may not touch that project")
    return page.go("", project=name)


async def projects(page: Page) -> Response:
    """Show the projects that hold anything, as suggestions of a field."""
    names = sorted(page.caller.projects or ())
    if page.has("file_projects"):
        names = (await page.call("file_projects", project="*", limit=PROJECTS_MAX))["projects"]
    return page.render("parts/projects.html", names=names)
