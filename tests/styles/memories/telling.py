"""What tests of memories tell, and how they read what came of it."""

from typing import Any

from tests.door import Door


async def tell(door: Door, *said: str, user: str = "alex", **more: Any) -> dict[str, Any]:
    """Add what a user says, to which an assistant agrees each time."""
    messages = [
        message
        for text in said
        for message in (
            {"role": "user", "content": text},
            {"role": "assistant", "content": "I see."},
        )
    ]
    return await door("memories_add", user_id=user, messages=messages, **more)


def says(answer: dict[str, Any]) -> list[str]:
    """The texts of an answer, in order."""
    return [one["memory"] for one in answer["results"]]


def events(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """What was done, in order."""
    return [(one["event"], one["memory"]) for one in answer["results"]]
