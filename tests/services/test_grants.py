"""The binary against a REST catalog that asks a policy about every request: what a principal may
not do is refused with the catalog's words, and leaves no trace."""

import json
import secrets

import cli
import iceberg_tables as it
import pytest
from granting import RESTRICTED, Grants
from iceberg_lake import PLAIN, plain_rows
from rest_lake import delete_rows

counter = iter(range(10**6))


@pytest.fixture
def grants(granting, tmp_path):
    return Grants(granting, tmp_path / "state", ("sales", f"n{next(counter)}"),
                  tmp_path / "lithify.toml")


@pytest.fixture
def elsewhere(granting, tmp_path):
    return Grants(granting, tmp_path / "state", ("other", f"n{next(counter)}"),
                  tmp_path / "lithify.toml")


def fill(lake):
    lake.plain("t", files=6)
    delete_rows(lake, "t", [0, 5])
    return lake.rows("t")


def procedures(lake):
    # This catalog lists them in no order.
    first = min(lake.load("t").snapshots(), key=lambda s: s.sequence_number).snapshot_id
    return [("rewrite-data-files", ("--delete-file-threshold", "1")), ("rewrite-manifests", ()),
            ("expire-snapshots", ("--older-than", "now")),
            ("rollback-to-snapshot", (str(first),))]


def test_write_grant(grants):
    """Read and Update are all that the procedures need."""
    rows = fill(grants)
    assert grants.as_("writer", "table-health", "t").json["live_data_files"] == 6
    result = grants.as_("writer", "rewrite-data-files", "t", "--delete-file-threshold", "1").json
    assert (result["status"], result["files_rewritten"], result["files_added"]) == \
        ("committed", 6, 1)
    assert grants.rows("t") == rows and grants.leftovers("t") == set()
    grants.append("t", *(plain_rows(900 + n, 1) for n in range(4)))
    assert grants.as_("writer", "rewrite-manifests", "t").json["status"] == "committed"
    head = grants.head("t")
    grants.as_("writer", "rollback-to-snapshot", "t", str(result["snapshot_id"]))
    assert grants.rows("t") == rows and head.snapshot_id != grants.head("t").snapshot_id
    expired = grants.as_("writer", "expire-snapshots", "t", "--older-than", "now").json
    assert expired["snapshots_removed"] > 5
    assert [s.snapshot_id for s in grants.load("t").snapshots()] == [result["snapshot_id"]]
    grants.age("t")
    grants.as_("writer", "remove-orphan-files", "t")
    assert grants.rows("t") == rows and grants.leftovers("t") == set()


def test_read_grant(grants):
    """Reading works; a change is refused at the commit, and its outputs are removed."""
    rows = fill(grants)
    assert grants.as_("reader", "table-health", "t").json["live_data_files"] == 6
    dry = grants.as_("reader", "rewrite-data-files", "t", "--delete-file-threshold", "1",
                     "--dry-run").json
    assert dry["status"] == "planned"
    before = grants.state("t")
    for command, args in procedures(grants):
        known = len(grants.service.refusals())
        run = grants.as_("reader", command, "t", *args, code=1)
        assert run.json["error"]["code"] == "denied", run.text
        assert "Not permitted to update table" in run.json["reason"]
        assert "Not permitted to update table" in run.err and "grant" in run.err
        assert grants.state("t") == before, command
        event = grants.audited()[-1]
        assert event["phase"] == "aborted" and "Not permitted" in event["error"], event
        assert event["statement_type"] == command.replace("-", "_")
        # Once: nobody who is refused asks again.
        assert len(grants.service.refusals()) == known + 1, command
    assert grants.rows("t") == rows


def test_no_grant(grants):
    """This catalog does not tell whether what one may not read is there."""
    fill(grants)
    before = grants.state("t")
    for command, args in [("table-health", ()), ("remove-orphan-files", ()), *procedures(grants)]:
        run = grants.as_("nobody", command, "t", *args, code=1)
        assert run.json["error"]["code"] == "not_found", run.text
        assert "Table does not exist" in run.err and "may not see" in run.err
        assert grants.state("t") == before, command
        event = grants.audited()[-1]
        assert (event["phase"], event["table"]) == ("aborted", run.json["table"])
        assert event["statement_type"] == command.replace("-", "_")
        assert "Table does not exist" in event["error"], event


def test_grant_on_another_namespace(elsewhere):
    rows = fill(elsewhere)
    before = elsewhere.state("t")
    for role in ("reader", "writer"):
        for command, args in [("table-health", ()), *procedures(elsewhere)]:
            run = elsewhere.as_(role, command, "t", *args, code=1)
            assert run.json["error"]["code"] == "not_found", run.text
            assert elsewhere.state("t") == before, command
    result = elsewhere.as_("owner", "rewrite-data-files", "t", "--delete-file-threshold", "1")
    assert result.json["status"] == "committed" and elsewhere.rows("t") == rows


def test_wrong_key(grants):
    fill(grants)
    before = grants.state("t")
    for command, args in [("table-health", ()), *procedures(grants)]:
        run = grants.as_("writer", command, "t", *args, code=1,
                         key="rb_" + secrets.token_urlsafe(32))
        assert run.json["error"]["code"] == "denied", run.text
        assert "needs a valid credential" in run.err and "check the token" in run.err
        assert grants.state("t") == before, command


@pytest.mark.parametrize("role", RESTRICTED)
def test_part_of_the_rows_or_columns(grants, role):
    """Who may read only a part of a table would rewrite it into that part."""
    rows = fill(grants)
    before = grants.state("t")
    for command, args in procedures(grants):
        run = grants.as_(role, command, "t", *args, code=1)
        assert run.json["error"]["code"] == "unsupported", run.text
        assert "read-restrictions" in run.err
        assert grants.state("t") == before, command
    assert grants.rows("t") == rows


def test_many_writers(grants):
    """Rewriters and an appender at once: every row is there once, every refusal is a conflict."""
    grants.create("t", PLAIN)
    grants.append("t", *(plain_rows(n * 5, 5) for n in range(8)))
    command = ["rewrite-data-files", grants.named("t"), "--config", str(grants.config), "--json",
               "--min-input-files", "2"]
    running = [cli.start(*command, env={**grants.env, "TEST_KEY": grants.service.keys["writer"]})
               for _ in range(3)]
    for n in range(8, 12):
        grants.append("t", plain_rows(n * 5, 5))
    for process in running:
        out, err = process.communicate(timeout=120)
        if process.returncode != 0:
            assert json.loads(out)["error"]["code"] == "conflict", out + err
    assert grants.rows("t") == it.sorted_rows(plain_rows(0, 60))
    assert grants.leftovers("t") == set()
