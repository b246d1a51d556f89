"""Tools of the notebook."""

from dataclasses import dataclass

from memsvc.core.ports import Clock, Meter
from memsvc.core.tools import Published
from memsvc.store.database import Database
from memsvc.styles.citing import Citing
from memsvc.styles.embedding import Embedding
from memsvc.styles.notebook.changing import BOOK, Changing
from memsvc.styles.notebook.documents import Documents
from memsvc.styles.notebook.offering import completions, document_resource
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.notebook.reading import Reading
from memsvc.styles.notebook.reading_tools import reading_tools
from memsvc.styles.notebook.writing_tools import writing_tools


@dataclass(frozen=True, slots=True)
class Notebook:
    """Services of the notebooks of all projects: reader, writers, and passages."""

    reading: Reading
    documents: Documents
    changing: Changing
    citing: Citing


def notebook(
    database: Database, clock: Clock, meter: Meter, options: NotebookOptions, *, embedding: Embedding | None = None
) -> Notebook:
    """Return the notebooks' services, for callers that import documents beside the tools."""
    changing = Changing(database, clock, options, embeds=embedding is not None)
    citing = Citing(database, meter, BOOK, embedding=embedding)
    reading = Reading(database, changing, citing)
    return Notebook(reading, Documents(database, changing, reading, options), changing, citing)


def published(
    database: Database, clock: Clock, meter: Meter, options: NotebookOptions, *, embedding: Embedding | None = None
) -> Published:
    """Return the tools of the notebook, its cleanup job, and its documents as passages."""
    parts = notebook(database, clock, meter, options, embedding=embedding)
    return Published(
        tools=[
            *reading_tools(parts.reading, options, document_resource(database)),
            *writing_tools(parts.documents, options),
        ],
        jobs=[parts.changing.job],
        passages=parts.citing,
        completions=completions(database),
    )
