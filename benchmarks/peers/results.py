"""What was measured of peers, as tables and for machines."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from benchmarks.peers.timing import GROWTH, told
from benchmarks.peers.trial import KEPT, KILLS, Trial
from benchmarks.report import Figure, Report, Table
from benchmarks.scores import CUTS, Scores

MULTI_HOP = 1


def report(trials: Sequence[Trial], messages: int) -> Report:
    """A table each for recall, time, size and behaviour, and who failed why."""
    tables = [_recall(trials), _time(trials, messages), _size(trials), _behaviour(trials)]
    failed = [[trial.peer.name, trial.failed] for trial in trials if trial.failed]
    if failed:
        tables.append(Table("Not measured to the end", ["peer", "why"], failed))
    figures = [
        Figure(f"{trial.peer.name}, {way}", scores.mean("recall@10"))
        for trial in trials
        for way, scores in trial.scores.items()
        if scores.results
    ]
    return Report(
        "peers", "recall@10 beside others", tables, figures, more={"peers": _figures(trials)}
    )


def _figures(trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        trial.peer.name: {
            "version": trial.peer.version,
            "used": trial.peer.used,
            "users apart": trial.peer.separation,
            "failed": trial.failed,
            "recall": {
                way: _scored(scores) for way, scores in trial.scores.items() if scores.results
            },
            "ms, p50 and p95": {
                f"{what} at {size}": told(trial, what, size) for what, size in trial.ms
            },
            **trial.figures,
        }
        for trial in trials
    }


def _scored(scores: Scores) -> dict[str, float | int | None]:
    one: dict[str, float | int | None] = {"questions": len(scores.results)}
    return (
        one
        | {name: scores.mean(name) for name in (*(f"recall@{cut}" for cut in CUTS), "MRR")}
        | {
            "multi-hop recall@10": scores.mean("recall@10", MULTI_HOP),
            "off-topic that find nothing": mean(scores.silent) if scores.silent else None,
        }
    )


def _recall(trials: Sequence[Trial]) -> Table:
    rows: list[list[object]] = []
    columns = ["questions", *(f"recall@{cut}" for cut in CUTS), "MRR", "multi-hop recall@10"]
    columns.append("off-topic that find nothing")
    for trial in trials:
        scored = {way: _scored(scores) for way, scores in trial.scores.items() if scores.results}
        rows += [
            [trial.peer.name, way, *(one[name] for name in columns)] for way, one in scored.items()
        ]
        if not scored:
            rows.append([trial.peer.name, "not scored", *([None] * len(columns))])
    return Table(
        "Recall of the evidence messages", ["peer", "way of asking", *columns], rows, digits=3
    )


def _time(trials: Sequence[Trial], messages: int) -> Table:
    many = messages * GROWTH
    columns = ["peer", "used as"]
    for what in ("write", "search"):
        columns += [f"{what} p50", "p95", f"p50 at {many}"]
    rows: list[list[object]] = []
    for trial in trials:
        row: list[object] = [trial.peer.name, trial.peer.used]
        for what in ("write", "search"):
            few, later = told(trial, what, messages), told(trial, what, many)
            row += [*(few or (None, None)), later[0] if later else None]
        rows.append([*row, trial.figures.get("made searchable, ms a message")])
    columns.append("until searchable, a message")
    return Table(f"Milliseconds with {messages} messages stored", columns, rows)


def _size(trials: Sequence[Trial]) -> Table:
    names = ["installed MB", "start to first answer, s", "memory MB", "bytes a message"]
    rows = [
        [trial.peer.name, trial.peer.version, *(trial.figures.get(name) for name in names)]
        for trial in trials
    ]
    return Table("Size", ["peer", "version", *names], rows, digits=1)


def _behaviour(trials: Sequence[Trial]) -> Table:
    names = {
        "copies of a turn sent twice": "a turn sent twice",
        "entries of the same words in two turns": "the same words in two turns",
        "found by another user": "found by another user",
        f"of {KEPT} there after a restart": f"after a restart, of {KEPT}",
        f"of {KILLS} there after kill -9": f"after kill -9, of {KILLS}",
    }
    rows = [
        [trial.peer.name, *(trial.figures.get(name) for name in names), trial.peer.separation]
        for trial in trials
        if not trial.peer.behaves_as
    ]
    return Table(
        "Behaviour: entries that are found", ["peer", *names.values(), "users are kept apart"], rows
    )
