"""Everything that this style publishes."""

from collections.abc import Mapping, Sequence

from memsvc.core.ports import Clock, Llm, Meter, Reranker
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Published, Views
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.files.file_maintenance import FileMaintenance
from memsvc.styles.files.file_maintenance import jobs as upkeep_jobs
from memsvc.styles.files.file_resources import DIRECTORY, completions, file_resource, guide
from memsvc.styles.files.file_store import FileStore
from memsvc.styles.files.file_summaries import FileSummaries
from memsvc.styles.files.file_writer import FileWriter
from memsvc.styles.files.history import FileHistory
from memsvc.styles.files.indexing import FileIndex
from memsvc.styles.files.memory_directory import MemoryDirectory
from memsvc.styles.files.options import FilesOptions
from memsvc.styles.files.projects import Projects
from memsvc.styles.files.search import FileSearch
from memsvc.styles.files.transfer import Transfer
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
    owner_versions: Mapping[str, int] | None = None,
    budget: ModelBudget | None = None,
) -> Published:
    """Return the file tools, the jobs of index, history and summaries, and files as bytes.

    `views` are the rendered files of other styles. For files that styles own, `owner_versions`
    gives by owner how many past versions stay, however old."""
    file_summaries = None
    if llm is not None and options.summaries.enabled:
        file_summaries = FileSummaries(
            database,
            llm,
            clock,
            meter,
            options.summaries,
            budget or ModelBudget(database, clock, 0),
        )
    index = FileIndex(
        database,
        clock,
        has_embeddings=embedding is not None,
        has_summaries=file_summaries is not None,
    )
    files = FileStore(database, clock, options, views)
    writer = FileWriter(database, clock, options, index, views)
    # content that comes as bytes, or was stored before, is limited by the size of a file, not of a
    # call
    bytes_writer = FileWriter(
        database,
        clock,
        options.model_copy(update={"payload_bytes_max": options.file_bytes_max}),
        index,
        views,
    )
    search = FileSearch(database, meter, options.search, embedding=embedding, reranker=reranker)
    return Published(
        tools=[
            *tools_of(files, {"file_read": file_resource(database), "file_list": DIRECTORY}),
            *tools_of(writer),
            *(tools_of(search) if options.search.enabled else []),
            *tools_of(FileHistory(database, bytes_writer)),
            *tools_of(Projects(database)),
            *tools_of(MemoryDirectory(files, writer)),
        ],
        jobs=[
            *index.jobs,
            *upkeep_jobs(FileMaintenance(database, clock, options, owner_versions)),
            *([file_summaries.job] if file_summaries is not None else []),
        ],
        content=Transfer(database, options, files, bytes_writer),
        passages=search.find_passages if options.search.enabled else None,
        guides=(guide(),),
        completions=completions(database),
    )
