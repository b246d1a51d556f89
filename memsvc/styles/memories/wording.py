"""Phrases for facts of rules: a few words that begin with the fact, as prompts ask of a model."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from memsvc.core.facts import Claim, Retraction, Tier

_SAID: Final[Mapping[str, str]] = {
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
_FIXED: Final[Mapping[tuple[str, str], str]] = {
    ("user_diet", "no meat"): "Eats no meat",
    ("user_diet", "eats meat"): "Eats meat",
    ("user_job", "retired"): "Is retired",
    ("user_job", "unemployed"): "Is unemployed",
    ("user_job", "self-employed"): "Is self-employed",
}


_ALL_OWN: Final = re.compile(r"(?<=\ball )(?:my|our) ")
_OWN: Final = re.compile(r"\b(?:my|our)\b")


def told(fact_id: str, key: str, value: str) -> str:
    """Return a fact of the rules in words: `user_diet`, `diet`, `vegetarian` is `Is vegetarian`."""
    text = _FIXED.get((fact_id, value.casefold()))
    if text is None:
        pattern = _SAID.get(fact_id, "{key}: {value}")
        if fact_id == "user_allergy" and value.endswith("intolerant"):
            pattern = "Is {value}"
        if fact_id == "user_pet_kind" and not value.endswith("s"):
            value = f"{'an' if value[0] in 'aeiou' else 'a'} {value}"
        if ": " not in pattern:  # after a colon comes the user's own text
            value = _OWN.sub("their", _ALL_OWN.sub("", value))
        text = pattern.format(key=key.replace("_", " "), value=value)
    return text[:1].upper() + text[1:]


def lasting(claim: Claim) -> bool:
    """Return whether a claim is worth keeping beyond the day on which it was made."""
    return isinstance(claim, Retraction) or claim.tier is not Tier.L1


def in_words(claim: Claim) -> Claim:
    """Return a claim fit for memories: its value phrased, and kept until it is changed.

    In languages other than English the phrase is the user's own words.
    """
    if isinstance(claim, Retraction):
        return claim
    value = claim.words[:1].upper() + claim.words[1:] or told(claim.fact_id, claim.key, claim.value)
    return replace(claim, value=value, tier=Tier.L0)
