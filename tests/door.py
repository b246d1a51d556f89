"""The service without its wire: every tool of the catalogue behind the real dispatch, with a clock
that tests steer."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from memsvc.core.call_context import NO_TRACER, Tracer
from memsvc.core.errors import Code
from memsvc.core.ports import Embedder, Llm, Reranker
from memsvc.core.scope import Caller, Scope
from memsvc.core.secrets import PolicyOptions
from memsvc.core.tools import Job, Published
from memsvc.gateway.call_accounting import AuditOptions, call_log
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.pipeline_spec import PipeOptions
from memsvc.gateway.rate_limits import StorageQuota
from memsvc.runtime import Models, Services, published
from memsvc.settings import Settings, ToolSettings
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.turns.options import ShadowOptions, TurnOptions
from memsvc.styles.whiteboard.options import WhiteboardOptions
from tests.fakes import FakeClock, RecordingMeter, unlimited

FLUSH_EVERY_S = 0.01
"""How long a row of the call log or a recall trace waits: a purge waits for them."""


class Refused(AssertionError):
    """A call that came back as an error, with its body."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['code']}: {body['message']}")
        self.body = body
        self.code = Code(body["code"])


class Door:
    """Calls tools as one caller."""

    def __init__(
        self,
        dispatch: Dispatch,
        caller: Caller,
        database: Database | None = None,
        jobs: Sequence[Job] = (),
        background: Sequence[Callable[[], AbstractAsyncContextManager[None]]] = (),
    ) -> None:
        self.dispatch = dispatch
        self.caller = caller
        self.database = database
        self.jobs = {job.name: job for job in jobs}
        self._background = background

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The body of a successful call; `Refused` otherwise."""
        outcome = await self.dispatch.call(
            self.caller, tool, arguments, surface="test", request_id="test"
        )
        if outcome.error is not None:
            raise Refused(outcome.body)
        return outcome.body

    async def refuses(self, code: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The body of a call that has to fail with this code, with nothing about it retryable."""
        outcome = await self.dispatch.call(
            self.caller, tool, arguments, surface="test", request_id="test"
        )
        assert outcome.error is not None, f"{tool} succeeded: {outcome.text[:200]}"
        assert (outcome.body["code"], outcome.body["retryable"]) == (code, False), outcome.body
        return outcome.body

    async def work(self) -> list[tuple[str, str]]:
        """Run what waits in the tenant's queue, as the worker would, until nothing waits; the names
        and subjects."""
        assert self.database is not None
        done = []
        while True:
            async with self.database.begin_tenant(Scope(self.caller.tenant, "*")) as tx:
                waiting = await tx.fetch(
                    "DELETE FROM job_refs WHERE tenant = $1 AND NOT started RETURNING project,"
                    " name, subject"
                )
            if not waiting:
                return done
            for row in waiting:
                await self.jobs[row["name"]].run(
                    Scope(self.caller.tenant, row["project"]), row["subject"]
                )
                done.append((row["name"], row["subject"]))

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """With what runs beside the calls: at the end it has done what they left it to do."""
        async with AsyncExitStack() as stack:
            for enter in self._background:
                await stack.enter_async_context(enter())
            yield

    def as_tenant(self, scope: Scope) -> "Door":
        """The same service, called by another tenant."""
        return self.as_caller(Caller(scope.tenant, "test"))

    def as_caller(self, caller: Caller) -> "Door":
        """The same service, called with another key."""
        return Door(
            self.dispatch, caller, self.database, list(self.jobs.values()), self._background
        )


def catalogue(
    database: Database,
    clock: FakeClock,
    tokens: Any,
    meter: RecordingMeter,
    *,
    turns: TurnOptions | None = None,
    files: FilesOptions | None = None,
    notebook: NotebookOptions | None = None,
    knowledge: KnowledgeOptions | None = None,
    memories: MemoriesOptions | None = None,
    limits: LimitsOptions | None = None,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    pipe: PipeOptions | None = None,
    whiteboard: WhiteboardOptions | None = None,
    policy: PolicyOptions | None = None,
) -> Published:
    """All tools of the service, and all its jobs."""
    whole = Settings()
    kept = {
        "files": files,
        "notebook": notebook,
        "knowledge": knowledge,
        "memories": memories,
        "limits": limits,
        "whiteboard": whiteboard,
        "policy": policy,
    }
    switches = whole.settings.mcp.tools.model_copy(update={"mcp_pipe": pipe or PipeOptions()})
    memory = turns or TurnOptions(shadow=ShadowOptions(enabled=True))
    memory = memory.model_copy(
        update={"trace": memory.trace.model_copy(update={"flush_every_s": FLUSH_EVERY_S})}
    )
    mcp = whole.settings.mcp.model_copy(update={"tools": switches, "memory": memory})
    given = {name: options for name, options in kept.items() if options is not None}
    audit = whole.audit.model_copy(update={"flush_every_s": FLUSH_EVERY_S})
    settings = whole.model_copy(update=given | {"settings": ToolSettings(mcp=mcp), "audit": audit})
    embedding = Embedding(database, embedder, clock, meter) if embedder else None
    models = Models(embedding, reranker, llm, turn_llm=llm, memories_llm=llm)
    return published(Services(settings, database, clock, tokens, meter, models))


def open_door(
    database: Database,
    clock: FakeClock,
    tokens: Any,
    meter: RecordingMeter,
    scope: Scope,
    *,
    tracer: Tracer = NO_TRACER,
    **options: Any,
) -> Door:
    """A door for a tenant; `turns`, `files`, `notebook`, `whiteboard` and `pipe` are options other
    than the defaults, `embedder`, `reranker` and `llm` ports."""
    offered = catalogue(database, clock, tokens, meter, **options)
    calls = call_log(database, meter, clock, AuditOptions())
    quota = None
    if (limits := options.get("limits")) is not None:
        quota = StorageQuota(database, clock, limits.stored.quota)
    policy = options.get("policy") or PolicyOptions()
    dispatch = Dispatch(
        Catalogue(offered.tools),
        calls,
        meter,
        clock,
        unlimited(meter),
        tracer=tracer,
        quota=quota,
        policy=policy,
    )
    return Door(dispatch, Caller(scope.tenant, "test"), database, offered.jobs, offered.background)
