"""The model of options, and types of their values."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memsvc.core.urls import absolute_url

AbsoluteUrl = Annotated[str, AfterValidator(absolute_url)]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Limit = Annotated[int, Field(ge=1, le=1000)]
"""Maximum number of things that one call works on or returns."""
LimitOrNone = Annotated[int, Field(ge=0, le=1000)]
DailyLimit = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Maximum number of model calls or files per day; 0: unlimited."""


class Options(BaseModel):
    """A section of the settings. Unknown keys are refused, and values cannot be changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
