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
from memsvc.core.validation_messages import suggest_name, validation_message
from memsvc.settings import Settings

PREFIX = "MEMSVC_"
SHORT_NAMES = {"MEMSVC_DATABASE_URL": "MEMSVC_DATABASE__URL", "MEMORY_MODEL": "MEMSVC_MODEL__MODEL"}
SHORT_NAMES |= {"MEMORY_DECAY_DAYS": "MEMSVC_MEMORIES__DECAY_DAYS"}
# Read by other programs, or set by Kubernetes in every container beside a service that is named
# memsvc.
NOT_SETTINGS = (
    "MEMSVC_CONFIG",
    "MEMSVC_URL",
    "MEMSVC_API_KEY",
    "MEMSVC_TEST_",
    "MEMSVC_SERVICE_",
    "MEMSVC_PORT_",
)


def load(file: Path, environment: Mapping[str, str], **overrides: Any) -> Settings:
    """Load the settings.

    Raises SettingsError with all problems at once, none of which shows a value.
    """
    errors: list[str] = []
    values: dict[str, Any] = {}
    _merge(values, _read(file))
    for variable, path, text in _variables(environment):
        field = _field(path)
        if field is None or section_of(field) is not None:
            errors.append(f"{variable}: no such setting{_suggest(path)}")
        else:
            _merge(values, _nested(path, _parsed(text, field)))
    _merge(values, overrides)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        invalid = [_error_text(one) for one in error.errors(include_url=False, include_input=False)]
        raise SettingsError(errors + invalid) from None
    if errors:
        raise SettingsError(errors)
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
    for variable in sorted(environment, key=lambda name: (name not in SHORT_NAMES, name)):
        text = environment[variable]
        from_cluster = variable == "MEMSVC_PORT" and text.startswith("tcp://")
        is_setting = (variable in SHORT_NAMES and text) or variable.startswith(PREFIX)
        if is_setting and not variable.startswith(NOT_SETTINGS) and not from_cluster:
            yield (
                variable,
                SHORT_NAMES.get(variable, variable).removeprefix(PREFIX).lower().split("__"),
                text,
            )


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
    nested: dict[str, Any] = value
    return nested


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


def _error_text(error: ErrorDetails) -> str:
    path = [str(step) for step in error["loc"]]
    if error["type"] == "extra_forbidden":
        return f"{'.'.join(path)}: no such setting{_suggest(path)}"
    field = _field([step for step in path if not step.isdigit()])
    message = validation_message(error)
    message = message[:1].lower() + message[1:]
    description = (
        f" ({field.description})"
        if field is not None and field.description and not section_of(field)
        else ""
    )
    return ": ".join(part for part in (".".join(path), f"{message}{description}") if part)


def _suggest(path: list[str]) -> str:
    """Suggest what may stand there instead: the nearest setting names, else the section's names."""
    all_names = [name for name, _ in keys()]
    if match := suggest_name(".".join(path), all_names):
        return f"; {match}"
    section = next(
        (parent for depth in range(len(path) - 1, -1, -1) if _is_section(parent := path[:depth])),
        [],
    )
    prefix = "".join(f"{step}." for step in section)
    names = {
        name.removeprefix(prefix).split(".")[0] for name in all_names if name.startswith(prefix)
    }
    return f"; allowed {f'in {prefix[:-1]}' if section else 'here'}: {', '.join(sorted(names))}"


def _is_section(path: list[str]) -> bool:
    field = _field(path)
    return not path or (field is not None and section_of(field) is not None)
