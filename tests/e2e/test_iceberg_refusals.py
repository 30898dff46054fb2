"""What is refused, or left alone, for safety's sake, and what is told and recorded of it."""

import http.server
import json
import os
import pathlib
import sqlite3
import threading

import cli
import iceberg_tables as it
import pytest
from iceberg_lake import PLAIN, plain_rows
from test_iceberg_retention import age, stray


def audited(lake):
    path = pathlib.Path(f"{lake.db}.audit.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def phases(lake):
    return [(event["statement_type"], event["phase"]) for event in audited(lake)]


class Listener:
    """A host that remembers what it is sent."""

    def __init__(self):
        heard = self.heard = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                heard.append((self.path, dict(self.headers.items())))
                self.send_error(403)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def uri(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.mark.parametrize("settings", [
    'token = "${SECRET}"', 'credential = "job:${SECRET}"', 'headers = ["X-Api-Key: ${SECRET}"]',
    'client_id = "job"\nclient_secret = "${SECRET}"\noauth2_server_uri = "https://login.example/t"'])
def test_credentials_stay_with_their_host(tmp_path, settings):
    config = tmp_path / "lithify.toml"
    config.write_text(f'[catalogs.lake]\nuri = "https://catalog.example/api"\n{settings}\n')
    env = {"SECRET": "s3cret-xyz", "XDG_STATE_HOME": str(tmp_path)}
    with Listener() as other:
        for command in ("table-health", "rewrite-data-files"):
            run = cli.run(command, "lake.sales.t", "--config", config, "--catalog-uri", other.uri,
                          "--json", code=cli.USAGE, env=env)
            assert run.json["error"]["code"] == "invalid"
            assert "https://catalog.example/api" in run.err and other.uri in run.err
            assert "s3cret-xyz" not in run.text
        assert other.heard == []
        # Under a name that is not configured the host is asked, with nothing.
        run = cli.run("table-health", "other.sales.t", "--config", config, "--catalog-uri",
                      other.uri, "--json", code=1, env=env)
        assert run.json["error"]["code"] == "denied"
        assert other.heard and "s3cret-xyz" not in str(other.heard)
        # R168: that it refused is on record.
        (log,) = tmp_path.glob("lithify/*.audit.jsonl")
        (event,) = [json.loads(line) for line in log.read_text().splitlines()]
        assert (event["phase"], event["statement_type"]) == ("aborted", "table_health")
        assert (event["catalog"], event["table"]) == (other.uri, "sales.t")
        assert event["actor"]["username"] and event["error"].startswith("denied")


@pytest.mark.parametrize("command, args", [
    ("rewrite-data-files", ()), ("table-health", ()), ("expire-snapshots", ()),
    ("remove-orphan-files", ()), ("rewrite-manifests", ()), ("rollback-to-snapshot", ("1",))])
def test_absence_is_on_record(lake, command, args):
    """R168"""
    lake.plain(files=1)
    assert lake.run(command, "nosuch", *args, code=1).json["error"]["code"] == "not_found"
    (event,) = audited(lake)
    assert (event["phase"], event["status"]) == ("aborted", "failure")
    assert event["statement_type"] == command.replace("-", "_")
    assert (event["catalog"], event["table"]) == (f"sqlite://{lake.db}", "sales.nosuch")
    assert event["actor"]["username"] and event["error"].startswith("not_found")


def test_nothing_to_do_is_not_on_record(lake):
    lake.plain(files=1)
    assert lake.run("rewrite-manifests", "t").json["status"] == "skipped"
    head = lake.head("t").snapshot_id
    assert lake.run("rollback-to-snapshot", "t", head).json["status"] == "skipped"
    assert lake.run("rewrite-data-files", "t").json["status"] == "skipped"
    assert audited(lake) == []
    lake.append("t", *(plain_rows(100 + n, 1) for n in range(3)))
    assert lake.run("rewrite-manifests", "t").json["status"] == "committed"
    assert phases(lake) == [("rewrite_manifests", "intent"), ("rewrite_manifests", "committed")]
    assert audited(lake)[1]["snapshot_id"] == lake.head("t").snapshot_id


@pytest.mark.parametrize("options", [(), ("--partial-progress",)])
def test_a_damaged_file_is_named_by_its_path(lake, options):
    lake.plain(partition_by=["region"])
    victim = pathlib.Path(it.local(next(
        e.file.file_path for e in lake.data_entries("t") if e.file.partition[0] == "eu")))
    os.truncate(victim, victim.stat().st_size - 50)
    report = lake.run("rewrite-data-files", "t", *options, code=1).json
    said = report["reason"] + " ".join(report.get("notes", ()))
    assert cli.place.location(victim) in said
    assert "roll back to a snapshot without it" in said and "out of the partition" not in said


def test_commits_of_partial_progress_are_listed(lake):
    lake.plain(partition_by=["region"])
    result = lake.run("rewrite-data-files", "t", "--partial-progress").json
    ours = [s.snapshot_id for s in lake.load("t").metadata.snapshots
            if s.summary.operation.value == "replace"]
    assert len(ours) == 2 and result["snapshot_ids"] == ours
    assert [event.get("snapshot_id") for event in audited(lake)] == [None, *ours]


# --- remove-orphan-files ------------------------------------------------------------------------


@pytest.mark.local_disk("when a file has come to be here is told by a disk only")
def test_a_file_with_an_old_time_is_as_young_as_it_is_here(lake):
    """A copy that keeps its time, or a move, from elsewhere: it may be about to be committed."""
    lake.plain(files=3)
    moved = stray(lake, "data/moved.parquet", days=30)
    result = lake.run("remove-orphan-files", "t", env={"LD_PRELOAD": ""}).json
    assert (result["files_removed"], result["young"]) == (0, 1)
    assert moved.exists()
    assert lake.run("remove-orphan-files", "t").json["files_removed"] == 1


def point(lake, name, location):
    """The catalog says that the table's metadata is there."""
    with sqlite3.connect(lake.db) as db:
        db.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
                   (location, name))
    db.close()


def rewrite_metadata(lake, name, **members):
    path = pathlib.Path(it.local(lake.metadata_location(name)))
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


@pytest.mark.local_disk("a bucket is another storage than a disk")
def test_a_table_in_another_storage_does_not_block(lake):
    """Its metadata may be readable from here or not."""
    lake.plain(files=3)
    lake.create("other", PLAIN)
    rewrite_metadata(lake, "other", location="s3://bucket/other")
    path = stray(lake, "data/stray.parquet", days=10)
    assert lake.run("remove-orphan-files", "t").json["files_removed"] == 1
    assert not path.exists()
    point(lake, "other", "s3://bucket/other/metadata/00000-x.metadata.json")
    path = stray(lake, "data/stray.parquet", days=10)
    result = lake.run("remove-orphan-files", "t").json
    assert result["files_removed"] == 1 and not path.exists()
    assert any("another storage" in note for note in result["notes"])


@pytest.mark.parametrize("location", ["file://host/lake/other", "dbfs:/lake/other", "lake/other"])
def test_a_table_that_may_be_here_blocks_and_is_named(lake, location):
    lake.plain(files=3)
    lake.create("other", PLAIN)
    rewrite_metadata(lake, "other", location=location)
    path = stray(lake, "data/stray.parquet", days=10)
    failed = lake.run("remove-orphan-files", "t", code=1).json
    assert failed["error"]["code"] == "denied" and path.exists()
    assert "sales.other" in failed["reason"] and location in failed["reason"]
    assert "set the location of table sales.other" in failed["reason"]


@pytest.mark.local_disk("file://localhost")
def test_localhost_is_here(lake):
    """R183: file://localhost/x is /x, for the table itself and for a neighbour below it."""
    lake.plain()
    rows = lake.rows("t")
    home = lake.directory("t")
    rewrite_metadata(lake, "t", location=f"file://localhost{home}")
    path = home / "data" / "stray.parquet"
    path.write_bytes(b"stray")
    age(path, 10)
    for known in home.rglob("*"):
        age(known, 10)
    result = lake.run("remove-orphan-files", "t").json
    assert result["files_removed"] == 1 and not path.exists()
    rewrite_metadata(lake, "t", location=f"file://{home}")
    assert lake.rows("t") == rows
    lake.create("other", PLAIN)
    rewrite_metadata(lake, "other", location=f"file://localhost{home}/inner")
    failed = lake.run("remove-orphan-files", "t", code=1).json
    assert failed["error"]["code"] == "denied" and "overlaps" in failed["reason"]
    assert not pathlib.Path("localhost").exists()
