"""Phrases for facts of rules: a few words that begin with the fact, as prompts ask of a model."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from memsvc.core.facts import Claim, FactTier, RemovalClaim

_PHRASES: Final[Mapping[str, str]] = {
    "user_name": "Name is {value}",
    "user_nickname": "Is called {value}",
    "user_age": "Is {value} years old",
    "user_birthday": "Birthday is {value}",
    "user_preference": "Prefers {value}",
    "user_favourite": "{key} is {value}",
    "user_like": "Likes {value}",
    "user_dislike": "Dislikes {value}",
    "user_diet": "Is {value}",
    "user_food_rule": "Eats {value}",
    "user_allergy": "Allergic to {value}",
    "user_home": "Lives in {value}",
    "user_origin": "Is from {value}",
    "user_birthplace": "Was born in {value}",
    "user_timezone": "Time zone is {value}",
    "user_job": "Works as {value}",
    "user_employer": "Works at {value}",
    "user_project": "Working on {value}",
    "user_studies": "Studies {value}",
    "user_family": "{key} is {value}",
    "user_kin": "{key} is {value}",
    "user_children": "Has {value}",
    "user_relationship": "Is {value}",
    "user_pet": "Has a {key} called {value}",
    "user_pet_kind": "Has {value}",
    "user_condition": "Health: {value}",
    "user_medication": "Takes {value}",
    "user_language": "Speaks {value}",
    "user_hobby": "Hobby is {value}",
    "user_possession": "{key} is {value}",
    "user_goal": "Wants to {value}",
    "user_plan": "Plans: {value}",
    "user_reminder": "Reminder: {value}",
    "weekly_task": "This week: {value}",
    "user_contact": "{key} is {value}",
    "user_instruction": "Wants answers: {value}",
    "user_tooling": "Uses {value}",
}
_FIXED_PHRASES: Final[Mapping[tuple[str, str], str]] = {
    ("user_diet", "no meat"): "Eats no meat",
    ("user_diet", "eats meat"): "Eats meat",
    ("user_job", "retired"): "Is retired",
    ("user_job", "unemployed"): "Is unemployed",
    ("user_job", "self-employed"): "Is self-employed",
}


_ALL_OUR: Final = re.compile(r"(?<=\ball )(?:my|our) ")
_OUR: Final = re.compile(r"\b(?:my|our)\b")


def phrase_of(fact_id: str, key: str, value: str) -> str:
    """Return a fact of the rules in words: `user_diet`, `diet`, `vegetarian` is `Is vegetarian`."""
    text = _FIXED_PHRASES.get((fact_id, value.casefold()))
    if text is None:
        pattern = _PHRASES.get(fact_id, "{key}: {value}")
        if fact_id == "user_allergy" and value.endswith("intolerant"):
            pattern = "Is {value}"
        if fact_id == "user_pet_kind" and not value.endswith("s"):
            value = f"{'an' if value[0] in 'aeiou' else 'a'} {value}"
        if ": " not in pattern:  # after a colon comes the user's own text
            value = _OUR.sub("their", _ALL_OUR.sub("", value))
        text = pattern.format(key=key.replace("_", " "), value=value)
    return text[:1].upper() + text[1:]


def is_permanent(claim: Claim) -> bool:
    """Return whether a claim is worth keeping beyond the day on which it was made."""
    return isinstance(claim, RemovalClaim) or claim.tier is not FactTier.L1


def as_memory_claim(claim: Claim) -> Claim:
    """Return a claim fit for memories: its value phrased, and kept until it is changed.

    In languages other than English, and where the value is the clause, the phrase is the user's own
    words.
    """
    if isinstance(claim, RemovalClaim):
        return claim
    words = claim.words or (claim.value if claim.value == claim.statement.rstrip(" .!。！") else "")
    value = words[:1].upper() + words[1:] or phrase_of(claim.fact_id, claim.key, claim.value)
    return replace(claim, value=value, statement="", tier=FactTier.L0)
