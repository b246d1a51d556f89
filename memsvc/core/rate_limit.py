"""Rate limit: a leaky bucket kept as one number.

The number is the second at which the bucket is empty again if nothing more is used. Use by other
processes moves it just as local use does, so that buckets are shared by adding."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate per second with a burst of `burst_s` seconds' worth, at least one use.

    `cost_s` is how far one use moves the bucket, `depth_s` how far ahead of now it may be."""

    per_s: float
    burst_s: float
    cost_s: float = field(init=False)
    depth_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost_s", 1 / self.per_s)
        object.__setattr__(self, "depth_s", max(self.burst_s, self.cost_s))

    def wait_s(self, empty_at: float, now: float) -> float:
        """Return the seconds until one more use is allowed; 0 if it is now."""
        return max(0.0, max(empty_at, now) + self.cost_s - self.depth_s - now)

    def used(self, empty_at: float, now: float, times: int = 1) -> float:
        """Return when the bucket is empty after this many more uses."""
        return max(empty_at, now) + times * self.cost_s
