"""LongMemEval and BEAM are read as they are published, scored by kind of question, and judged only
where somebody names a model."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks import beam, longmemeval
from benchmarks.judge import judge
from benchmarks.locomo import Question
from benchmarks.scores import (
    IN_TIGHT,
    Result,
    Scores,
    Shown,
    by_category,
    by_fold,
    data_hash,
    environment_settings,
    write_rankings,
)
from tests.endpoints import provider

pytestmark = pytest.mark.anyio


def instance(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A made-up instance: two sessions, the later one first, as the oracle file has them."""
    return {
        "question_id": name,
        "question_type": kind,
        "question": "Which boat goes to Oshima?",
        "answer": "the red ferry",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["answer_two", "noise"],
        "haystack_dates": ["2023/05/21 (Sun) 09:30", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "The red ferry goes to Oshima.", "has_answer": True},
                {"role": "assistant", "content": "Noted.", "has_answer": False},
            ],
            [
                {"role": "user", "content": "Quinces ripen in October."},
                {"role": "assistant", "content": " "},
            ],
        ],
        "answer_session_ids": ["answer_two"],
    } | more


def chat(folder: Path, *, plans: bool = False) -> None:
    """A made-up chat with two sessions and two kinds of questions."""
    messages = [
        [
            ("user", "My sprint ends on Friday. ->-> 1,1", "March-15-2024"),
            ("assistant", "Noted.", None),
        ],
        [("user", "It moved to Monday.", "March-18-2024"), ("assistant", "Noted again.", None)],
    ]
    numbers = iter(range(4))
    batches = [
        {
            "batch_number": at,
            "time_anchor": None,
            "turns": [
                [
                    {"id": next(numbers), "role": role, "content": text}
                    | ({"time_anchor": day} if day else {})
                    for role, text, day in batch
                ]
            ],
        }
        for at, batch in enumerate(messages, 1)
    ]
    questions = {
        "knowledge_update": [
            {
                "question": "When does my sprint end?",
                "answer": "Monday",
                "source_chat_ids": {"original_info": [0], "updated_info": [2]},
                "rubric": ["says Monday"],
            }
        ],
        "abstention": [
            {"question": "Who leads it?", "ideal_response": "unknown", "rubric": ["says unknown"]}
        ],
    }
    (folder / "probing_questions").mkdir(parents=True)
    whole = [{"plan-1": batches[:1]}, {"plan-2": batches[1:]}] if plans else batches
    (folder / "chat.json").write_text(json.dumps(whole))
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(questions))


def test_an_instance_of_longmemeval_is_a_conversation_with_one_question(tmp_path: Path) -> None:
    file = tmp_path / "longmemeval_s.json"
    made = [
        instance("q1", "single-session-user"),
        instance("q2_abs", "multi-session", answer="no boat was named"),
    ]
    file.write_text(json.dumps(made))
    found, abstains = longmemeval.load(file)
    assert [(one.dia_id, one.speaker, one.said_at.day) for one in found.messages] == [
        ("D1:1", "user", 20),
        ("D2:1", "user", 21),
        ("D2:2", "assistant", 21),
    ]
    (question,) = found.questions
    assert (question.evidence, question.sessions) == (frozenset({"D2:1"}), frozenset({"D2"}))
    assert question.asked_at == datetime(2023, 6, 1, 10, tzinfo=UTC)
    (question,) = abstains.questions
    assert question.category == "abstention"
    assert not question.evidence
    assert not question.sessions
    assert "not known" in question.answer


@pytest.mark.parametrize("plans", [False, True], ids=["batches", "plans of batches"])
def test_a_chat_of_beam_has_its_sources_as_evidence(tmp_path: Path, *, plans: bool) -> None:
    for name in ("10", "2"):
        chat(tmp_path / "100K" / name, plans=plans)
    first, second = beam.load(tmp_path)
    assert (first.name, second.name) == ("100K-2", "100K-10")
    assert [(one.dia_id, f"{one.said_at:%d}") for one in first.messages] == [
        ("D1:0", "15"),
        ("D1:1", "15"),
        ("D2:2", "18"),
        ("D2:3", "18"),
    ]
    assert first.messages[0].text == "My sprint ends on Friday."
    update, abstention = first.questions
    assert update.evidence == {"D1:0", "D2:2"}
    assert (update.answer, update.rubric) == ("Monday", ("says Monday",))
    assert (abstention.evidence, abstention.answer) == (frozenset(), "unknown")
    assert len(beam.files(tmp_path)) == 4
    assert beam.load(tmp_path / "nothing") == []


def results() -> Scores:
    """Three questions of two conversations."""
    one = Question("a", frozenset({"D1:1", "D2:1"}), "x", "", "q1")
    other = Question("b", frozenset({"D3:1"}), "y", "", "q2", sessions=frozenset({"D3", "D4"}))
    unnamed = Question("c", frozenset(), "y", "", "q3")

    def shown(*ranked: str) -> Shown:
        return Shown(ranked, set(ranked))

    late = shown(*(f"D{at}:7" for at in range(3, 9)), "D3:1")
    return Scores(
        [
            Result("first", one, shown("D9:1", "D1:1"), shown("D1:1"), 120, 300),
            Result("second", other, late, shown(), 80, 90),
            Result("second", unnamed, shown("D1:1"), shown(), 10, 20),
        ]
    )


def test_questions_are_scored_by_message_and_session_kind_and_fold() -> None:
    scores = results()
    shown = by_category(scores, {"x": "the x", "y": "the y", "z": "none asked"})
    assert list(shown.columns[:3]) == ["category", "questions", "recall@5"]
    assert "judged" not in shown.columns
    rows = {row[0]: dict(zip(shown.columns[1:], row[1:], strict=True)) for row in shown.rows}
    assert list(rows) == ["all scored", "the x", "the y"]
    assert rows["the x"]["recall@5"] == 0.5
    assert rows["the x"]["MRR"] == 0.5
    assert rows["the x"]["sessions@10"] == 0.5
    assert rows["the x"][IN_TIGHT] == 0.5
    assert (rows["the y"]["recall@5"], rows["the y"]["recall@10"]) == (0, 1)
    assert rows["the y"]["questions"] == 2  # the one without evidence counts in no mean
    assert rows["the y"]["sessions@5"] == 1
    assert rows["all scored"]["recall@10"] == 0.75
    folds = by_fold(scores)
    assert list(folds.columns) == ["figure", "first", "second", "standard deviation"]
    assert ["recall@10", 0.5, 1.0, pytest.approx(0.35355, abs=1e-4)] in folds.rows


def test_many_conversations_share_ten_folds() -> None:
    question = Question("a", frozenset({"D1:1"}), "x", "")
    found = Shown(["D1:1"], {"D1:1"})
    scores = Scores([Result(f"c{at}", question, found, found) for at in range(25)])
    folds = scores.folds()
    assert list(folds) == [f"fold {at}" for at in range(1, 11)]
    assert [one.conversation for one in folds["fold 1"]] == ["c0", "c10", "c20"]


def test_rankings_say_what_they_are_of_and_hold_no_text(tmp_path: Path) -> None:
    file, data = tmp_path / "made" / "rankings.jsonl", tmp_path / "data"
    data.write_bytes(b"x")
    write_rankings(file, results(), {"data_sha256": data_hash([data]), "settings": {"A": "1"}})
    head, *lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert head["data_sha256"].startswith("2d711642b726b044")
    assert head["settings"] == {"A": "1"}
    assert [one["question"] for one in lines] == ["q1", "q2", "q3"]
    assert lines[0]["ranked"] == ["D9:1", "D1:1"]
    assert (lines[0]["block_tokens"], lines[0]["shown_tight"]) == (120, ["D1:1"])
    assert data_hash([data, data]) != head["data_sha256"]


def test_settings_of_the_environment_are_told_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMSVC_SETTINGS__MCP__MEMORY__RECALL_TURNS_LIMIT", "7")
    monkeypatch.setenv("MEMSVC_SETTINGS__MCP__MEMORY__HEURISTIC__API_KEY", "sesame")
    told = environment_settings()
    assert told["MEMSVC_SETTINGS__MCP__MEMORY__RECALL_TURNS_LIMIT"] == "7"
    assert "sesame" not in told.values()


def options(model: str, url: str) -> argparse.Namespace:
    given = ["file", "--judge", model, "--judge-url", url, "--judge-key-env", "A_KEY"]
    return longmemeval.COMMAND.parse(given)


@pytest.mark.parametrize("model", ["openai-chat:some", "openai:some", "anthropic:some"])
@pytest.mark.parametrize(
    ("says", "score"),
    [("1", 1.0), ("Score: 0.5", 0.5), ("0", 0.0), ("I cannot tell.", None), ("10 of 10", None)],
)
async def test_the_judge_answers_from_the_memory_and_grades_by_each_criterion(
    model: str, says: str, score: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "sesame")
    question = Question("Which boat?", frozenset(), "x", "red", rubric=("red", "a ferry"))
    async with provider() as endpoint, judge(options(model, endpoint.url)) as judging:
        assert judging is not None
        endpoint.says = says
        assert await judging.score(question, "the red ferry") == score
        assert len(endpoint.calls) == 3
        sent = json.dumps([call.body for call in endpoint.calls])
        assert "the red ferry" in sent
        assert "a ferry" in sent
        assert "sesame" in str(endpoint.calls[0].headers)
        nothing = Question("Which boat?", frozenset(), "x", "")
        assert await judging.score(nothing, "the red ferry") is None
        endpoint.always = "refuses the key"
        with pytest.raises(RuntimeError, match="the judge cannot be asked"):
            await judging.score(question, "the red ferry")


async def test_without_a_model_named_nobody_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    async with judge(beam.COMMAND.parse(["folder"])) as judging:
        assert judging is None


@pytest.mark.slow
async def test_a_file_is_measured_from_its_first_message_to_its_rankings(tmp_path: Path) -> None:
    file, rankings = tmp_path / "longmemeval_s.json", tmp_path / "rankings.jsonl"
    kinds = ("single-session-user", "knowledge-update")
    made = [instance(f"q{at}", kind) for at, kind in enumerate(kinds)]
    file.write_text(json.dumps([*made, instance("q2_abs", "multi-session")]))
    async with provider() as endpoint:
        endpoint.says = "1"
        given = [str(file), "--rankings", str(rankings)]
        plain = longmemeval.COMMAND.parse(given)
        report = await longmemeval.COMMAND.measure(plain)
        assert report is not None
        assert endpoint.calls == []
        figures = {one.what: one.value for one in report.figures}
        assert figures["recall@10"] == 1
        assert figures[IN_TIGHT] == 1
        assert figures["prompts whose token count is wrong"] == 0
        head, *lines = [json.loads(line) for line in rankings.read_text().splitlines()]
        assert (head["benchmark"], head["tight_tokens"]) == ("longmemeval", 1000)
        assert {"commit", "settings", "wire"} <= set(head)
        assert [one["question"] for one in lines] == ["q0", "q1"]
        assert all("D2:1" in one["ranked"] and one["prompt_tokens"] > 20 for one in lines)
        judged = ["--judge", "anthropic:some", "--judge-url", endpoint.url, "--first", "3"]
        told = await longmemeval.COMMAND.measure(longmemeval.COMMAND.parse([*given, *judged]))
        assert told is not None
        assert {one.what: one.value for one in told.figures}["judged"] == 1
        assert len(endpoint.calls) == 6
