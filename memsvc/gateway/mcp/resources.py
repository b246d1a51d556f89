"""Resources: answers of tools, read under a URI. Reading one is a full call of its tool."""

from dataclasses import dataclass
from mimetypes import MimeTypes
from typing import Any, Final

from mcp_types import (
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextResourceContents,
)
from mcp_types import ResourceTemplate as Listed

from memsvc.core.errors import MemsvcError
from memsvc.core.resources import Resource
from memsvc.core.scope import DEFAULT_PROJECT, Caller
from memsvc.core.tools import Outcome, Tool
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.asking import Context, Who
from memsvc.gateway.mcp.errors import protocol_error, resource_error, unknown_resource
from memsvc.gateway.mcp.listing import Listings
from memsvc.gateway.mcp.uris import Address, Template, address

ANOTHER_PROJECT = f"`?project=NAME` at its end names another project than `{DEFAULT_PROJECT}`."
TEXT, BYTES = "text/plain", "application/octet-stream"
_TYPES: Final = MimeTypes()
_TYPES.add_type("text/markdown", ".md")
_TYPES.add_type("application/jsonl", ".jsonl")


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool that answers under a URI."""

    tool: Tool
    resource: Resource
    template: Template

    def arguments(self, asked: Address) -> dict[str, str] | None:
        """Return the tool's arguments in a URI; None when it is not one of this tool's."""
        values = self.template.match(asked)
        if values is None or asked.project is None:
            return values
        return None if "project" in values else values | {"project": asked.project}

    def canonical(self, arguments: Any) -> str:
        """Return the URI of validated arguments, by which changes are announced."""
        return self.resource.uri(**{name: getattr(arguments, name) for name in self.template.variables})


class Resources:
    """Resources of the catalogue, as each caller may see them."""

    def __init__(self, dispatch: Dispatch, who: Who) -> None:
        self._dispatch = dispatch
        self._who = who
        self.offered = [
            Offered(tool, tool.resource, Template.read(tool.resource.template))
            for tool in dispatch.catalogue
            if tool.resource is not None and tool.name not in dispatch.disabled
        ]
        self._listings = Listings(dispatch, [one.resource for one in self.offered])

    def find(self, caller: Caller, uri: str) -> tuple[Offered, dict[str, str]]:
        """Return the resource of a URI and the arguments in it.

        NOT_FOUND where this caller sees none, INVALID_ARGUMENT for what cannot be a URI of ours.
        """
        asked = address(uri)
        if asked is not None:
            for one in self.offered:
                arguments = one.arguments(asked)
                if arguments is not None and self._dispatch.sees(caller, one.tool):
                    return one, arguments
        raise unknown_resource(uri)

    async def list_templates(self, context: Context, _: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        """List the templates of the tools that the caller may see."""
        caller = self._who(context).caller
        return ListResourceTemplatesResult(
            resource_templates=[_listed(one) for one in self.offered if self._dispatch.sees(caller, one.tool)]
        )

    async def list_resources(self, context: Context, asked: PaginatedRequestParams | None) -> ListResourcesResult:
        """List a page of what the caller may read."""
        try:
            return await self._listings.page(self._who(context), None if asked is None else asked.cursor)
        except MemsvcError as error:
            raise protocol_error(error) from None

    async def read(self, context: Context, asked: ReadResourceRequestParams) -> ReadResourceResult:
        """Read the resource at a URI, which is returned as the client wrote it."""
        asking = self._who(context)
        try:
            one, arguments = self.find(asking.caller, asked.uri)
        except MemsvcError as error:
            raise resource_error(error, context.protocol_version, asked.uri) from None
        outcome = await self._dispatch.call(
            asking.caller, one.tool.name, arguments, surface=asking.surface, request_id=asking.request_id
        )
        if outcome.error is not None:
            raise resource_error(outcome.error, context.protocol_version, asked.uri)
        return ReadResourceResult(contents=[_contents(asked.uri, one, arguments, outcome)])


def _contents(
    uri: str, one: Offered, arguments: dict[str, str], outcome: Outcome
) -> TextResourceContents | BlobResourceContents:
    resource = one.resource
    if not resource.text:
        return TextResourceContents(uri=uri, mime_type=resource.mime_type, text=outcome.text)
    text = outcome.member(resource.text) if isinstance(resource.text, str) else resource.text(outcome.body)
    name = "" if one.template.rest is None else arguments[one.template.rest]
    if resource.encoding is not None and outcome.body[resource.encoding] == "base64":
        return BlobResourceContents(uri=uri, mime_type=resource.mime_type or type_of(name) or BYTES, blob=text)
    return TextResourceContents(uri=uri, mime_type=resource.mime_type or type_of(name) or TEXT, text=text)


def type_of(name: str) -> str | None:
    """Return the media type of a name's extension, if it is known."""
    return _TYPES.guess_type(name.rpartition("/")[2], strict=True)[0]


def _listed(one: Offered) -> Listed:
    resource = one.resource
    described = resource.description
    if "project" not in one.template.variables:
        described = f"{described} {ANOTHER_PROJECT}"
    return Listed(
        name=resource.name,
        title=resource.title,
        description=described,
        uri_template=resource.template,
        mime_type=resource.mime_type,
    )
