"""Resources and prompts of the suite, and completion of their arguments."""

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson
from mcp.shared.exceptions import MCPError
from mcp_types import Prompt, PromptArgument, Resource, ResourceTemplate

from memsvc.core import resources
from memsvc.core.scope import Scope
from tests.conformance.client_inputs import client_responses, elicitation, required
from tests.conformance.fixtures import (
    IMAGE,
    Answer,
    Fixture,
    FixtureCall,
    embedded,
    image,
)
from tests.conformance.schemas import strings

READ_TOOL: Final = "test_read_resource"
PROMPT_TOOL: Final = "test_get_prompt"
SCHEME: Final = "test://"
_TEMPLATE_URI = re.compile(r"test://template/([^/]+)/data")

RESOURCES: Final = [
    Resource(uri="test://static-text", name="static-text", title="A text", mime_type="text/plain"),
    Resource(
        uri="test://static-binary", name="static-binary", title="An image", mime_type="image/png"
    ),
    Resource(
        uri="test://watched-resource",
        name="watched-resource",
        title="A text",
        mime_type="text/plain",
    ),
]


async def _stamps(_: Scope, requests: Sequence[Any]) -> Sequence[object]:
    return [None for _ in requests]


WATCHED: Final = resources.Resource(
    template="test://{name}",
    name="watched",
    title="A text",
    description="One that never changes.",
    stamps=_stamps,
)
TEMPLATES: Final = [
    ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        title="A template",
        mime_type="application/json",
    )
]
PROMPTS: Final = [
    Prompt(name="test_simple_prompt", description="One message."),
    Prompt(
        name="test_prompt_with_arguments",
        description="One message with both arguments.",
        arguments=[
            PromptArgument(name="arg1", description="first", required=True),
            PromptArgument(name="arg2", description="second", required=True),
        ],
    ),
    Prompt(
        name="test_prompt_with_embedded_resource",
        description="A resource and a message.",
        arguments=[PromptArgument(name="resourceUri", description="its URI", required=True)],
    ),
    Prompt(name="test_prompt_with_image", description="An image and a message."),
    Prompt(
        name="test_input_required_result_prompt", description="Wants something before it answers."
    ),
]
PROMPT_NAMES: Final = frozenset(prompt.name for prompt in PROMPTS)


def read(uri: str) -> dict[str, Any] | None:
    """Return the content at a URI of the suite."""
    if uri == "test://static-text":
        return {
            "uri": uri,
            "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }
    if uri == "test://static-binary":
        return {"uri": uri, "mimeType": "image/png", "blob": IMAGE}
    if uri == "test://watched-resource":
        return {"uri": uri, "mimeType": "text/plain", "text": "Watched resource content"}
    found = _TEMPLATE_URI.fullmatch(uri)
    if found is None:
        return None
    data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
    return {"uri": uri, "mimeType": "application/json", "text": orjson.dumps(data).decode()}


def _message(content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _text_message(line: str) -> dict[str, Any]:
    return _message({"type": "text", "text": line})


def _messages(name: str, arguments: dict[str, str]) -> list[dict[str, Any]]:
    match name:
        case "test_prompt_with_arguments":
            first, second = arguments.get("arg1", ""), arguments.get("arg2", "")
            return [_text_message(f"Prompt with arguments: arg1='{first}', arg2='{second}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(
                arguments.get("resourceUri", ""),
                "text/plain",
                "Embedded resource content for testing.",
            )
            return [
                _message(resource),
                _text_message("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            return [_message(image()), _text_message("Please analyze the image above.")]
        case _:
            return [_text_message("This is a simple prompt for testing.")]


async def _read(call: FixtureCall) -> Answer | MCPError:
    contents = read(str(call.arguments.get("uri", "")))
    return {"contents": [] if contents is None else [contents], "resultType": "complete"}


async def _prompt(call: FixtureCall) -> Answer:
    name = str(call.arguments.get("name", ""))
    if name == "test_input_required_result_prompt" and "user_context" not in client_responses(
        call.call
    ):
        return required(
            {"user_context": elicitation("What context should the prompt use?", strings("context"))}
        )
    arguments = call.arguments.get("arguments")
    return {
        "messages": _messages(name, arguments if isinstance(arguments, dict) else {}),
        "resultType": "complete",
    }


def fixtures() -> list[Fixture]:
    """Return the tools that answer for resources and prompts."""
    return [
        Fixture(READ_TOOL, "Reads a resource of the suite.", _read, strings("uri")),
        Fixture(PROMPT_TOOL, "Gets a prompt of the suite.", _prompt, strings("name")),
    ]
