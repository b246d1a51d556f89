"""The model of options, and types of their values."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memsvc.core.urls import absolute_url

AbsoluteUrl = Annotated[str, AfterValidator(absolute_url)]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Options(BaseModel):
    """A section of the settings. Unknown keys are refused, and values cannot be changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
