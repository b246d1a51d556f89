"""Elicitation: asks the user of a client before a call deletes anything for good.

In newer protocol versions, the client gets the question instead of a result, and calls again with
the answer. In older ones, the call waits: over HTTP the question is sent in the response, and the
answer is another request, which any replica may get."""

import hashlib
import secrets
from functools import partial
from typing import Any, Final

import anyio
import orjson
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from memsvc.core.errors import Code, MemsvcError, permission_denied
from memsvc.core.frozen import frozen
from memsvc.gateway.call_accounting import Elicit
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.mcp.request import Context, RequestSender, is_valid
from memsvc.gateway.mcp.sessions import McpSessions
from memsvc.gateway.mcp.subscriptions import Subscriptions

CONFIRM: Final = "confirm"
METHOD: Final = "elicitation/create"
_ELSEWHERE: Final = (
    "make the call over REST or the command line, or ask an operator to set"
    " limits.confirm_s_max to 0"
)
_FORM: Final = {
    "type": "object",
    "properties": {CONFIRM: {"type": "boolean", "title": "Do it", "default": False}},
    "required": [CONFIRM],
}


class InputRequiredError(MemsvcError):
    """The client must ask its user, and call again with the answer and this state."""

    def __init__(self, form: ElicitRequestFormParams, state: str) -> None:
        super().__init__(Code.NOT_ACCEPTED, "the user must agree to this call")
        self._form = form
        self._state = state

    def result(self) -> dict[str, Any]:
        """Return the result of the call, in its wire form."""
        params = self._form.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {
            "resultType": "input_required",
            "inputRequests": {CONFIRM: {"method": METHOD, "params": params}},
            "requestState": self._state,
        }


@frozen
class Elicitation:
    """Asks the users of clients, over any transport that allows it.

    Without `sessions` and `subscriptions`, only clients with a lasting connection can be asked."""

    limits: LimitsOptions
    sessions: McpSessions | None
    subscriptions: Subscriptions | None

    def elicit_for(
        self, context: Context, sender: RequestSender, call: CallToolRequestParams
    ) -> Elicit | None:
        """Return the function that asks the user of this call's client, or None."""
        if not self.limits.confirm_s_max:
            return None
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            takes_forms = has_forms(context.session.client_capabilities)
            return partial(self._require, sender, call) if takes_forms and self.sessions else None
        if sender.send_request is None and not (
            context.session.can_send_request and has_forms(context.session.client_capabilities)
        ):
            return None
        return partial(self._wait, context, sender)

    async def _require(self, sender: RequestSender, call: CallToolRequestParams, text: str) -> None:
        """Take the answer that came with the call, or require one."""
        sessions, caller = self.sessions, sender.caller
        if sessions is None:
            raise RuntimeError(
                "this server cannot ask for confirmation: it has no MCP sessions, whose key signs"
                " the state of the prompt"
            )
        arguments = orjson.dumps(call.arguments, option=orjson.OPT_SORT_KEYS)
        about = f"{call.name} {hashlib.sha256(arguments).hexdigest()}"
        answer = (call.input_responses or {}).get(CONFIRM)
        if answer is None:
            raise InputRequiredError(_form(text), await sessions.new_state(caller, about))
        if not await sessions.is_state(caller, about, call.request_state or ""):
            raise MemsvcError(
                Code.NOT_ACCEPTED,
                "the user's answer belongs to another confirmation prompt, or came too late",
                recovery="repeat the call without the answer, so that the user is asked again",
            )
        _check(answer)

    async def _wait(self, context: Context, sender: RequestSender, text: str) -> None:
        """Ask, and wait for the answer, which counts while the key is valid."""
        _check(await self.elicit(context, sender, _form(text)))
        if not await is_valid(sender):
            raise permission_denied(
                "this API key was revoked or changed while the user was asked; nothing was changed"
            )

    async def elicit(
        self, context: Context, sender: RequestSender, form: ElicitRequestFormParams
    ) -> ElicitResult:
        """Return the user's answer to a form. Raises NOT_ACCEPTED if none comes in time."""
        request = ElicitRequest(params=form)
        try:
            if sender.send_request is not None:
                return await self._elicit_over_http(sender, request)
            with anyio.fail_after(self.limits.confirm_s_max):
                return await context.session.send_request(
                    request,
                    ElicitResult,
                    metadata=ServerMessageMetadata(related_request_id=context.request_id),
                )
        except (MCPError, ValidationError, TimeoutError):
            raise MemsvcError(
                Code.NOT_ACCEPTED,
                f"the user did not answer within {self.limits.confirm_s_max:g} s; nothing"
                " was changed",
                recovery="repeat the call when the user can answer; if no user can answer,"
                f" {_ELSEWHERE}",
            ) from None

    async def _elicit_over_http(
        self, sender: RequestSender, request: ElicitRequest
    ) -> ElicitResult:
        """Ask in the response to a call, and wait for the answer at any replica; TimeoutError."""
        sessions, subscriptions, session = self.sessions, self.subscriptions, sender.session
        if sender.send_request is None or not (sessions and subscriptions and session):
            raise TimeoutError
        question = secrets.token_hex(16)
        body = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        send = partial(sender.send_request, {"jsonrpc": "2.0", "id": question, **body})
        with (
            subscriptions.opened(sender.caller.tenant) as watch,
            sender.watch_validity(watch.close),
        ):
            answer = await sessions.ask(
                sender.caller, session, question, watch, self.limits.confirm_s_max, send=send
            )
        if answer is None:
            raise TimeoutError
        return ElicitResult.model_validate(answer)


def has_forms(capabilities: ClientCapabilities | None) -> bool:
    """Return whether a client can show its user forms."""
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _form(text: str) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(
        message=f"This cannot be undone:\n{text}", requested_schema=_FORM
    )


def _check(answer: Any) -> None:
    """Raise NOT_ACCEPTED unless the user has agreed."""
    if (
        isinstance(answer, ElicitResult)
        and answer.action == "accept"
        and (answer.content or {}).get(CONFIRM) is True
    ):
        return
    if isinstance(answer, ElicitResult) and answer.action == "cancel":
        raise MemsvcError(
            Code.NOT_ACCEPTED,
            "the user closed the confirmation prompt without a choice; nothing was changed",
            recovery="tell the user what you want to delete, and repeat the call once they"
            " agree; if the client automatically dismisses confirmation prompts,"
            f" {_ELSEWHERE}",
        )
    raise MemsvcError(
        Code.NOT_ACCEPTED,
        "the user did not agree; nothing was changed",
        recovery="do not repeat the call unless the user asks for it",
    )
