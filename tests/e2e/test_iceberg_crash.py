"""A rewrite that is stopped or killed: the table has the same rows at every moment, and what was
left behind goes later (R114, R117, R302)."""

import json
import random
import signal
import time

import cli
import pyarrow as pa
import pyarrow.compute
import pytest
from iceberg_lake import PLAIN, Lake, plain_rows

FILES, ROWS = 8, 40_000


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A table whose rewrite takes a while."""
    lake = Lake(tmp_path_factory.mktemp("crash") / "warehouse")
    lake.create("t", PLAIN, partition_by=["region"])
    table = lake.load("t")
    with table.transaction() as transaction:
        for number in range(FILES):
            ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
            region = pa.array(["eu", "us"] * (ROWS // 2))
            note = pa.array([f"note {i * 7919 % 1000003}" for i in ids.to_pylist()])
            transaction.append(pa.table([ids, region, note], schema=PLAIN.as_arrow()))
    return lake


def content(lake):
    """Row count and sums: enough to see a lost, doubled or changed row of half a million."""
    table = lake.load("t").scan().to_arrow()
    notes = table.group_by("region").aggregate([("note", "count_distinct"), ("id", "sum")])
    return (table.num_rows, sorted(map(str, notes.to_pylist())),
            pyarrow.compute.count_distinct(table["id"]).as_py())


def leftovers_go(lake):
    """After a day has passed, remove-orphan-files leaves what is reachable and nothing else."""
    lake.age("t", days=4)
    lake.run("remove-orphan-files", "t", "--force")
    assert set(lake.tree("t")) == lake.reached("t")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle(large, how):
    """Exit 130; the table is as it was, and no output is left."""
    before, known = content(large), set(large.tree("t"))
    location = large.metadata_location("t")
    process = large.start("rewrite-data-files", "t", "--rewrite-all", "--jobs", "1")
    assert large.wait_for_output("t", process, known), process.communicate()
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == cli.INTERRUPTED, out + err
    assert json.loads(out)["error"]["code"] == "cancelled"
    assert large.metadata_location("t") == location
    assert set(large.tree("t")) == known
    assert content(large) == before


def test_killed_at_random_times(large):
    """SIGKILL at any moment, also while it commits. Each run rewrites all, so that there is always
    something to do; then a run that is left alone, and the sweep."""
    rng = random.Random(23)
    before = content(large)
    begun = time.monotonic()
    large.run("rewrite-data-files", "t", "--rewrite-all")
    usual = time.monotonic() - begun
    assert content(large) == before
    landed = killed = 0
    for number in range(10):
        location = large.metadata_location("t")
        process = large.start("rewrite-data-files", "t", "--rewrite-all")
        # Half of them near the end, where the commit is.
        time.sleep(rng.uniform(0, usual) if number % 2 else rng.uniform(0.8, 1.05) * usual)
        killed += cli.kill_and_wait(process) == -signal.SIGKILL
        landed += large.metadata_location("t") != location
        assert content(large) == before, f"kill {number}"
    assert killed > 0
    result = large.run("rewrite-data-files", "t", "--rewrite-all").json
    assert (result["status"], result["files_added"]) == ("committed", 2)
    assert content(large) == before
    leftovers_go(large)
    assert content(large) == before


def test_killed_expiry(large):
    """The metadata first, then the files: a kill leaves at most files that the sweep takes."""
    rng = random.Random(24)
    before = content(large)
    for _ in range(3):
        large.append("t", plain_rows(0, 0))
        process = large.start("expire-snapshots", "t", "--older-than", "now")
        time.sleep(rng.uniform(0, 0.1))
        cli.kill_and_wait(process)
        assert content(large) == before
        assert large.reached("t") <= set(large.tree("t"))
    large.run("expire-snapshots", "t", "--older-than", "now")
    leftovers_go(large)
    assert content(large) == before
