"""Resources and prompts: results of tools under a URI or a name, each a full call of its tool."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from mimetypes import MimeTypes
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from mcp_types import (
    Annotations,
    BlobResourceContents,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from mcp_types import Prompt as Listed
from mcp_types import Resource as SdkResource
from mcp_types import ResourceTemplate as SdkTemplate

from memsvc.core.cursors import decode_cursor, encode_cursor, invalid_cursor
from memsvc.core.errors import Code, MemsvcError, invalid, not_found
from memsvc.core.frozen import frozen
from memsvc.core.resources import Guide, ListedResource, Prompt, Resource, ResourceListing
from memsvc.core.scope import DEFAULT_PROJECT, Caller, Scope
from memsvc.core.tools import CallOutcome, Tool, ToolCalls
from memsvc.core.validation_messages import safe_text
from memsvc.gateway.dispatch import NAME_CHARS_MAX, Dispatch
from memsvc.gateway.mcp.request import (
    Context,
    RequestSender,
    SenderOf,
    protocol_error,
    resource_error,
    unknown_resource,
)

ARGUMENT_CHARS_MAX: Final = 512

URI_CHARS_MAX: Final = 2048
"""Limit of a URI: an identifier of 128 bytes takes up to 384 characters, percent-encoded."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^?#]*)(?:\?([^#]*))?\Z")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_VARIABLE = re.compile(r"\{(\+?)([a-z_]+)\}\Z")


class PromptHandlers:
    """Published prompts, visible to callers who see the tools in them."""

    def __init__(
        self,
        dispatch: Dispatch,
        sender_of: SenderOf,
        prompts: Sequence[Prompt],
        guides: Sequence[Guide],
    ) -> None:
        self._dispatch = dispatch
        self._sender_of = sender_of
        with_tools = ((prompt, _tool(dispatch, prompt)) for prompt in prompts)
        self.prompts = {
            prompt.name: (prompt, tool)
            for prompt, tool in with_tools
            if tool.name not in dispatch.disabled
        }
        self.guides = {
            guide.name: guide for guide in guides if not dispatch.disabled & {*guide.tools}
        }
        for guide in guides:
            if not {*guide.tools} <= {*dispatch.catalogue.names()}:
                raise ValueError(f"the guide {guide.name} names a tool that does not exist")

    async def list_prompts(
        self, context: Context, _: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """List the prompts whose tools the caller sees."""
        caller = self._sender_of(context).caller
        guides = [
            _listed_guide(guide) for guide in self.guides.values() if self.is_visible(caller, guide)
        ]
        seen = [
            _listed_prompt(prompt, tool)
            for prompt, tool in self.prompts.values()
            if self._dispatch.is_visible(caller, tool)
        ]
        return ListPromptsResult(prompts=[*guides, *seen])

    def arguments(self, caller: Caller, name: str) -> Sequence[str]:
        """Return the arguments of a prompt; NOT_FOUND if the caller cannot see the prompt."""
        guide = self.guides.get(name)
        if guide is not None and self.is_visible(caller, guide):
            return tuple(guide.arguments)
        prompt, tool = self.prompts.get(name, (None, None))
        if prompt is None or tool is None or not self._dispatch.is_visible(caller, tool):
            raise not_found(f"Unknown prompt: {safe_text(name, NAME_CHARS_MAX)}")
        return prompt.arguments

    def is_visible(self, caller: Caller, guide: Guide) -> bool:
        """Return whether the caller sees all tools of a guide."""
        tools = (self._dispatch.catalogue.get(name) for name in guide.tools)
        return all(tool is not None and self._dispatch.is_visible(caller, tool) for tool in tools)

    async def get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Return one user message: a guide, or the tool's result for these arguments."""
        sender = self._sender_of(context)
        arguments = params.arguments or {}
        try:
            self._check(sender.caller, params.name, arguments)
        except MemsvcError as error:
            raise protocol_error(error) from None
        if params.name in self.guides:
            guide = self.guides[params.name]
            return _message(guide.description, guide.message(arguments))
        prompt = self.prompts[params.name][0]
        outcome = await _calls(self._dispatch, sender).call(prompt.tool, arguments)
        if outcome.error is not None:
            raise protocol_error(outcome.error)
        return _message(prompt.description, prompt.text(outcome.body))

    def _check(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> None:
        known = self.arguments(caller, name)
        for argument, value in arguments.items():
            if argument not in known:
                raise invalid(f"unknown argument {safe_text(argument, NAME_CHARS_MAX)}")
            if name in self.guides and len(value) > ARGUMENT_CHARS_MAX:
                raise invalid(f"{argument} is longer than {ARGUMENT_CHARS_MAX} characters")


def _calls(dispatch: Dispatch, sender: RequestSender) -> ToolCalls:
    """Return the tools as the sender of a request may use them."""
    return dispatch.calls(sender.caller, surface=sender.surface, request_id=sender.request_id)


def _message(description: str, text: str) -> GetPromptResult:
    message = PromptMessage(role="user", content=TextContent(text=text))
    return GetPromptResult(description=description, messages=[message])


def _tool(dispatch: Dispatch, prompt: Prompt) -> Tool:
    tool = dispatch.catalogue.get(prompt.tool)
    if tool is None or not {*prompt.arguments} <= {*tool.arguments.model_fields}:
        raise ValueError(
            f"the prompt {prompt.name} names a tool, or an argument of a tool, that does not exist"
        )
    return tool


def _listed_guide(guide: Guide) -> Listed:
    return Listed(
        name=guide.name,
        title=guide.title,
        description=guide.description,
        arguments=[
            PromptArgument(name=name, description=description, required=False)
            for name, description in guide.arguments.items()
        ],
    )


def _listed_prompt(prompt: Prompt, tool: Tool) -> Listed:
    fields = tool.arguments.model_fields
    return Listed(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            PromptArgument(
                name=name, description=fields[name].description, required=fields[name].is_required()
            )
            for name in prompt.arguments
        ],
    )


@frozen
class ResourceAddress:
    """A parsed URI.

    Its segments are decoded, so that `a%2Fb` is one segment; `project` is that of `?project=NAME`.
    """

    scheme: str
    segments: tuple[str, ...]
    project: str | None


@frozen
class UriTemplate:
    """A URI template whose variables are whole segments.

    The last may be a path of all remaining segments, which begins with a slash.
    """

    pattern: re.Pattern[str]
    """Matches a scheme and decoded segments, joined by NUL, which no URI may have."""
    path: str | None
    """Name of the variable that is a path."""

    @classmethod
    def read(cls, text: str) -> "UriTemplate":
        """Parse a template; ValueError for an unsupported one."""
        scheme, separator, rest = text.partition("://")
        parts, path = [re.escape(scheme)], None
        for segment in rest.split("/"):
            variable = _VARIABLE.match(segment)
            if not separator or ("{" in segment and variable is None):
                raise ValueError(
                    f"a variable in the URI template {text} must fill the whole part between two"
                    " slashes"
                )
            if path is not None:
                raise ValueError(
                    f"only the last part of the URI template {text} may be a path variable"
                )
            if variable is None:
                parts.append(re.escape(segment))
            elif variable[1]:
                path = variable[2]
                parts.append(f"(?P<{path}>.*)")
            else:
                parts.append(f"(?P<{variable[2]}>[^\0]+)")
        return cls(re.compile("\0".join(parts), re.DOTALL), path)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables, in order."""
        return tuple(self.pattern.groupindex)

    def match(self, address: ResourceAddress) -> dict[str, str] | None:
        """Return the value of each variable; None when the URI is not of this form.

        No variable but the path is empty.
        """
        found = self.pattern.fullmatch("\0".join((address.scheme, *address.segments)))
        if found is None:
            return None
        values = found.groupdict()
        if self.path is not None:
            values[self.path] = "/" + values[self.path].replace("\0", "/")
        return values


def address(uri: str) -> ResourceAddress | None:
    """Parse a URI; return None for a text that cannot match a template.

    Raises INVALID_ARGUMENT for a URI that is too long, or that is not text once it is decoded."""
    if len(uri) > URI_CHARS_MAX:
        raise invalid(f"the URI is longer than {URI_CHARS_MAX} characters")
    _check_text(uri)
    found = _URI.match(uri)
    if found is None:
        return None
    scheme, path, query = found.groups()
    project = None
    if query is not None:
        name, _, value = query.partition("=")
        if name != "project":
            return None
        project = _decoded(value)
    return ResourceAddress(
        scheme.lower(), tuple(_decoded(segment) for segment in path.split("/")), project
    )


def _decoded(segment: str) -> str:
    if "%" not in segment:
        return segment
    if _BROKEN.search(segment):
        raise invalid("the URI has a % without two hexadecimal digits after it")
    try:
        text = unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("the decoded URI is not UTF-8") from None
    _check_text(text)
    return text


def _check_text(text: str) -> None:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise invalid("the URI must not contain control characters or unpaired surrogates")


PROJECT_NOTE = f"Append `?project=NAME` for a project other than `{DEFAULT_PROJECT}`."
TEXT, BYTES = "text/plain", "application/octet-stream"
_TYPES: Final = MimeTypes()
_TYPES.add_type("text/markdown", ".md")
_TYPES.add_type("application/jsonl", ".jsonl")


@frozen
class ToolResource:
    """A tool that answers under a URI."""

    tool: Tool
    resource: Resource
    template: UriTemplate

    def arguments(self, target: ResourceAddress) -> dict[str, str] | None:
        """Return the tool's arguments in a URI; None when it is not one of this tool's."""
        values = self.template.match(target)
        if values is None:
            return None
        if "project" in values:
            return values if target.project is None else None
        return values | {"project": target.project or DEFAULT_PROJECT}

    def canonical(self, arguments: Any) -> str:
        """Return the URI of validated arguments, by which changes are announced."""
        return self.resource.uri(
            **{name: getattr(arguments, name) for name in self.template.variables}
        )


PAGE: Final = 50
STEPS_MAX: Final = 12
"""Tool calls of one page: after as many it ends, however little it found."""
PROJECTS_TOOL: Final = "file_projects"
CURSOR_CHARS_MAX: Final = 4096


@frozen
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
        resources = [one.resource for one in self.tool_resources]
        self._kinds = [(one, one.listing) for one in resources if one.listing is not None]

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
            return await self._page(
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
        outcome = await _calls(self._dispatch, sender).call(tool_resource.tool.name, arguments)
        if outcome.error is not None:
            raise resource_error(outcome.error, context.protocol_version, params.uri)
        return ReadResourceResult(
            contents=[_contents(params.uri, tool_resource, arguments, outcome)]
        )

    async def _page(self, sender: RequestSender, cursor: str | None) -> ListResourcesResult:
        """Return the next resources that the caller may read; INVALID_ARGUMENT for a bad cursor."""
        if not self._kinds:
            return ListResourcesResult(resources=[])
        position = (
            _Position.of(cursor, len(self._kinds))
            if cursor
            else await self._project_after(sender, "")
        )
        found: list[SdkResource] = []
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
        args = {"after": project, "limit": 1}
        outcome = await _calls(self._dispatch, sender).call(PROJECTS_TOOL, args)
        if outcome.error is None:
            return next((_Position(name) for name in outcome.body["projects"]), None)
        if outcome.error.code is not Code.NOT_FOUND:
            raise outcome.error
        return None if project else _Position(DEFAULT_PROJECT)


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
    path = tool_resource.template.path
    name = "" if path is None else arguments[path]
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


def _listed(tool_resource: ToolResource) -> SdkTemplate:
    resource = tool_resource.resource
    description = resource.description
    if "project" not in tool_resource.template.variables:
        description = f"{description} {PROJECT_NOTE}"
    return SdkTemplate(
        name=resource.name,
        title=resource.title,
        description=description,
        uri_template=resource.template,
        mime_type=resource.mime_type,
    )


def _list_entry(resource: Resource, project: str, readable: ListedResource) -> SdkResource:
    uri = resource.uri(**readable.values)
    if "project" not in readable.values and project != DEFAULT_PROJECT:
        uri = f"{uri}?project={project}"
    updated = (
        None
        if readable.updated_at is None
        else Annotations(last_modified=readable.updated_at.isoformat())
    )
    return SdkResource(
        uri=uri,
        name=resource.name,
        title=readable.title,
        mime_type=resource.mime_type,
        size=readable.size_bytes,
        annotations=updated,
    )
