"""Pages of readable resources: project by project and kind by kind, each step a tool call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import Annotations, ListResourcesResult
from mcp_types import Resource as Listed

from memsvc.core.cursors import cursor_of, no_such_cursor, read_cursor
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.resources import Listing, Readable, Resource
from memsvc.core.scope import DEFAULT_PROJECT, Scope
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.asking import Asking

PAGE: Final = 50
STEPS_MAX: Final = 12
"""Tool calls of one page: after as many it ends, however little it found."""
PROJECTS_TOOL: Final = "file_projects"
CURSOR_CHARS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of a listing: in this project, at this kind of resource, after this place."""

    project: str
    kind: int = 0
    after: str = ""

    def cursor(self) -> str:
        return cursor_of(self.project, self.kind, self.after)

    @classmethod
    def of(cls, cursor: str, kinds: int) -> "_Place":
        place = cls(*read_cursor(cursor[:CURSOR_CHARS_MAX], str, int, str))
        if not 0 <= place.kind < kinds:
            raise no_such_cursor()
        return place


class Listings:
    """Listing of these resources."""

    def __init__(self, dispatch: Dispatch, resources: Sequence[Resource]) -> None:
        self._dispatch = dispatch
        self._kinds = [(one, one.listing) for one in resources if one.listing is not None]

    async def page(self, asking: Asking, cursor: str | None) -> ListResourcesResult:
        """Return the next resources that the caller may read; INVALID_ARGUMENT for a bad cursor."""
        if not self._kinds:
            return ListResourcesResult(resources=[])
        place = _Place.of(cursor, len(self._kinds)) if cursor else await self._project_after(asking, "")
        found: list[Listed] = []
        for _ in range(STEPS_MAX):
            if place is None or len(found) >= PAGE:
                break
            resource, listing = self._kinds[place.kind]
            more = await self._readable(asking, listing, place, PAGE - len(found))
            found += [_listed(resource, place.project, one) for one in more]
            if len(found) >= PAGE:
                place = _Place(place.project, place.kind, more[-1].place)
            elif place.kind + 1 < len(self._kinds):
                place = _Place(place.project, place.kind + 1)
            else:
                place = await self._project_after(asking, place.project)
        return ListResourcesResult(resources=found, next_cursor=None if place is None else place.cursor())

    async def _readable(self, asking: Asking, listing: Listing, place: _Place, most: int) -> Sequence[Readable]:
        """Return the next of one kind, none where the caller may not see any of it."""

        async def page(scope: Scope, _: Any) -> Sequence[Readable]:
            return await listing.page(scope, place.after, most)

        try:
            return await self._dispatch.perform(
                asking.caller,
                listing.tool,
                {"project": place.project},
                page,
                surface=asking.surface,
                request_id=asking.request_id,
            )
        except MemsvcError as error:
            if error.code in (Code.NOT_FOUND, Code.PERMISSION_DENIED):
                return []
            raise

    async def _project_after(self, asking: Asking, project: str) -> _Place | None:
        """Return the start of the next project.

        The default project for a caller who may not list projects.
        """
        outcome = await self._dispatch.call(
            asking.caller,
            PROJECTS_TOOL,
            {"after": project, "limit": 1},
            surface=asking.surface,
            request_id=asking.request_id,
        )
        if outcome.error is None:
            return next((_Place(name) for name in outcome.body["projects"]), None)
        if outcome.error.code is not Code.NOT_FOUND:
            raise outcome.error
        return None if project else _Place(DEFAULT_PROJECT)


def _listed(resource: Resource, project: str, one: Readable) -> Listed:
    uri = resource.uri(**one.values)
    if "project" not in one.values and project != DEFAULT_PROJECT:
        uri = f"{uri}?project={project}"
    updated = None if one.updated_at is None else Annotations(last_modified=one.updated_at.isoformat())
    return Listed(
        uri=uri,
        name=resource.name,
        title=one.title,
        mime_type=resource.mime_type,
        size=one.size_bytes,
        annotations=updated,
    )
