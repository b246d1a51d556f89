"""The service without its wire: every tool of the catalogue behind the real dispatch, with a clock that tests steer."""

from typing import Any

from memsvc.core.errors import Code
from memsvc.core.scope import Caller, Scope
from memsvc.core.tools import Tool
from memsvc.gateway.audit import AuditOptions, CallLog
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.store.database import Database
from memsvc.styles.files import tools as file_tools
from memsvc.styles.files.files import Files
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.writing import Writing
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.listing import Listing
from memsvc.styles.turns.maintenance import Maintenance
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.turns import TurnMemory
from memsvc.styles.turns.views import TurnViews
from tests.fakes import FakeClock, RecordingMeter


class Refused(AssertionError):
    """A call that came back as an error, with its body."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['code']}: {body['message']}")
        self.body = body
        self.code = Code(body["code"])


class Door:
    """Calls tools as one caller."""

    def __init__(self, dispatch: Dispatch, caller: Caller) -> None:
        self.dispatch = dispatch
        self.caller = caller

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The body of a successful call; `Refused` otherwise."""
        outcome = await self.dispatch.call(self.caller, tool, arguments, surface="test", request_id="test")
        if outcome.error is not None:
            raise Refused(outcome.body)
        return outcome.body

    async def refuses(self, code: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """The body of a call that has to fail with this code, with nothing about it retryable."""
        outcome = await self.dispatch.call(self.caller, tool, arguments, surface="test", request_id="test")
        assert outcome.error is not None, f"{tool} succeeded: {outcome.text[:200]}"
        assert (outcome.body["code"], outcome.body["retryable"]) == (code, False), outcome.body
        return outcome.body

    def as_tenant(self, scope: Scope) -> "Door":
        """The same service, called by another tenant."""
        return Door(self.dispatch, Caller(scope.tenant, "test"))


def catalogue(
    database: Database,
    clock: FakeClock,
    tokens: Any,
    meter: RecordingMeter,
    turns: TurnOptions | None = None,
    files: FilesOptions | None = None,
) -> list[Tool]:
    """All tools of the service."""
    turns = turns or TurnOptions()
    memory = TurnMemory(database, clock, tokens, meter, turns)
    views = TurnViews(database, clock, turns)
    files = files or FilesOptions()
    store = Files(database, clock, files, [views])
    maintenance = Maintenance(database, clock, turns)
    return [
        *turn_tools.tools(memory, maintenance, Listing(database), clock, turns),
        *file_tools.tools(store, Writing(database, clock, files)),
    ]


def open_door(
    database: Database, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope, **options: Any
) -> Door:
    """A door for a tenant; `turns` and `files` are options other than the defaults."""
    dispatch = Dispatch(
        Catalogue(catalogue(database, clock, tokens, meter, **options)),
        CallLog(database, meter, clock, AuditOptions()),
        meter,
        clock,
    )
    return Door(dispatch, Caller(scope.tenant, "test"))
