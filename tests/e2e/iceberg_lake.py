"""The binary on Iceberg tables, and what independent readers see of a table before and after."""

import collections
import os
import pathlib
import time

import cli
import duckdb
import iceberg_tables as it
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

# Most tests use this one.
PLAIN = Schema(NestedField(1, "id", LongType(), required=False),
               NestedField(2, "region", StringType(), required=False),
               NestedField(3, "note", StringType(), required=False))

SET_BACK = os.environ.get("LITHIFY_SET_BACK_LIBRARY",
                          str(cli.REPOSITORY / "build" / "tests" / "set_back.so"))

Entry = collections.namedtuple("Entry", "file sequence_number snapshot_id spec_id")


def plain_rows(start, count, region=None):
    return [{"id": i, "region": region or ("eu", "us")[i % 2],
             "note": None if i % 5 == 0 else f"note {i % 7}"}
            for i in range(start, start + count)]


def as_time_goes_by(command):
    """Environment in which files whose time was set back have not changed since then either, which
    nobody can set: remove-orphan-files goes by both."""
    return {"LD_PRELOAD": SET_BACK} if command == "remove-orphan-files" else {}


class Lake(it.Warehouse):
    """A warehouse that the binary is run on."""

    def run(self, command, name, *args, code=0, **kwargs):
        kwargs["env"] = {**as_time_goes_by(command), **kwargs.get("env", {})}
        return cli.run(command, f"lake.sales.{name}", *args, "--catalog-uri", self.uri, "--json",
                       code=code, **kwargs)

    def start(self, command, name, *args):
        return cli.start(command, f"lake.sales.{name}", *args, "--catalog-uri", self.uri, "--json")

    def plain(self, name="t", files=6, rows=10, **options):
        """A table of `files` appends, of rows 0, 1, 2, …"""
        self.create(name, PLAIN, **options)
        self.append(name, *(plain_rows(number * rows, rows) for number in range(files)))
        return self.load(name)

    def wait_for_output(self, name, process, known):
        """Until the process has begun to write; False if it ended first. `known`: of tree()."""
        while process.poll() is None:
            if any("data" in path.parts for path in set(self.tree(name)) - set(known)):
                return True
            time.sleep(0.001)
        return False

    # --- what is there ---------------------------------------------------------------------------

    def head(self, name):
        return self.load(name).current_snapshot()

    def metadata_location(self, name):
        return self.load(name).metadata_location

    def leftovers(self, name):
        """Files that nothing in the table refers to."""
        return set(self.tree(name)) - self.reached(name)

    def entries(self, name, snapshot=None):
        """Live entries of the snapshot's manifests, data and deletes."""
        table = self.load(name)
        snapshot = snapshot or table.current_snapshot()
        return [Entry(entry.data_file, entry.sequence_number, entry.snapshot_id,
                      manifest.partition_spec_id)
                for manifest in snapshot.manifests(table.io)
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)]

    def data_entries(self, name):
        return [e for e in self.entries(name) if e.file.content == DataFileContent.DATA]

    def delete_entries(self, name):
        return [e for e in self.entries(name) if e.file.content != DataFileContent.DATA]

    def manifests(self, name, content=ManifestContent.DATA):
        table = self.load(name)
        return [m for m in table.current_snapshot().manifests(table.io) if m.content == content]

    def directory(self, name):
        return pathlib.Path(it.local(self.load(name).location()))

    def tree(self, name):
        """Every file below the table's location, with what a change would change."""
        root = self.directory(name)
        found = {}
        for path in root.rglob("*"):
            if path.is_file():
                status = path.stat()
                found[path.relative_to(root)] = (status.st_size, status.st_mtime_ns)
        return found

    def age(self, name, days=10):
        past = time.time() - days * 86400
        for path in self.directory(name).rglob("*"):
            os.utime(path, (past, past))

    def reached_locations(self, name):
        """Of all files that a snapshot of the table can read."""
        table = self.load(name)
        found = {table.metadata_location}
        found.update(log.metadata_file for log in table.metadata.metadata_log)
        for snapshot in table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found.update(entry.data_file.file_path for entry in
                             manifest.fetch_manifest_entry(table.io, discard_deleted=True))
        for statistics in (*table.metadata.statistics, *table.metadata.partition_statistics):
            found.add(statistics.statistics_path)
        return found

    def reached(self, name):
        """The same as paths relative to the table's location."""
        root = self.directory(name)
        return {pathlib.Path(it.local(path)).relative_to(root)
                for path in self.reached_locations(name)}

    # --- judged rewrites -------------------------------------------------------------------------

    def rewrite(self, name, *args, expected=None, code=0, status="committed", duckdb_reads=True):
        """Rewrites and judges the result. `expected`: rows as dicts, where pyiceberg cannot read
        the table before (equality deletes)."""
        planned = self.head(name)
        old_entries = self.entries(name)
        readable = not self.equality_deletes(name)
        rows = it.sorted_rows(expected) if expected is not None else (
            self.rows(name) if readable else None)
        result = self.run("rewrite-data-files", name, *args, code=code).json
        assert result["status"] == status, result
        assert self.head(name).snapshot_id == result["snapshot_id"]
        if rows is not None and not self.equality_deletes(name):
            assert self.rows(name) == rows
        if readable and rows is not None:
            assert self.rows(name, planned.snapshot_id) == rows, "time travel"
        check_numbers(self, name, result, planned, old_entries)
        if duckdb_reads and rows is not None and not self.delete_entries(name):
            assert duckdb_rows(self, name) == rows
        return result

    def equality_deletes(self, name):
        return [e for e in self.delete_entries(name)
                if e.file.content == DataFileContent.EQUALITY_DELETES]

    def skipped(self, name, *args):
        """A run that finds nothing to do, and does nothing."""
        before = self.metadata_location(name), self.tree(name)
        result = self.run("rewrite-data-files", name, *args).json
        assert result["status"] == "skipped", result
        assert result["snapshot_id"] is None
        assert result["files_rewritten"] == result["files_added"] == 0
        assert (self.metadata_location(name), self.tree(name)) == before
        return result["reason"]


def duckdb_rows(lake, name):
    """The rows of the live data files, read by DuckDB and by path alone."""
    files = [it.local(e.file.file_path) for e in lake.data_entries(name)]
    if not files:
        return []
    names = lake.load(name).schema().column_names
    top = ", ".join(f'"{n}"' for n in names if "." not in n)
    paths = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute("SET arrow_lossless_conversion = true")  # A UUID is one, and no text.
        table = db.sql(f"SELECT {top} FROM read_parquet([{paths}], hive_partitioning = false, "
                       "union_by_name = true)").to_arrow_table()
    return it.sorted_rows(table)


def check_numbers(lake, name, result, planned, old_entries, moved_to=None):
    """The result, the snapshot's summary (R112), the manifests and the files tell one story.
    `moved_to`: the spec that rows of all others went to."""
    table = lake.load(name)
    snapshot = table.current_snapshot()
    new_entries = lake.entries(name)
    old = {e.file.file_path: e for e in old_entries}
    new = {e.file.file_path: e for e in new_entries}
    added = [e for path, e in new.items() if path not in old]
    removed = [e for path, e in old.items() if path not in new]
    gone = [e for e in removed if e.file.content == DataFileContent.DATA]
    gone_deletes = [e for e in removed if e.file.content != DataFileContent.DATA]
    sizes = {path: pathlib.Path(it.local(path)).stat().st_size for path in new}
    for path, entry in new.items():
        assert sizes[path] == entry.file.file_size_in_bytes
        if path in old:  # What stays keeps its numbers.
            assert entry.sequence_number == old[path].sequence_number
            assert entry.snapshot_id == old[path].snapshot_id
    check_outputs(lake, name, added, planned, gone, moved_to)

    assert result["files_added"] == len(added)
    assert result["files_rewritten"] == len(gone)
    assert result["delete_files_removed"] == len(gone_deletes)
    assert result["bytes_in"] == sum(e.file.file_size_in_bytes for e in gone)
    assert result["bytes_out"] == sum(e.file.file_size_in_bytes for e in added)
    assert result["rows_in"] == sum(e.file.record_count for e in gone)
    assert result["rows_out"] == sum(e.file.record_count for e in added)
    assert result["rows_in"] - result["rows_out"] == result["rows_removed"]

    summary = snapshot.summary.additional_properties
    assert snapshot.summary.operation.value == "replace"
    data = [e for e in new_entries if e.file.content == DataFileContent.DATA]
    positions = [e for e in new_entries if e.file.content == DataFileContent.POSITION_DELETES]
    equalities = [e for e in new_entries if e.file.content == DataFileContent.EQUALITY_DELETES]
    facts = {
        "added-data-files": len(added), "deleted-data-files": len(gone),
        "added-records": result["rows_out"], "deleted-records": result["rows_in"],
        "added-files-size": result["bytes_out"],
        "removed-files-size": sum(e.file.file_size_in_bytes for e in removed),
        "removed-delete-files": len(gone_deletes),
        "total-data-files": len(data), "total-records": sum(e.file.record_count for e in data),
        "total-delete-files": len(positions) + len(equalities),
        "total-files-size": sum(sizes.values()),
        "total-position-deletes": sum(e.file.record_count for e in positions),
        "total-equality-deletes": sum(e.file.record_count for e in equalities),
        "changed-partition-count": len({(e.spec_id, str(e.file.partition))
                                        for e in (*added, *removed)}),
    }
    assert {key: int(summary.get(key, "0")) for key in facts} == facts
    stamped = {"lithify.job-id": result["job_id"], "sqe.maintenance.job-id": result["job_id"],
               "lithify.trigger": "manual", "sqe.maintenance.trigger": "manual"}
    assert {key: summary.get(key) for key in stamped} == stamped
    assert snapshot.parent_snapshot_id == planned.snapshot_id
    if table.metadata.format_version >= 2:
        newest = max(s.sequence_number for s in table.metadata.snapshots)
        assert snapshot.sequence_number == table.metadata.last_sequence_number == newest


def check_outputs(lake, name, added, planned, gone, moved_to):
    """R110, R141: what the manifest says of an output is what its file holds."""
    tuples = {(e.spec_id, str(e.file.partition)) for e in gone}
    location = lake.load(name).location()
    for entry in added:
        assert entry.file.content == DataFileContent.DATA
        assert entry.sequence_number == planned.sequence_number
        assert entry.spec_id == moved_to or (entry.spec_id, str(entry.file.partition)) in tuples
        data = lake.load(name).properties.get("write.data.path", f"{location}/data")
        assert entry.file.file_path.startswith(data + "/")
        footer = pq.ParquetFile(it.local(entry.file.file_path)).metadata
        assert footer.num_rows == entry.file.record_count > 0
        offsets = [footer.row_group(i).column(0) for i in range(footer.num_row_groups)]
        starts = [c.dictionary_page_offset or c.data_page_offset for c in offsets]
        assert entry.file.split_offsets == starts
