"""How many workers there should be: a pure function of what waits, the time and what was seen."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Queue:
    """What the coordinator wrote into its queue file."""

    waiting_groups: int = 0
    waiting_bytes: int = 0
    running_groups: int = 0


@dataclasses.dataclass(frozen=True)
class Policy:
    """Bounds and speeds. Times are seconds.

    Upwards it is quick, since what waits costs time: at most `up_factor` times as many workers at
    once (at least one more), and not again for `up_pause`, so that those that were just asked for
    can take their share before more are. Downwards it is slow: to the largest need of the last
    `down_after`, and by at most `down_step` a time.
    """

    min_workers: int = 0
    max_workers: int = 1
    groups_per_worker: int = 2
    bytes_per_worker: int = 0  # 0: only groups count.
    up_factor: float = 2.0
    up_pause: float = 15.0
    down_after: float = 300.0
    down_step: int = 1_000_000

    def __post_init__(self):
        if not 0 <= self.min_workers <= self.max_workers:
            raise ValueError(f"min ({self.min_workers}) and max ({self.max_workers}) workers: "
                             "0 <= min <= max is needed")
        if self.max_workers < 1 or self.groups_per_worker < 1 or self.down_step < 1:
            raise ValueError("max workers, groups per worker and step down are at least 1")
        if self.up_factor < 1 or min(self.up_pause, self.down_after, self.bytes_per_worker) < 0:
            raise ValueError("the factor upwards is at least 1; no time or size is negative")


@dataclasses.dataclass(frozen=True)
class State:
    """What is remembered from one decision to the next."""

    workers: int = 0
    rose_at: float | None = None
    # (time, need), oldest first. A need that a later one is not below is not kept.
    needs: tuple = ()


def needed_workers(queue, policy):
    """How many would take all that waits and runs at once, within the bounds."""
    groups = queue.waiting_groups + queue.running_groups
    need = math.ceil(groups / policy.groups_per_worker)
    if policy.bytes_per_worker and queue.waiting_groups:
        # Few huge groups are not spread over more workers than there are groups.
        by_bytes = math.ceil(queue.waiting_bytes / policy.bytes_per_worker)
        need = max(need, min(by_bytes, groups))
    return max(policy.min_workers, min(need, policy.max_workers))


def desired_workers(queue, now, state, policy):
    """(how many workers there should be from now on, the state to decide with the next time).

    `queue` is None where it is not known (a file that cannot be read): then the number stays,
    within the bounds. `now` is seconds of a clock that does not go back.
    """
    bounded = max(policy.min_workers, min(state.workers, policy.max_workers))
    # What is not known, or was not yet looked at, counts as needed: it keeps for `down_after` too.
    unknown = queue is None or not state.needs
    need = bounded if queue is None else needed_workers(queue, policy)
    needs = _remember(state.needs, now, max(need, bounded) if unknown else need, policy)
    if need > bounded:
        if state.rose_at is not None and 0 <= now - state.rose_at < policy.up_pause:
            return bounded, State(bounded, state.rose_at, needs)
        most = max(bounded + 1, math.floor(bounded * policy.up_factor))
        workers = min(need, most)
        return workers, State(workers, now, needs)
    workers = min(bounded, max(needs[0][1], bounded - policy.down_step))
    return workers, State(workers, state.rose_at, needs)


def _remember(needs, now, need, policy):
    """The needs of the window, the largest first: those that a later one is not below are gone."""
    return tuple(seen for seen in needs
                 if now - policy.down_after < seen[0] <= now and seen[1] > need) + ((now, need),)
