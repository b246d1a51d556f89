"""Everything that this style publishes."""

from collections.abc import Mapping, Sequence

from memsvc.core.ports import Clock, Llm, Meter, Reranker
from memsvc.core.tools import Published, Views
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.files.files import Files
from memsvc.styles.files.history import History
from memsvc.styles.files.history_tools import history_tools
from memsvc.styles.files.indexing import Indexing
from memsvc.styles.files.memories import Memories
from memsvc.styles.files.memory_tool import memory_tools
from memsvc.styles.files.offering import completions, file_resource, guide
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.projects import Projects, project_tools
from memsvc.styles.files.reading_tools import reading_tools
from memsvc.styles.files.search import Search
from memsvc.styles.files.search_tools import search_tools
from memsvc.styles.files.summarising import Summarising
from memsvc.styles.files.transfer import Transfer
from memsvc.styles.files.upkeep import Upkeep
from memsvc.styles.files.upkeep import jobs as upkeep_jobs
from memsvc.styles.files.writing import Writing
from memsvc.styles.files.writing_tools import writing_tools
from memsvc.styles.model_budget import ModelBudget


def published(  # noqa: PLR0913 - one argument a dependency, most by keyword
    database: Database,
    clock: Clock,
    meter: Meter,
    options: FilesOptions,
    views: Sequence[Views],
    *,
    embedding: Embedding | None = None,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    versions_owned: Mapping[str, int] | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the file tools, the jobs of index, history and summaries, and files as bytes.

    `views` are the rendered files of other styles. For files that styles own, `versions_owned`
    gives by owner how many past versions stay, however old."""
    summarising = None
    if llm is not None and options.summaries.enabled:
        summarising = Summarising(
            database, llm, clock, meter, options.summaries, budget or ModelBudget(database, clock, 0)
        )
    indexing = Indexing(database, clock, embeds=embedding is not None, summarises=summarising is not None)
    files = Files(database, clock, options, views)
    writing = Writing(database, clock, options, indexing, views)
    # content that comes as bytes, or was stored before, is limited by the size of a file, not of a
    # call
    whole = Writing(
        database, clock, options.model_copy(update={"payload_bytes_max": options.file_bytes_max}), indexing, views
    )
    search = Search(database, meter, options.search, embedding=embedding, reranker=reranker)
    return Published(
        tools=[
            *reading_tools(files, file_resource(database)),
            *writing_tools(writing),
            *(search_tools(search) if options.search.enabled else []),
            *history_tools(History(database, whole)),
            *project_tools(Projects(database)),
            *memory_tools(Memories(files, writing)),
        ],
        jobs=[
            *indexing.jobs,
            *upkeep_jobs(Upkeep(database, clock, options, versions_owned)),
            *([summarising.job] if summarising is not None else []),
        ],
        content=Transfer(database, options, files, whole),
        passages=search.cite if options.search.enabled else None,
        guides=(guide(),),
        completions=completions(database),
    )
