"""Every rule reads its own example and leaves its counter-example alone."""

from pathlib import Path

from memsvc.core.facts import Claim, RemovalClaim, Statement
from memsvc.core.rules.extraction import LANGUAGES, extract

_MAIN = {
    *(
        "user_name",
        "user_like",
        "user_dislike",
        "user_preference",
        "user_allergy",
        "user_diet",
        "user_home",
    ),
    *(
        "user_job",
        "user_employer",
        "user_family",
        "user_kin",
        "user_pet",
        "user_plan",
        "user_reminder",
    ),
    *("today_task", "weekly_task"),
}
_TAKEN_BACK = {"user_name", "user_diet", "user_allergy", "user_home", "user_pet"}
"""In all languages; liking ends by disliking."""
_FOUND_BY_WORDS = {"user_food_rule", "user_birthplace"}
RULES = [(language, rule) for language in LANGUAGES for rule in language.rules]


def claims(*texts: str) -> list[Claim]:
    numbered = [(f"t1-in-{number}", text) for number, text in enumerate(texts)]
    return extract(numbered, session="s1", turn="t1", user="u1")


def stated(text: str) -> list[tuple[str, str]]:
    """The ids and values of what a text states."""
    return [(one.fact_id, one.value) for one in claims(text) if isinstance(one, Statement)]


def ended(text: str) -> list[tuple[str, str]]:
    """The ids and values of what a text takes back."""
    return [
        (ending.fact_id, ending.value)
        for one in claims(text)
        if isinstance(one, RemovalClaim)
        for ending in one.conflicts
    ]


def test_every_rule_reads_its_example() -> None:
    unread = [
        f"{language.name}: {rule.topic.fact_id} = {rule.value} in {rule.example!r}: {found}"
        for language, rule in RULES
        if (rule.topic.fact_id, rule.value)
        not in (found := ended(rule.example) if rule.deletes else stated(rule.example))
    ]
    assert not unread, "\n".join(unread)


def test_no_rule_states_anything_in_its_counter_example() -> None:
    misread = [
        f"{language.name}: {rule.topic.fact_id} = {rule.value} in {rule.counter_example!r}"
        for language, rule in RULES
        if (rule.topic.fact_id, rule.value) in stated(rule.counter_example)
    ]
    assert not misread, "\n".join(misread)


def test_every_language_speaks_of_the_main_themes() -> None:
    for language in LANGUAGES:
        themes = {rule.topic.fact_id for rule in language.rules}
        ending = {rule.topic.fact_id for rule in language.rules if rule.deletes}
        assert themes >= _MAIN, language.name
        assert ending >= _TAKEN_BACK, language.name
        assert themes - set(language.question_patterns) <= _FOUND_BY_WORDS, language.name


def test_the_table_of_rules_in_the_documentation_is_true() -> None:
    told = (Path(__file__).parents[3] / "docs" / "rules.md").read_text("utf-8")
    assert table() in told


def table() -> str:
    """How many rules state and take back facts of each id, by language."""
    ids = sorted({rule.topic.fact_id for _, rule in RULES})
    names = [language.name for language in LANGUAGES]
    lines = [f"| fact | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for fact_id in ids:
        cells = []
        for language in LANGUAGES:
            own = [rule.deletes for rule in language.rules if rule.topic.fact_id == fact_id]
            cells.append(f"{own.count(False)}+{own.count(True)}" if own else "")
        lines.append(f"| {fact_id} | {' | '.join(cells)} |")
    ends = [sum(rule.deletes for rule in language.rules) for language in LANGUAGES]
    totals = [f"{len(one.rules) - back}+{back}" for one, back in zip(LANGUAGES, ends, strict=True)]
    return "\n".join([*lines, f"| all | {' | '.join(totals)} |"])
