"""Calls timed in interleaved rounds, so that a machine whose speed drifts slows all of them
alike."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

from benchmarks import table

WARM_UP = 20
Calls = Mapping[str, Callable[[], Awaitable[object]]]


@dataclass
class Measured:
    """Milliseconds of each call, by what was called, round by round."""

    rounds: dict[str, list[list[float]]]

    def p50(self, name: str) -> float:
        """Median over rounds of each round's median."""
        return table.p50([table.p50(each) for each in self.rounds[name]])

    def p95(self, name: str) -> float:
        """Median over rounds of each round's 95th percentile."""
        return table.p50([table.percentile(each, 0.95) for each in self.rounds[name]])

    def times(self, name: str, other: str) -> float:
        """How many times as long as another one a call takes: the median over rounds of what their
        medians say."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=True)
        return table.p50([table.p50(one) / table.p50(two) for one, two in pairs])


async def timed(count: int, one: Callable[[], Awaitable[object]]) -> list[float]:
    """Milliseconds of each of so many calls, one after the other."""
    spent = []
    for _ in range(count):
        started = perf_counter()
        await one()
        spent.append((perf_counter() - started) * 1000)
    return spent


async def interleaved(kinds: Calls, *, rounds: int, calls: int, warm_up: int = WARM_UP) -> Measured:
    """So many rounds of so many calls of each kind; every other round in the opposite order."""
    for one in kinds.values():
        await timed(warm_up, one)
    measured = Measured({name: [] for name in kinds})
    for number in range(rounds):
        for name in list(kinds) if number % 2 == 0 else reversed(kinds):
            measured.rounds[name].append(await timed(calls, kinds[name]))
    return measured


def ratios(
    measured: Measured, writes: Callable[[str], bool]
) -> tuple[list[list[object]], dict[str, tuple[float, float]]]:
    """A row for each call beside what it is compared with, a null tool or for what writes a null
    tool and a raw commit, under the names `null tool` and `raw commit`; and by call its ratios at
    p50 and p95."""
    null, commit = (
        measured.p50("null tool"),
        measured.p50("raw commit") if "raw commit" in measured.rounds else 0.0,
    )
    rows: list[list[object]] = []
    found = {}
    for name in measured.rounds:
        base, to = (
            (null + commit, "null tool + raw commit") if writes(name) else (null, "null tool")
        )
        p50, p95 = measured.p50(name), measured.p95(name)
        found[name] = (p50 / base, p95 / base)
        rows.append(
            [name, p50, p95, *found[name], to]
            if name != "null tool"
            else [name, p50, p95, None, None, None]
        )
    return rows, found


RATIO_COLUMNS = ("call", "p50 ms", "p95 ms", "p50 ratio", "p95 ratio", "to")
