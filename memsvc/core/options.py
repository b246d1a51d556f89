"""The model of options."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from memsvc.core.urls import absolute_url

AbsoluteUrl = Annotated[str, AfterValidator(absolute_url)]


class Options(BaseModel):
    """A section of the settings: unknown keys are refused, and nothing is assigned later.

    The text below an option describes it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for field in cls.model_fields.values():
            field.description = " ".join((field.description or "").split())
