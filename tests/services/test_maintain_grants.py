"""lithify-maintain as a principal of its own (Keycloak) at a catalog that asks a policy about every
request (rustberg): the owner's property, the catalog's grant, and a token for each job. What is
told is told everywhere: report, exit code, audit log, metric, maintenance log; what is not allowed
leaves no trace in the table."""

import os
import random
import signal
import sys
import time

import cli
import pytest
import red_team
from iceberg_lake import PLAIN
from maintaining import asked, make, seen, until  # noqa: F401  Fixtures.
from proxy import error, lose_request
from red_team import RedTeam

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "e2e"))

import server as servers  # noqa: E402

SLOW_READ = str(cli.REPOSITORY / "build" / "tests" / "slow_read.so")


@pytest.fixture
def lake(make):
    return make()


def jobs_of(report):
    return [(job["table"], job["procedure"], job["status"]) for job in report["jobs"]]


def test_whose_owner_opts_in_is_compacted_as_the_principal_alone(lake):
    lake.plain("t", files=6)
    lake.opt_in()
    rows, since = lake.rows("t"), len(lake.service.recorded())
    report = lake.report()
    assert jobs_of(report) == [(lake.key_of(), "rewrite_data_files", "success")]
    (job,) = report["jobs"]
    assert (job["files_in"], job["files_out"], report["loud"], report["warnings"]) == (6, 1, [], [])
    assert lake.rows("t") == rows and len(lake.data_entries("t")) == 1
    assert lake.leftovers("t") == set()
    # The catalog heard of nobody else, by its gateway's record and by its own.
    assert lake.bearers() == {"maintainer"}
    events = lake.service.recorded()[since:]
    table = f"acme/{'/'.join(lake.namespace)}/t"
    updates = [event["principal_id"] for event in events
               if event.get("operation") == "Update" and event.get("resource_id") == table]
    assert updates and all(event["outcome"] == "success" for event in events)
    # A token for the look, the log and the job each, and a fresh one before the commit.
    assert lake.tokens_asked() == [("maintainer", 200)] * len(lake.asked.calls)
    assert len(lake.asked.calls) >= 4
    (commit,) = [one for one in lake.seen.sent_commits
                 if one.path.endswith("/tables/t") and one.status == 200]
    (looked, *_), (probe, *_) = [
        [one for one in calls if one.path.partition("?")[0].endswith("/tables/t")]
        for calls in (lake.seen.calls, lake.seen.sent_commits)]
    assert len({one.headers["Authorization"] for one in (looked, probe, commit)}) == 3
    summary = lake.head("t").summary
    assert summary["sqe.maintenance.trigger"] == "scheduled"
    assert summary["sqe.maintenance.job-id"] == job["job_id"]
    assert summary["sqe.maintenance.principal"] == "the maintainer"
    (row,) = lake.log_rows()
    assert {key: row[key] for key in ("job_id", "table_name", "principal", "status", "files_in",
                                      "files_out", "snapshot_id", "error")} == {
        "job_id": job["job_id"], "table_name": lake.key_of(), "principal": "the maintainer",
        "status": "success", "files_in": 6, "files_out": 1,
        "snapshot_id": lake.head("t").snapshot_id, "error": None}
    leases = [row["status"] for row in lake.log_rows("lease")]
    assert sorted(leases) == ["claimed", "released"]
    lake.verify_audit()
    events = lake.audited()
    assert {event["actor"]["username"] for event in events} == {"the maintainer"}
    phases = [event.get("phase") for event in events
              if event["statement_type"] == "rewrite_data_files"]
    assert phases == ["intent", "committed"]
    # And once more: nothing to do, and the state of the first pass is known to the second.
    again = lake.report()
    assert [job["status"] for job in again["jobs"]] == ["skipped"]
    assert again["warnings"] == []


@pytest.mark.parametrize("value", [None, "True", "1", "false"])
def test_whose_owner_does_not_is_not_read_beyond_its_metadata(lake, value):
    lake.plain("t", files=6)
    if value is not None:
        lake.opt_in(value=value)
    before = lake.state()
    # Neither data nor manifests are there: whoever opened one would fail.
    kept = [(path, path.with_name("kept-" + path.name)) for path in lake.directory("t").rglob("*")
            if path.suffix in (".parquet", ".avro")]
    assert len(kept) > 12
    for path, away in kept:
        path.rename(away)
    report = lake.report()
    for path, away in kept:
        away.rename(path)
    (table,) = report["tables"]
    assert table["gate"] == "not_opted_in" and "small_files" not in table
    assert (report["jobs"], report["plan"], report["loud"]) == ([], [], [])
    assert lake.state() == before
    assert lake.seen.sent_commits == []
    assert lake.log_rows() == []


def test_without_the_grant_it_is_loud_at_every_tick_and_touches_nothing(make):
    lent = make("lent")
    lent.plain("t", files=6)
    lent.opt_in()
    before = lent.state()
    denied = len([e for e in lent.service.recorded() if e["outcome"] == "denied"])
    for number in range(1, 4):
        time.sleep(1.1 if number > 1 else 0)  # It has backed off.
        with lent.without_data():  # It does not come to reading them.
            report = lent.report(code=1)
        assert lent.state()[0] == before[0]
        (loud,) = report["loud"]
        assert (loud["what"], loud["where"]) == ("no_grant", lent.key_of())
        assert "Not permitted to update table" in loud["why"]
        assert "TABLE_READ_DATA" in loud["next"] and "TABLE_WRITE_DATA" in loud["next"]
        assert lent.of_metric(report, "lithify.maintenance.refused") == 1
        assert [job["status"] for job in report["jobs"]] == ["failed"]
        told = [event for event in lent.audited() if event.get("error_code") == "denied"]
        assert len(told) == number
        assert told[-1]["status"] == "failure" and told[-1]["error"].startswith("no_grant: ")
        assert told[-1]["resources"][0]["name"] == "t"
        rows = lent.log_rows()
        assert len(rows) == number and {row["status"] for row in rows} == {"failed"}
        assert all("Not permitted to update table" in row["error"] for row in rows)
        assert all(row["snapshot_id"] is None and row["files_in"] == 0 for row in rows)
    assert lent.state() == before
    # The catalog was asked once a tick, and never for a change that would have been one.
    refusals = [e for e in lent.service.recorded() if e["outcome"] == "denied"]
    assert len(refusals) == denied + 3
    assert not [one for one in lent.seen.sent_commits
                if one.path.endswith("/tables/t") and one.status == 200]
    lent.verify_audit()


def test_between_two_tries_it_is_as_loud(make):
    """While it backs off, it does not ask the catalog again, and tells all the same."""
    lent = make("lent")
    lent.plain("t", files=6)
    lent.opt_in()
    lent.configure(scheduler="", section="")
    text = lent.config.read_text()
    lent.config.write_text(text.replace("backoff_secs = 0\nbackoff_max_secs = 1\n",
                                        "backoff_secs = 3600\n"))
    lent.report(code=1)
    commits = len([one for one in lent.seen.sent_commits if one.path.endswith("/tables/t")])
    report = lent.report(code=1)
    assert [line["what"] for line in report["loud"]] == ["no_grant"]
    assert report["tables"][0]["due"] == "backing_off" and report["jobs"] == []
    assert len([one for one in lent.seen.sent_commits
                if one.path.endswith("/tables/t")]) == commits
    assert lent.of_metric(report, "lithify.maintenance.refused") == 1
    told = len(lent.audited())
    for task in ("plan", "status"):
        lines = lent.ended(lent.start(task, "--json"), code=None)["loud"]
        assert [line["what"] for line in lines] == ["no_grant"], task
    assert len(lent.audited()) == told


def test_what_is_refused_takes_no_budget_from_others(make, lake):
    lent = make("lent")
    for one in (lent, lake):
        one.plain("t", files=6)
        one.opt_in()
    lake.configure(namespaces=[".".join(lent.namespace), ".".join(lake.namespace)],
                   scheduler="[maintenance.budget]\ncommits = 1\n")
    text = lake.config.read_text()  # One section of that name.
    text = text.rpartition("[maintenance.budget]\n")[0] + "gain_percent_min = 0\n"
    lake.config.write_text(text.replace("backoff_secs = 0\nbackoff_max_secs = 1\n", ""))
    statuses = set()
    for _ in range(2):
        report = lake.report(code=None)
        statuses.update((job["table"], job["status"]) for job in report["jobs"])
    assert (lake.key_of(), "success") in statuses
    assert len(lake.data_entries("t")) == 1 and len(lent.data_entries("t")) == 6


def test_a_namespace_that_is_named_and_may_not_be_seen(make, lake):
    hidden = make("hidden")
    hidden.plain("t", files=6)
    hidden.opt_in()
    lake.plain("t", files=6)
    lake.opt_in()
    before, rows = hidden.state(), lake.rows("t")
    lake.configure(namespaces=[".".join(hidden.namespace), ".".join(lake.namespace)])
    for status in ("success", "skipped"):
        report = lake.report(code=1)
        (loud,) = report["loud"]
        assert (loud["what"], loud["where"]) == ("unreadable_namespace",
                                                 "lake." + ".".join(hidden.namespace))
        assert "TABLE_LIST" in loud["next"] and "maintenance.namespaces" in loud["next"]
        # It stops nothing else.
        assert jobs_of(report) == [(lake.key_of(), "rewrite_data_files", status)]
    assert hidden.state() == before and lake.rows("t") == rows
    told = [event for event in lake.audited() if "unreadable_namespace" in event.get("error", "")]
    assert len(told) == 2 and {event["status"] for event in told} == {"failure"}
    lake.verify_audit()


def test_a_table_that_is_listed_and_may_not_be_read(lake):
    """A catalog that says so (Polaris): this one hides what may not be read from the list, too."""
    for name in ("secret", "t"):
        lake.plain(name, files=6)
        lake.opt_in(name)
    before = lake.state("secret")
    refused = error(403, "ForbiddenException", "not authorized for op LOAD_TABLE")

    def hide(proxy, call):
        if call.path.partition("?")[0].endswith("/tables/secret"):
            return refused(proxy, call)
        return proxy.ask(call)

    lake.seen.reads = [hide] * 1000
    report = lake.report(code=1)
    (loud,) = report["loud"]
    assert (loud["what"], loud["where"]) == ("unreadable_table", lake.key_of("secret"))
    assert "LOAD_TABLE" in loud["why"] and "TABLE_READ_DATA" in loud["next"]
    assert jobs_of(report) == [(lake.key_of("t"), "rewrite_data_files", "success")]
    assert lake.state("secret") == before
    lake.seen.reads = []
    # What the policies hide is not there at all.
    path = "\\u{1F}".join(["acme", *lake.namespace, "secret"])
    lake.service.decide('forbid(principal in Rustberg::Group::"maintainer", action, '
                        f'resource == Rustberg::Table::"{path}");')
    report = lake.report()
    assert [table["table"] for table in report["tables"]] == [lake.key_of("t")]
    assert lake.state("secret") == before


def test_a_grant_that_is_taken_away_between_two_ticks(lake):
    lake.plain("t", files=6)
    lake.opt_in()
    assert [job["status"] for job in lake.report()["jobs"]] == ["success"]
    lake.append("t", *([{"id": n, "region": "eu", "note": None}] for n in range(100, 106)))
    before, rows = lake.state(), lake.rows("t")
    lake.service.decide(lake.service.permit("sales").replace(', Rustberg::Action::"Update"', ""),
                        without=["sales"])
    for _ in range(2):
        report = lake.report(code=1)
        assert [line["what"] for line in report["loud"]] == ["no_grant"]
        assert lake.state() == before
        time.sleep(1.1)  # Until it does not back off any more.
    lake.service.decide()
    report = lake.report()
    assert [job["status"] for job in report["jobs"]] == ["success"] and report["loud"] == []
    assert lake.rows("t") == rows
    assert [row["status"] for row in sorted(lake.log_rows(), key=lambda r: r["started_at_ms"])] == [
        "success", "failed", "failed", "success"]


def slow(millis=150):
    return {"LD_PRELOAD": SLOW_READ, "LITHIFY_SLOW_READ_MS": str(millis)}


def in_its_job(lake, process):
    """Until it has been through the gates: the probe has come, and the rewrite reads."""
    until(lambda: any(one.path.endswith("/tables/t") and one.status is not None
                      for one in lake.seen.sent_commits), process=process)
    time.sleep(0.3)


@pytest.mark.parametrize("what", ["property", "grant", "client"])
def test_what_is_taken_away_while_a_job_works(lake, what):
    """The property by the owner, the grant in the catalog, the client at the identity provider: no
    commit, no output is left, and it is told."""
    lake.plain("t", files=12)
    lake.opt_in()
    rows = lake.rows("t")
    process = lake.start("run-once", "--json", env=slow())
    in_its_job(lake, process)
    if what == "property":
        lake.opt_out()
    elif what == "grant":
        lake.service.decide(lake.service.permit("sales").replace(
            ', Rustberg::Action::"Update"', ""), without=["sales"])
    else:
        lake.asked.reads = [error(401, "unauthorized_client", "the client is disabled")] * 100
    before, since = lake.state(), len(lake.seen.sent_commits)
    report = lake.ended(process, code=0 if what == "property" else 1)
    (job,) = report["jobs"]
    assert job["status"] == ("skipped" if what == "property" else "failed")
    if what == "property":
        assert "not opted in" in job["reason"] and report["loud"] == []
    else:
        (loud,) = report["loud"]
        assert loud["what"] == ("no_grant" if what == "grant" else "no_credential"), loud
        assert (("TABLE_WRITE_DATA" if what == "grant" else "--check-principal") in loud["next"])
    assert lake.state() == before and lake.rows("t") == rows
    assert lake.leftovers("t") == set()
    sent = [one.status for one in lake.seen.sent_commits[since:]
            if one.path.endswith("/tables/t")]
    assert sent == ([403] if what == "grant" else [])
    lake.service.decide()
    lake.verify_audit()
    phases = [event.get("phase") for event in lake.audited()
              if event["statement_type"] == "rewrite_data_files"]
    assert phases[:2] == ["intent", "aborted"]


@pytest.mark.parametrize("how", ["down", "refuses", "breaks"])
def test_the_token_endpoint(lake, how):
    """No token, nothing done, told; and the next tick works once it is back."""
    lake.plain("t", files=6)
    lake.opt_in()
    before, rows = lake.state(), lake.rows("t")
    fault = {"down": lose_request,
             "refuses": error(401, "invalid_client", "Invalid client credentials"),
             "breaks": error(500, "server_error", "out of order")}[how]
    lake.asked.reads = [fault] * 1000
    begin = time.monotonic()
    report = lake.report(code=1)
    assert time.monotonic() - begin < 30
    (loud,) = report["loud"]
    assert loud["what"] == "no_credential" and "--check-principal" in loud["next"]
    assert "token" in report["error"]
    assert lake.of_metric(report, "lithify.maintenance.tick.errors") == 1
    assert lake.seen.calls == [] and lake.state() == before
    (event,) = lake.audited()
    assert event["status"] == "failure" and event["error"].startswith("no_credential: ")
    lake.asked.reads = []
    report = lake.report()
    assert jobs_of(report) == [(lake.key_of(), "rewrite_data_files", "success")]
    assert lake.rows("t") == rows
    lake.verify_audit()


def test_a_principal_without_any_grant(lake):
    """It is known, and may nothing: the catalog's own word for it."""
    lake.plain("t", files=6)
    lake.opt_in()
    before = lake.state()
    lake.configure(client="stranger")
    lake.secret = lake.identities.secrets["stranger"]
    report = lake.report(code=1)
    assert [line["what"] for line in report["loud"]] == ["unreadable_namespace"]
    assert report["jobs"] == [] and lake.state() == before
    assert lake.bearers() == {"stranger"} and lake.seen.sent_commits == []


@pytest.mark.parametrize("lease", ["catalog", "none"])
def test_two_at_once(lake, lease):
    """With leases each table is rewritten once; without, at most one commit per plan lands."""
    names = [f"t{n}" for n in range(4)]
    for name in names:
        lake.plain(name, files=6)
        lake.opt_in(name)
    rows = {name: lake.rows(name) for name in names}
    snapshots = {name: len(lake.load(name).snapshots()) for name in names}
    lake.configure(scheduler=f'lease = "{lease}"\nsingle_scheduler_acknowledged = true\n'
                             'max_concurrent_jobs = 2')
    running = [lake.start("run-once", "--json", home=home, env=slow(30)) for home in ("a", "b")]
    reports = [lake.ended(process, code=None) for process in running]
    for name in names:
        assert lake.rows(name) == rows[name]
        assert len(lake.data_entries(name)) == 1
        assert len(lake.load(name).snapshots()) == snapshots[name] + 1
    done = [job["table"] for report in reports for job in report["jobs"]
            if job["status"] == "success"]
    assert sorted(done) == [lake.key_of(name) for name in names]
    assert [row["table_name"] for row in sorted(lake.log_rows(), key=lambda r: r["table_name"])
            if row["status"] == "success"] == [lake.key_of(name) for name in names]
    if lease == "catalog":
        assert not [job for report in reports for job in report["jobs"]
                    if job["status"] == "failed"]
    for home in ("a", "b"):
        lake.verify_audit(home)
    for name in names:
        lake.sweep(name)
        assert lake.leftovers(name) == set() and lake.rows(name) == rows[name]


# --- killed --------------------------------------------------------------------------------------


def after_a_kill(lake, rows):
    """Whatever was left behind: the rows are there, the records hold, and the next one completes
    once the lease is over."""
    assert lake.rows("t") == rows
    if lake.audit_file().exists():
        lake.verify_audit()
    end = time.monotonic() + 60
    while len(lake.data_entries("t")) > 1:
        assert time.monotonic() < end
        lake.report(code=None)
        assert lake.rows("t") == rows
        time.sleep(0.5)
    lake.report(code=None)
    lake.verify_audit()
    lake.sweep()
    assert lake.leftovers("t") == set() and lake.rows("t") == rows


def kill_here(lake, matches):
    """A fault of the gateway: the process dies instead of getting an answer to such a request."""
    lake.killed = False

    def fault(proxy, call):
        if matches(call) and not lake.killed:
            when, process = lake.when, lake.process()
            if when == "after":
                proxy.ask(call)
            process.kill()
            lake.killed = True
            return None
        return proxy.ask(call)

    lake.seen.reads = [fault] * 1000
    lake.seen.commits = [fault] * 1000


STEPS = {
    "look": lambda lake: lambda call: call.path.partition("?")[0].endswith("/tables/t"),
    "claim": lambda lake: lambda call: call.is_commit and lake.log[1] in call.path,
    "probe": lambda lake: lambda call: call.is_commit and call.path.endswith("/tables/t"),
    "commit": lambda lake: lambda call: (call.is_commit and call.path.endswith("/tables/t") and
                                         b"add-snapshot" in call.body),
    "release": lambda lake: lambda call: (call.is_commit and lake.log[1] in call.path and any(
        b"add-snapshot" in one.body for one in lake.seen.sent_commits
        if one.path.endswith("/tables/t"))),
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_request(lake, step, when):
    """SIGKILL at the claim, the probe, the commit, the release: before it has come to the catalog,
    and after it has been done."""
    lake.plain("t", files=6)
    lake.opt_in()
    rows = lake.rows("t")
    lake.configure()
    lake.config.write_text(lake.config.read_text().replace("lease_ttl_secs = 60",
                                                           "lease_ttl_secs = 2"))
    lake.when = when
    kill_here(lake, STEPS[step](lake))
    started = []
    lake.process = lambda: started[0]
    started.append(lake.start("run-once", "--json"))
    started[0].communicate(timeout=60)
    assert started[0].returncode == -signal.SIGKILL and lake.killed
    lake.seen.reads, lake.seen.commits = [], []
    landed = step == "release" or (step, when) == ("commit", "after")
    assert (len(lake.data_entries("t")) == 1) == landed
    after_a_kill(lake, rows)
    # Where a claim was left behind, it was waited for and taken over, or nobody needed it.
    claimed = step in ("probe", "commit") or (step, when) == ("claim", "after")
    stolen = [row for row in lake.log_rows("lease") if "stolen from" in (row["error"] or "")]
    assert bool(stolen) == (claimed and not landed)


def test_killed_at_random_times(lake):
    """Also in the middle of a rewrite, and of a line of the audit log."""
    rng = random.Random(8)
    lake.create("t", PLAIN)
    lake.opt_in()
    lake.configure()
    lake.config.write_text(lake.config.read_text().replace("lease_ttl_secs = 60",
                                                           "lease_ttl_secs = 1"))
    killed = 0
    for number in range(8):
        lake.append("t", *([{"id": number * 100 + n, "region": "eu", "note": "x"}]
                           for n in range(6)))
        rows = lake.rows("t")
        process = lake.start("run-once", "--json", env=slow(40))
        time.sleep(rng.uniform(0.05, 1.6))
        process.kill()
        process.communicate(timeout=60)
        killed += process.returncode == -signal.SIGKILL
        assert lake.rows("t") == rows
        if lake.audit_file().exists():
            lake.verify_audit()
    assert killed >= 4
    after_a_kill(lake, lake.rows("t"))


# --- the other half ------------------------------------------------------------------------------


@pytest.fixture
def opted(lake):
    lake.plain("t", files=6)
    lake.opt_in()
    return lake


@pytest.mark.parametrize("auth", red_team.AUTH)
def test_nothing_at_the_server_reaches_the_principal(opted, tmp_path, auth):
    """R001-R005: whatever comes to the server, and whatever [auth] says, no request is made with
    the principal's credentials. The server runs without the variable that holds its secret."""
    lake, lines = opted, red_team.AUTH[auth]
    config = red_team.both_halves(lake, lines, lake.asked.uri + lake.identities.token_path())
    before, rows = lake.state(), lake.rows("t")
    alice = lake.identities.of_alice()
    assert red_team.VARIABLE not in os.environ
    server = servers.Server(tmp_path / "server", config)
    known = red_team.takes_tokens(lines)
    team = RedTeam(server, lake, alice)
    try:
        codes = team.everything(known)
    finally:
        server.stop(code=None)
    written = server.errors.read_text() + server.audit_log.read_text()
    assert alice not in written
    # The catalog heard of alice alone, or of nobody where her token could not be exchanged.
    assert lake.bearers() == ({"alice"} if known else set())
    if auth == "bearer":
        assert codes["SHOW JOBS"] == 0 and codes["CALL system.rewrite_data_files"] == 1
        assert lake.asked.calls == []
    # Whoever called itself the principal did not know what it knows.
    for one in lake.asked.calls:
        assert lake.secret not in one.body.decode() + str(one.headers)
        assert one.status >= 400, one.body
    assert bool(lake.asked.calls) == (auth != "bearer")
    assert lake.state() == before and lake.rows("t") == rows
    # This record can show the principal: when the other half runs, it does.
    lake.report()
    assert "maintainer" in lake.bearers()
    assert ("maintainer", 200) in lake.tokens_asked()
    team.check_said(written)


@pytest.mark.parametrize("auth", red_team.WITH_SECRET)
def test_the_server_has_no_secret_that_it_was_not_given(opted, tmp_path, auth):
    """[auth] that names the principal's variable is the operator's own doing: without the variable
    the server does not start."""
    config = red_team.both_halves(opted, red_team.WITH_SECRET[auth],
                                  opted.asked.uri + opted.identities.token_path())
    with pytest.raises(AssertionError, match="SQE_MAINTENANCE_CLIENT_SECRET is not set"):
        servers.Server(tmp_path / "server", config)
    assert opted.seen.calls == [] and opted.asked.calls == []
