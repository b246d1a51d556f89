"""The model of options."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from memsvc.core.urls import absolute_url

AbsoluteUrl = Annotated[str, AfterValidator(absolute_url)]


class Options(BaseModel):
    """A section of the settings: unknown keys are refused, and nothing is assigned later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
