"""lithify-maintain on trees of hive-partitioned Parquet, alone and beside a catalog: what is due,
what comes first, budgets, errors that stay where they are. Gates are the mode and the list."""

import datetime
import json
import os
import pathlib
import subprocess

import cli
import pyarrow.parquet as pq
import pytest
import tree
from iceberg_lake import Lake

pytestmark = pytest.mark.local_disk

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
CONFIG = """
[maintenance]
mode = "{mode}"
trees = [{trees}]
[maintenance.scheduler]
jitter_secs = 0
{scheduler}
[maintenance.budget]
gain_percent_min = 0
{budget}
{more}
"""


class Trees:
    def __init__(self, path):
        self.path = path
        self.roots = []
        self.config = path / "maintain.toml"

    def add(self, name):
        made = tree.Tree(self.path / name)
        self.roots.append(str(made.root))
        return made

    def configure(self, mode="active", scheduler="", budget="", more="", roots=None):
        trees = ", ".join(f'"{root}"' for root in (roots or self.roots))
        self.config.write_text(CONFIG.format(mode=mode, trees=trees, scheduler=scheduler,
                                             budget=budget, more=more))

    def maintain(self, *args, code=0):
        env = {**cli.environment(), "XDG_STATE_HOME": str(self.path / "state")}
        done = subprocess.run([PROGRAM, *args, "--config", self.config], capture_output=True,
                              text=True, env=env, timeout=120, check=False)
        assert code in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
        return done

    def report(self, *args, code=0):
        return json.loads(self.maintain(*args, "--json", code=code).stdout)


@pytest.fixture
def trees(tmp_path):
    return Trees(tmp_path)


def hour(n):
    return tree.HOUR + datetime.timedelta(hours=n)


def rows(root):
    """Every row of the live files of a tree, by the names that the writer gave them."""
    return sorted(row for path in tree.live_of_tree(root)
                  for row in pq.read_table(path).column("row").to_pylist())


def jobs(report):
    return [(pathlib.Path(job["table"]).name, job["status"]) for job in report["jobs"]]


def test_trees_alone_are_compacted(trees):
    lake = trees.add("lake")
    for n in range(3):
        lake.fill(6, 20, hour=hour(n))
    trees.configure()
    before = rows(lake.root)
    report = trees.report("run-once")
    assert jobs(report) == [("lake", "success")]
    (job,) = report["jobs"]
    assert (job["procedure"], job["files_in"], job["files_out"]) == ("compact", 18, 3)
    assert job["table"] == str(lake.root)
    assert 0 < job["bytes_in"] and 0 < job["bytes_out"]
    assert len(tree.live_of_tree(lake.root)) == 3
    assert rows(lake.root) == before
    assert {line["verdict"] for line in report["plan"]} == {"run"}
    assert sorted(line["rank"] for line in report["plan"]) == [1, 2, 3]
    # The tree's own audit log has the steps, as for every compactor of it.
    log = [json.loads(line) for line in
           (lake.root / "_lithify" / "audit.jsonl").read_text().splitlines()]
    assert [record["phase"] for record in log].count("committed") == 3
    # A second pass finds it in order.
    kept = tree.contents(lake.root / "data")
    assert jobs(trees.report("run-once")) == [("lake", "skipped")]
    assert tree.contents(lake.root / "data") == kept
    text = trees.maintain("status").stdout
    assert str(lake.root) in text and "opted_in" in text


def test_a_plan_changes_nothing(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    lake.fill(6, 20, hour=hour(1))
    before = tree.tree_hash(lake.root)
    trees.configure()
    report = trees.report("plan")
    assert not report["jobs"]
    assert [line["verdict"] for line in report["plan"]] == ["run", "run"]
    assert all(line["table"] == str(lake.root) and line["files"] == 6 and line["reason"]
               for line in report["plan"])
    assert tree.tree_hash(lake.root) == before
    assert "hour=05" in trees.maintain("plan").stdout


def test_advisory_touches_nothing(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    before = tree.tree_hash(lake.root)
    trees.configure(mode="advisory")
    report = trees.report("run-once")
    assert not report["jobs"]
    (seen,) = report["tables"]
    assert (seen["table"], seen["small_files"]) == (str(lake.root), 6)
    assert seen["est_rewrite_bytes"] > 0
    gauges = {(m["name"], m["attributes"].get("lithify.table")): m["value"]
              for m in report["metrics"]}
    assert gauges["lithify.table.small_files", str(lake.root)] == 6
    assert tree.tree_hash(lake.root) == before


def test_off_constructs_nothing(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    before = tree.tree_hash(lake.root)
    trees.configure(mode="off")
    assert 'mode is "off"' in trees.maintain("run-once").stdout
    assert tree.tree_hash(lake.root) == before
    assert not (trees.path / "state").exists()


def test_budgets_are_strict(trees):
    lake, other = trees.add("lake"), trees.add("other")
    for n in range(3):
        lake.fill(6, 20, hour=hour(n))
        other.fill(6, 20, hour=hour(n))
    before = rows(lake.root), rows(other.root)
    trees.configure(budget="commits = 4")
    report = trees.report("run-once")
    done = [path for one in (lake, other) for path in one.root.rglob("manifest.json")]
    assert len(done) == 4
    assert sum(job["files_out"] for job in report["jobs"]) == 4
    assert [line["verdict"] for line in report["plan"]].count("over_run_commits") == 2
    # Until the next fire nothing more is rewritten.
    again = trees.report("run-once")
    assert sum(job["files_out"] for job in again["jobs"]) == 0
    assert (rows(lake.root), rows(other.root)) == before


def test_a_namespace_s_budget_is_a_tree_s(trees):
    lake, other = trees.add("lake"), trees.add("other")
    for n in range(3):
        lake.fill(6, 20, hour=hour(n))
        other.fill(6, 20, hour=hour(n))
    trees.configure(budget="namespace_commits = 2")
    report = trees.report("run-once")
    assert [(job["files_in"], job["files_out"]) for job in report["jobs"]] == [(12, 2), (12, 2)]


def test_a_broken_partition_stops_no_other(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    lake.fill(6, 20, hour=hour(1))
    broken = lake.path(hour=hour(2))
    broken.write_bytes(b"PAR1 this is none PAR1")
    lake.fill(5, 20, hour=hour(2))
    kept = tree.contents(lake.partition(hour=hour(2)))
    trees.configure()
    report = trees.report("run-once", code=None)
    (job,) = report["jobs"]
    assert (job["status"], job["files_in"], job["files_out"]) == ("partial", 12, 2)
    assert "1 failed" in job["reason"] and broken.name in job["reason"]
    assert tree.contents(lake.partition(hour=hour(2))) == kept
    # It is not tried again at once, and the tree goes on.
    lake.fill(6, 20, hour=hour(3))
    report = trees.report("run-once", code=None)
    verdicts = {line["partition"].rstrip("/")[-7:]: line["verdict"] for line in report["plan"]}
    assert verdicts == {"hour=07": "breaker_open", "hour=08": "run"}
    assert len(tree.live(lake.partition(hour=hour(3)))) == 1
    assert tree.contents(lake.partition(hour=hour(2))) == kept


def test_a_tree_that_is_not_there_stops_no_other_and_backs_off(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    gone = trees.path / "gone"
    trees.configure(scheduler="failures_max = 1", roots=[str(gone), str(lake.root)])
    report = trees.report("run-once", code=1)
    assert jobs(report) == [("gone", "failed"), ("lake", "success")]
    (loud,) = report["loud"]
    assert (loud["what"], loud["where"]) == ("unreadable_tree", str(gone))
    assert len(tree.live_of_tree(lake.root)) == 1
    # It is tried again as soon as it is asked for: that it is not there is no failure of ours.
    made = tree.Tree(gone)
    made.fill(6, 20)
    assert ("gone", "success") in jobs(trees.report("run-once"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_tree_that_may_not_be_read_is_told_loudly(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    trees.configure()
    lake.root.chmod(0)
    try:
        report = trees.report("run-once", code=1)
        assert report["loud"][0]["what"] == "unreadable_tree"
        assert [t["due"] for t in trees.report("run-once", code=1)["tables"]] == ["backing_off"]
    finally:
        lake.root.chmod(0o755)


def test_a_tree_whose_steps_cannot_be_recorded_is_left_alone(trees):
    lake, good = trees.add("lake"), trees.add("good")
    lake.fill(6, 20)
    good.fill(6, 20)
    # No step of this one can be recorded, so that none is taken (T25).
    (lake.root / "_lithify").write_text("a file where a directory belongs")
    trees.configure()
    kept = tree.live_of_tree(lake.root)
    first = trees.report("run-once", code=1)
    assert jobs(first) == [("lake", "failed"), ("good", "success")]
    assert "_lithify" in first["jobs"][0]["reason"]
    assert tree.live_of_tree(lake.root) == kept
    second = trees.report("run-once", code=1)
    assert jobs(second) == [("lake", "failed"), ("good", "skipped")]
    assert not second["warnings"]
    assert tree.live_of_tree(lake.root) == kept


def test_beside_a_catalog_both_are_kept(tmp_path):
    lake = Lake(tmp_path)
    lake.plain("t", files=6)
    with lake.load("t").transaction() as change:
        change.set_properties({"sqe.maintenance.enabled": "true"})
    trees = Trees(tmp_path)
    made = trees.add("tree")
    made.fill(6, 20)
    trees.configure(budget="commits = 1", more=f'[catalogs.lake]\nuri = "{lake.uri}"\n')
    report = trees.report("run-once")
    # One budget: the table has it, and the tree waits.
    assert jobs(report) == [("lake.sales.t", "success"), ("tree", "skipped")]
    trees.configure(more=f'[catalogs.lake]\nuri = "{lake.uri}"\n')
    report = trees.report("run-once")
    assert jobs(report) == [("lake.sales.t", "skipped"), ("tree", "success")]
    # A catalog that is away keeps no tree waiting.
    made.fill(6, 20, hour=hour(1))
    trees.configure(more='[catalogs.lake]\nuri = "sqlite:///nowhere/at/all.db"\n')
    report = trees.report("run-once", code=1)
    assert report["error"]
    assert jobs(report) == [("tree", "success")]


def test_a_catalog_that_is_not_asked_hides_no_tree(trees):
    """Without a principal a REST catalog is not asked; this one would not answer."""
    lake = trees.add("lake")
    lake.fill(6, 20)
    before = tree.tree_hash(lake.root)
    trees.configure(mode="advisory", more='[catalogs.lake]\nuri = "http://127.0.0.1:1/"\n')
    report = trees.report("run-once")
    assert report["limits"] and not report["error"] and not report["loud"]
    assert [(t["table"], t["small_files"]) for t in report["tables"]] == [(str(lake.root), 6)]
    assert [line["verdict"] for line in report["plan"]] == ["run"]
    assert tree.tree_hash(lake.root) == before


def test_the_log_table_has_its_runs(tmp_path):
    lake = Lake(tmp_path)
    cli.run("init-state", "lake", "--catalog-uri", lake.uri, "--warehouse",
            cli.place.location(lake.root))
    trees = Trees(tmp_path)
    made = trees.add("tree")
    made.fill(6, 20)
    catalog = f'[catalogs.lake]\nuri = "{lake.uri}"\n'
    trees.configure(more=catalog)
    (job,) = trees.report("run-once")["jobs"]
    (row,) = [row for row in lake.catalog.load_table(("sqe_system", "maintenance_log")).scan()
              .to_arrow().to_pylist() if row["table_name"] == str(made.root)]
    assert (row["job_id"], row["status"], row["trigger"]) == (job["job_id"], "success",
                                                               "scheduled")
    assert (row["files_in"], row["files_out"]) == (6, 1)
    assert "compact: 1 partition compacted" in row["error"]


def test_a_tree_of_a_tick_is_due_by_its_schedule(trees):
    lake = trees.add("lake")
    lake.fill(6, 20)
    trees.configure()
    report = trees.report("run-once", "--scheduled")
    assert [t["due"] for t in report["tables"]] == ["not_yet"]
    assert not report["jobs"] and not report["plan"]
    state = json.loads((trees.path / "state" / "lithify" / "maintenance.json").read_text())
    assert f"tree:{lake.root}" in state["tables"]
