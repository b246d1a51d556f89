"""The service without its wire: every tool of the catalogue behind the real dispatch, with a clock that tests steer."""

from collections.abc import Sequence
from typing import Any

from memsvc.core.errors import Code
from memsvc.core.ports import Embedder, Llm, Reranker
from memsvc.core.scope import Caller, Scope
from memsvc.core.tools import Job, Published
from memsvc.gateway.audit import AuditOptions, CallLog
from memsvc.gateway.dispatch import Catalogue, Dispatch
from memsvc.gateway.find_tool import find_tool
from memsvc.gateway.limits import LimitsOptions
from memsvc.gateway.pipe import pipe_tool
from memsvc.gateway.pipe_run import PipeOptions
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.files import tools as file_tools
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.knowledge import tools as knowledge_tools
from memsvc.styles.knowledge.options import KnowledgeOptions
from memsvc.styles.memories import tools as memories_tools
from memsvc.styles.memories.options import MemoriesOptions
from memsvc.styles.notebook import tools as notebook_tools
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.turns import tools as turn_tools
from memsvc.styles.turns.options import ShadowOptions, TurnOptions
from memsvc.styles.turns.views import TurnViews
from memsvc.styles.whiteboard import tools as whiteboard_tools
from memsvc.styles.whiteboard.boards import OWNER as WHITEBOARD
from memsvc.styles.whiteboard.options import WhiteboardOptions
from tests.fakes import FakeClock, RecordingMeter


class Refused(AssertionError):
    """A call that came back as an error, with its body."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['code']}: {body['message']}")
        self.body = body
        self.code = Code(body["code"])


class Door:
    """Calls tools as one caller."""

    def __init__(
        self, dispatch: Dispatch, caller: Caller, database: Database | None = None, jobs: Sequence[Job] = ()
    ) -> None:
        self.dispatch = dispatch
        self.caller = caller
        self.database = database
        self.jobs = {job.name: job for job in jobs}

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

    async def work(self) -> list[tuple[str, str]]:
        """Run what waits in the tenant's queue, as the worker would, until nothing waits; the names and subjects."""
        assert self.database is not None
        done = []
        while True:
            async with self.database.begin_tenant(Scope(self.caller.tenant, "*")) as tx:
                waiting = await tx.fetch(
                    "DELETE FROM job_refs WHERE tenant = $1 AND NOT started RETURNING project, name, subject"
                )
            if not waiting:
                return done
            for row in waiting:
                await self.jobs[row["name"]].run(Scope(self.caller.tenant, row["project"]), row["subject"])
                done.append((row["name"], row["subject"]))

    def as_tenant(self, scope: Scope) -> "Door":
        """The same service, called by another tenant."""
        return self.as_caller(Caller(scope.tenant, "test"))

    def as_caller(self, caller: Caller) -> "Door":
        """The same service, called with another key."""
        return Door(self.dispatch, caller, self.database, list(self.jobs.values()))


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
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    pipe: PipeOptions | None = None,
    whiteboard: WhiteboardOptions | None = None,
) -> Published:
    """All tools of the service, and all its jobs."""
    turns = turns or TurnOptions(shadow=ShadowOptions(enabled=True))
    views = TurnViews(database, clock, turns)
    embedding = Embedding(database, embedder, clock, meter) if embedder else None
    board_options = whiteboard or WhiteboardOptions()
    store = file_tools.published(
        database,
        clock,
        meter,
        files or FilesOptions(),
        [views],
        embedding=embedding,
        reranker=reranker,
        versions_owned={WHITEBOARD: board_options.history_kept},
    )
    boards = whiteboard_tools.published(database, clock, tokens, meter, board_options, llm=llm, embedding=embedding)
    notes = notebook_tools.published(database, clock, meter, notebook or NotebookOptions(), embedding=embedding)
    quoted = {"files": store, "whiteboard": boards, "notebook": notes}
    passages = {source: style.passages for source, style in quoted.items() if style.passages is not None}
    memory = turn_tools.published(
        database, clock, tokens, meter, turns, embedding=embedding, llm=llm, passages=passages
    )
    knows = knowledge_tools.published(
        database, clock, tokens, meter, knowledge or KnowledgeOptions(), embedding=embedding, llm=llm
    )
    found = memories_tools.published(
        database, clock, meter, memories or MemoriesOptions(), embedding=embedding, llm=llm
    )
    own = [pipe_tool(pipe or PipeOptions(), LimitsOptions(), clock), find_tool(embedding)]
    return Published(
        tools=[*memory.tools, *store.tools, *boards.tools, *notes.tools, *knows.tools, *found.tools, *own],
        jobs=[*memory.jobs, *store.jobs, *notes.jobs, *knows.jobs, *(embedding.jobs if embedding else ())],
    )


def open_door(
    database: Database, clock: FakeClock, tokens: Any, meter: RecordingMeter, scope: Scope, **options: Any
) -> Door:
    """A door for a tenant; `turns`, `files`, `notebook`, `whiteboard` and `pipe` are options other than the defaults,
    `embedder`, `reranker` and `llm` ports."""
    published = catalogue(database, clock, tokens, meter, **options)
    call_log = CallLog(database, meter, clock, AuditOptions())
    dispatch = Dispatch(Catalogue(published.tools), call_log, meter, clock)
    return Door(dispatch, Caller(scope.tenant, "test"), database, published.jobs)
