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
from memsvc.core.tools import CallOutcome, Tool
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.mcp.errors import protocol_error, resource_error, unknown_resource
from memsvc.gateway.mcp.resource_list import ResourceList
from memsvc.gateway.mcp.sender import Context, SenderOf
from memsvc.gateway.mcp.uris import ResourceAddress, UriTemplate, address

PROJECT_NOTE = f"`?project=NAME` at its end names another project than `{DEFAULT_PROJECT}`."
TEXT, BYTES = "text/plain", "application/octet-stream"
_TYPES: Final = MimeTypes()
_TYPES.add_type("text/markdown", ".md")
_TYPES.add_type("application/jsonl", ".jsonl")


@dataclass(frozen=True, slots=True)
class ToolResource:
    """A tool that answers under a URI."""

    tool: Tool
    resource: Resource
    template: UriTemplate

    def arguments(self, target: ResourceAddress) -> dict[str, str] | None:
        """Return the tool's arguments in a URI; None when it is not one of this tool's."""
        values = self.template.match(target)
        if values is None or target.project is None:
            return values
        return None if "project" in values else values | {"project": target.project}

    def canonical(self, arguments: Any) -> str:
        """Return the URI of validated arguments, by which changes are announced."""
        return self.resource.uri(
            **{name: getattr(arguments, name) for name in self.template.variables}
        )


class ResourceHandlers:
    """Resources of the catalogue, as each caller may see them."""

    def __init__(self, dispatch: Dispatch, sender_of: SenderOf) -> None:
        self._dispatch = dispatch
        self._sender_of = sender_of
        self.tool_resources = [
            ToolResource(tool, tool.resource, UriTemplate.read(tool.resource.template))
            for tool in dispatch.catalogue
            if tool.resource is not None and tool.name not in dispatch.disabled
        ]
        self._list = ResourceList(
            dispatch, [tool_resource.resource for tool_resource in self.tool_resources]
        )

    def find(self, caller: Caller, uri: str) -> tuple[ToolResource, dict[str, str]]:
        """Return the resource of a URI and the arguments in it.

        NOT_FOUND where this caller sees none, INVALID_ARGUMENT for what cannot be a URI of ours.
        """
        target = address(uri)
        if target is not None:
            for tool_resource in self.tool_resources:
                arguments = tool_resource.arguments(target)
                if arguments is not None and self._dispatch.is_visible(caller, tool_resource.tool):
                    return tool_resource, arguments
        raise unknown_resource(uri)

    async def list_templates(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """List the templates of the tools that the caller may see."""
        caller = self._sender_of(context).caller
        return ListResourceTemplatesResult(
            resource_templates=[
                _listed(tool_resource)
                for tool_resource in self.tool_resources
                if self._dispatch.is_visible(caller, tool_resource.tool)
            ]
        )

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """List a page of what the caller may read."""
        try:
            return await self._list.page(
                self._sender_of(context), None if params is None else params.cursor
            )
        except MemsvcError as error:
            raise protocol_error(error) from None

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Read the resource at a URI, which is returned as the client wrote it."""
        sender = self._sender_of(context)
        try:
            tool_resource, arguments = self.find(sender.caller, params.uri)
        except MemsvcError as error:
            raise resource_error(error, context.protocol_version, params.uri) from None
        outcome = await self._dispatch.call(
            sender.caller,
            tool_resource.tool.name,
            arguments,
            surface=sender.surface,
            request_id=sender.request_id,
        )
        if outcome.error is not None:
            raise resource_error(outcome.error, context.protocol_version, params.uri)
        return ReadResourceResult(
            contents=[_contents(params.uri, tool_resource, arguments, outcome)]
        )


def _contents(
    uri: str, tool_resource: ToolResource, arguments: dict[str, str], outcome: CallOutcome
) -> TextResourceContents | BlobResourceContents:
    resource = tool_resource.resource
    if not resource.text:
        return TextResourceContents(uri=uri, mime_type=resource.mime_type, text=outcome.text)
    text = (
        outcome.member(resource.text)
        if isinstance(resource.text, str)
        else resource.text(outcome.body)
    )
    name = "" if tool_resource.template.rest is None else arguments[tool_resource.template.rest]
    if resource.encoding is not None and outcome.body[resource.encoding] == "base64":
        return BlobResourceContents(
            uri=uri, mime_type=resource.mime_type or type_of(name) or BYTES, blob=text
        )
    return TextResourceContents(
        uri=uri, mime_type=resource.mime_type or type_of(name) or TEXT, text=text
    )


def type_of(name: str) -> str | None:
    """Return the media type of a name's extension, if it is known."""
    return _TYPES.guess_type(name.rpartition("/")[2], strict=True)[0]


def _listed(tool_resource: ToolResource) -> Listed:
    resource = tool_resource.resource
    description = resource.description
    if "project" not in tool_resource.template.variables:
        description = f"{description} {PROJECT_NOTE}"
    return Listed(
        name=resource.name,
        title=resource.title,
        description=description,
        uri_template=resource.template,
        mime_type=resource.mime_type,
    )
