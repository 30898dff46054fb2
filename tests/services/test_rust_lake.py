"""Tables of the Rust implementation of Iceberg, in its own SQLite catalog: lithify maintains them,
Rust goes on with what lithify wrote, and Rust, pyiceberg and DuckDB read the same rows before and
after."""

import datetime
import decimal
import json
import subprocess
import uuid

import iceberg_lake
import iceberg_tables as it
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (BinaryType, BooleanType, DateType, DecimalType, DoubleType, FixedType,
                             FloatType, IntegerType, ListType, LongType, MapType, NestedField,
                             StringType, StructType, TimestampType, TimestamptzType, TimeType,
                             UUIDType)
from service_script import run_script

# Field ids as Rust assigns them: those of nested fields come after all others.
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "note", StringType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "wide", DecimalType(30, 4)),
    NestedField(7, "key", UUIDType()),
    NestedField(8, "score", DoubleType()),
    NestedField(9, "ratio", FloatType()),
    NestedField(10, "day", DateType()),
    NestedField(11, "ok", BooleanType()),
    NestedField(12, "blob", BinaryType()),
    NestedField(13, "code", FixedType(3)),
    NestedField(14, "clock", TimeType()),
    NestedField(15, "naive", TimestampType()),
    NestedField(16, "count", IntegerType()),
    NestedField(17, "tags", ListType(20, StringType(), element_required=False)),
    NestedField(18, "place", StructType(NestedField(21, "lat", DoubleType()),
                                        NestedField(22, "lon", DoubleType()))),
    NestedField(19, "marks", MapType(23, StringType(), 24, LongType(), value_required=False)))

SPECS = {
    "unpartitioned": [],
    "by value": [(2, "region", "identity")],
    "by transforms": [(1, "id_bucket", "bucket[3]"), (3, "at_day", "day"),
                      (4, "note_part", "truncate[5]"), (11, "ok", "identity")],
    "by odd types": [(10, "day", "identity"), (5, "price_part", "truncate[500]"),
                     (15, "naive_month", "month")],
}
VERSIONS = (1, 2, 3)
ROWS = 300


def make_rows(start, count=ROWS):
    epoch = datetime.datetime(2017, 11, 16, 22, 31, 8, tzinfo=datetime.UTC)
    rows = []
    for i in range(start, start + count):
        at = epoch + datetime.timedelta(hours=i % 60, microseconds=i)
        row = {
            "id": i, "region": ("eu", "us", "", "ü/ä=%41 b")[i % 4], "at": at,
            "note": f"note {i % 7}\t\n\"{i}", "price": decimal.Decimal(i % 900 - 300) / 100,
            "wide": decimal.Decimal(-i) * 10**20 / 10**4, "key": uuid.UUID(int=i << 64 | 7).bytes,
            "score": (0.5, float("nan"), -0.0, 1e300)[i % 4] * (i or 1), "ratio": -i / 4,
            "day": at.date() - datetime.timedelta(days=20000 * (i % 2)), "ok": i % 3 == 0,
            "blob": bytes([i % 256, 0, 255]), "code": bytes([1, i % 256, 3]),
            "clock": at.time(), "naive": at.replace(tzinfo=None), "count": i % 11 - 5,
            "tags": [None, "a", f"t{i % 5}"][:i % 4], "place": {"lat": i / 8, "lon": None},
            "marks": [("x", i), ("y", None)] if i % 2 else [],
        }
        # Each column has its nulls in other rows.
        for number, name in enumerate(row):
            if name != "id" and i % 13 == number % 13:
                row[name] = None
        rows.append(row)
    return rows


class RustLake(iceberg_lake.Lake):
    """A lake with one table `t`; Rust makes both."""

    def __init__(self, program, root, version, spec, *properties):
        self.program, self.root, self.db = program, root, root / "catalog.db"
        root.mkdir()
        fields = [{"source-id": source, "field-id": 1000 + number, "name": name,
                   "transform": transform}
                  for number, (source, name, transform) in enumerate(SPECS[spec])]
        self.rust("create", version, SCHEMA.model_dump_json(),
                  json.dumps({"spec-id": 0, "fields": fields}), *properties)
        super().__init__(root)

    def rust(self, command, *args):
        done = subprocess.run(
            [self.program, command, f"sqlite://{self.db}?mode=rwc", f"file://{self.root}",
             "sales.t", *map(str, args)],
            text=True, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def parquet(self, rows):
        path = self.root / f"{uuid.uuid4()}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA.as_arrow()), path,
                       compression="none", store_schema=False)
        return path

    def append_by_rust(self, *starts):
        """A commit for each; returns their rows."""
        batches = [make_rows(start) for start in starts]
        self.rust("append", *map(self.parquet, batches))
        return [row for rows in batches for row in rows]

    def judge(self, rows):
        """What Rust reads, as text; pyiceberg reads `rows`."""
        assert self.rows("t") == it.sorted_rows(pa.Table.from_pylist(rows, SCHEMA.as_arrow()))
        lines = self.rust("judge")
        assert len(lines) == len(rows)
        return lines

    def expire(self):
        expired = self.run("expire-snapshots", "t", "--older-than", "now").json
        assert [s.snapshot_id for s in self.load("t").snapshots()] == [self.head("t").snapshot_id]
        assert self.reached("t") >= {path for path in self.tree("t") if path.parts[0] == "data"}
        return expired["snapshots_removed"]


@pytest.fixture(scope="session")
def program():
    return run_script("rust_lake.sh")


def judged_rewrite(lake, rows, **options):
    """All data files are rewritten, and nobody sees a difference."""
    before = lake.judge(rows)
    result = lake.rewrite("t", "--rewrite-all", **options)
    assert result["files_rewritten"] > result["files_added"]
    assert lake.judge(rows) == before
    return result


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_life_of_a_table(program, tmp_path, version, spec):
    lake = RustLake(program, tmp_path / "lake", version, spec)
    assert lake.load("t").metadata.format_version == version
    rows = lake.append_by_rust(0, ROWS, 2 * ROWS)
    files = len(lake.data_entries("t"))
    health = lake.run("table-health", "t").json
    assert (health["live_data_files"], health["delete_files"]) == (files, 0)
    result = judged_rewrite(lake, rows)
    assert (result["files_rewritten"], result["rows_in"]) == (files, len(rows))

    rows += lake.append_by_rust(3 * ROWS, 4 * ROWS)
    before = lake.judge(rows)
    manifests = len(lake.manifests("t"))
    done = lake.run("rewrite-manifests", "t").json
    assert done["status"] == "committed"
    assert len(lake.manifests("t")) == done["manifests_added"] < manifests
    assert lake.judge(rows) == before

    rows += lake.append_by_rust(5 * ROWS)
    judged_rewrite(lake, rows)
    before = lake.judge(rows)
    assert lake.expire() == 8
    assert lake.judge(rows) == before
    rows += lake.append_by_rust(6 * ROWS)
    lake.judge(rows)
    lake.age("t")
    lake.run("remove-orphan-files", "t")
    assert set(lake.tree("t")) == lake.reached("t")
    lake.judge(rows)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", [2, 3])
def test_deletes(program, tmp_path, version, spec):
    """Rust's delete files: positions, which version 3 has only in deletion vectors, and values."""
    lake = RustLake(program, tmp_path / "lake", version, spec)
    rows = lake.append_by_rust(0, ROWS)
    if version == 2:
        before = len(rows)
        lake.rust("delete-positions", 0, 2, 17)
        left = {row["id"] for row in lake.load("t").scan().to_arrow().to_pylist()}
        rows = [row for row in rows if row["id"] in left]
        files = lake.data_entries("t")
        assert before - len(rows) == sum((e.file.record_count > n) for e in files
                                         for n in (0, 2, 17))
        lake.judge(rows)
    # Those of ids that are not there, or are gone already, delete nothing.
    doomed = make_rows(ROWS - 40, 80) + make_rows(90_000, 3)
    lake.rust("delete-equal", "id", lake.parquet(doomed))
    gone = {row["id"] for row in doomed}
    after = [row for row in rows if row["id"] not in gone]
    assert len(after) < len(rows)
    # What is appended later is not deleted.
    after += lake.append_by_rust(ROWS - 10)
    before = lake.rust("judge")
    assert len(before) == len(after)
    kinds = {e.file.content for e in lake.delete_entries("t")}
    assert len(kinds) == (2 if version == 2 else 1)
    health = lake.run("table-health", "t").json
    assert health["delete_files"] == len(lake.delete_entries("t"))

    result = lake.rewrite("t", "--rewrite-all", "--remove-dangling-deletes",
                          expected=plain(after))
    assert result["rows_out"] == len(after)
    assert lake.delete_entries("t") == []
    assert lake.judge(after) == before
    after += lake.append_by_rust(8 * ROWS)
    judged_rewrite(lake, after)


def plain(rows):
    """As pyiceberg gives them."""
    return pa.Table.from_pylist(rows, SCHEMA.as_arrow()).to_pylist()


def test_deletes_of_others_in_a_table_of_rust(program, tmp_path):
    lake = RustLake(program, tmp_path / "lake", 2, "by value")
    rows = lake.append_by_rust(0, ROWS)
    table = lake.load("t")
    files = [it.position_delete_file(table, [(path, 3), (path, 9)], partition)
             for path, _, partition in it.data_files(table)]
    it.commit_deletes(table, files)
    left = {row["id"] for row in lake.load("t").scan().to_arrow().to_pylist()}
    assert len(left) == 2 * ROWS - 2 * len(files)
    rows = [row for row in rows if row["id"] in left] + lake.append_by_rust(2 * ROWS)
    result = judged_rewrite(lake, rows)
    assert result["delete_files_removed"] == len(files)


def test_metadata_in_gzip(program, tmp_path):
    lake = RustLake(program, tmp_path / "lake", 2, "by value",
                    "write.metadata.compression-codec=gzip")
    rows = lake.append_by_rust(0, ROWS)
    assert lake.metadata_location("t").endswith(".gz.metadata.json")
    judged_rewrite(lake, rows)
    rows += lake.append_by_rust(2 * ROWS)
    judged_rewrite(lake, rows)


def test_a_table_of_pyiceberg(program, tmp_path):
    """Rust reads what pyiceberg and lithify wrote, and goes on with it."""
    lake = RustLake(program, tmp_path / "lake", 2, "unpartitioned")
    lake.catalog.drop_table(lake.identifier("t"))
    lake.create("t", SCHEMA, partition_by=["region", "ok"])
    rows = make_rows(0) + make_rows(ROWS)
    lake.append("t", plain(rows[:ROWS]), plain(rows[ROWS:]))
    judged_rewrite(lake, rows)
    rows += lake.append_by_rust(2 * ROWS)
    judged_rewrite(lake, rows)
