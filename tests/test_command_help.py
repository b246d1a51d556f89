"""What the help pages of all commands have, and that their examples are right."""

import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from memsvc.cli.elfmem import NAMES
from memsvc.cli.elfmem import program as elfmem_program
from memsvc.cli.main import COMMANDS, EXAMPLES, commands, loaded

PRINTS_NO_DATA = {
    "serve", "worker", "stdio", "structured-memory", "hook", "install", "elfmem serve",
    "db distribute", "embeddings use", "embeddings off", "reranker use", "reranker off",
    "service install", "service status", "service remove",
}  # fmt: skip
"""Servers, what hosts start, and commands that only say what they did."""


def paths() -> list[str]:
    """Every command that can be typed, by its path."""
    found = []
    for name in COMMANDS:
        below = getattr(loaded(name), "commands", None)
        found += [f"{name} {one}" for one in below] if below else [name]
    return found


def command_at(path: str) -> Any:
    name, _, below = path.partition(" ")
    if name == "elfmem":
        return elfmem_program().commands[below]
    return loaded(name).commands[below] if below else loaded(name)


PATHS = paths()
GROUPS = sorted({path.split(" ")[0] for path in PATHS if " " in path})


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("path", [*PATHS, *GROUPS])
def test_help_page_shows_an_example(path: str, flag: str) -> None:
    helped = CliRunner().invoke(commands, [*path.split(), flag])
    assert helped.exit_code == 0
    assert "Usage" in helped.output
    assert f"memsvc {path}" in helped.output.partition("Example")[2]


@pytest.mark.parametrize("name", NAMES)
def test_help_page_of_elfmem_shows_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    elfmem_program().main([name, "-h"], prog_name="elfmem", standalone_mode=False)
    assert f"elfmem {name}" in capsys.readouterr().out.partition("Example")[2]


def test_every_example_is_of_a_command_that_there_is() -> None:
    assert EXAMPLES.keys() - {"elfmem serve"} == set(PATHS)


@pytest.mark.parametrize("path", EXAMPLES)
def test_example_is_taken_by_its_command(path: str) -> None:
    command_at(path).make_context(path, shlex.split(EXAMPLES[path]))


@pytest.mark.parametrize("path", EXAMPLES)
def test_command_that_prints_data_takes_json(path: str) -> None:
    flags = {flag for parameter in command_at(path).params for flag in parameter.opts}
    assert ("--json" in flags) == (path not in PRINTS_NO_DATA)


@pytest.mark.parametrize("group", GROUPS)
def test_group_does_not_offer_to_install_completion(group: str) -> None:
    assert "completion" not in CliRunner().invoke(commands, [group, "-h"]).output
