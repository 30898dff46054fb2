"""How many workers: the pure function of lithify_ray.policy."""

import random

import pytest
from lithify_ray.policy import Policy, Queue, State, desired_workers, needed_workers
from lithify_ray.values import parse_duration, parse_size

POLICY = Policy(min_workers=2, max_workers=8, groups_per_worker=2, up_pause=15, down_after=300)


def run(policy, states, state=None, step=1.0, now=0.0):
    """The number of workers after each of these queues, one a step."""
    state = state or State(policy.min_workers)
    counts = []
    for queue in states:
        count, state = desired_workers(queue, now, state, policy)
        assert count == state.workers
        counts.append(count)
        now += step
    return counts


@pytest.mark.parametrize("queue, workers", [
    (Queue(), 2), (Queue(1), 2), (Queue(4), 2), (Queue(5), 3), (Queue(4, 0, 4), 4),
    (Queue(16), 8), (Queue(17), 8), (Queue(0, 0, 7), 4)])
def test_need(queue, workers):
    assert needed_workers(queue, POLICY) == workers


def test_need_by_bytes():
    policy = Policy(0, 100, groups_per_worker=4, bytes_per_worker=10)
    assert needed_workers(Queue(8, 80), policy) == 8
    assert needed_workers(Queue(8, 81), policy) == 8  # There are no more groups than that.
    assert needed_workers(Queue(8, 30), policy) == 3
    assert needed_workers(Queue(0, 30, 5), policy) == 2


def test_up_at_once_and_doubling():
    assert run(POLICY, [Queue(16)] * 31) == [4] * 15 + [8] * 16


def test_up_from_nothing():
    policy = Policy(0, 8, 2, up_pause=0)
    assert run(policy, [Queue(16)] * 5) == [1, 2, 4, 8, 8]


def test_down_only_after_the_whole_window():
    counts = run(POLICY, [Queue(16)] + [Queue()] * 301, State(8))
    assert counts == [8] * 300 + [2, 2]


def test_down_to_the_largest_need_of_the_window():
    queues = [Queue(16)] + [Queue(6)] * 100 + [Queue()] * 250 + [Queue()] * 60
    counts = run(POLICY, queues, State(8))
    assert (counts[299], counts[300], counts[399], counts[401]) == (8, 3, 3, 2)


def test_down_by_steps():
    policy = Policy(0, 8, 2, down_after=10, down_step=3)
    assert run(policy, [Queue()] * 14, State(8))[9:] == [8, 5, 2, 0, 0]


def test_those_taken_over_are_kept_for_a_window():
    """A supervisor that starts knows nothing of what was needed."""
    assert run(POLICY, [Queue()] * 302, State(8))[298:] == [8, 8, 2, 2]


def test_unknown_queue_holds():
    counts = run(POLICY, [Queue(16)] + [None] * 1000 + [Queue()] * 301, State(8))
    assert counts == [8] * 1300 + [2, 2]
    assert run(POLICY, [None] * 3, State(20)) == [8] * 3
    assert run(POLICY, [None] * 3, State(0)) == [2] * 3


def test_new_bounds_hold_at_once():
    assert run(POLICY, [Queue()], State(20)) == [8]
    assert run(POLICY, [Queue()], State(0)) == [2]


def test_a_clock_that_went_back():
    """Nothing is stuck: what was seen in the future is forgotten, and a rise is not waited for."""
    _, state = desired_workers(Queue(8), 1000, State(2), POLICY)
    count, state = desired_workers(Queue(16), 10, state, POLICY)
    assert count == 8
    assert run(POLICY, [Queue()] * 301, state, now=11)[-1] == 2


def test_no_flapping_on_a_saw():
    """Work that comes and goes faster than the window costs no worker its place."""
    queues = ([Queue(16)] * 20 + [Queue()] * 40) * 20
    counts = run(POLICY, queues)
    assert set(counts[16:]) == {8}


@pytest.mark.parametrize("seed", range(200))
def test_random_loads(seed):
    """Always within the bounds; up only as fast as allowed; down only to what was needed in the
    window; a load that stays comes to rest at its need."""
    chance = random.Random(seed)
    low = chance.randint(0, 4)
    policy = Policy(low, low + chance.randint(1, 30), chance.randint(1, 5),
                    chance.choice([0, 100]), chance.choice([1.0, 1.5, 2.0, 10.0]),
                    chance.choice([0, 5, 15]), chance.choice([0, 20, 100]),
                    chance.choice([1, 3, 100]))
    state = State(chance.randint(0, 40))
    now, queue, seen, before = 0.0, Queue(), [], None
    for _ in range(500):
        if chance.random() < 0.1:
            queue = chance.choice([None, Queue(chance.randint(0, 60), chance.randint(0, 5000),
                                               chance.randint(0, 20))])
        count, state = desired_workers(queue, now, state, policy)
        assert policy.min_workers <= count <= policy.max_workers
        need = count if queue is None else needed_workers(queue, policy)
        seen.append((now, need))
        if before is not None:
            if count > before:
                assert count <= max(need, 0) and count <= max(before + 1, before * policy.up_factor)
            if count < before:
                assert count >= max(
                    n for at, n in seen if now - at < policy.down_after or at == now)
                assert before - count <= policy.down_step
        before = count
        now += chance.uniform(0.5, 3)
    queue = Queue(chance.randint(0, 60))
    for _ in range(2000):
        count, state = desired_workers(queue, now, state, policy)
        now += 1
    assert count == needed_workers(queue, policy)
    assert len(state.needs) <= policy.max_workers + 1


@pytest.mark.parametrize("bounds", [dict(min_workers=3, max_workers=2), dict(min_workers=-1),
                                    dict(max_workers=0), dict(groups_per_worker=0),
                                    dict(up_factor=0.5), dict(down_after=-1)])
def test_senseless_policies(bounds):
    with pytest.raises(ValueError):
        Policy(**bounds)


def test_values():
    assert [parse_size(text) for text in ("4096", "64KiB", "1.5GiB", "2G", "7B")] == [
        4096, 65536, 1610612736, 2**31, 7]
    assert [parse_duration(text) for text in ("30", "500ms", "90s", "15min", "2h", "1d")] == [
        30, 0.5, 90, 900, 7200, 86400]
    for wrong in ("", "GiB", "-1", "4XB", "1e9"):
        with pytest.raises(ValueError, match="is not a"):
            parse_size(wrong)
        with pytest.raises(ValueError, match="is not a"):
            parse_duration(wrong)
