"""The decorator of values."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[Class]) -> type[Class]:
    """Make a dataclass with slots whose fields cannot be assigned.

    What compares, hashes and shows it is no code of its own, which the standard library would
    compile for each class: that took a tenth of a start."""
    return _made(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen_by_keyword(cls: type[Class]) -> type[Class]:
    """Make a class as `frozen` does, whose fields are given by keyword alone."""
    return _made(cls, kw_only=True)


def _made(cls: type[Class], *, kw_only: bool = False) -> type[Class]:
    documentation = cls.__doc__
    cls.__doc__ = documentation or cls.__name__  # else it is made of the signature
    made: Any = dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=kw_only)(cls)
    made.__doc__ = documentation
    compared = _getter([one.name for one in fields(made) if one.compare])
    shown = [one.name for one in fields(made) if one.repr]

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(compared(self))

    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({values})"

    for method in (__eq__, __hash__, __repr__):
        if method.__name__ not in vars(cls):
            setattr(made, method.__name__, method)
    typed: type[Class] = made
    return typed


def _getter(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that returns these attributes of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)
