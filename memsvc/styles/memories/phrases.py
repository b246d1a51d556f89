"""Phrases for facts of rules: a few words that begin with the fact, as prompts ask of a model."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from memsvc.core.facts import Claim, FactTier, RemovalClaim, Statement

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
    "user_language": "Speaks {value}",
    "user_hobby": "Hobby is {value}",
    "user_possession": "{key} is {value}",
    "user_goal": "Wants to {value}",
    "user_contact": "{key} is {value}",
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
    """Return a fact of the rules in words: `user_diet`, `diet`, `vegetarian` is `Is vegetarian`.

    "" for a topic that is told in the user's own words.
    """
    text = _FIXED_PHRASES.get((fact_id, value.casefold()))
    if text is None:
        pattern = _PHRASES.get(fact_id, "")
        if fact_id == "user_allergy" and value.endswith("intolerant"):
            pattern = "Is {value}"
        if fact_id == "user_pet_kind" and not value.endswith("s"):
            value = f"{'an' if value[0] in 'aeiou' else 'a'} {value}"
        value = _OUR.sub("their", _ALL_OUR.sub("", value))
        text = pattern.format(key=key.replace("_", " "), value=value)
    return text[:1].upper() + text[1:]


def is_permanent(claim: Claim) -> bool:
    """Return whether a claim is worth keeping beyond the day on which it was made."""
    return isinstance(claim, RemovalClaim) or claim.tier is not FactTier.L1


def as_memory_claims(claims: Sequence[Claim]) -> list[Claim]:
    """Return claims fit for memories: their values phrased, and kept until they are changed.

    In languages other than English, for topics without a phrase, and where the value is the clause,
    it is the user's own words; the value, where a clause without a phrase states several.
    """
    clauses = Counter(claim.statement for claim in claims if isinstance(claim, Statement))
    return [
        claim
        if isinstance(claim, RemovalClaim)
        else replace(
            claim, value=_text_of(claim, clauses[claim.statement]), statement="", tier=FactTier.L0
        )
        for claim in claims
    ]


def _text_of(claim: Statement, stated_count: int) -> str:
    clause = claim.statement.rstrip(" .!。！")
    text = claim.words or (clause if clause == claim.value else "")
    text = text or phrase_of(claim.fact_id, claim.key, claim.value)
    text = text or (clause if stated_count == 1 else f"{claim.key}: {claim.value}")
    return text[:1].upper() + text[1:]
