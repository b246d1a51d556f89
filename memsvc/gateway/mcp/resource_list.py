"""Pages of readable resources: project by project and kind by kind, each step a tool call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import Annotations, ListResourcesResult
from mcp_types import Resource as Listed

from memsvc.core.cursors import decode_cursor, encode_cursor, invalid_cursor
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.resources import ListedResource, Resource, ResourceListing
from memsvc.core.scope import DEFAULT_PROJECT, Scope
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.sender import RequestSender

PAGE: Final = 50
STEPS_MAX: Final = 12
"""Tool calls of one page: after as many it ends, however little it found."""
PROJECTS_TOOL: Final = "file_projects"
CURSOR_CHARS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class _Position:
    """Position of a listing: in this project, at this kind of resource, after this place."""

    project: str
    kind: int = 0
    after: str = ""

    def cursor(self) -> str:
        return encode_cursor(self.project, self.kind, self.after)

    @classmethod
    def of(cls, cursor: str, kinds: int) -> "_Position":
        place = cls(*decode_cursor(cursor[:CURSOR_CHARS_MAX], str, int, str))
        if not 0 <= place.kind < kinds:
            raise invalid_cursor()
        return place


class ResourceList:
    """Listing of these resources."""

    def __init__(self, dispatch: Dispatch, resources: Sequence[Resource]) -> None:
        self._dispatch = dispatch
        self._kinds = [
            (resource, resource.listing) for resource in resources if resource.listing is not None
        ]

    async def page(self, sender: RequestSender, cursor: str | None) -> ListResourcesResult:
        """Return the next resources that the caller may read; INVALID_ARGUMENT for a bad cursor."""
        if not self._kinds:
            return ListResourcesResult(resources=[])
        position = (
            _Position.of(cursor, len(self._kinds))
            if cursor
            else await self._project_after(sender, "")
        )
        found: list[Listed] = []
        for _ in range(STEPS_MAX):
            if position is None or len(found) >= PAGE:
                break
            resource, listing = self._kinds[position.kind]
            more = await self._readable(sender, listing, position, PAGE - len(found))
            found += [_list_entry(resource, position.project, one) for one in more]
            if len(found) >= PAGE:
                position = _Position(position.project, position.kind, more[-1].place)
            elif position.kind + 1 < len(self._kinds):
                position = _Position(position.project, position.kind + 1)
            else:
                position = await self._project_after(sender, position.project)
        return ListResourcesResult(
            resources=found, next_cursor=None if position is None else position.cursor()
        )

    async def _readable(
        self, sender: RequestSender, listing: ResourceListing, position: _Position, limit: int
    ) -> Sequence[ListedResource]:
        """Return the next of one kind, none where the caller may not see any of it."""

        async def page(scope: Scope, _: Any) -> Sequence[ListedResource]:
            return await listing.page(scope, position.after, limit)

        try:
            return await self._dispatch.perform(
                sender.caller,
                listing.tool,
                {"project": position.project},
                page,
                surface=sender.surface,
                request_id=sender.request_id,
            )
        except MemsvcError as error:
            if error.code in (Code.NOT_FOUND, Code.PERMISSION_DENIED):
                return []
            raise

    async def _project_after(self, sender: RequestSender, project: str) -> _Position | None:
        """Return the start of the next project.

        The default project for a caller who may not list projects.
        """
        outcome = await self._dispatch.call(
            sender.caller,
            PROJECTS_TOOL,
            {"after": project, "limit": 1},
            surface=sender.surface,
            request_id=sender.request_id,
        )
        if outcome.error is None:
            return next((_Position(name) for name in outcome.body["projects"]), None)
        if outcome.error.code is not Code.NOT_FOUND:
            raise outcome.error
        return None if project else _Position(DEFAULT_PROJECT)


def _list_entry(resource: Resource, project: str, readable: ListedResource) -> Listed:
    uri = resource.uri(**readable.values)
    if "project" not in readable.values and project != DEFAULT_PROJECT:
        uri = f"{uri}?project={project}"
    updated = (
        None
        if readable.updated_at is None
        else Annotations(last_modified=readable.updated_at.isoformat())
    )
    return Listed(
        uri=uri,
        name=resource.name,
        title=readable.title,
        mime_type=resource.mime_type,
        size=readable.size_bytes,
        annotations=updated,
    )
