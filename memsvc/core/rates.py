"""How often something may happen: a bucket that fills by what is used and empties with time, kept as one number.

The number is the second at which the bucket is empty again if nothing more is used. What others use elsewhere moves it
just as one's own use does, so that buckets are shared by adding.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rate:
    """So many a second for good, and what `burst_s` seconds of that make at once; at least one. `cost_s` are the
    seconds by which one use moves the bucket, `depth_s` how far ahead of now it may be."""

    per_s: float
    burst_s: float
    cost_s: float = field(init=False)
    depth_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost_s", 1 / self.per_s)
        object.__setattr__(self, "depth_s", max(self.burst_s, self.cost_s))

    def wait_s(self, empty_at: float, now: float) -> float:
        """Seconds until one more may be used; 0 when it may now."""
        return max(0.0, max(empty_at, now) + self.cost_s - self.depth_s - now)

    def used(self, empty_at: float, now: float, times: int = 1) -> float:
        """When the bucket is empty after so many more uses."""
        return max(empty_at, now) + times * self.cost_s
