"""Workers as actors of a real Ray cluster of three nodes: placed, killed with their node, killed
alone, hung, scaled up by the queue and drained when it is empty. Real processes, loopback only."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import ray
from conftest import MARK, is_alive, marked, wait_until
from lithify_ray import files
from lithify_ray.fleet import fleet_members


def test_life_of_a_fleet(harness, cluster, secret):
    """Up to the minimum, up by the queue, down to the minimum, and gone."""
    harness = harness(1, 4)
    first = harness.serving(1)
    harness.queue(waiting=8)
    four = harness.serving(4)
    # Ray placed them on both nodes with room, each on its node's own address.
    assert sorted(address.rpartition(":")[0] for address in four) == sorted(cluster.hosts * 2)
    assert len({worker.pid for worker in four.values()}) == 4 and set(first) <= set(four)

    # While groups run, nobody is taken away.
    harness.queue(waiting=0, running=7)
    end = time.monotonic() + 4
    harness.tick_until("the window passes", lambda: time.monotonic() > end)
    assert set(harness.published()) == set(four)

    harness.queue(waiting=0)
    left = harness.serving(1)
    gone = [worker for address, worker in four.items() if address not in left]
    assert len(gone) == 3
    harness.tick_until("drained workers have ended", lambda: not any(
        is_alive(worker.pid) or is_alive(worker.actor_pid) for worker in gone))
    harness.tick_until("actors are gone", lambda: len(fleet_members("test")) == 1)
    assert_secret_nowhere(cluster, secret)


class Spied:
    """In the place of an actor's handle until it is drained."""

    def __init__(self, member, on_drain):
        self._member = member
        self._on_drain = on_drain
        self._handle, member.handle = member.handle, self
        self.describe = self._handle.describe
        self.drain = self

    def remote(self):
        self._member.handle = self._handle
        self._on_drain()
        return self._handle.drain.remote()


def test_out_of_the_list_before_it_is_drained(harness):
    """Else the coordinator would send it groups that it refuses."""
    harness = harness(0, 2)
    harness.queue(waiting=4)
    harness.serving(2)
    drained = []
    for member in harness.fleet.members:
        Spied(member, lambda address=member.told.address: drained.append(
            (address, address in harness.published())))
    addresses = set(harness.published())
    harness.queue(waiting=0)
    harness.tick_until("both are drained", lambda: len(drained) == 2)
    assert {address for address, _ in drained} == addresses
    assert not any(listed for _, listed in drained)


def test_actor_is_killed_while_its_worker_drains(harness, binary, capfd):
    """Ray starts it anew; nobody wants it."""
    if "stand_in" not in binary:
        pytest.skip("SKIP: a real worker has no group to run here")
    harness = harness(0, 1, more="[stand_in]\nbusy = 600")
    harness.queue(waiting=2)
    worker, = harness.serving(1).values()
    harness.queue(waiting=0)
    harness.tick_until("it drains", lambda: harness.fleet.members[0].draining_since is not None)
    wait_until("it was told", lambda: harness.fleet.members[0].told.state == "draining"
               or harness.fleet.tick())
    os.kill(worker.actor_pid, signal.SIGKILL)
    harness.tick_until("the fleet is empty", lambda: harness.fleet.members == [])
    wait_until("Ray has none of it", lambda: fleet_members("test") == [], 30)
    assert harness.published() == {} and "Ray has started it anew" in capfd.readouterr().err
    wait_until("its drain time is up", lambda: not is_alive(worker.pid), 30)


def assert_secret_nowhere(cluster, secret):
    """Not on a command line, not in what the cluster keeps of actors, not in a log."""
    for pid in marked(os.environ[MARK]):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                assert secret.encode() not in file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                assert secret.encode() not in file.read()
        except (FileNotFoundError, ProcessLookupError):
            pass
    actors = str(ray._private.state.actors())
    assert "WorkerActor" in actors and secret not in actors
    looked = 0
    for folder, _, names in os.walk(cluster._directory):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    assert secret.encode() not in file.read(), path
                looked += 1
    assert looked > 10


def test_worker_is_killed(harness):
    harness = harness(2, 2)
    before = harness.serving(2)
    handles = {member.name: member.handle for member in harness.fleet.members}
    victim = next(iter(before.values()))
    os.kill(victim.pid, signal.SIGKILL)
    harness.tick_until("it is replaced", lambda: len(harness.published()) == 2
                       and victim.address not in harness.published())
    after = harness.serving(2)
    assert set(before) & set(after) == set(before) - {victim.address}
    assert not is_alive(victim.actor_pid)
    assert victim.id not in {worker.id for worker in after.values()}
    # The same actors: Ray did it.
    assert {member.name: member.handle for member in harness.fleet.members} == handles


def test_actor_is_killed(harness):
    """Its worker goes with it, and Ray starts both anew."""
    harness = harness(1, 1)
    before, = harness.serving(1).values()
    os.kill(before.actor_pid, signal.SIGKILL)
    harness.tick_until("it is replaced", lambda: harness.published()
                       and before.address not in harness.published())
    wait_until("its worker is gone", lambda: not is_alive(before.pid), 30)


def test_node_is_killed(harness, cluster):
    """Its workers come to lie on another node, their processes are gone, and the file is true."""
    harness = harness(2, 2)
    before = harness.serving(2)
    lost = next(iter(before.values()))
    spare = cluster.add_node()
    cluster.kill_node(lost.node)
    harness.tick_until("the file lost it", lambda: lost.address not in harness.published())
    after = harness.serving(2)
    assert all(worker.node != lost.node for worker in after.values())
    assert lost.node not in cluster.hosts and spare in cluster.hosts
    assert {worker.node for worker in after.values()} <= set(cluster.hosts)
    wait_until("its worker is gone", lambda: not is_alive(lost.pid), 30)


def test_hung_worker_is_replaced(harness):
    harness = harness(1, 1, probe_timeout=3)
    before, = harness.serving(1).values()
    os.kill(before.pid, signal.SIGSTOP)
    harness.tick_until("it is replaced", lambda: harness.published()
                       and before.address not in harness.published())
    assert not is_alive(before.pid)


def test_room_comes_later(harness, cluster):
    """More are wanted than there is room for: they start when a node comes."""
    harness = harness(6, 6)
    harness.serving(4)
    host = cluster.add_node()
    six = harness.serving(6)
    assert sorted(worker.node for worker in six.values()).count(host) == 2
    cluster.kill_node(host)


def test_supervisor_dies(harness):
    """The next one takes the workers over, and the coordinator's file never lacks them."""
    harness = harness(2, 2)
    before = harness.serving(2)
    harness.restart_supervisor()
    harness.fleet.tick()
    assert harness.published() == {worker.address: worker.id for worker in before.values()}
    assert harness.serving(2).keys() == before.keys()


def test_no_supervisor_comes(harness):
    harness = harness(1, 1, orphan_seconds=2)
    worker, = harness.serving(1).values()
    wait_until("the worker drains itself", lambda: not is_alive(worker.pid), 30)
    wait_until("and its actor with it", lambda: fleet_members("test") == [], 30)


def test_other_settings(harness):
    """Workers are replaced one by one: one of two always serves."""
    harness = harness(2, 2)
    before = harness.serving(2)
    harness.restart_supervisor(overrides=("worker.max_inflight_groups=3",))
    seen = set()

    def all_new():
        seen.add(len(harness.published()))
        return len(harness.published()) == 2 and not set(harness.published()) & set(before)
    harness.tick_until("all are replaced", all_new)
    assert min(seen) == 1


def test_worker_that_cannot_start(harness, tmp_path):
    """No storm: the supervisor waits longer each time, says why, and starts it once it can."""
    harness = harness(1, 1)
    (tmp_path / "worker.toml").rename(tmp_path / "away.toml")
    began = time.monotonic()
    losses = []
    lose = harness.fleet._lose
    harness.fleet._lose = lambda *told: (losses.append(told[1]), lose(*told))
    harness.tick_until("three attempts", lambda: len(losses) == 3)
    assert time.monotonic() - began > 1 + 2  # The first two pauses.
    assert "before it served" in str(losses[0]) and harness.published() == {}
    (tmp_path / "away.toml").rename(tmp_path / "worker.toml")
    harness.serving(1)


def test_command_line(cluster, tmp_path, binary, config):
    """lithify-ray up and status as they are used; SIGTERM drains all."""
    command = [sys.executable, "-m", "lithify_ray"]
    where = ["--address", cluster.address, "--fleet", "cli"]
    workers_file = tmp_path / "run" / "workers.json"
    up = [*command, "up", *where, "--min", "2", "--max", "2", "--worker-config", config(),
          "--binary", binary, "--cpus", "1", "--memory", "100MiB", "--interval", "200ms",
          "--workers-file", workers_file, "--queue-file", tmp_path / "queue.json"]
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        running = subprocess.Popen(up, stderr=log, stdout=log)
    try:
        wait_until("two are published", lambda: workers_file.exists()
                   and len(files.read_workers(workers_file)) == 2)
        second = subprocess.run(up, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 2 and "another lithify-ray keeps it" in second.stderr
        status = subprocess.run([*command, "status", *where, "--json"], capture_output=True,
                                text=True, timeout=60, check=False)
        rows = [json.loads(line) for line in status.stdout.splitlines()]
        assert status.returncode == 0 and [row["state"] for row in rows] == ["serving"] * 2
        assert sorted((row["address"], row["id"]) for row in rows) == files.read_workers(
            workers_file)
    finally:
        running.terminate()
        assert running.wait(60) == 0, (tmp_path / "log").read_text()
    assert files.read_workers(workers_file) == []
    assert not any(is_alive(row["pid"]) for row in rows)
    status = subprocess.run([*command, "status", *where], capture_output=True, text=True,
                            timeout=60, check=False)
    assert status.returncode == 1 and status.stdout.split() == [
        "NAME", "STATE", "ADDRESS", "ID", "NODE", "PID", "WHY"]
