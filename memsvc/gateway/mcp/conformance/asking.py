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
    RootsCapability,
    SamplingCapability,
    SamplingMessage,
    TextContent,
)

from memsvc.gateway.mcp.conformance.fixtures import Answer, Asked, Fixture, text
from memsvc.gateway.mcp.conformance.schemas import DEFAULTS_FORM, ENUMS_FORM, form, strings

_SECRET: Final = secrets.token_bytes(32)
"""Key that signs the states which clients keep for this process."""

Wanted = dict[str, dict[str, Any]]
"""Inputs required from a client, by the names of their answers."""

SAMPLING: Final = ClientCapabilities(sampling=SamplingCapability())
ELICITATION: Final = ClientCapabilities(elicitation=ElicitationCapability())
ROOTS: Final = ClientCapabilities(roots=RootsCapability())


def elicitation(message: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form for the user."""
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema, "mode": "form"}}


def sampling(question: str, tokens_max: int) -> dict[str, Any]:
    """Return a question to the client's model."""
    asked = [{"role": "user", "content": {"type": "text", "text": question}}]
    return {"method": "sampling/createMessage", "params": {"messages": asked, "maxTokens": tokens_max}}


def roots() -> dict[str, Any]:
    """Return a request for the client's folders that a server may see."""
    return {"method": "roots/list", "params": {}}


def required(wanted: Wanted, state: str | None = None) -> Answer:
    """Return the answer that lists missing inputs."""
    told: Answer = {"resultType": "input_required", "inputRequests": wanted}
    return told if state is None else told | {"requestState": _signed(state)}


def answers(asked: Any) -> Mapping[str, Any]:
    """Return the client's inputs, by name, as plain objects; anything else is left out."""
    given = asked.input_responses or {}
    plain = {
        name: one.model_dump(mode="json", by_alias=True) if hasattr(one, "model_dump") else one
        for name, one in given.items()
    }
    return {name: one for name, one in plain.items() if isinstance(one, dict)}


def _signed(state: str) -> str:
    return f"{state}.{hmac.new(_SECRET, state.encode(), hashlib.sha256).hexdigest()}"


def state_of(given: str | None) -> str | MCPError | None:
    """Return the state that a client kept, None without one; the error for one that was changed."""
    if given is None:
        return None
    state = given.rpartition(".")[0]
    if not hmac.compare_digest(given.encode(), _signed(state).encode()):
        return MCPError(INVALID_PARAMS, "requestState is none of ours")
    return state


@dataclass(frozen=True, slots=True)
class _Round:
    """Inputs that a fixture requires before it goes on; `key` is a required field of a form."""

    wanted: Wanted
    key: str | None = None

    def is_answered(self, given: Mapping[str, Any]) -> bool:
        return all(name in given and self._fits(one, given[name]) for name, one in self.wanted.items())

    def _fits(self, one: dict[str, Any], answer: Mapping[str, Any]) -> bool:
        match one["method"]:
            case "elicitation/create":
                content = answer.get("content")
                held = isinstance(content, dict) and (self.key is None or self.key in content)
                return answer.get("action") != "accept" or held
            case "sampling/createMessage":
                return "content" in answer
            case _:
                return isinstance(answer.get("roots"), list)


def rounds(name: str, *each: _Round, stateful: bool, done: str) -> Callable[[Asked], Awaitable[Answer | MCPError]]:
    """Return a fixture that requires several inputs in turn.

    With `stateful` the client keeps the state.
    """

    async def answer(asked: Asked) -> Answer | MCPError:
        state = state_of(asked.call.request_state)
        if isinstance(state, str) and not state.startswith(f"{name}:"):
            return MCPError(INVALID_PARAMS, "requestState is of another tool")
        if isinstance(state, MCPError):
            return state
        at = int(state.removeprefix(f"{name}:")) if state is not None else 0
        if each[at].is_answered(answers(asked.call)):
            at += 1
        if at == len(each):
            return text(f"{done} {orjson.dumps(answers(asked.call)).decode()}")
        return required(each[at].wanted, f"{name}:{at}" if stateful else None)

    return answer


async def _capable(asked: Asked) -> Answer:
    """Request the inputs that the client can give, and no others."""
    session = asked.context.session
    wanted: Wanted = {}
    if session.check_client_capability(ELICITATION):
        wanted["user_name"] = elicitation("What is your name?", strings("name"))
    if session.check_client_capability(SAMPLING):
        wanted["greeting"] = sampling("Generate a greeting", 50)
    if session.check_client_capability(ROOTS):
        wanted["client_roots"] = roots()
    if not wanted or _Round(wanted).is_answered(answers(asked.call)):
        return text("Nothing is missing.")
    return required(wanted)


async def _needing(asked: Asked) -> Answer | MCPError:
    if asked.context.session.check_client_capability(SAMPLING):
        return text("The client can sample.")
    needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this fixture needs a client that can sample", needed)


async def _sampled(asked: Asked) -> Answer:
    question = SamplingMessage(role="user", content=TextContent(text=str(asked.arguments.get("prompt", ""))))
    said = await asked.context.session.create_message(  # type: ignore[deprecated] # the suite asks for it
        [question], max_tokens=100, related_request_id=asked.context.request_id
    )
    return text(f"LLM response: {said.content.text if isinstance(said.content, TextContent) else ''}")


def _elicited(schema: Mapping[str, Any], message: str | None = None) -> Callable[[Asked], Awaitable[Answer]]:
    async def answer(asked: Asked) -> Answer:
        shown = message or str(asked.arguments.get("message", ""))
        came = await asked.context.session.elicit_form(shown, dict(schema), asked.context.request_id)
        content = orjson.dumps(came.content or {}).decode()
        return text(f"Elicitation completed: action={came.action}, content={content}")

    return answer


def fixtures() -> list[Fixture]:
    """Return the fixtures that require input from the client."""
    user = strings("username", "email")
    return [
        Fixture("test_sampling", "Asks the client's model.", _sampled, strings("prompt")),
        Fixture("test_elicitation", "Asks the user by a form.", _elicited(user), strings("message")),
        Fixture("test_elicitation_sep1034_defaults", "Asks with defaults.", _elicited(DEFAULTS_FORM, "Who are you?")),
        Fixture("test_elicitation_sep1330_enums", "Asks for choices.", _elicited(ENUMS_FORM, "What do you choose?")),
        Fixture("test_missing_capability", "Needs a client that can sample.", _needing),
        Fixture("test_input_required_result_capabilities", "Wants what the client can give.", _capable),
        *_in_rounds(),
    ]


def _in_rounds() -> list[Fixture]:
    name = _Round({"user_name": elicitation("What is your name?", strings("name"))}, "name")
    confirm = _Round({"confirm": elicitation("Please confirm", form(("ok",), ok={"type": "boolean"}))}, "ok")
    capital = _Round({"capital_question": sampling("What is the capital of France?", 100)})
    folders = _Round({"client_roots": roots()})
    several = _Round(name.wanted | {"greeting": sampling("Generate a greeting", 50)} | folders.wanted)
    steps = (
        _Round({"step1": elicitation("Step 1: What is your name?", strings("name"))}, "name"),
        _Round({"step2": elicitation("Step 2: What is your favorite color?", strings("color"))}, "color"),
    )
    made: list[tuple[str, tuple[_Round, ...], bool, str]] = [
        ("elicitation", (name,), False, "Hello!"),
        ("sampling", (capital,), False, "The model says:"),
        ("list_roots", (folders,), False, "The roots are:"),
        ("request_state", (confirm,), True, "state-ok"),
        ("tampered_state", (confirm,), True, "state-ok"),
        ("multiple_inputs", (several,), True, "All of it came:"),
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
