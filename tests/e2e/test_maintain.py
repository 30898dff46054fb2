"""lithify-maintain on a catalog of this machine: gates, plan, runs, records. The gate that a
catalog keeps itself, the grant, is in tests/services/test_maintain_grants.py."""

import fcntl
import json
import pathlib
import signal
import subprocess
import time

import cli
import pytest
import server as servers
from iceberg_lake import Lake, as_time_goes_by

pytestmark = pytest.mark.local_disk

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
CONFIG = """
[catalogs.lake]
uri = "{uri}"
[maintenance]
mode = "{mode}"
{more}
[maintenance.scheduler]
quiet_secs = 0
jitter_secs = 0
{scheduler}
[maintenance.budget]
gain_percent_min = 0
{budget}
"""


class Maintained(Lake):
    def configure(self, mode="active", more="", scheduler="", budget=""):
        self.config = self.path / "maintain.toml"
        self.config.write_text(CONFIG.format(uri=self.uri, mode=mode, more=more,
                                             scheduler=scheduler, budget=budget))

    @property
    def path(self):
        return pathlib.Path(self.uri.removeprefix("sqlite:///")).parent

    @property
    def state(self):
        return self.path / "state" / "lithify"

    def environment(self, env=None):
        return {**cli.environment(env), "XDG_STATE_HOME": str(self.path / "state")}

    def maintain(self, *args, code=0, env=None):
        done = subprocess.run([PROGRAM, *args, "--config", self.config], capture_output=True,
                              text=True, env=self.environment(env), timeout=120, check=False)
        assert code in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
        return done

    def report(self, *args, code=0, env=None):
        return json.loads(self.maintain(*args, "--json", code=code, env=env).stdout)

    def opt_in(self, name, **properties):
        with self.load(name).transaction() as change:
            change.set_properties({"sqe.maintenance.enabled": "true", **properties})

    def audited(self):
        log = self.state / "maintenance.audit.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.fixture
def lake(tmp_path):
    lake = Maintained(tmp_path)
    lake.configure()
    return lake


def table_of(report, name):
    (one,) = [t for t in report["tables"] if t["table"] == f"lake.sales.{name}"]
    return one


def test_who_opted_in_is_compacted_and_nobody_else(lake):
    for name in ("mine", "others", "almost"):
        lake.plain(name, files=6)
    lake.opt_in("mine")
    with lake.load("almost").transaction() as change:
        change.set_properties({"sqe.maintenance.enabled": "True"})
    rows = {name: lake.rows(name) for name in ("mine", "others", "almost")}
    before = {name: lake.tree(name) for name in ("others", "almost")}
    report = lake.report("run-once")
    (job,) = report["jobs"]
    assert (job["table"], job["status"], job["files_in"], job["files_out"]) == (
        "lake.sales.mine", "success", 6, 1)
    assert [table_of(report, n)["gate"] for n in ("mine", "others", "almost")] == [
        "opted_in", "not_opted_in", "not_opted_in"]
    assert len(lake.data_entries("mine")) == 1
    assert {name: lake.tree(name) for name in before} == before
    assert {name: lake.rows(name) for name in rows} == rows
    summary = lake.head("mine").summary
    assert summary["sqe.maintenance.trigger"] == "scheduled"
    assert summary["sqe.maintenance.job-id"] == job["job_id"]
    phases = [e["phase"] for e in lake.audited() if e.get("job_id") == job["job_id"]
              and e["statement_type"] == "rewrite_data_files"]
    assert phases == ["intent", "committed"]
    # A second pass finds a table in order, and leaves it.
    snapshot = lake.head("mine").snapshot_id
    again = lake.report("run-once")
    assert [job["status"] for job in again["jobs"]] == ["skipped"]
    assert lake.head("mine").snapshot_id == snapshot


def test_a_plan_says_why_and_changes_nothing(lake):
    lake.plain("t", files=6)
    lake.plain("good", files=1)
    lake.opt_in("t")
    lake.opt_in("good")
    trees = {name: lake.tree(name) for name in ("t", "good")}
    report = lake.report("plan")
    verdicts = {line["table"]: line for line in report["plan"]}
    assert verdicts["lake.sales.t"]["verdict"] == "run"
    assert verdicts["lake.sales.t"]["rank"] == 1
    assert verdicts["lake.sales.t"]["files"] == 6
    assert verdicts["lake.sales.good"]["verdict"] == "nothing_planned"
    assert all(line["reason"] for line in report["plan"])
    assert not report["jobs"]
    assert {name: lake.tree(name) for name in trees} == trees
    assert not lake.state.joinpath("maintenance.lake.json").exists()
    text = lake.maintain("plan").stdout
    assert "lake.sales.t" in text and "run" in text


def test_reads_come_from_the_log_of_the_server(lake, tmp_path):
    """R169: a SELECT has on record what it read, and what is read is worth more."""
    for name in ("read", "joined", "idle", "asked"):
        lake.plain(name, files=6)
        lake.opt_in(name)
    server = servers.Server(tmp_path / "server", servers.lake_config(lake))
    try:
        statements = ["SELECT count(*) FROM sales.read"] * 30
        statements.append("SELECT a.id FROM sales.read a JOIN lake.sales.joined b USING (id)")
        statements += ["CALL system.table_health(table => 'sales.asked')"] * 5
        server.run(*statements)
    finally:
        server.stop(code=None)
    lake.configure(more=f'query_log = "{server.audit_log}"')
    reads = {line["table"].removeprefix("lake.sales."): line["reads_per_day"]
             for line in lake.report("plan")["plan"]}
    # What nobody has read for a moment is as the prior says, and so is what was only looked into.
    lake.configure()
    (prior,) = {line["reads_per_day"] for line in lake.report("plan")["plan"]}
    assert reads["idle"] == reads["asked"] == pytest.approx(prior, rel=0.01)
    assert reads["read"] > reads["joined"] > prior * 1.001
    # Each SELECT is one read of each of its tables.
    assert reads["read"] - prior == pytest.approx(31 * (reads["joined"] - prior), rel=0.05)


def test_off_constructs_nothing(lake):
    lake.configure(mode="off")
    lake.plain("t", files=6)
    lake.opt_in("t")
    done = lake.maintain()
    assert 'mode is "off"' in done.stdout
    assert not lake.state.exists()


def test_advisory_reports_and_touches_nothing(lake):
    lake.configure(mode="advisory")
    lake.plain("t", files=6)
    lake.plain("mine", files=6)
    lake.opt_in("mine")
    trees = {name: lake.tree(name) for name in ("t", "mine")}
    report = lake.report("run-once")
    assert not report["jobs"]
    for name in trees:
        assert table_of(report, name)["small_files"] == 6
    gauges = {(m["name"], m["attributes"].get("lithify.table")): m["value"]
              for m in report["metrics"]}
    assert gauges["lithify.table.small_files", "lake.sales.t"] == 6
    assert {name: lake.tree(name) for name in trees} == trees


def test_the_owners_overrides_hold(lake):
    lake.plain("t", files=6)
    lake.opt_in("t", **{"sqe.maintenance.compaction.min-input-files": "7"})
    report = lake.report("run-once")
    assert [job["status"] for job in report["jobs"]] == ["skipped"]
    lake.opt_in("t", **{"sqe.maintenance.compaction.min-input-files": "many"})
    report = lake.report("run-once")
    assert [job["status"] for job in report["jobs"]] == ["success"]
    assert "many" in " ".join(table_of(report, "t")["warnings"])


def test_what_follows_is_opted_in_by_itself(lake):
    lake.plain("t", files=6)
    lake.opt_in("t", **{"sqe.maintenance.expire-snapshots.enabled": "true",
                        "sqe.maintenance.expire-snapshots.older-than": "1s",
                        "sqe.maintenance.expire-snapshots.retain-last": "1"})
    time.sleep(1.5)
    report = lake.report("run-once")
    assert [job["procedure"] for job in report["jobs"]] == ["rewrite_data_files",
                                                            "expire_snapshots"]
    assert {job["status"] for job in report["jobs"]} == {"success"}
    assert len(list(lake.load("t").snapshots())) == 1
    assert len(lake.rows("t")) == 60


def test_orphans_go_though_there_are_neighbours(lake):
    lake.plain("t", files=6)
    lake.plain("neighbour", files=2)
    lake.opt_in("t", **{"sqe.maintenance.remove-orphan-files.enabled": "true"})
    stray = lake.directory("t") / "data" / "stray.parquet"
    stray.write_bytes(b"PAR1")
    lake.age("t")
    before = lake.tree("neighbour")
    report = lake.report("run-once", env=as_time_goes_by("remove-orphan-files"))
    last = report["jobs"][-1]
    assert (last["procedure"], last["status"], last["files_in"]) == (
        "remove_orphan_files", "success", 1), last
    assert not stray.exists() and len(lake.rows("t")) == 60
    assert lake.tree("neighbour") == before


def test_two_of_one_state_file_do_not_both_run(lake):
    lake.plain("t", files=6)
    lake.opt_in("t")
    lock = lake.state / "maintenance.lake.json.lock"
    lake.state.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        report = lake.report("run-once", code=1)
        assert [line["what"] for line in report["loud"]] == ["not_alone"]
        assert len(lake.data_entries("t")) == 6
        assert lake.report("plan")["plan"][0]["verdict"] == "run"  # Looking is free.
    assert lake.report("run-once")["jobs"][0]["status"] == "success"


def test_a_state_that_cannot_be_read_is_not_written_over(lake):
    lake.plain("t", files=6)
    lake.opt_in("t")
    lake.state.mkdir(parents=True)
    state = lake.state / "maintenance.lake.json"
    state.write_text("{}")
    report = lake.report("run-once", code=1)
    assert [line["what"] for line in report["loud"]] == ["no_state"]
    assert state.read_text() == "{}" and len(lake.data_entries("t")) == 6


def test_a_status_that_is_old_is_no_good_news(lake):
    lake.plain("t", files=6)
    lake.opt_in("t")
    lake.report("run-once")
    assert lake.report("status")["jobs"][0]["status"] == "success"
    lake.configure(scheduler="tick_secs = 1")
    time.sleep(11)
    assert "not running" in lake.maintain("status", code=1).stderr


def test_it_runs_by_itself_until_it_is_stopped(lake):
    lake.plain("t", files=6)
    lake.opt_in("t")
    lake.configure(scheduler="tick_secs = 1\non_change = true\nmin_interval_secs = 0")
    process = subprocess.Popen([PROGRAM, "--config", lake.config], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=lake.environment())
    try:
        assert "mode active" in process.stdout.readline()
        deadline = time.monotonic() + 100
        while len(lake.data_entries("t")) > 1:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.5)
        status = lake.report("status", code=None)
        assert status["mode"] == "active"
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "1 jobs done" in err
    state = json.loads((lake.state / "maintenance.lake.json").read_text())
    assert "lake.sales.t" in state["tables"]
    assert "lake.sales.t" in lake.maintain("status", code=None).stdout


def test_budgets_are_strict(lake):
    for name in ("a", "b", "c"):
        lake.plain(name, files=6)
        lake.opt_in(name)
    lake.configure(budget="commits = 2")
    report = lake.report("run-once")
    statuses = sorted(job["status"] for job in report["jobs"])
    assert statuses == ["skipped", "success", "success"]
    # The budget is of the whole run: from one fire of the schedule to the next.
    report = lake.report("run-once")
    assert not [job for job in report["jobs"] if job["status"] == "success"]
    assert "over" in " ".join(line["verdict"] for line in report["plan"])


def test_what_does_not_pay_is_left(lake):
    lake.plain("t", files=6)
    lake.opt_in("t")
    lake.configure(budget="")
    lake.config.write_text(lake.config.read_text().replace("gain_percent_min = 0", ""))
    report = lake.report("run-once")
    assert [line["verdict"] for line in report["plan"]] == ["too_little_gain"]
    assert "threshold 1" in report["plan"][0]["reason"]
    assert [job["status"] for job in report["jobs"]] == ["skipped"]
    assert len(lake.data_entries("t")) == 6


def test_a_breaker_is_closed_by_hand(lake):
    lake.plain("mine", files=6)
    lake.opt_in("mine")
    lake.maintain("run-once")
    (path,) = [p for p in lake.state.glob("maintenance.lake.json")]
    state = json.loads(path.read_text())
    micros = int(time.time() * 1_000_000)
    state["tables"]["lake.sales.mine"] |= {
        "failures_in_row": "5", "failed_at": str(micros), "attempts_in_row": "1",
        "last_ended": str(micros), "last_code": "transient", "last_reason": "the disk is gone"}
    path.write_text(json.dumps(state))
    report = lake.report("run-once")
    assert table_of(report, "mine")["due"] == "breaker_open"
    shown = lake.maintain("status").stdout
    assert "the disk is gone" in shown and "breaker_open" in shown, shown
    assert "--table is required" in lake.maintain("reset", code=2).stderr
    refused = lake.maintain("reset", "--table", "lake.sales.other", code=None)
    assert refused.returncode != 0 and "open are those of lake.sales.mine" in refused.stderr
    told = lake.maintain("reset", "--table", "lake.sales.mine").stdout
    assert "the disk is gone" in told and "ends at the next tick" in told, told
    report = lake.report("run-once")
    assert table_of(report, "mine")["due"] == "due"
    resets = [e for e in lake.audited() if "lake.sales.mine end" in json.dumps(e)]
    assert len(resets) == 1, resets


def test_errors_of_use(lake):
    for args, code, word in [(["nonsense"], 2, "nonsense"),
                             (["plan", "--config", "/none"], 2, "none")]:
        done = subprocess.run([PROGRAM, *args], capture_output=True, text=True,
                              env=lake.environment(), timeout=60, check=False)
        assert done.returncode == code
        assert word in done.stdout + done.stderr
    lake.config.write_text("[maintenance]\nmode = \"actve\"\n")
    assert "actve" in lake.maintain(code=2).stderr
    lake.configure()
    assert "no tick" in lake.maintain("status", code=1).stderr
