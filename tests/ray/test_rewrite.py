"""A real table rewritten by workers that lithify-ray runs as Ray actors on nodes of a cluster: as
many as the coordinator's own queue asks for, one of them killed in the middle and started anew by
Ray, and few again when nothing waits. What is in the table is judged by other programs."""

import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import HERE, REAL, is_alive, wait_until
from fleet_harness import Harness
from lithify_ray.fleet import fleet_members
from lithify_ray.policy import Policy

LITHIFY = REAL.parent / "lithify"
PYTHON = pathlib.Path(os.environ.get("LITHIFY_PYTHON") or pathlib.Path(
    os.environ.get("LITHIFY_CACHE") or pathlib.Path.home() / ".cache" / "lithify"
) / "venv" / "bin" / "python")
PARTITIONS, FILES, ROWS = 16, 3, 20_000

pytestmark = pytest.mark.skipif(
    not os.access(REAL, os.X_OK) or not os.access(LITHIFY, os.X_OK) or not PYTHON.exists(),
    reason="needs lithify, lithify-worker and the interpreter with pyiceberg")


def lake(*args):
    # The interpreter's own packages, not those of Ray's.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([PYTHON, HERE / "lake_table.py", *map(str, args)], capture_output=True,
                          text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def running(harness):
    """Groups that workers have, as the coordinator says."""
    try:
        return json.loads(harness.queue_file.read_text(encoding="utf-8"))["running_groups"]
    except FileNotFoundError:
        return 0


def check(result, before, after, victim, workers):
    assert result["status"] == "committed" and result["distributed"] is True
    assert result["groups"] == after["files"] == PARTITIONS
    assert (after["rows"], after["sum"]) == (before["rows"], before["sum"])
    assert result["rows_in"] == result["rows_out"] == before["rows"]
    fleet = result["fleet"]
    done = {worker["worker"].split(" ")[0]: worker["groups"] for worker in fleet["workers"]}
    assert sum(done.values()) == PARTITIONS and set(done) & (set(workers) - {victim.address})
    # What the killed one had was done again, by another.
    assert fleet["failed_over"] >= 1 and fleet["attempts"] > PARTITIONS
    assert any(failure.startswith(victim.address) for group in fleet["groups"]
               for failure in group["failures"])


def test_a_table_rewritten_by_actors(cluster, tmp_path, config):
    uri = lake("make", tmp_path / "lake", PARTITIONS, FILES, ROWS)
    before = json.loads(lake("read", tmp_path / "lake"))
    assert before["rows"] == PARTITIONS * FILES * ROWS and before["files"] == PARTITIONS * FILES
    harness = Harness(tmp_path, str(REAL), config(more="local_files = true\n"), 1, 4,
                      policy=Policy(1, 4, 1, up_pause=0.2, down_after=12),
                      overrides=("worker.max_inflight_groups=1",))
    job = None
    try:
        (victim,) = harness.serving(1).values()
        told = {"distribution": "require", "insecure_loopback": "true", "discovery": "file",
                "hedge": "false", "secret_file": tmp_path / "secret",
                "workers_file": harness.workers_file, "queue_file": harness.queue_file}
        sets = [part for key, value in told.items() for part in ("--set", f"fleet.{key}={value}")]
        job = subprocess.Popen(
            [LITHIFY, "rewrite-data-files", "lake.sales.t", "--rewrite-all", "--catalog-uri", uri,
             "--json", *sets], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # The only worker stops in the middle of a group, so that the job is there while others
        # come: as many as the coordinator's queue asks for.
        wait_until("the coordinator says what waits", lambda: running(harness) == 1)
        os.kill(victim.pid, signal.SIGSTOP)
        four = harness.serving(4)
        assert job.poll() is None, job.communicate()
        (actor,) = [member.name for member in harness.fleet.members
                    if member.told is not None and member.told.actor_pid == victim.actor_pid]
        os.kill(victim.actor_pid, signal.SIGKILL)
        harness.tick_until("its worker ends with it", lambda: not is_alive(victim.pid), 30)
        harness.tick_until("Ray starts the actor anew", lambda: any(
            member.name == actor and member.told is not None
            and member.told.actor_pid != victim.actor_pid for member in harness.fleet.members), 30)
        harness.tick_until("the job ends", lambda: job.poll() is not None, 30)
        out, errors = job.communicate(timeout=10)
        assert job.returncode == 0, errors[-2000:]
        check(json.loads(out), before, json.loads(lake("read", tmp_path / "lake")), victim, four)
        # The queue went with the job: the number goes back by itself.
        assert not harness.queue_file.exists()
        harness.serving(1)
        harness.tick_until("actors are gone", lambda: len(fleet_members("test")) == 1, 30)
    finally:
        if job is not None and job.poll() is None:
            job.kill()
            job.communicate()
        harness.fleet.close()
