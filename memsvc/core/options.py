"""The model of options."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from memsvc.core.urls import absolute_url

AbsoluteUrl = Annotated[str, AfterValidator(absolute_url)]


class Options(BaseModel):
    """A section of the settings. Unknown keys are refused, and values cannot be changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
