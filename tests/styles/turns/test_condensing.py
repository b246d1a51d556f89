"""What a summary without a model says: what was told, by whom and when, and nothing that was not
said."""

from memsvc.styles.turns.maintenance.compaction import SummaryMessage, extract_summary


def words(text: str) -> int:
    return len(text.split())


def said(
    *texts: str, role: str = "user", day: str = "2026-01-05", who: str = ""
) -> list[SummaryMessage]:
    return [SummaryMessage(day, who or role, role, text) for text in texts]


CHATTER = said(
    "Hello there, how are you doing?",
    "Okay, sounds good to me.",
    "Could you please say that again?",
)
TOLD = said("My daughter Mira starts school in Lisbon on 4 September. She is six.")


def test_what_is_told_is_kept_with_its_day_and_speaker_and_small_talk_goes_first() -> None:
    summary = extract_summary("", [*CHATTER, *TOLD, *CHATTER], budget_tok=16, cost=words)
    assert summary == "- 2026-01-05 user: My daughter Mira starts school in Lisbon on 4 September."


def test_a_summary_stays_within_its_budget_and_keeps_the_order() -> None:
    spoken = []
    for day in range(1, 29):
        spoken += said(
            f"On day {day} I met Person{day} in City{day} about the trip.", day=f"2026-01-{day:02d}"
        )
    for budget_tok in (0, 10, 50, 100):
        summary = extract_summary("", spoken, budget_tok=budget_tok, cost=words)
        assert words(summary) <= budget_tok
        days = [line[2:12] for line in summary.splitlines()]
        assert days == sorted(days)
    assert len(days) > 5


def test_what_was_said_twice_is_told_once() -> None:
    twice = said("We leave for Kyoto on Monday morning.", "We leave for Kyoto on Monday morning!")
    assert len(extract_summary("", twice, budget_tok=100, cost=words).splitlines()) == 1


def test_the_summary_before_takes_part_as_it_stood() -> None:
    before = "- 2025-12-01 Ada: My passport number ends in 4417."
    summary = extract_summary(before, [*CHATTER, *TOLD], budget_tok=60, cost=words)
    assert before in summary.splitlines()
    assert summary.splitlines()[0] == before


def test_prose_that_a_model_wrote_before_is_kept_without_a_day() -> None:
    summary = extract_summary(
        "Ada planned a trip to Kyoto with Mira.", TOLD, budget_tok=60, cost=words
    )
    assert "- Ada planned a trip to Kyoto with Mira." in summary.splitlines()


def test_what_tools_answered_is_not_retold() -> None:
    assert (
        extract_summary(
            "", said("The API key of Lisbon is 42.", role="tool"), budget_tok=60, cost=words
        )
        == ""
    )


def test_other_scripts_are_told_too() -> None:
    summary = extract_summary(
        "", said("我下周一搬到上海住。你好。", "私は東京で働いています。"), budget_tok=160, cost=len
    )
    assert "我下周一搬到上海住。" in summary
    assert "私は東京で働いています。" in summary


def test_nothing_said_is_an_empty_summary() -> None:
    assert extract_summary("", [], budget_tok=60, cost=words) == ""
    assert extract_summary("", said("", "ok", "\n\n"), budget_tok=60, cost=words) == ""
