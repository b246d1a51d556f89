"""Fixtures that require input from the client.

On the older wire they send requests to it, on the newer they answer what is missing, after which
the client calls again.
"""

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestFormParams,
    RootsCapability,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

from tests.conformance.fixtures import Answer, Fixture, FixtureCall, text
from tests.conformance.schemas import DEFAULTS_FORM, ENUMS_FORM, form, strings

_SECRET: Final = secrets.token_bytes(32)
"""Key that signs the states which clients keep for this process."""

InputRequests = dict[str, dict[str, Any]]
"""Inputs required from a client, by the names of their answers."""

SAMPLING: Final = ClientCapabilities(sampling=SamplingCapability())
ELICITATION: Final = ClientCapabilities(elicitation=ElicitationCapability())
ROOTS: Final = ClientCapabilities(roots=RootsCapability())


def elicitation(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form for the user."""
    return {
        "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema, "mode": "form"},
    }


def sampling(question: str, tokens_max: int) -> dict[str, Any]:
    """Return a question to the client's model."""
    messages = [{"role": "user", "content": {"type": "text", "text": question}}]
    return {
        "method": "sampling/createMessage",
        "params": {"messages": messages, "maxTokens": tokens_max},
    }


def roots() -> dict[str, Any]:
    """Return a request for the client's folders that a server may see."""
    return {"method": "roots/list", "params": {}}


def required(inputs: InputRequests, state: str | None = None) -> Answer:
    """Return the answer that lists missing inputs."""
    answer: Answer = {"resultType": "input_required", "inputRequests": inputs}
    return answer if state is None else answer | {"requestState": _signed(state)}


def client_responses(params: Any) -> Mapping[str, Any]:
    """Return the client's inputs, by name, as plain objects; anything else is left out."""
    responses = params.input_responses or {}
    plain = {
        name: one.model_dump(mode="json", by_alias=True) if hasattr(one, "model_dump") else one
        for name, one in responses.items()
    }
    return {name: one for name, one in plain.items() if isinstance(one, dict)}


def _signed(state: str) -> str:
    return f"{state}.{hmac.new(_SECRET, state.encode(), hashlib.sha256).hexdigest()}"


def state_of(signed: str | None) -> str | MCPError | None:
    """Return the state that a client kept, None without one; the error for one that was changed."""
    if signed is None:
        return None
    state = signed.rpartition(".")[0]
    if not hmac.compare_digest(signed.encode(), _signed(state).encode()):
        return MCPError(INVALID_PARAMS, "requestState is none of ours")
    return state


@dataclass(frozen=True, slots=True)
class _Round:
    """Inputs that a fixture requires before it goes on; `key` is a required field of a form."""

    inputs: InputRequests
    key: str | None = None

    def is_complete(self, given: Mapping[str, Any]) -> bool:
        return all(
            name in given and self._is_valid(one, given[name]) for name, one in self.inputs.items()
        )

    def _is_valid(self, one: dict[str, Any], answer: Mapping[str, Any]) -> bool:
        match one["method"]:
            case "elicitation/create":
                content = answer.get("content")
                has_key = isinstance(content, dict) and (self.key is None or self.key in content)
                return answer.get("action") != "accept" or has_key
            case "sampling/createMessage":
                return "content" in answer
            case _:
                return isinstance(answer.get("roots"), list)


def rounds(
    name: str, *steps: _Round, stateful: bool, done: str
) -> Callable[[FixtureCall], Awaitable[Answer | MCPError]]:
    """Return a fixture that requires several inputs in turn.

    With `stateful` the client keeps the state.
    """

    async def answer(call: FixtureCall) -> Answer | MCPError:
        state = state_of(call.call.request_state)
        if isinstance(state, str) and not state.startswith(f"{name}:"):
            return MCPError(INVALID_PARAMS, "requestState is of another tool")
        if isinstance(state, MCPError):
            return state
        position = int(state.removeprefix(f"{name}:")) if state is not None else 0
        if steps[position].is_complete(client_responses(call.call)):
            position += 1
        if position == len(steps):
            return text(f"{done} {orjson.dumps(client_responses(call.call)).decode()}")
        return required(steps[position].inputs, f"{name}:{position}" if stateful else None)

    return answer


async def _request_supported(call: FixtureCall) -> Answer:
    """Request the inputs that the client can give, and no others."""
    session = call.context.session
    inputs: InputRequests = {}
    if session.check_client_capability(ELICITATION):
        inputs["user_name"] = elicitation("What is your name?", strings("name"))
    if session.check_client_capability(SAMPLING):
        inputs["greeting"] = sampling("Generate a greeting", 50)
    if session.check_client_capability(ROOTS):
        inputs["client_roots"] = roots()
    if not inputs or _Round(inputs).is_complete(client_responses(call.call)):
        return text("Nothing is missing.")
    return required(inputs)


async def _require_sampling(call: FixtureCall) -> Answer | MCPError:
    if call.context.session.check_client_capability(SAMPLING):
        return text("The client can sample.")
    capabilities: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        "this fixture needs a client that can sample",
        capabilities,
    )


async def _request_sampling(call: FixtureCall) -> Answer:
    question = SamplingMessage(
        role="user", content=TextContent(text=str(call.arguments.get("prompt", "")))
    )
    message = await call.context.session.create_message(  # type: ignore[deprecated] # the suite asks for it
        [question], max_tokens=100, related_request_id=call.context.request_id
    )
    return text(
        f"LLM response: {message.content.text if isinstance(message.content, TextContent) else ''}"
    )


def _request_form(
    schema: Mapping[str, Any], message: str | None = None
) -> Callable[[FixtureCall], Awaitable[Answer]]:
    async def answer(call: FixtureCall) -> Answer:
        prompt = message or str(call.arguments.get("message", ""))
        form = ElicitRequestFormParams(message=prompt, requested_schema=dict(schema))
        result = await call.elicit(form)
        content = orjson.dumps(result.content or {}).decode()
        return text(f"Elicitation completed: action={result.action}, content={content}")

    return answer


def fixtures() -> list[Fixture]:
    """Return the fixtures that require input from the client."""
    user = strings("username", "email")
    return [
        Fixture("test_sampling", "Asks the client's model.", _request_sampling, strings("prompt")),
        Fixture(
            "test_elicitation", "Asks the user by a form.", _request_form(user), strings("message")
        ),
        Fixture(
            "test_elicitation_sep1034_defaults",
            "Asks with defaults.",
            _request_form(DEFAULTS_FORM, "Who are you?"),
        ),
        Fixture(
            "test_elicitation_sep1330_enums",
            "Asks for choices.",
            _request_form(ENUMS_FORM, "What do you choose?"),
        ),
        Fixture("test_missing_capability", "Needs a client that can sample.", _require_sampling),
        Fixture(
            "test_input_required_result_capabilities",
            "Wants what the client can give.",
            _request_supported,
        ),
        *_in_rounds(),
    ]


def _in_rounds() -> list[Fixture]:
    name = _Round({"user_name": elicitation("What is your name?", strings("name"))}, "name")
    confirm = _Round(
        {"confirm": elicitation("Please confirm", form(("ok",), ok={"type": "boolean"}))}, "ok"
    )
    question = _Round({"capital_question": sampling("What is the capital of France?", 100)})
    roots_round = _Round({"client_roots": roots()})
    combined = _Round(
        name.inputs | {"greeting": sampling("Generate a greeting", 50)} | roots_round.inputs
    )
    steps = (
        _Round({"step1": elicitation("Step 1: What is your name?", strings("name"))}, "name"),
        _Round(
            {"step2": elicitation("Step 2: What is your favorite color?", strings("color"))},
            "color",
        ),
    )
    made: list[tuple[str, tuple[_Round, ...], bool, str]] = [
        ("elicitation", (name,), False, "Hello!"),
        ("sampling", (question,), False, "The model says:"),
        ("list_roots", (roots_round,), False, "The roots are:"),
        ("request_state", (confirm,), True, "state-ok"),
        ("tampered_state", (confirm,), True, "state-ok"),
        ("multiple_inputs", (combined,), True, "All of it came:"),
        ("multi_round", steps, True, "Both came:"),
    ]
    streaming = rounds("streaming", name, stateful=False, done="Hello!")
    return [
        Fixture("test_streaming_elicitation", "Wants a form.", streaming),
        *(
            Fixture(
                f"test_input_required_result_{kind}",
                "Wants something before it answers.",
                rounds(kind, *each, stateful=stateful, done=done),
            )
            for kind, each, stateful, done in made
        ),
    ]
