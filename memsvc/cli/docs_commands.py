"""Command `memsvc docs`: the pages that are made from the code."""

from pathlib import Path
from typing import Annotated

import typer

from memsvc import configuration, reference
from memsvc.tool_registry import all_published


def docs(
    checkout: Annotated[Path, typer.Argument(help="The checkout to write to.")] = Path(),
) -> None:
    """Write config/memsvc.yaml and the pages on settings, tools, errors and metrics."""
    for path, text in (
        ("config/memsvc.yaml", configuration.yaml_file()),
        ("docs/configuration.md", configuration.page()),
        ("docs/tools.md", reference.tools_page(all_published())),
        ("docs/errors.md", reference.errors_page()),
        ("docs/metrics.md", reference.metrics_page()),
    ):
        (checkout / path).parent.mkdir(exist_ok=True)
        (checkout / path).write_text(text, "utf-8")
