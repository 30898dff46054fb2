"""Others change a table while it is rewritten: the rewrite is stopped by a signal after it planned
and before it commits, something happens, and it goes on."""

import contextlib
import json
import pathlib
import shutil
import signal
import sqlite3
import time

import cli
import iceberg_tables as it
import pyarrow.parquet as pq
import pytest
from iceberg_lake import PLAIN, plain_rows
from pyiceberg.types import StringType

FILES, ROWS = 10, 3000


def finish(*processes):
    """Reports of all, in order."""
    done = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode in (0, 1), out + err
        done.append(json.loads(out))
    return done


def is_stopped(process):
    stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
    return stat.rpartition(")")[2].split()[0] == "T"


def is_locked(lake):
    """Whether somebody reads or writes the catalog right now."""
    with contextlib.closing(sqlite3.connect(lake.db, timeout=0)) as db:
        try:
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
        db.rollback()
        return False


class Paused:
    """A rewrite that has planned and written something; it goes on at the end of the block."""

    def __init__(self, lake, *options):
        self.lake = lake
        # A rewrite is quick: one that is stopped when it publishes, where its locks would keep out
        # others, or is done, is no use.
        for _ in range(50):
            if self.stop(*options):
                return
            self.process.send_signal(signal.SIGCONT)
            finish(self.process)
            directory = lake.directory("t")
            lake.catalog.drop_table(lake.identifier("t"))
            shutil.rmtree(directory)
        raise AssertionError("no rewrite could be stopped while it wrote")

    def stop(self, *options):
        lake = self.lake
        lake.plain(files=FILES, rows=ROWS)
        self.planned = lake.head("t")
        self.paths = [e.file.file_path for e in
                      sorted(lake.data_entries("t"), key=lambda e: e.sequence_number)]
        known = lake.tree("t")
        self.process = lake.start("rewrite-data-files", "t", "--rewrite-all", "--jobs", "1",
                                  *options)
        began = lake.wait_for_output("t", self.process, known)
        self.process.send_signal(signal.SIGSTOP)
        while self.process.poll() is None and not is_stopped(self.process):
            time.sleep(0.001)
        written = set(lake.tree("t")) - set(known)
        return (began and self.process.poll() is None and not is_locked(lake) and
                all(path.suffix == cli.place.unfinished for path in written) and
                lake.head("t").snapshot_id == self.planned.snapshot_id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.report, = finish(self.process)


def no_leftovers(lake):
    reached = lake.reached("t")
    assert {p for p in lake.tree("t") if p not in reached and "data" in p.parts} == set()


def test_append(lake):
    """No conflict: both are there."""
    with Paused(lake) as run:
        lake.append("t", plain_rows(10**6, 5), plain_rows(10**6 + 5, 5))
    assert (run.report["status"], run.report["attempts"]) == ("committed", 1)
    assert lake.rows("t") == it.sorted_rows(plain_rows(0, FILES * ROWS) + plain_rows(10**6, 10))
    assert len(lake.data_entries("t")) == 3


@pytest.mark.parametrize("bounds", [True, False])
def test_position_delete_of_an_input(lake, bounds):
    """I4, T14: planned again, and the row stays deleted; also if no bounds say which file it is."""
    with Paused(lake) as run:
        gone = pq.read_table(it.local(run.paths[0]))["id"][1].as_py()
        table = lake.load("t")
        it.commit_deletes(table, [it.position_delete_file(table, [(run.paths[0], 1)],
                                                          bounds=bounds)])
    assert (run.report["status"], run.report["attempts"]) == ("committed", 2)
    assert lake.rows("t") == it.sorted_rows(
        [r for r in plain_rows(0, FILES * ROWS) if r["id"] != gone])
    no_leftovers(lake)


def test_position_delete_of_another_file(lake):
    """I4, case b: no conflict."""
    with Paused(lake, "--where", f"id < {2 * ROWS}") as run:
        table = lake.load("t")
        it.commit_deletes(table, [it.position_delete_file(table, [(run.paths[5], 1)])])
    assert (run.report["status"], run.report["attempts"]) == ("committed", 1)
    assert run.report["files_rewritten"] == 2
    assert len(lake.rows("t")) == FILES * ROWS - 1


def test_equality_delete(lake):
    """I1: no conflict; it applies to the outputs, which are as old as the plan. The append after it
    is not touched. Judged by another rewrite."""
    with Paused(lake) as run:
        table = lake.load("t")
        it.commit_deletes(table, [it.equality_delete_file(table, ["id"], [(7,), (10**6,)])])
        lake.append("t", plain_rows(10**6, 3))
    assert (run.report["status"], run.report["attempts"]) == ("committed", 1)
    assert len(lake.delete_entries("t")) == 1
    outputs = [e for e in lake.data_entries("t") if e.snapshot_id == run.report["snapshot_id"]]
    assert {e.sequence_number for e in outputs} == {run.planned.sequence_number}
    lake.append("t", plain_rows(10**6 + 3, 3))
    assert len(lake.delete_entries("t")) == 1
    left = [r for r in plain_rows(0, FILES * ROWS) if r["id"] != 7] + plain_rows(10**6, 6)
    lake.rewrite("t", "--rewrite-all", expected=left)
    assert not lake.delete_entries("t")


def test_input_removed(lake):
    """I5: a file that somebody deleted must not come back."""
    with Paused(lake) as run:
        lake.load("t").delete(f"id < {ROWS}")
    assert (run.report["status"], run.report["attempts"]) == ("committed", 2)
    assert lake.rows("t") == it.sorted_rows(plain_rows(ROWS, (FILES - 1) * ROWS))
    no_leftovers(lake)


def test_input_replaced_by_copy_on_write(lake):
    with Paused(lake) as run:
        lake.load("t").delete("id = 5")
    assert (run.report["status"], run.report["attempts"]) == ("committed", 2)
    assert len(lake.rows("t")) == FILES * ROWS - 1


def test_planned_snapshot_expired(lake):
    """I9: never "0 files, success"."""
    with Paused(lake) as run:
        lake.append("t", plain_rows(10**6, 5))
        expired = lake.run("expire-snapshots", "t", "--older-than", "now").json
        assert expired["snapshots_removed"] == FILES
    assert (run.report["status"], run.report["attempts"]) == ("committed", 2)
    assert run.report["files_rewritten"] == FILES + 1
    assert len(lake.rows("t")) == FILES * ROWS + 5
    no_leftovers(lake)


def test_schema_or_spec_changed(lake):
    """R304."""
    with Paused(lake) as run:
        with lake.load("t").update_schema() as update:
            update.add_column("extra", StringType())
        lake.partition("t", ["region"])
    assert (run.report["status"], run.report["attempts"]) == ("committed", 2)
    rows = [{**row, "extra": None} for row in plain_rows(0, FILES * ROWS)]
    assert lake.rows("t") == it.sorted_rows(rows)


def test_rolled_back(lake):
    """The planned snapshot is no ancestor any more."""
    with Paused(lake) as run:
        older = lake.load("t").metadata.snapshots[3].snapshot_id
        lake.run("rollback-to-snapshot", "t", older)
    assert (run.report["status"], run.report["attempts"]) == ("committed", 2)
    assert lake.rows("t") == it.sorted_rows(plain_rows(0, 4 * ROWS))


def test_table_dropped(lake):
    """Known not to be committed, so nothing of it is left."""
    with Paused(lake) as run:
        directory = lake.directory("t")
        lake.catalog.drop_table("sales.t")
    assert run.report["status"] == "failed"
    assert run.report["error"]["code"] == "not_found"
    assert len(list((directory / "data").rglob("*.parquet"))) == FILES


def test_table_replaced(lake):
    """R115: another table of the same name is neither written to nor planned for."""
    with Paused(lake) as run:
        directory, location = lake.directory("t"), lake.load("t").location()
        lake.catalog.drop_table("sales.t")
        lake.create("t", PLAIN, location=f"{location}-new")
        lake.append("t", *(plain_rows(n, 1) for n in range(6)))
    assert run.report["status"] == "failed"
    assert run.report["error"]["code"] == "conflict"
    assert "another table has this name now" in run.report["reason"]
    assert len(list((directory / "data").rglob("*.parquet"))) == FILES
    assert len(lake.data_entries("t")) == len(lake.load("t").metadata.snapshots) == 6


def test_sweep_of_a_running_rewrite(lake):
    """R186: its outputs are young; nobody may take them for orphans."""
    with Paused(lake) as run:
        swept = lake.run("remove-orphan-files", "t", "--older-than", "25h", "--force").json
        assert swept["files_removed"] == 0 and swept["young"] > 0
    assert (run.report["status"], run.report["attempts"]) == ("committed", 1)
    assert len(lake.rows("t")) == FILES * ROWS


@pytest.mark.parametrize("options", [(), ("--rewrite-all",)])
def test_two_rewrites_at_once(lake, options):
    """R120: one wins; the other sees that and ends with nothing to do, or does it all again."""
    lake.plain(files=10, rows=2000, partition_by=["region"])
    rows = lake.rows("t")
    reports = finish(*[lake.start("rewrite-data-files", "t", *options) for _ in range(2)])
    statuses = sorted(report["status"] for report in reports)
    assert statuses[0] == "committed" and statuses[1] in ("committed", "skipped")
    replaced = {s.snapshot_id for s in lake.load("t").metadata.snapshots
                if s.summary.operation.value == "replace"}
    assert replaced == {r["snapshot_id"] for r in reports if r["status"] == "committed"}
    if not options:
        assert len(replaced) == 1
    assert lake.rows("t") == rows
    assert len(lake.data_entries("t")) == 2
    no_leftovers(lake)
