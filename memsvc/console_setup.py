"""The console, connected to the services it needs."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext

from starlette.types import ASGIApp, Scope

from memsvc.console.dependencies import ConsoleDependencies, SignedIn
from memsvc.console.options import ConsoleOptions
from memsvc.console.routes import console_app
from memsvc.core.ports import Clock
from memsvc.core.scope import Caller
from memsvc.gateway.auth import Authenticator
from memsvc.gateway.credentials import Credentials
from memsvc.gateway.dispatch import Dispatch
from memsvc.gateway.rest import Check, run_check
from memsvc.gateway.schemas import input_schema
from memsvc.store import closed_sessions, keys, server_secrets
from memsvc.store.database import Database

SURFACE = "console"
SECRET = "console"  # noqa: S105 - the name of the secret that seals cookies


def console(
    options: ConsoleOptions,
    *,
    dispatch: Dispatch,
    authenticator: Authenticator,
    database: Database,
    checks: Mapping[str, Check],
    clock: Clock,
    version: str,
) -> ASGIApp | None:
    """Return the app at /console, or None when it is switched off."""
    if not options.enabled:
        return None

    async def sign_in(scope: Scope, text: str) -> SignedIn:
        caller = await authenticator.authenticate(scope, Credentials(text, as_bearer=False))
        return SignedIn(caller, keys.hash_key(text))

    def body_slot(caller: Caller) -> AbstractAsyncContextManager[None]:
        return nullcontext() if dispatch.admission is None else dispatch.admission.body(caller)

    async def health() -> dict[str, bool]:
        return {name: await run_check(check) for name, check in checks.items()}

    return console_app(
        ConsoleDependencies(
            sign_in=sign_in,
            resolve_caller=authenticator.caller_of_hash,
            body_slot=body_slot,
            calls=lambda caller, request_id: dispatch.calls(
                caller, surface=SURFACE, request_id=request_id
            ),
            schema=input_schema,
            health=health,
            secret=lambda: server_secrets.get_or_create(database, SECRET, clock.now()),
            close_session=lambda session, until: closed_sessions.close(
                database, session, until, clock.now()
            ),
            is_closed=lambda session: closed_sessions.is_closed(database, session),
            clock=clock,
            version=version,
        ),
        options,
    )
