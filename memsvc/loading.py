"""Sources of settings: defaults, then the YAML file, the environment and the command line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import orjson
import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from memsvc.core.errors import SettingsError
from memsvc.core.problems import did_you_mean, plain
from memsvc.settings import Settings

PREFIX = "MEMSVC_"
SHORT_FORMS = {"MEMSVC_DATABASE_URL": "MEMSVC_DATABASE__URL", "MEMORY_MODEL": "MEMSVC_MODEL__MODEL"}
SHORT_FORMS |= {"MEMORY_DECAY_DAYS": "MEMSVC_MEMORIES__DECAY_DAYS"}
# Read by other programs, or set by Kubernetes in every container beside a service that is named
# memsvc.
NOT_SETTINGS = ("MEMSVC_CONFIG", "MEMSVC_URL", "MEMSVC_API_KEY", "MEMSVC_TEST_", "MEMSVC_SERVICE_", "MEMSVC_PORT_")


def load(file: Path, environment: Mapping[str, str], **given: Any) -> Settings:
    """Load the settings.

    Raises SettingsError with all problems at once, none of which shows a value.
    """
    problems: list[str] = []
    values: dict[str, Any] = {}
    _merge(values, _read(file))
    for variable, path, text in _variables(environment):
        field = _field(path)
        if field is None or section_of(field) is not None:
            problems.append(f"{variable}: no such setting{_nearest(path)}")
        else:
            _merge(values, _nested(path, _parsed(text, field)))
    _merge(values, given)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        told = [_told(one) for one in error.errors(include_url=False, include_input=False)]
        raise SettingsError(problems + told) from None
    if problems:
        raise SettingsError(problems)
    return settings


def keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting with its path, without sections, in the order of the file."""
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is None:
            yield prefix + name, field
        else:
            yield from keys(inner, f"{prefix}{name}.")


def _read(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise SettingsError([f"{file}: cannot be read: {error.strerror}"]) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise SettingsError([f"{file}: {where}this is not YAML"]) from error
    if not isinstance(values, dict | None):
        raise SettingsError([f"{file}: must hold keys and values"])
    return values or {}


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, list[str], str]]:
    """Yield every variable that sets a setting, short forms first so that the long ones win."""
    for variable in sorted(environment, key=lambda name: (name not in SHORT_FORMS, name)):
        text = environment[variable]
        from_kubernetes = variable == "MEMSVC_PORT" and text.startswith("tcp://")
        ours = (variable in SHORT_FORMS and text) or variable.startswith(PREFIX)
        if ours and not variable.startswith(NOT_SETTINGS) and not from_kubernetes:
            yield variable, SHORT_FORMS.get(variable, variable).removeprefix(PREFIX).lower().split("__"), text


def _field(path: list[str]) -> FieldInfo | None:
    model: type[BaseModel] | None = Settings
    field = None
    for name in path:
        field = model.model_fields.get(name) if model else None
        if field is None:
            return None
        model = section_of(field)
    return field


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a section; None for a setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _parsed(text: str, field: FieldInfo) -> Any:
    """Parse a list from JSON or comma-separated words; leave everything else for pydantic."""
    if get_origin(field.annotation) is not tuple:
        return text
    if text.lstrip().startswith("["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return [word.strip() for word in text.split(",") if word.strip()]


def _nested(path: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    whole: dict[str, Any] = value
    return whole


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Merge later values over earlier ones by key; an empty key of the file is missing."""
    for name, value in values.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        elif isinstance(value, Mapping):
            into[name] = {}
            _merge(into[name], value)
        elif value is not None:
            into[name] = value


def _told(error: ErrorDetails) -> str:
    path = [str(step) for step in error["loc"]]
    if error["type"] == "extra_forbidden":
        return f"{'.'.join(path)}: no such setting{_nearest(path)}"
    field = _field([step for step in path if not step.isdigit()])
    message = plain(error)
    message = message[:1].lower() + message[1:]
    meaning = f" ({field.description})" if field is not None and field.description and not section_of(field) else ""
    return ": ".join(part for part in (".".join(path), f"{message}{meaning}") if part)


def _nearest(path: list[str]) -> str:
    """Suggest what may stand there instead: the nearest setting names, else the section's names."""
    every = [name for name, _ in keys()]
    if near := did_you_mean(".".join(path), every):
        return f"; {near}"
    section = next((parent for depth in range(len(path) - 1, -1, -1) if _is_section(parent := path[:depth])), [])
    prefix = "".join(f"{step}." for step in section)
    names = {name.removeprefix(prefix).split(".")[0] for name in every if name.startswith(prefix)}
    return f"; allowed {f'in {prefix[:-1]}' if section else 'here'}: {', '.join(sorted(names))}"


def _is_section(path: list[str]) -> bool:
    field = _field(path)
    return not path or (field is not None and section_of(field) is not None)
