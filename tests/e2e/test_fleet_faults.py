"""Jobs on real workers that are killed, paused and cut off in the middle, and coordinators that
are: nothing is lost, nothing is there twice, and what is left over goes with the normal sweep.

LITHIFY_FLEET_ROUNDS: how many rounds (default 6)."""

import os
import random
import signal
import time

import cli
import pytest
from fleet_worker import SECRET, Worker
from test_iceberg_deletes import delete_positions
from test_worker import fleet_args

ROUNDS = int(os.environ.get("LITHIFY_FLEET_ROUNDS", "6"))
REGIONS = 8


def partitioned(lake, name="t"):
    """Several groups, with deletes; the rows that are to be there in the end."""
    lake.create(name, lake_schema(), partition_by=["region"])
    lake.append(name, *([{"id": batch * 1000 + row, "region": f"r{row % REGIONS}"}
                         for row in range(400)] for batch in range(6)))
    files = sorted(lake.data_entries(name), key=lambda e: e.file.file_path)
    first = files[0].file
    delete_positions(lake, [(first.file_path, 0), (first.file_path, 5)], name=name,
                     partition=first.partition)
    return lake.rows(name)


def lake_schema():
    from iceberg_lake import PLAIN
    return PLAIN


def wait_for(process, limit=120):
    try:
        process.communicate(timeout=limit)
    except Exception:
        cli.kill_and_wait(process)
        raise
    return process.returncode


def sweep(lake, name="t"):
    """Ends as an owner would: a job that nobody disturbs, then the sweep of orphans."""
    done = lake.run("rewrite-data-files", name, "--rewrite-all").json
    assert done["status"] == "committed"
    lake.age(name)
    lake.run("remove-orphan-files", name, "--older-than", "3d")
    assert not lake.leftovers(name)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_round_with_faults(lake, tmp_path, seed):
    """One fault of each kind in turn, at a random moment of a job on three workers."""
    chance = random.Random(seed)
    expected = partitioned(lake)
    workers = [Worker(tmp_path / "fleet", "worker.max_inflight_groups=1", "worker.unadopted=5s",
                      name=f"w{number}") for number in range(3)]
    kind = ("kill", "pause", "stop", "coordinator", "two", "restart")[seed % 6]
    paused = []
    known = lake.tree("t")
    try:
        job = lake.start("rewrite-data-files", "t", "--rewrite-all", "--set", "fleet.silence=5s",
                         *fleet_args(*workers))
        # Some rounds before the first output, most after it.
        if chance.random() < 0.8:
            lake.wait_for_output("t", job, known)
        time.sleep(chance.choice((0, 0.01, 0.05, 0.1, 0.3)))
        victim = chance.choice(workers)
        if kind == "kill":
            victim.process.kill()
        elif kind == "pause":
            victim.process.send_signal(signal.SIGSTOP)
            paused.append(victim)
        elif kind == "stop":
            victim.process.terminate()
        elif kind == "coordinator":
            job.kill()
        elif kind == "two":
            for one in chance.sample(workers, 2):
                one.process.kill()
        elif kind == "restart":
            victim.process.kill()
            victim.process.wait(timeout=60)
        code = wait_for(job)
        if kind == "coordinator":
            assert code in (0, -signal.SIGKILL)
        else:
            assert code == 0, (kind, code)
            assert len(lake.data_entries("t")) == REGIONS
        assert lake.rows("t") == expected
    finally:
        for one in paused:
            one.process.send_signal(signal.SIGCONT)
        # What a worker still does for a job that is over touches nothing that was committed.
        for one in workers:
            one.stop()
    assert lake.rows("t") == expected
    sweep(lake)
    assert lake.rows("t") == expected


def test_nobody_there(lake):
    """R136, R290: with `auto` the job is done here; with `require` it says why it is not."""
    expected = partitioned(lake)
    nobody = ["--set", "fleet.insecure_loopback=true", "--set", f"fleet.secret={SECRET}",
              "--set", "fleet.workers=127.0.0.1:9"]
    failed = lake.run("rewrite-data-files", "t", "--rewrite-all", "--distributed", "require",
                      *nobody, code=1)
    assert "insufficient_workers" in failed.json["reason"]
    assert not [path for path in lake.leftovers("t") if path.suffix == ".parquet"]
    done = lake.run("rewrite-data-files", "t", "--rewrite-all", *nobody).json
    assert done["status"] == "committed" and done["distributed"] is False
    assert any(note.startswith("in this process: ") for note in done["notes"])
    assert lake.rows("t") == expected


def test_who_did_what(lake, tmp_path):
    """Each group with its worker, for programs and for people."""
    expected = partitioned(lake)
    workers = [Worker(tmp_path / "fleet", "worker.max_inflight_groups=1", name=f"w{number}")
               for number in range(2)]
    try:
        done = lake.run("rewrite-data-files", "t", "--rewrite-all", *fleet_args(*workers)).json
    finally:
        for one in workers:
            one.stop()
    fleet = done["fleet"]
    assert [group["group"] for group in fleet["groups"]] == list(range(REGIONS))
    for total in ("bytes_in", "bytes_out"):
        assert sum(group[total] for group in fleet["groups"]) == done[total] > 0
        assert sum(worker[total] for worker in fleet["workers"]) == done[total]
    names = {worker["worker"]: worker["groups"] for worker in fleet["workers"]}
    assert sum(names.values()) == REGIONS
    assert {name.split(" ")[0] for name in names} <= {one.address for one in workers}
    assert all(group["worker"] in names and not group["failures"]
               and 0 < group["seconds"] <= fleet["seconds"] for group in fleet["groups"])
    assert fleet["attempts"] == REGIONS + fleet["hedged"] and fleet["failed_over"] == 0
    assert fleet["check_seconds"] > 0
    assert any(note.startswith("by ") and f": {REGIONS} groups in " in note
               for note in done["notes"])
    assert lake.rows("t") == expected
    here = lake.run("rewrite-data-files", "t", "--rewrite-all").json
    assert here["fleet"] is None and here["distributed"] is False


def test_a_wrong_secret_ends_the_job_at_once(lake, tmp_path):
    """R127: an application error; no other worker is asked, and nothing is written."""
    expected = partitioned(lake)
    workers = [Worker(tmp_path / "fleet", name=f"w{number}") for number in range(2)]
    try:
        args = [arg.replace(SECRET, SECRET[::-1]) for arg in fleet_args(*workers)]
        failed = lake.run("rewrite-data-files", "t", "--rewrite-all", *args, code=None)
        assert failed.code != 0
        assert lake.rows("t") == expected
        assert not [path for path in lake.leftovers("t") if path.suffix == ".parquet"]
    finally:
        for one in workers:
            one.stop()
