"""The decorator of values."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Class]) -> type[Class]:
    """Make a dataclass with slots whose fields cannot be assigned."""
    return dataclass(frozen=True, slots=True)(cls)
