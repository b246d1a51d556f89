"""Descriptions of every setting, as the shipped YAML file and a page of the documentation.

Both are made from the models.
"""

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from memsvc.settings import PREFIX, SHORT_NAMES, Settings, keys, section_of

_YAML_HEAD: Final = """\
# Every setting of memsvc at its default. Keep what you change and delete the rest; an empty value means the default.
# Made by `memsvc docs` from the settings themselves; docs/configuration.md says more.
"""
_SHORT: Final = ", ".join(
    f"`{short}` is short for `{whole}`" for short, whole in SHORT_NAMES.items()
)
_PAGE_HEAD: Final = f"""\
# Configuration

<!-- Made by `memsvc docs` from the settings themselves. -->

For operators: every setting with its default and what it may be. memsvc needs none of them. A setting is taken from
the first of these that has it:

1. the command line: `--host`, `--port`, `--data-dir`;
2. the environment: `{PREFIX}` and the setting's path in capitals, joined by two underscores: `{PREFIX}AUTH__MODE` for
   `auth.mode`. A list is JSON, or words between commas.
   {_SHORT};
3. the YAML file: `--config FILE` or `{PREFIX}CONFIG`, else the shipped `config/memsvc.yaml`, which holds the defaults;
4. the default.

An unknown name or a value that is not allowed stops the start with exit code 2 and a line for each problem. No message
and no log line shows a value.
"""
_OPERATORS: Final = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_KINDS: Final[dict[Any, str]] = {int: "integer", float: "number", Path: "path"}


def yaml_file() -> str:
    """Return the text of config/memsvc.yaml: every key with its default, and a comment."""
    return "\n".join((_YAML_HEAD, *_yaml_lines(Settings, ""))) + "\n"


def _yaml_lines(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        section = section_of(field)
        yield f"{indent}# {field.description or ''}".rstrip()
        if section is None:
            yield f"{indent}{name}: {_yaml_value(field.default)}"
        else:
            yield f"{indent}{name}:"
            yield from _yaml_lines(section, f"{indent}  ")


def _yaml_value(default: Any) -> str:
    if isinstance(default, Path):
        return f"./{default}"
    plain = list(default) if isinstance(default, tuple) else default
    return (
        yaml.safe_dump(plain, default_flow_style=True, width=1000)
        .removesuffix("\n")
        .removesuffix("\n...")
    )


def page() -> str:
    """Return the text of docs/configuration.md."""
    lines = [_PAGE_HEAD]
    section = None
    for path, field in keys():
        parent, _, _ = path.rpartition(".")
        if parent != section:
            section = parent
            lines += ["", f"## {f'`{parent}`' if parent else 'The server'}", ""]
        kind = allowed(field)
        lines.append(
            f"- `{path}` (`{_yaml_value(field.default)}`{kind and ': '}{kind}):"
            f" {field.description or ''}"
        )
    return "\n".join(lines) + "\n"


def allowed(field: FieldInfo) -> str:
    """Return what a setting may be: choices, or type and bounds unless the default shows them."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return "list"
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    limits = (
        f"{sign} {getattr(bound, name)}"
        for name, sign in _OPERATORS.items()
        for bound in field.metadata
        if getattr(bound, name, None) is not None
    )
    return " ".join((_KINDS.get(kind, ""), ", ".join(limits))).strip()
