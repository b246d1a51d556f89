"""Whatever a value should have been is said in plain words, and the value is not."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from memsvc.core.validation_messages import validation_message

CANARY = "canary-7f3a91"


class Inner(BaseModel):
    name: str


class Given(BaseModel):
    whole: int = Field(1, ge=1, lt=10)
    share: float = Field(0.5, gt=0, le=1, allow_inf_nan=False)
    flag: bool = False
    kind: Literal["a", "b", "c"] = "a"
    name: str = Field("xx", min_length=2, max_length=3, pattern="^x*$")
    letter: str = Field("x", min_length=1)
    names: list[str] = Field(["x"], min_length=1, max_length=2)
    held: dict[str, int] = Field(default_factory=dict)
    inner: Inner = Inner(name="x")
    tag: Annotated[str, Field(max_length=1)] = ""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"whole": CANARY}, "must be a whole number"),
        ({"whole": 1.5}, "must be a whole number"),
        ({"whole": [1]}, "must be a whole number"),
        ({"whole": "9" * 5000}, "must be a whole number"),
        ({"whole": 0}, "must be 1 or greater"),
        ({"whole": 10}, "must be less than 10"),
        ({"share": CANARY}, "must be a number"),
        ({"share": {}}, "must be a number"),
        ({"share": float("nan")}, "must be a number"),
        ({"share": 0}, "must be greater than 0.0"),
        ({"share": 2}, "must be 1.0 or less"),
        ({"flag": CANARY}, "must be true or false"),
        ({"flag": 2.5}, "must be true or false"),
        ({"kind": CANARY}, "must be 'a', 'b' or 'c'"),
        ({"name": 7}, "must be a string"),
        ({"name": "\ud800x"}, "must be Unicode text"),
        ({"name": "x"}, "must have at least 2 characters"),
        ({"letter": ""}, "must have at least 1 character"),
        ({"name": "x" * 9}, "is limited to 3 characters"),
        ({"tag": "xx"}, "is limited to 1 character"),
        ({"name": "xy"}, "must match ^x*$"),
        ({"names": CANARY}, "must be an array"),
        ({"names": []}, "must have at least 1 item"),
        ({"names": ["x"] * 3}, "is limited to 2 items"),
        ({"held": CANARY}, "must be an object"),
        ({"inner": CANARY}, "must be an object"),
        ({"inner": {}}, "is required"),
    ],
)
def test_a_problem_says_what_is_allowed_and_nothing_of_what_was_given(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Given.model_validate(given)
    [problem] = caught.value.errors(include_url=False, include_input=False)
    assert validation_message(problem) == told
    assert CANARY not in told
