"""Command `memsvc structured-memory`: the notebook, for hosts that start it as a process."""

import os
from typing import Annotated

from typer import Option

from memsvc.standalone import serve_notebook


def structured_memory(
    all_tools: Annotated[
        bool,
        Option(
            "--all-tools",
            help="Offer all notebook tools instead of only read_document, update_document and"
            " get_document_tree.",
        ),
    ] = False,
) -> None:
    """Serve the notebook over standard input and output, compatible with structured-memory.

    DATA_DIR is the folder that contains the documents as Markdown files. ROOT_TEMPLATE is the file
    that contains the text of a new root document."""
    serve_notebook(os.environ, all_tools=all_tools)
