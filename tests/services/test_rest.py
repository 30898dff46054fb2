"""The binary against Iceberg's own REST catalog: tables written by pyiceberg through it, and every
way in which a commit can go wrong on its way there and back."""

import json
import signal
import time

import cli
import iceberg_tables as it
import pytest
from iceberg_lake import PLAIN, plain_rows
from proxy import after, cut_off, error, forward, late, lose_reply, lose_request, page
from rest_lake import RestLake, delete_rows, local

SECRET = "s3cr/et+%2F & ü"
TOKEN = "tok-0123456789.abcDEF_~+/="

STRANGE = [
    ("a", "b", "c", "d"),
    ("sales.eu", "e u"),
    ("it's", 'q"c`'),
    ("ü… 名", "x%41y"),
    ("p+q&r=s", "t;u,v@w!"),
    ("s/t",),
]


# --- the procedures -----------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", STRANGE, ids=str)
def test_names(catalog, proxy, home, namespace):
    """Namespaces of any depth, names of any characters that the catalog itself takes."""
    lake = RestLake(catalog, proxy.uri, namespace, {"XDG_STATE_HOME": str(home)})
    lake.plain("t. x'y", files=6)
    result = lake.rewrite("t. x'y", duckdb_reads=False)
    assert (result["files_rewritten"], result["files_added"]) == (6, 1)
    assert lake.leftovers("t. x'y") == set()


def test_the_life_of_a_table(lake):
    lake.create("t", PLAIN, partition_by=["region"])
    lake.append("t", *(plain_rows(n * 10, 10) for n in range(12)))
    delete_rows(lake, "t", [1, 3])
    rows = lake.rows("t")
    assert len(rows) == 120 - 24 * 2

    health = lake.run("table-health", "t").json
    assert (health["live_data_files"], health["delete_files"]) == (24, 24), health
    result = lake.rewrite("t", "--delete-file-threshold", "1")
    assert (result["files_rewritten"], result["files_added"]) == (24, 2)
    assert (result["rows_in"], result["rows_removed"]) == (120, 48)
    assert lake.rows("t") == rows
    assert lake.run("table-health", "t").json["live_data_files"] == 2
    lake.skipped("t")

    before = lake.head("t").parent_snapshot_id
    lake.append("t", *(plain_rows(200 + n, 1) for n in range(6)))
    manifests = lake.run("rewrite-manifests", "t").json
    assert manifests["status"] == "committed"
    assert len(lake.manifests("t")) == manifests["manifests_added"] < 7
    assert len(lake.rows("t")) == len(rows) + 6

    back = lake.run("rollback-to-snapshot", "t", str(before)).json
    assert back["current_snapshot_id"] == before == lake.head("t").snapshot_id
    assert lake.rows("t") == rows
    lake.rewrite("t", "--delete-file-threshold", "1")

    expired = lake.run("expire-snapshots", "t", "--older-than", "now").json
    assert expired["snapshots_removed"] > 10, expired
    assert [s.snapshot_id for s in lake.load("t").snapshots()] == [lake.head("t").snapshot_id]
    assert lake.rows("t") == rows
    assert lake.data_paths("t") <= lake.reached("t")

    orphan = lake.directory("t") / "data" / "orphan.parquet"
    orphan.write_bytes(b"nobody's")
    lake.age("t")
    removed = lake.run("remove-orphan-files", "t").json
    assert not orphan.exists() and lake.leftovers("t") == set(), removed
    assert lake.rows("t") == rows


@pytest.mark.parametrize("version", [1, 2])
def test_format_versions(lake, version):
    lake.plain(version=version)
    assert lake.rewrite("t")["files_added"] == 1


def test_what_the_catalog_is_sent(lake, proxy, home, tmp_path):
    """Headers and the warehouse of the configuration; an address with a slash at its end."""
    lake.plain()
    config = tmp_path / "lithify.toml"
    config.write_text(f'[catalogs.lake]\nuri = "{proxy.uri}/"\nwarehouse = "a b/c"\n'
                      'headers = ["Polaris-Realm: prod", "X-Second:two"]\n')
    run = cli.run("rewrite-data-files", lake.named("t"), "--config", str(config), "--json",
                  env=lake.env)
    assert run.json["status"] == "committed"
    assert proxy.calls[0].path == "/v1/config?warehouse=a%20b%2Fc"
    for call in proxy.calls:
        assert (call.headers["Polaris-Realm"], call.headers["X-Second"]) == ("prod", "two")
        assert "//" not in call.path and "Authorization" not in call.headers


def test_what_is_not_there(lake, proxy):
    lake.plain(files=1)
    run = lake.run("rewrite-data-files", "none", code=1)
    assert run.json["error"]["code"] == "not_found" and "none" in run.err
    other = RestLake(lake.catalog, proxy.uri, lake.namespace, lake.env)
    other.namespace = ("nowhere",)
    assert other.run("table-health", "t", code=1).json["error"]["code"] == "not_found"
    assert proxy.sent_commits == []


def test_no_service_at_all(lake):
    lake.plain()
    lake.address = "http://127.0.0.1:1"
    run = lake.run("table-health", "t", code=1)
    assert "127.0.0.1:1" in run.err and run.json["error"]["code"] == "transient"


def test_an_address_that_is_no_catalog(lake):
    lake.plain()
    lake.address += "/somewhere/else"
    run = lake.run("table-health", "t", code=None)
    assert run.code in (1, 2) and "/somewhere/else" in run.err


# --- the catalog's reply to a commit ------------------------------------------------------------


class Table:
    """A table of six files, three deleted rows in each, and what it was like before."""

    def __init__(self, lake):
        self.lake = lake
        lake.plain("t", files=6)
        delete_rows(lake, "t", [0, 4, 9])
        self.rows = lake.rows("t")
        self.tree = set(lake.tree("t"))
        self.snapshots = len(lake.load("t").snapshots())
        self.location = lake.metadata_location("t")

    def is_rewritten(self, run, lost_attempts=0):
        """Once, with nothing left over, but for metadata of attempts whose outcome was unknown:
        that is left to remove-orphan-files."""
        result = run.json
        assert result["status"] == "committed"
        assert (result["files_rewritten"], result["files_added"]) == (6, 1)
        table = self.lake.load("t")
        assert table.current_snapshot().snapshot_id == result["snapshot_id"]
        assert len(table.snapshots()) == self.snapshots + 1
        marks = [s.summary.additional_properties.get("lithify.job-id") for s in table.snapshots()]
        assert marks.count(result["job_id"]) == 1
        assert self.lake.rows("t") == self.rows
        left = {path for path in self.lake.leftovers("t")
                if not lost_attempts or path.parts[0] != "metadata"}
        assert left == set()

    def is_untouched(self):
        assert self.lake.metadata_location("t") == self.location
        assert self.lake.rows("t") == self.rows

    def is_clean(self):
        """As before, to the last file."""
        self.is_untouched()
        assert set(self.lake.tree("t")) == self.tree

    def has_leftovers(self):
        """The outputs are still there: nobody could know that they are not the table's."""
        self.is_untouched()
        kept = {path for path in self.lake.leftovers("t") if path.parts[0] == "data"}
        assert len(kept) == 1
        assert self.tree < set(self.lake.tree("t"))


@pytest.fixture
def table(lake):
    return Table(lake)


def rewrite(table, *args, code=0):
    return table.lake.run("rewrite-data-files", "t", "--delete-file-threshold", "1", *args,
                          code=code)


APPLIED = {
    "reply lost": lose_reply,
    "reply cut off": cut_off,
    "500": page(500, forwarded=True),
    "502": page(502, forwarded=True),
    "503": page(503, forwarded=True),
    "504": page(504, forwarded=True),
    "504 in the catalog's words": error(504, "GatewayTimeout", "too slow", forwarded=True),
    "500 in the catalog's words": error(500, "CommitStateUnknownException", "who knows",
                                        forwarded=True),
    "429": error(429, "Slow", "down", [("Retry-After", "0")], forwarded=True),
    "a redirect": error(307, "Moved", "on", [("Location", "http://127.0.0.1:9/")],
                        forwarded=True),
    "409 to a commit that was made": error(409, "CommitFailedException", "stale",
                                           forwarded=True),
    "400 to a commit that was made": error(400, "BadRequest", "no idea", forwarded=True),
}


@pytest.mark.parametrize("fault", APPLIED.values(), ids=APPLIED.keys())
def test_reply_lost_after_the_commit_was_made(table, proxy, fault):
    """I8, R302: our own snapshot is found by its job id; one commit, reported as the success that
    it is."""
    proxy.commits = [fault]
    table.is_rewritten(rewrite(table))
    assert len(proxy.sent_commits) == 1


def test_reply_lost_and_others_commit_on_top(table, proxy):
    """I8: found although it is not the current snapshot any more, and others' rows are kept."""
    lake = table.lake

    def commit_then_append(proxy, call):
        assert proxy.ask(call).status == 200
        lake.append("t", plain_rows(900, 3))

    proxy.commits = [commit_then_append]
    result = rewrite(table).json
    assert result["status"] == "committed" and len(proxy.sent_commits) == 1
    ours = lake.load("t").snapshot_by_id(result["snapshot_id"])
    assert ours.summary.additional_properties["lithify.job-id"] == result["job_id"]
    assert lake.head("t").parent_snapshot_id == ours.snapshot_id
    assert lake.rows("t") == sorted([*table.rows, *it.sorted_rows(plain_rows(900, 3))], key=repr)
    assert lake.leftovers("t") == set()


NOT_APPLIED = {
    "request lost": lose_request,
    "500": page(500),
    "502": page(502),
    "503": page(503),
    "504": page(504),
    "408": error(408, "Timeout", "too slow"),
    "429": error(429, "Slow", "down", [("Retry-After", "0")]),
    "409": error(409, "CommitFailedException", "Requirement failed: branch main has changed"),
    "412": error(412, "PreconditionFailed", "stale"),
    "400 of Polaris": error(400, "ValidationException",
                            "Cannot add snapshot with sequence number 8 older than last sequence "
                            "number 8"),
}


@pytest.mark.parametrize("fault", NOT_APPLIED.values(), ids=NOT_APPLIED.keys())
def test_commit_that_got_lost_once(table, proxy, fault):
    """Made again on the unchanged table, once."""
    proxy.commits = [fault]
    table.is_rewritten(rewrite(table), lost_attempts=1)
    assert len(proxy.sent_commits) == 2
    lake = table.lake
    lake.age("t")
    lake.run("remove-orphan-files", "t")
    assert lake.leftovers("t") == set() and lake.rows("t") == table.rows


CONFLICT = error(409, "CommitFailedException", "somebody else was faster")

KNOWN = {
    "400": (error(400, "BadRequestException", "what is that"), 1, "denied"),
    "422": (error(422, "UnprocessableEntity", "what is that"), 1, "denied"),
    "403": (error(403, "ForbiddenException", "writer 'bob' lacks TABLE_WRITE_DATA"), 1, "denied"),
    "401": (error(401, "NotAuthorizedException", "who are you"), 1, "denied"),
    "404": (error(404, "NoSuchTableException", "Table does not exist"), 1, "not_found"),
    "501": (error(501, "Unsupported", "commits are not offered"), 1, "unsupported"),
}


@pytest.mark.parametrize("fault, code, kind", KNOWN.values(), ids=KNOWN.keys())
def test_refused_for_good(table, proxy, home, fault, code, kind):
    """I35: a known failure; its outputs are removed, its words are shown."""
    proxy.commits = [fault] * 100
    run = rewrite(table, code=code)
    assert run.json["error"]["code"] == kind, run.text
    words = json.loads(fault(proxy, None).body)["error"]["message"]
    assert words in run.json["reason"] and words in run.err
    table.is_clean()
    phases = audit_phases(home)
    assert phases and set(phases) == {"intent", "aborted"}
    assert len(proxy.sent_commits) < 100


def test_refused_although_nothing_changed(table, proxy, home):
    """A catalog that answers 409 to everything is asked a few times, and for one plan."""
    proxy.commits = [CONFLICT] * 100
    run = rewrite(table, code=1)
    assert run.json["error"]["code"] == "conflict", run.text
    assert "although the table did not change" in run.json["reason"]
    assert len(proxy.sent_commits) == 4
    table.is_clean()
    assert audit_phases(home) == ["intent", "aborted"]


def test_table_withheld(table, proxy, home):
    """R168: on record as a refused commit is."""
    refusals = {"401": "denied", "403": "denied", "404": "not_found"}
    for status, code in refusals.items():
        before = len(audit_events(home))
        proxy.reads = [forward, KNOWN[status][0]]  # After the catalog's configuration.
        run = table.lake.run("table-health", "t", code=1)
        assert run.json["error"]["code"] == code, run.text
        (event,) = audit_events(home)[before:]
        assert (event["phase"], event["status"]) == ("aborted", "failure")
        assert event["statement_type"] == "table_health"
        assert (event["catalog"], event["table"]) == (proxy.uri, run.json["table"])
        assert event["actor"]["username"] and event["error"].startswith(code)


def test_catalog_that_lets_nobody_in(table, proxy, home):
    """R168: also where it refuses before it is asked for the table."""
    proxy.reads = [KNOWN["403"][0]]
    run = table.lake.run("rewrite-data-files", "t", code=1)
    assert run.json["error"]["code"] == "denied", run.text
    (event,) = audit_events(home)
    assert (event["phase"], event["statement_type"]) == ("aborted", "rewrite_data_files")
    assert (event["catalog"], event["table"]) == (proxy.uri, run.json["table"])


UNKNOWN = {
    "500": page(500),
    "502": page(502),
    "503": page(503),
    "504": page(504),
    "requests lost": lose_request,
}


@pytest.mark.parametrize("fault", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_outcome_unknown_to_the_end(table, proxy, home, fault):
    """R302: a refusal of the next attempt does not settle the one before, which may still land: the
    outputs stay, and the message says what to look for."""
    proxy.commits = [fault] + [KNOWN["403"][0]] * 100
    run = rewrite(table, code=1)
    assert run.json["error"]["code"] == "unknown_outcome", run.text
    assert "lacks TABLE_WRITE_DATA" in run.err
    table.has_leftovers()
    assert audit_phases(home)[-1] == "unknown"
    job = audit_events(home)[-1]["job_id"]
    assert job in run.err
    # The next run is not disturbed by them.
    proxy.commits = []
    assert rewrite(table).json["status"] == "committed"
    assert table.lake.rows("t") == table.rows


def test_lost_commit_lands_after_the_end(table, proxy):
    """R302: why the outputs stay: here the commit turns up once lithify has given up."""
    kept = []

    def keep(_proxy, call):
        kept.append(call)

    proxy.commits = [keep] + [KNOWN["403"][0]] * 100
    assert rewrite(table, code=1).json["error"]["code"] == "unknown_outcome"
    assert proxy.ask(kept[0]).status == 200
    lake = table.lake
    assert lake.head("t").summary.operation.value == "replace"
    assert lake.rows("t") == table.rows and len(lake.data_entries("t")) == 1


def test_lost_commit_lands_after_the_next_look(table, proxy):
    """The catalog makes the lost commit only after lithify has looked for it: the second attempt
    is refused, and the table has one rewrite, not two."""
    kept = []

    def keep(_proxy, call):
        kept.append(call)

    def land(proxy, call):
        assert proxy.ask(kept[0]).status == 200
        return proxy.ask(call)

    proxy.commits = [keep, land]
    table.is_rewritten(rewrite(table), lost_attempts=1)
    assert len(proxy.sent_commits) == 2


def test_lost_commit_can_not_land_after_the_end(table, proxy):
    """A commit that turns up after another was made is refused by its requirements (R115)."""
    kept = []

    def keep(_proxy, call):
        kept.append(call)

    proxy.commits = [keep]
    table.is_rewritten(rewrite(table), lost_attempts=1)
    assert proxy.ask(kept[0]).status == 409
    assert table.lake.rows("t") == table.rows


def test_table_cannot_be_looked_at_after_a_lost_reply(table, proxy):
    """Neither the reply nor the look: unknown, and nothing is removed, as it may be (and is) the
    table's."""
    lake = table.lake

    def lose_all(proxy, call):
        proxy.reads = [page(400)] * 1000
        proxy.ask(call)

    proxy.commits = [lose_all]
    run = rewrite(table, code=1)
    assert run.json["error"]["code"] == "unknown_outcome", run.text
    proxy.reads = []
    assert lake.rows("t") == table.rows
    assert lake.head("t").summary.operation.value == "replace"
    assert lake.leftovers("t") == set()


def test_slow_catalog(table, proxy):
    proxy.commits = [late(1)]
    table.is_rewritten(rewrite(table))
    assert len(proxy.sent_commits) == 1


def test_reads_are_patient(table, proxy):
    """A read that fails for a moment is tried again."""
    proxy.reads = [page(503), lose_request, error(429, "Slow", "down", [("Retry-After", "0")]),
                   page(502)]
    table.is_rewritten(rewrite(table))


@pytest.fixture
def nine(lake):
    """A table of nine partitions with six files each."""
    lake.create("t", PLAIN, partition_by=["region"])
    lake.append("t", *([{"id": n * 9 + i, "region": region, "note": None}
                        for i, region in enumerate("abcdefghi")] for n in range(6)))
    return lake


THREE_COMMITS = ("--partial-progress", "--partial-progress-max-commits", "3")


def test_partial_progress_through_faults(nine, proxy):
    """Each commit is found by its own mark, not by that of the one before it in the same job; what
    was refused is left as it was."""
    rows = nine.rows("t")
    proxy.commits = [lose_reply, KNOWN["403"][0], page(502), page(504, forwarded=True)]
    run = nine.run("rewrite-data-files", "t", *THREE_COMMITS, code=1)
    result = run.json
    assert (result["status"], result["files_added"], result["files_rewritten"]) == \
        ("partial", 6, 36), run.text
    assert "lacks TABLE_WRITE_DATA" in result["reason"] and len(proxy.sent_commits) == 4
    assert len(nine.data_entries("t")) == 6 + 18 and nine.rows("t") == rows
    assert not any(path.parts[0] == "data" for path in nine.leftovers("t"))
    assert nine.run("rewrite-data-files", "t").json["files_rewritten"] == 18
    assert nine.rows("t") == rows and len(nine.data_entries("t")) == 9


def test_partial_progress_with_an_unknown_outcome(nine, proxy, home):
    """It ends there: the outputs in doubt stay, those of commits that were never tried go, and
    those of the commit before are the table's."""
    rows = nine.rows("t")
    proxy.commits = [forward, page(503), KNOWN["403"][0]]
    run = nine.run("rewrite-data-files", "t", *THREE_COMMITS, code=1)
    assert run.json["error"]["code"] == "unknown_outcome", run.text
    assert "lacks TABLE_WRITE_DATA" in run.json["reason"] and len(proxy.sent_commits) == 3
    landed = nine.head("t").snapshot_id
    assert f"in the table: snapshots {landed}" in run.json["reason"]
    assert [(e["phase"], e.get("snapshot_id")) for e in audit_events(home)] == \
        [("intent", None), ("committed", landed), ("unknown", None)]
    assert len(nine.data_entries("t")) == 3 + 36 and nine.rows("t") == rows
    left = [path for path in nine.leftovers("t") if path.parts[0] == "data"]
    assert len(left) == 3


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("what", ["reply", "reply lost", "request lost"])
def test_ended_while_the_commit_is_under_way(table, proxy, how, what):
    """Whatever becomes of the commit, the table is right and has all its files."""
    lake = table.lake

    def end(proxy, call):
        answer = None if what == "request lost" else proxy.ask(call)
        process.send_signal(how)
        if how == signal.SIGKILL:
            process.wait()
        return answer if what == "reply" else None

    proxy.commits = [end]
    process = lake.start("rewrite-data-files", "t", "--delete-file-threshold", "1")
    out, err = process.communicate(timeout=60)
    made = lake.head("t").summary.operation.value == "replace"
    assert made == (what != "request lost"), out + err
    assert lake.rows("t") == table.rows
    assert lake.reached("t") <= set(lake.tree("t"))
    if how == signal.SIGTERM and what == "reply":
        assert process.returncode == 0 and json.loads(out)["status"] == "committed", out + err
    if how == signal.SIGTERM and what == "request lost":
        assert process.returncode in (1, 130), out + err
    again = rewrite(table).json
    assert again["status"] == ("skipped" if made else "committed")
    assert lake.rows("t") == table.rows


# --- other writers ------------------------------------------------------------------------------


def test_append_while_committing(table, proxy):
    """I1: an append is no reason to do the work again."""
    lake = table.lake
    proxy.commits = [after(lambda: lake.append("t", plain_rows(500, 10)))]
    result = rewrite(table).json
    assert (result["status"], result["attempts"], result["files_rewritten"]) == ("committed", 1, 6)
    assert len(proxy.sent_commits) == 2
    assert lake.rows("t") == sorted([*table.rows, *it.sorted_rows(plain_rows(500, 10))], key=repr)
    assert lake.leftovers("t") == set()


def test_delete_while_committing(table, proxy):
    """I4, I33: rows deleted meanwhile stay deleted; the job plans anew."""
    lake = table.lake
    proxy.commits = [after(lambda: delete_rows(lake, "t", [2]))]
    result = rewrite(table).json
    assert (result["status"], result["attempts"]) == ("committed", 2)
    gone = it.sorted_rows([row for row in plain_rows(0, 60) if row["id"] % 10 not in
                           (0, 2, 4, 9)])
    assert lake.rows("t") == gone
    assert lake.leftovers("t") == set()


def test_others_are_always_faster(table, proxy, home):
    """I33, I35: rows are deleted during every attempt: a conflict in the end, and nothing stays."""
    lake = table.lake
    positions = iter(range(1, 9))
    proxy.commits = [after(lambda: delete_rows(lake, "t", [next(positions)]))] * 2
    run = rewrite(table, "--max-attempts", "2", code=1)
    assert run.json["error"]["code"] == "conflict", run.text
    assert lake.rows("t") == it.sorted_rows([row for row in plain_rows(0, 60)
                                             if row["id"] % 10 not in (0, 1, 2, 4, 9)])
    assert lake.leftovers("t") == set() and len(lake.data_entries("t")) == 6
    assert audit_phases(home) == ["intent", "aborted"] * 2


def test_table_dropped_while_committing(table, proxy, home):
    """The catalog does not find it, neither for the commit nor for the look: nothing was done."""
    lake = table.lake
    directory = lake.directory("t")
    proxy.commits = [after(lambda: lake.catalog.drop_table(lake.identifier("t")))]
    run = rewrite(table, code=1)
    assert run.json["error"]["code"] == "not_found", run.text
    assert "Table does not exist" in run.err
    assert audit_phases(home) == ["intent", "aborted"]
    assert not lake.catalog.table_exists(lake.identifier("t"))
    found = {p.relative_to(directory) for p in directory.rglob("*") if p.is_file()}
    assert table.tree == found


def test_table_dropped_after_a_lost_reply(table, proxy):
    """R302: it may have been renamed with our commit in it: nothing is removed."""
    lake = table.lake
    directory = lake.directory("t")

    def lose_then_drop(proxy, call):
        proxy.ask(call)
        lake.catalog.drop_table(lake.identifier("t"))

    proxy.commits = [lose_then_drop]
    run = rewrite(table, code=1)
    assert run.json["error"]["code"] == "unknown_outcome", run.text
    found = {p.relative_to(directory) for p in directory.rglob("*") if p.is_file()}
    assert len({p for p in found - table.tree if p.parts[0] == "data"}) == 1


def test_table_replaced_while_committing(table, proxy):
    """R115: another table of the same name is not written to."""
    lake = table.lake

    def replace():
        lake.catalog.drop_table(lake.identifier("t"))
        lake.create("t", PLAIN)
        lake.append("t", plain_rows(0, 5))

    proxy.commits = [after(replace)]
    run = rewrite(table, code=1)
    assert run.json["error"]["code"] == "conflict", run.text
    assert "another table has this name now" in run.err
    assert lake.rows("t") == it.sorted_rows(plain_rows(0, 5)), run.text
    assert len(lake.load("t").snapshots()) == 1


@pytest.mark.parametrize("command, args", [
    ("expire-snapshots", ("--older-than", "now")), ("rewrite-manifests", ())])
@pytest.mark.parametrize("fault", ["reply lost", "500", "reply cut off"])
def test_other_procedures_find_their_commit(table, proxy, command, args, fault):
    lake = table.lake
    proxy.commits = [APPLIED[fault]]
    status = lake.run(command, "t", *args).json["status"]
    assert status == ("committed" if command == "rewrite-manifests" else "snapshots_removed=6")
    assert len(proxy.sent_commits) == 1
    assert lake.rows("t") == table.rows
    assert lake.reached("t") <= set(lake.tree("t")) | {
        local(entry.metadata_file).relative_to(lake.directory("t"))
        for entry in lake.load("t").metadata.metadata_log}


@pytest.mark.parametrize("command, args", [
    ("expire-snapshots", ("--older-than", "now")), ("rewrite-manifests", ())])
@pytest.mark.parametrize("fault, kind", [
    (CONFLICT, "conflict"), (KNOWN["403"][0], "denied"), (page(500), "unknown_outcome")],
    ids=["409", "403", "500"])
def test_other_procedures_fail_without_harm(table, proxy, command, args, fault, kind):
    proxy.commits = [fault] * 100
    run = table.lake.run(command, "t", *args, code=1)
    assert run.json["error"]["code"] == kind, run.text
    table.is_untouched()
    assert table.tree <= set(table.lake.tree("t"))
    if kind != "unknown_outcome":
        table.is_clean()


def test_rollback_through_faults(table, proxy):
    lake = table.lake
    first = lake.load("t").snapshots()[0].snapshot_id
    for fault in (lose_reply, page(500)):
        proxy.commits = [fault]
        run = lake.run("rollback-to-snapshot", "t", str(first), code=None)
        if run.code == 0:
            assert lake.head("t").snapshot_id == first
    proxy.commits = [KNOWN["403"][0]]
    run = lake.run("rollback-to-snapshot", "t", str(first), code=None)
    assert lake.head("t").snapshot_id == first


# --- who is asking ------------------------------------------------------------------------------


def audit_events(home):
    return [json.loads(line) for path in home.rglob("*.audit.jsonl")
            for line in path.read_text().splitlines()]


def audit_phases(home):
    return [event["phase"] for event in audit_events(home) if "phase" in event]


def configured(tmp_path, proxy, *lines):
    path = tmp_path / "lithify.toml"
    path.write_text("\n".join([f"[catalogs.lake]\nuri = \"{proxy.uri}\"", *lines, ""]))
    return path


class Secretive:
    """Runs lithify with a configuration file, and holds that no secret gets out: not to the
    output, not to the audit log, not to the process's arguments."""

    def __init__(self, lake, config, home, env=None):
        self.lake = lake
        self.config = config
        self.home = home
        self.env = {**lake.env, **(env or {})}

    def run(self, command, *args, code=0, secrets=(SECRET, TOKEN)):
        arguments = (command, self.lake.named("t"), "--config", str(self.config), "--json",
                     "--delete-file-threshold", "1", *args)
        run = cli.run(*arguments, code=code, env=self.env)
        said = run.text + json.dumps(audit_events(self.home), ensure_ascii=False)
        said += " ".join(arguments)
        for secret in secrets:
            assert secret not in said
        return run


def test_client_credentials(table, proxy, home, tmp_path):
    proxy.token = TOKEN
    proxy.clients = {"job": SECRET}
    config = configured(tmp_path, proxy, 'client_id = "job"',
                        'client_secret = "${TEST_CLIENT_SECRET}"', 'scope = "PRINCIPAL_ROLE:ALL"')
    shell = Secretive(table.lake, config, home, {"TEST_CLIENT_SECRET": SECRET})
    assert shell.run("table-health").json["live_data_files"] == 6
    table.is_rewritten(shell.run("rewrite-data-files"))
    assert [c.status for c in proxy.calls if c.path.endswith("/v1/oauth/tokens")] == [200, 200]
    assert all(c.status == 200 for c in proxy.calls)


def test_credential_in_one_line_and_another_endpoint(table, proxy, home, tmp_path, service):
    """`credential`, and a token endpoint that is not the catalog's."""
    proxy.token = TOKEN
    proxy.clients = {"job": "plain:secret"}
    config = configured(tmp_path, proxy, 'credential = "${TEST_CREDENTIAL}"',
                        f'oauth2_server_uri = "{proxy.uri}/realms/x/v1/oauth/tokens"')
    shell = Secretive(table.lake, config, home, {"TEST_CREDENTIAL": "job:plain:secret"})
    table.is_rewritten(shell.run("rewrite-data-files", secrets=("plain:secret", TOKEN)))
    assert any(c.path == "/realms/x/v1/oauth/tokens" for c in proxy.calls)


def test_credentials_stay_with_their_host(table, proxy, home, tmp_path):
    """--catalog-uri beside a configured catalog does not take its credentials elsewhere."""
    for line, secret in (('token = "${TEST_TOKEN}"', TOKEN),
                         ('headers = ["X-Key: key-xyz"]', "key-xyz"),
                         ('credential = "job:${TEST_TOKEN}"', TOKEN)):
        config = tmp_path / "lithify.toml"
        config.write_text(f'[catalogs.lake]\nuri = "http://127.0.0.1:9/api"\n{line}\n')
        shell = Secretive(table.lake, config, home, {"TEST_TOKEN": TOKEN})
        run = shell.run("table-health", "--catalog-uri", proxy.uri, code=2, secrets=(secret,))
        assert "http://127.0.0.1:9/api" in run.err and proxy.uri in run.err
    assert proxy.calls == []


def test_wrong_client_secret(table, proxy, home, tmp_path):
    proxy.token = TOKEN
    proxy.clients = {"job": SECRET}
    config = configured(tmp_path, proxy, 'client_id = "job"',
                        'client_secret = "${TEST_CLIENT_SECRET}"')
    shell = Secretive(table.lake, config, home, {"TEST_CLIENT_SECRET": "wrong-secret-xyz"})
    run = shell.run("rewrite-data-files", code=1, secrets=("wrong-secret-xyz", TOKEN))
    assert run.json["error"]["code"] == "denied"
    for words in ("client 'job'", "no such client", "/v1/oauth/tokens", "client id"):
        assert words in run.err
    table.is_clean()
    assert proxy.sent_commits == []
    (event,) = audit_events(home)
    assert (event["phase"], event["statement_type"]) == ("aborted", "rewrite_data_files")
    assert event["error"].startswith("denied")


def test_secret_that_is_not_set(table, proxy, home, tmp_path):
    config = configured(tmp_path, proxy, 'client_id = "job"',
                        'client_secret = "${TEST_CLIENT_SECRET}"')
    run = Secretive(table.lake, config, home).run("table-health", code=2)
    assert "TEST_CLIENT_SECRET" in run.err
    assert proxy.calls == []


def test_static_token(table, proxy, home, tmp_path):
    proxy.token = TOKEN
    config = configured(tmp_path, proxy, 'token = "${TEST_TOKEN}"')
    shell = Secretive(table.lake, config, home, {"TEST_TOKEN": TOKEN})
    table.is_rewritten(shell.run("rewrite-data-files"))
    wrong = Secretive(table.lake, config, home, {"TEST_TOKEN": "wrong-token-xyz"})
    run = wrong.run("table-health", code=1, secrets=("wrong-token-xyz", TOKEN))
    assert run.json["error"]["code"] == "denied" and "no such token" in run.err


def test_token_that_the_catalog_repeats(table, proxy, home, tmp_path):
    """A catalog that quotes the token in its words does not get it into ours."""
    config = configured(tmp_path, proxy, 'token = "${TEST_TOKEN}"')
    proxy.commits = [error(403, "ForbiddenException", f"token {TOKEN} may not")]
    run = Secretive(table.lake, config, home, {"TEST_TOKEN": TOKEN}).run("rewrite-data-files",
                                                                         code=1)
    assert "may not" in run.err
    table.is_clean()


def test_token_renewed_in_the_middle(table, proxy, home, tmp_path):
    """401 once, then a new token: the commit goes out again, as it was not made."""
    proxy.token = "first-" + TOKEN
    proxy.clients = {"job": SECRET}
    config = configured(tmp_path, proxy, 'client_id = "job"',
                        'client_secret = "${TEST_CLIENT_SECRET}"')

    def run_out(proxy, call):
        proxy.token = TOKEN
        return error(401, "NotAuthorizedException", "the token has run out")(proxy, call)

    proxy.commits = [run_out]
    shell = Secretive(table.lake, config, home, {"TEST_CLIENT_SECRET": SECRET})
    table.is_rewritten(shell.run("rewrite-data-files"))
    commits = [(c.status, c.headers["Authorization"]) for c in proxy.sent_commits]
    assert commits == [(401, f"Bearer first-{TOKEN}"), (200, f"Bearer {TOKEN}")]


def test_tokens_that_live_for_a_second(table, proxy, home, tmp_path):
    """Each is renewed before it runs out."""
    proxy.token = TOKEN
    proxy.clients = {"job": SECRET}
    proxy.expires_in = 1
    config = configured(tmp_path, proxy, 'client_id = "job"',
                        'client_secret = "${TEST_CLIENT_SECRET}"')
    proxy.commits = [after(lambda: time.sleep(0.6)), forward]
    shell = Secretive(table.lake, config, home, {"TEST_CLIENT_SECRET": SECRET})
    table.is_rewritten(shell.run("rewrite-data-files"))
    assert sum(c.path.endswith("/v1/oauth/tokens") for c in proxy.calls) >= 1
    assert all(c.status == 200 for c in proxy.calls)


def test_secrets_are_not_in_the_process_list(table, proxy, home, tmp_path):
    """While it runs, and its configuration as it shows it."""
    proxy.token = TOKEN
    proxy.clients = {"job": SECRET}
    config = configured(tmp_path, proxy, 'client_id = "job"',
                        'client_secret = "${TEST_CLIENT_SECRET}"')
    shown = []

    def look(proxy, call):
        with open(f"/proc/{process.pid}/cmdline", encoding="utf-8") as arguments:
            shown.append(arguments.read())
        return proxy.ask(call)

    proxy.reads = [look] * 2
    proxy.commits = [look]
    process = cli.start("rewrite-data-files", table.lake.named("t"), "--config", str(config),
                        "--delete-file-threshold", "1",
                        env={**table.lake.env, "TEST_CLIENT_SECRET": SECRET})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert len(shown) == 3 and all("rewrite-data-files" in text for text in shown)
    assert SECRET not in "".join(shown) + out + err
