"""Tools made from methods: the signature is the arguments, the docstring is the description."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import (
    Annotated,
    Any,
    Final,
    TypedDict,
    TypeVar,
    Unpack,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, Field, create_model, with_config

from memsvc.core.frozen import frozen
from memsvc.core.resources import Resource
from memsvc.core.scope import Caller, Permission, Scope
from memsvc.core.tools import (
    Accepted,
    AllProjectsArguments,
    Arguments,
    ProgressCallback,
    Tool,
    ToolCalls,
    ToolContext,
    Toolset,
)

_TOOL: Final = "__tool__"
_annotated: Any = Annotated
_INPUTS: Final[Mapping[Any, str]] = {
    Scope: "scope",
    Caller: "caller",
    ToolCalls: "calls",
    ProgressCallback: "progress",
    Accepted: "accepted",
}
"""Names in the context of a call, by the types of the parameters that get them."""

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])
Class = TypeVar("Class")


class ToolOptions(TypedDict, total=False):
    """Options that the decorator passes on to `Tool`."""

    read_only: bool
    idempotent: bool
    destructive: bool
    removes: Callable[[Any], bool]
    steps: Callable[[Any], Iterable[tuple[str, Mapping[str, Any] | None]]]
    shown: frozenset[str]
    counter: str
    duration_ms: str
    spans_projects: bool
    text_member: str
    wraps: str
    parts: Callable[[Any], Iterable[str]]
    bare_errors: bool
    for_agents: bool
    for_hosts: bool
    protocol_errors: bool
    is_admin: bool
    uses_model: bool
    over_quota: bool
    stores: tuple[str, ...]


def tool(
    name: str,
    title: str,
    needs: Permission,
    *,
    toolset: Toolset,
    logs: Iterable[str] = (),
    base: type[Arguments] = Arguments,
    project: str | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[Method], Method]:
    """Make a method a tool.

    Its parameters after the scope are the arguments, on top of those of `base`, whose `project` has
    another description here where one is given. Text beside a type describes the argument, and a
    trailing underscore is no part of its name. Arguments that several tools share may be one
    parameter, a model. The docstring is the description. Instead of the scope, or beside it, a
    method may take a `Caller`, `ToolCalls`, a `ProgressCallback` or `Accepted`. A tool
    that needs no more than to read is read-only and idempotent."""

    def mark(method: Method) -> Method:
        read_only = needs is Permission.READ
        setattr(
            method,
            _TOOL,
            _ToolMethod(
                method,
                name,
                title,
                needs,
                frozenset({"project", *logs}),
                base,
                project,
                {"read_only": read_only, "idempotent": read_only, "toolset": toolset, **options},
            ),
        )
        return method

    return mark


admin_tool = partial(
    tool, toolset="admin", base=AllProjectsArguments, spans_projects=True, is_admin=True
)
"""Make a method a tool over a tenant, for people and programs that manage it."""


def tools_of(
    owner: object, resources: Mapping[str, Resource] | None = None, *, has_model: bool = True
) -> list[Tool]:
    """Return the tools that are methods of an object, in their order.

    `resources` are the resources as which their results can be read, by the tool's name. Without a
    model, none of them uses it."""
    methods = {name: getattr(method, _TOOL, None) for name, method in vars(type(owner)).items()}
    tools = [
        method.bind(getattr(owner, name), (resources or {}).get(method.name))
        for name, method in methods.items()
        if method is not None
    ]
    return [replace(tool, uses_model=tool.uses_model and has_model) for tool in tools]


def arguments_of(method: Callable[..., Any]) -> type[Arguments]:
    """Return the model of the arguments of a method that is a tool."""
    definition: _ToolMethod = getattr(method, _TOOL)
    return definition.arguments


async def run_tool(tool: Tool, scope: Scope, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool over a scope for an operator, without a key and a log; return its result."""
    args = tool.arguments.model_validate({"project": scope.project, **arguments})
    return tool.body(await tool.run(ToolContext(scope), args))


OMIT_NONE: Final = Field(exclude_if=lambda value: value is None)
"""Leaves a member without a value out of a result."""


@dataclass_transform(frozen_default=True)
def result(cls: type[Class]) -> type[Class]:
    """Make a frozen dataclass that a tool may return; text beside a type describes the field."""
    cls.__annotations__ = {
        name: with_description(hint) for name, hint in cls.__annotations__.items()
    }
    if "__pydantic_config__" not in vars(cls):
        with_config(ConfigDict(extra="forbid"))(cls)
    return frozen(cls)


def with_description(hint: Any) -> Any:
    """Return a type with the last text beside it as the description of its field."""
    if get_origin(hint) is not Annotated:
        return hint
    base, *others = get_args(hint)
    texts = [other for other in others if isinstance(other, str)]
    others = [other for other in others if not isinstance(other, str)]
    return _annotated[(base, *others, *(Field(description=text) for text in texts[-1:]))]


@dataclass(frozen=True)
class _ToolMethod:
    """A method that is a tool, before it has an object."""

    method: Callable[..., Awaitable[Any]]
    name: str
    title: str
    permission: Permission
    logged: frozenset[str]
    base: type[Arguments]
    project: str | None
    options: Mapping[str, Any]

    @cached_property
    def hints(self) -> dict[str, Any]:
        """Return the types of the parameters by name, without `self`, and that of the result."""
        return get_type_hints(self.method, include_extras=True)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Return the parameters that the gateway gives, with their names in the context."""
        return {name: _INPUTS[hint] for name, hint in self.hints.items() if hint in _INPUTS}

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Return the names of parameters by those of the arguments."""
        names = list(inspect.signature(self.method).parameters)[1:]
        return {name.removesuffix("_"): name for name in names if name not in self.inputs}

    @cached_property
    def model(self) -> type[Arguments] | None:
        """Return the model that the method takes as its only argument, if it does."""
        hints = [self.hints[name] for name in self.parameters.values()]
        is_model = len(hints) == 1 and isinstance(hints[0], type)
        return hints[0] if is_model and issubclass(hints[0], Arguments) else None

    @cached_property
    def arguments(self) -> type[Arguments]:
        """Return the model of the arguments."""
        if self.model is not None:
            return self.model
        parameters = inspect.signature(self.method).parameters
        fields: dict[str, Any] = {}
        if self.project is not None:
            field = self.base.model_fields["project"]
            hint = _annotated[str, Field(description=self.project)]
            fields["project"] = hint if field.is_required() else (hint, field.default)
        for name, parameter in self.parameters.items():
            default = parameters[parameter].default
            hint = with_description(self.hints[parameter])
            fields[name] = hint if default is inspect.Parameter.empty else (hint, default)
        title = "".join(part.title() for part in self.name.split("_"))
        return create_model(title + "Arguments", __base__=self.base, **fields)

    def bind(self, method: Callable[..., Awaitable[Any]], resource: Resource | None) -> Tool:
        """Return the tool of one object's method."""
        inputs, parameters = self.inputs.items(), self.parameters.items()
        is_model = self.model is not None

        async def run(context: ToolContext, args: Arguments) -> Any:
            given = {to: getattr(context, name) for to, name in inputs}
            values = {to: args if is_model else getattr(args, name) for name, to in parameters}
            return await method(**given, **values)

        return Tool(
            name=self.name,
            title=self.title,
            description=" ".join((self.method.__doc__ or "").split()),
            arguments=self.arguments,
            result=self.hints["return"],
            run=run,
            composed="calls" in self.inputs.values(),
            permission=self.permission,
            logged=self.logged,
            resource=resource,
            **self.options,
        )
