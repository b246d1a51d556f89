"""Tools of the notebook."""

from dataclasses import dataclass

from memsvc.core.ports import Clock, Meter
from memsvc.core.tool_methods import tools_of
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.styles.embedding import Embedding
from memsvc.styles.notebook.documents import NotebookDocuments
from memsvc.styles.notebook.notebook_reader import NotebookReader
from memsvc.styles.notebook.notebook_resources import completions, document_resource
from memsvc.styles.notebook.notebook_writer import INDEX_NAME, NotebookWriter
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.passage_search import CitationSearch


@dataclass(frozen=True, slots=True)
class Notebook:
    """Services of the notebooks of all projects: reader, writers, and passages."""

    reader: NotebookReader
    documents: NotebookDocuments
    writer: NotebookWriter
    passages: CitationSearch


def notebook(
    database: Database,
    clock: Clock,
    meter: Meter,
    options: NotebookOptions,
    *,
    embedding: Embedding | None = None,
) -> Notebook:
    """Return the notebooks' services, for callers that import documents beside the tools."""
    writer = NotebookWriter(database, clock, options, embeds=embedding is not None)
    passages = CitationSearch(database, meter, INDEX_NAME, embedding=embedding)
    reader = NotebookReader(database, writer, passages, options)
    return Notebook(reader, NotebookDocuments(database, writer, reader, options), writer, passages)


def published(
    database: Database,
    clock: Clock,
    meter: Meter,
    options: NotebookOptions,
    *,
    embedding: Embedding | None = None,
) -> Published:
    """Return the tools of the notebook, its cleanup job, and its documents as passages."""
    parts = notebook(database, clock, meter, options, embedding=embedding)
    return Published(
        tools=[
            *tools_of(parts.reader, {"read_document": document_resource(database)}),
            *tools_of(parts.documents),
        ],
        jobs=[parts.writer.job],
        passages=parts.passages,
        completions=completions(database),
    )
