"""Command `memsvc structured-memory`: the notebook alone, for hosts that start servers."""

import os
from typing import Annotated

from typer import Option

from memsvc.standalone import serve_notebook


def structured_memory(
    all_tools: Annotated[
        bool, Option("--all-tools", help="Offer all tools of the notebook.")
    ] = False,
) -> None:
    """Serve the notebook over standard input and output, as structured-memory does.

    DATA_DIR names the folder of its documents, which are Markdown files, and ROOT_TEMPLATE the text
    of a new root.
    """
    serve_notebook(os.environ, all_tools=all_tools)
