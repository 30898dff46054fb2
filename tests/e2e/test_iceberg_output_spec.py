"""Rows moved to another partition spec: rewrite-data-files --output-spec-id (issue 4, Q18)."""

import collections
import datetime as dt
import decimal
import random
import uuid

import iceberg_tables as it
import pyarrow.parquet as pq
import pytest
from iceberg_lake import PLAIN, check_numbers, duckdb_rows, plain_rows
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, IsNull, LessThan
from pyiceberg.schema import Schema
from pyiceberg.transforms import (BucketTransform, DayTransform, HourTransform, IdentityTransform,
                                  MonthTransform, TruncateTransform, VoidTransform, YearTransform)
from pyiceberg.types import (BinaryType, DateType, DecimalType, DoubleType, FloatType, IntegerType,
                             LongType, NestedField, StringType, TimestampType, TimestamptzType,
                             TimeType, UUIDType)

NAN = float("nan")
UTC = dt.timezone.utc

# Every type that some transform takes.
WIDE = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestampType(), required=False),
    NestedField(3, "day", DateType(), required=False),
    NestedField(4, "name", StringType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "n", IntegerType(), required=False),
    NestedField(7, "zoned", TimestamptzType(), required=False),
    NestedField(8, "time", TimeType(), required=False),
    NestedField(9, "uuid", UUIDType(), required=False),
    NestedField(10, "bytes", BinaryType(), required=False),
    NestedField(11, "wide", DoubleType(), required=False),
    NestedField(12, "single", FloatType(), required=False))


def wide_rows(start, count):
    def pick(i, *values):
        return values[i % len(values)]
    start_time = dt.datetime(1969, 12, 31, 22)
    return [{"id": i - 20, "at": None if i % 11 == 0 else start_time + dt.timedelta(hours=7 * i),
             "day": None if i % 7 == 0 else dt.date(1969, 12, 20) + dt.timedelta(days=i),
             "name": pick(i, "alpha", "alabama", "", "ßeta", None, "a/b=c", "𝄞x"),
             "price": pick(i, None, *(decimal.Decimal(n).scaleb(-2)
                                      for n in (-105, -1, 0, 99, 1234567))),
             "n": pick(i, 2**31 - 1, 10 - 2**31, 0, None, 7),
             "zoned": dt.datetime(1970, 1, 1, tzinfo=UTC) - dt.timedelta(minutes=i * 500),
             "time": pick(i, dt.time(0), dt.time(23, 59, 59, 999999), None),
             "uuid": pick(i, uuid.UUID(int=0).bytes, uuid.UUID(int=2**128 - 1).bytes, None),
             "bytes": pick(i, b"", b"\x00\xff" * 3, None),
             "wide": pick(i, 0.0, -0.0, NAN, None, 1.5), "single": pick(i, NAN, 0.5, -0.0)}
            for i in range(start, start + count)]


def wide(lake, files=5, rows=20):
    lake.create("t", WIDE)
    lake.append("t", *(wide_rows(n * rows, rows) for n in range(files)))


def freeze(values):
    return it.freeze([v.bytes if isinstance(v, uuid.UUID) else v for v in values])


def move(lake, name="t", spec=None, args=(), duckdb_reads=True):
    """Moves all rows to the newest spec, or `spec`, and judges what is there."""
    table = lake.load(name)
    spec = table.spec().spec_id if spec is None else spec
    planned = table.current_snapshot()
    rows = lake.rows(name)
    old = lake.entries(name)
    result = lake.run("rewrite-data-files", name, "--output-spec-id", spec, *args).json
    assert result["status"] == "committed", result
    assert lake.rows(name) == rows
    assert lake.rows(name, planned.snapshot_id) == rows, "time travel"
    known = {e.file.file_path for e in old}
    added = [e for e in lake.data_entries(name) if e.file.file_path not in known]
    check_numbers(lake, name, result, planned, old, moved_to=spec)
    check_partitions(lake, name, added, spec)
    if duckdb_reads and not lake.delete_entries(name):
        assert duckdb_rows(lake, name) == rows
    return result


def check_partitions(lake, name, entries, spec_id):
    """Each row of a file has the partition values of the file, by pyiceberg's own transforms."""
    table = lake.load(name)
    spec, schema = table.specs()[spec_id], table.schema()
    tuples = collections.Counter()
    for entry in entries:
        assert entry.spec_id == spec_id
        held = freeze([entry.file.partition[i] for i in range(len(spec.fields))])
        rows = pq.read_table(it.local(entry.file.file_path)).to_pylist()
        assert {freeze(it.partition_values(schema, spec, row)) for row in rows} == {held}
        tuples[held] += 1
    return tuples


FIELDS = [
    [("id", BucketTransform(4), "b")], [("at", DayTransform(), "d")],
    [("name", IdentityTransform(), "i")], [("at", MonthTransform(), "m")],
    [("zoned", YearTransform(), "y")], [("zoned", HourTransform(), "h")],
    [("day", YearTransform(), "y")], [("day", IdentityTransform(), "i")],
    [("name", BucketTransform(3), "b")], [("name", TruncateTransform(2), "t")],
    [("n", TruncateTransform(10), "t")], [("id", TruncateTransform(15), "t")],
    [("price", TruncateTransform(50), "t")], [("price", BucketTransform(5), "b")],
    [("time", BucketTransform(2), "b")], [("uuid", BucketTransform(2), "b")],
    [("bytes", BucketTransform(3), "b")], [("bytes", TruncateTransform(1), "t")],
    [("wide", IdentityTransform(), "i")], [("single", IdentityTransform(), "i")],
    [("at", DayTransform(), "d"), ("id", BucketTransform(2), "b"), ("name", VoidTransform(), "v")],
]


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_every_transform(lake, fields):
    """R100: all rows, each in the partition that pyiceberg's transform gives it; one file for each;
    I27: the second run does nothing."""
    wide(lake)
    lake.partition("t", fields)
    move(lake, duckdb_reads=False)
    tuples = check_partitions(lake, "t", lake.data_entries("t"), 1)
    assert len(tuples) > 1 and set(tuples.values()) == {1}
    lake.skipped("t", "--output-spec-id", "1")
    lake.skipped("t")


def test_with_deletes(lake):
    """Deleted rows stay deleted, and are counted once however many partitions there are."""
    lake.plain(files=4, rows=20)
    files = [e.file.file_path for e in lake.data_entries("t")]
    table = lake.load("t")
    it.commit_deletes(table, [it.position_delete_file(table, [(files[0], n) for n in range(20)]),
                              it.position_delete_file(table, [(files[1], 3), (files[2], 5)])])
    lake.partition("t", ["region", ("id", BucketTransform(2))])
    result = move(lake)
    assert result["rows_removed"] == 22
    assert result["rows_in"] == 80
    assert (result["files_rewritten"], result["files_added"]) == (4, 4)
    assert result["delete_files_removed"] == 2
    assert not lake.delete_entries("t")
    lake.skipped("t", "--output-spec-id", "1")


def test_with_equality_deletes(lake):
    lake.plain(files=4, rows=20)
    table = lake.load("t")
    gone = [(n,) for n in range(0, 80, 3)]
    it.commit_deletes(table, [it.equality_delete_file(table, ["id"], gone)])
    lake.partition("t", [("id", BucketTransform(3))])
    expected = it.sorted_rows([row for row in plain_rows(0, 20) + plain_rows(20, 20) +
                               plain_rows(40, 20) + plain_rows(60, 20) if row["id"] % 3 != 0])
    result = lake.run("rewrite-data-files", "t", "--output-spec-id", "1").json
    assert (result["rows_in"], result["rows_out"], result["rows_removed"]) == (80, 53, 27)
    assert not lake.delete_entries("t")
    assert lake.rows("t") == expected
    check_partitions(lake, "t", lake.data_entries("t"), 1)


def test_all_rows_deleted(lake):
    lake.plain(files=2, rows=5)
    files = [e.file.file_path for e in lake.data_entries("t")]
    table = lake.load("t")
    it.commit_deletes(table, [it.position_delete_file(table, [(f, n) for f in files
                                                              for n in range(5)])])
    lake.partition("t", ["region"])
    result = move(lake)
    assert (result["files_added"], result["rows_removed"]) == (0, 10)
    assert lake.rows("t") == []


def test_filtered_scans(lake):
    """What readers leave out by partition is really not there."""
    wide(lake)
    lake.partition("t", [("at", DayTransform()), ("name", IdentityTransform(), "of_name"),
                         ("id", BucketTransform(4), "of_id")])
    filters = [EqualTo("id", 7), EqualTo("name", "alpha"), IsNull("name"), IsNull("at"),
               And(GreaterThanOrEqual("at", "1970-01-02T00:00:00"),
                   LessThan("at", "1970-01-03T12:00:00")),
               And(EqualTo("name", "a/b=c"), LessThan("id", 10))]
    before = [it.sorted_rows(lake.load("t").scan(row_filter=f).to_arrow()) for f in filters]
    move(lake, duckdb_reads=False)
    table = lake.load("t")
    for condition, rows in zip(filters, before):
        scan = table.scan(row_filter=condition)
        assert it.sorted_rows(scan.to_arrow()) == rows and rows, condition
        assert len(list(scan.plan_files())) < len(lake.data_entries("t")), condition


def test_files_of_several_specs(lake):
    """Files of two older specs go to the newest together; those of it stay as they are."""
    lake.plain(files=2, rows=10)
    lake.partition("t", ["region"])
    lake.append("t", plain_rows(100, 10))
    lake.partition("t", [("id", BucketTransform(2))])
    table = lake.load("t")
    it.commit_data(table, it.partitioned_files(table, plain_rows(200, 10)))
    kept = {e.file.file_path for e in lake.data_entries("t") if e.spec_id == 2}
    plan = lake.run("rewrite-data-files", "t", "--output-spec-id", "2", "--dry-run").json["plan"]
    assert [(g["partition"], len(g["files"])) for g in plan["groups"]] == [(None, 4)]
    result = move(lake)
    assert (result["files_rewritten"], result["groups"]) == (4, 1)
    assert kept < {e.file.file_path for e in lake.data_entries("t")}
    assert {e.spec_id for e in lake.data_entries("t")} == {2}


def test_back_to_an_older_spec(lake):
    """Any spec of the table, also the unpartitioned one."""
    lake.plain(files=3, rows=10)
    lake.partition("t", ["region"])
    move(lake, spec=1)
    assert len(lake.data_entries("t")) == 2
    result = move(lake, spec=0)
    assert result["files_added"] == 1
    assert [e.spec_id for e in lake.data_entries("t")] == [0]
    lake.skipped("t", "--output-spec-id", "0")


def test_a_coarser_spec_gathers(lake):
    """Day by day becomes month by month: files of many old partitions in one."""
    lake.create("t", WIDE, partition_by=[("at", DayTransform(), "d")])
    for number in range(3):
        table = lake.load("t")
        it.commit_data(table, it.partitioned_files(table, wide_rows(number * 20, 20)))
    days = len(lake.data_entries("t"))
    with lake.load("t").update_spec() as update:
        update.remove_field("d")
        update.add_field("at", MonthTransform(), "m")
    result = move(lake, duckdb_reads=False)
    months = check_partitions(lake, "t", lake.data_entries("t"), lake.load("t").spec().spec_id)
    assert result["files_added"] == len(months) < days
    assert set(months.values()) == {1}


def test_version_1(lake):
    lake.plain(files=3, rows=10, version=1)
    lake.partition("t", ["region"])
    move(lake)
    assert {e.spec_id for e in lake.data_entries("t")} == {1}


def test_with_a_filter(lake):
    """A filter chooses files; the others keep their spec."""
    lake.plain(files=4, rows=10)
    lake.partition("t", [("id", BucketTransform(2))])
    result = move(lake, args=("--where", "id < 20"))
    assert result["files_rewritten"] == 2
    assert sorted(e.spec_id for e in lake.data_entries("t")) == [0, 0, 1, 1]


def test_several_files_per_partition(lake):
    """The target size counts for each partition."""
    lake.create("t", PLAIN)
    lake.append("t", *([{"id": n * 40_000 + i, "region": "eu", "note": str(uuid.uuid4())}
                        for i in range(40_000)] for n in range(2)))
    lake.partition("t", [("id", BucketTransform(2))])
    result = move(lake, args=("--target-file-size-bytes", "256KiB"))
    tuples = check_partitions(lake, "t", lake.data_entries("t"), 1)
    assert len(tuples) == 2 and min(tuples.values()) > 1
    assert result["files_added"] == sum(tuples.values())
    lake.skipped("t", "--output-spec-id", "1", "--target-file-size-bytes", "256KiB")


def test_unknown_spec_lists_those_there_are(lake):
    lake.plain()
    lake.partition("t", ["region", ("id", BucketTransform(16))])
    before = lake.metadata_location("t"), lake.tree("t")
    error = lake.run("rewrite-data-files", "t", "--output-spec-id", "7", code=2).json["error"]
    assert error["code"] == "invalid"
    assert "the table has no partition spec 7" in error["message"]
    assert "0 (unpartitioned), 1 (identity(region), bucket[16](id))" in error["hint"]
    assert (lake.metadata_location("t"), lake.tree("t")) == before


def test_too_many_partitions(lake):
    """A limit, and nothing is left of what was begun."""
    lake.plain(files=3, rows=10)
    lake.partition("t", ["id"])
    before = lake.metadata_location("t"), lake.tree("t")
    error = lake.run("rewrite-data-files", "t", "--output-spec-id", "1",
                     "--max-output-partitions", "29", code=1).json["error"]
    assert error["code"] == "limit"
    assert "more than 29 partitions" in error["message"]
    assert "--max-output-partitions" in error["hint"]
    assert (lake.metadata_location("t"), lake.tree("t")) == before
    result = move(lake, args=("--max-output-partitions", "30"))
    assert result["files_added"] == 30  # More than it removes: it was asked for.


def test_partial_progress_and_threads(lake):
    """Groups of files commit on their own; each has its own share of the partitions."""
    lake.plain(files=6, rows=10)
    lake.partition("t", ["region"])
    size = max(e.file.file_size_in_bytes for e in lake.data_entries("t"))
    rows = lake.rows("t")
    result = lake.run("rewrite-data-files", "t", "--output-spec-id", "1", "--partial-progress",
                      "--target-file-size-bytes", size, "--max-file-group-size-bytes", 2 * size,
                      "--jobs", "2").json
    assert result["status"] == "committed"
    assert result["groups"] == 3
    assert lake.rows("t") == rows
    assert len(lake.data_entries("t")) == 6
    check_partitions(lake, "t", lake.data_entries("t"), 1)


SPECS = [["region"], [("id", BucketTransform(3), "of_id")], [("note", TruncateTransform(5), "cut")],
         [("note", IdentityTransform(), "n"), ("id", TruncateTransform(40), "forty")]]


@pytest.mark.parametrize("seed", range(8))
def test_random_histories(lake, seed):
    """Files of several specs, deletes of all of them, moved to any spec, and on to another."""
    draw = random.Random(seed)
    lake.create("t", PLAIN)
    expected, next_id = {}, 0
    for fields in [None, *draw.sample(SPECS, 2)]:
        if fields is not None:
            table = lake.load("t")
            with table.update_spec() as update:
                for field in table.spec().fields:
                    update.remove_field(field.name)
            lake.partition("t", fields)
        for _ in range(draw.randint(1, 3)):
            rows = plain_rows(next_id, draw.randint(5, 25))
            next_id += len(rows)
            expected.update((row["id"], row) for row in rows)
            table = lake.load("t")
            it.commit_data(table, it.partitioned_files(table, rows))
        delete_some(lake, draw, expected)
    wanted = it.sorted_rows(list(expected.values()))
    specs = sorted(lake.load("t").specs())
    for spec in draw.sample(specs, 2):
        result = lake.run("rewrite-data-files", "t", "--output-spec-id", spec,
                          "--delete-file-threshold", "1", "--remove-dangling-deletes",
                          "--jobs", draw.choice((1, 2))).json
        assert result["rows_in"] - result["rows_out"] == result["rows_removed"]
        assert not lake.delete_entries("t")
        assert lake.rows("t") == wanted == duckdb_rows(lake, "t")
        check_partitions(lake, "t", lake.data_entries("t"), spec)
        lake.skipped("t", "--output-spec-id", spec, "--delete-file-threshold", "1")


def delete_some(lake, draw, expected):
    """Position deletes of one file, of a whole partition, and equality deletes, each of the spec
    and partition of the files that they are for."""
    table = lake.load("t")
    deletes = []
    entries = lake.data_entries("t")
    for entry in draw.sample(entries, min(len(entries), draw.randint(1, 2))):
        file = entry.file
        ids = pq.read_table(it.local(file.file_path))["id"].to_pylist()
        place = {"partition": file.partition, "spec_id": entry.spec_id}
        chosen = draw.sample(range(len(ids)), draw.randint(0, len(ids)))
        gone = [ids[n] for n in chosen]
        if chosen and draw.random() < 0.6:
            positions = [(file.file_path, n) for n in chosen]
            if draw.random() < 0.5:
                positions.append(("file:///elsewhere/x.parquet", 0))
            deletes.append(it.position_delete_file(table, positions, **place))
        elif chosen:
            # Ids are never used twice, so it does not matter which older files are in its scope.
            deletes.append(it.equality_delete_file(table, ["id"], [(n,) for n in gone], **place))
        for number in gone:
            expected.pop(number, None)
    if deletes:
        it.commit_deletes(table, deletes)
