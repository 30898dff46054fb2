"""Deletes of Iceberg tables applied by a rewrite, each judged row by row. pyiceberg applies
position deletes, so it reads the table before; equality deletes it refuses, so the test says what
is left."""

import pathlib

import iceberg_tables as it
import pyarrow as pa
import pytest
from iceberg_lake import PLAIN, plain_rows
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType


def paths(lake, name="t"):
    """Of the live data files, the oldest first."""
    entries = sorted(lake.data_entries(name), key=lambda e: e.sequence_number)
    return [e.file.file_path for e in entries]


def delete_positions(lake, *files, name="t", **options):
    """Each argument: the [(path, row)] of one delete file; all in one snapshot."""
    table = lake.load(name)
    return it.commit_deletes(table, [it.position_delete_file(table, positions, **options)
                                     for positions in files])


def delete_equal(lake, columns, rows, name="t", **options):
    table = lake.load(name)
    return it.commit_deletes(table, [it.equality_delete_file(table, columns, rows, **options)])


# --- position deletes ---------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [True, False])
def test_deletes_of_single_files(lake, bounds):
    lake.plain()
    files = paths(lake)
    delete_positions(lake, *([(path, 3), (path, 7)] for path in files[:4]), bounds=bounds)
    assert len(lake.rows("t")) == 60 - 8
    result = lake.rewrite("t")
    assert result["rows_removed"] == 8
    assert result["delete_files_removed"] == 4
    assert not lake.delete_entries("t")


def test_partition_wide_deletes_stay_for_files_that_stay(lake):
    """I6: one delete file names rows of all files; those of id below 40 are rewritten."""
    lake.plain()
    files = paths(lake)
    delete_positions(lake, [(path, row) for path in files for row in (0, 9)])
    result = lake.rewrite("t", "--rewrite-all", "--where", "id < 40")
    assert result["files_rewritten"] == 4
    assert result["rows_removed"] == 8
    assert result["delete_files_removed"] == 0
    assert len(lake.delete_entries("t")) == 1
    assert len(lake.rows("t")) == 48

    result = lake.rewrite("t", "--rewrite-all")
    assert result["rows_removed"] == 4
    assert result["delete_files_removed"] == 1
    assert len(lake.rows("t")) == 48


def test_a_row_deleted_twice_is_removed_once(lake):
    """T13, R099: by one file, by two files, by two snapshots."""
    lake.plain()
    files = paths(lake)
    delete_positions(lake, [(files[0], 2), (files[0], 2), (files[0], 3)],
                     [(files[0], 3), (files[1], 3)])
    delete_positions(lake, [(files[0], 2), (files[1], 3), (files[1], 4)])
    assert lake.rewrite("t")["rows_removed"] == 4


def test_all_rows_deleted(lake):
    """I26: no output at all; the table goes on living."""
    lake.plain()
    delete_positions(lake, [(path, row) for path in paths(lake) for row in range(10)])
    result = lake.rewrite("t", "--rewrite-all")
    assert (result["files_rewritten"], result["files_added"]) == (6, 0)
    assert result["rows_removed"] == 60
    assert not lake.entries("t")
    assert lake.skipped("t") == "empty table"
    lake.append("t", plain_rows(0, 5))
    assert len(lake.rows("t")) == 5


def test_one_partition_emptied(lake):
    """I26 beside a partition that keeps rows."""
    lake.plain(partition_by=["region"])
    table = lake.load("t")
    doomed = [e.file for e in lake.data_entries("t") if e.file.partition[0] == "eu"]
    it.commit_deletes(table, [it.position_delete_file(
        table, [(f.file_path, n) for f in doomed for n in range(f.record_count)],
        doomed[0].partition)])
    result = lake.rewrite("t", "--rewrite-all")
    assert (result["files_rewritten"], result["files_added"]) == (12, 1)
    assert not lake.delete_entries("t")


def test_single_file_with_many_deletes(lake):
    """I27: a lone file is rewritten for its deletes, once; below the ratio it is left alone."""
    lake.plain(files=1)
    delete_positions(lake, [(paths(lake)[0], row) for row in range(2)])
    assert lake.skipped("t") == "below min_input_files"
    delete_positions(lake, [(paths(lake)[0], 2)])
    assert lake.run("table-health", "t").json["delete_heavy_files"] == 1
    assert lake.rewrite("t")["rows_removed"] == 3
    assert not lake.delete_entries("t")
    assert lake.skipped("t") == "below min_input_files"


def test_delete_file_threshold(lake):
    """R087: counted per data file, of any kind."""
    lake.plain(files=1, rows=100)
    for row in range(3):
        delete_positions(lake, [(paths(lake)[0], row)])
    assert lake.skipped("t", "--delete-file-threshold", "4") == "below min_input_files"
    assert lake.rewrite("t", "--delete-file-threshold", "3")["delete_files_removed"] == 3


def test_deletes_older_than_the_data_are_dangling(lake):
    """A position delete whose file was replaced goes when that is asked for."""
    lake.plain()
    files = paths(lake)
    lake.rewrite("t")
    delete_positions(lake, [(files[0], 1)])
    assert len(lake.rows("t")) == 60
    assert lake.run("table-health", "t").json["dangling_delete_files"] == 1
    assert lake.skipped("t") == "below min_input_files"
    result = lake.rewrite("t", "--remove-dangling-deletes")
    assert result["delete_files_removed"] == 1
    assert not lake.delete_entries("t")
    assert lake.skipped("t", "--remove-dangling-deletes") == "below min_input_files"


@pytest.mark.parametrize("pattern", ["stretch", "scattered"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_deleted_rows_are_left_out_of_pages(lake, pattern, version):
    """Pages are moved, but for those that deleted rows lie in. Engines answer MIN and MAX from the
    bounds in the metadata, and a deleted value is nowhere in the new file."""
    count, files = 8_000, 5
    lake.create("t", PLAIN, {"write.parquet.compression-codec": "uncompressed"})
    table = lake.load("t")
    for start in range(0, files * count, count):
        rows = plain_rows(start, count)
        rows[0]["note"] = rows[count - 1]["note"] = f"zz secret {start}"
        arrow = pa.Table.from_pylist(rows, schema=table.schema().as_arrow())
        it.commit_data(table, [it.foreign_data_file(
            table, arrow, compression="none", data_page_version=version, data_page_size=16_000)])
        table = lake.load("t")
    gone = [0, count - 1, *(range(2000, 2500) if pattern == "stretch" else range(1, count, 20))]
    delete_positions(lake, *([(path, row) for row in gone] for path in paths(lake)))
    result = lake.rewrite("t")
    assert result["tiers"] == {"splice": files * 3}
    assert result["rows_removed"] == files * len(gone)
    [entry] = lake.data_entries("t")
    left = lake.load("t").scan().to_arrow()
    ids = left["id"].to_pylist()
    metrics = entry.file
    assert metrics.null_value_counts[3] == left["note"].null_count
    assert metrics.lower_bounds[1] == min(ids).to_bytes(8, "little")
    assert metrics.upper_bounds[1] == max(ids).to_bytes(8, "little")
    assert metrics.upper_bounds[3] == b"note 6"
    written = pathlib.Path(it.local(entry.file.file_path)).read_bytes()
    assert b"note 6" in written and b"zz secret" not in written


# --- equality deletes ---------------------------------------------------------------------------


def test_equality_deletes_with_null(lake):
    """I23: null equals null, and nothing else."""
    lake.plain()
    rows = plain_rows(0, 60)
    delete_equal(lake, ["note"], [(None,), ("note 3",)])
    left = [r for r in rows if r["note"] not in (None, "note 3")]
    result = lake.rewrite("t", expected=left)
    assert result["rows_removed"] == 60 - len(left)
    assert result["delete_files_removed"] == 1


def test_equality_deletes_of_several_columns(lake):
    lake.plain()
    rows = plain_rows(0, 60)
    gone = {("eu", None), ("us", "note 1"), (None, None), ("eu", "no such note")}
    delete_equal(lake, ["region", "note"], sorted(gone, key=repr))
    left = [r for r in rows if (r["region"], r["note"]) not in gone]
    assert 0 < len(left) < 60
    lake.rewrite("t", expected=left)


def test_rows_added_after_the_delete_stay(lake):
    """Sequence numbers: equal rows before the delete go, those after it stay, also when both are in
    one group; a second rewrite changes nothing more."""
    lake.plain()
    delete_equal(lake, ["id"], [(n,) for n in (1, 2, 3, 59, 1000)])
    lake.append("t", plain_rows(0, 10))
    left = [r for r in plain_rows(0, 60) if r["id"] not in (1, 2, 3, 59)] + plain_rows(0, 10)
    lake.rewrite("t", "--rewrite-all", expected=left)
    assert not lake.delete_entries("t")
    lake.rewrite("t", "--rewrite-all", expected=left)


def test_equality_delete_stays_for_files_that_stay(lake):
    """Only some files are rewritten; the outputs are as old as the plan's snapshot, so that the
    delete reaches neither of them twice."""
    lake.plain()
    delete_equal(lake, ["note"], [("note 1",)])
    lake.append("t", plain_rows(100, 10))
    left = ([r for r in plain_rows(0, 60) if r["note"] != "note 1"] + plain_rows(100, 10))
    result = lake.rewrite("t", "--rewrite-all", "--where", "id < 30")
    assert result["files_rewritten"] == 3
    assert result["delete_files_removed"] == 0
    assert len(lake.delete_entries("t")) == 1
    lake.rewrite("t", "--rewrite-all", expected=left)
    assert not lake.delete_entries("t")


def test_equality_delete_of_one_partition(lake):
    """It reaches rows of its own partition only."""
    lake.plain(partition_by=["region"])
    delete_equal(lake, ["note"], [("note 1",), (None,)], partition=Record("eu"))
    left = [r for r in plain_rows(0, 60)
            if r["region"] == "us" or r["note"] not in ("note 1", None)]
    lake.rewrite("t", expected=left)
    assert not lake.delete_entries("t")


def test_global_equality_delete(lake):
    """Written with an unpartitioned spec, it reaches every partition of every spec."""
    lake.plain(files=3)
    lake.partition("t", ["region"])
    lake.append("t", *(plain_rows(number * 10, 10) for number in range(3, 8)))
    delete_equal(lake, ["note"], [("note 2",)], spec_id=0)
    left = [r for r in plain_rows(0, 80) if r["note"] != "note 2"]
    result = lake.rewrite("t", "--rewrite-all", expected=left)
    assert {e.spec_id for e in lake.data_entries("t")} == {0, 1}  # Q18
    assert result["delete_files_removed"] == 1


def test_equality_delete_by_a_column_that_old_files_lack(lake):
    """I23: the column is null in them; renamed columns are found by id."""
    lake.plain()
    with lake.load("t").update_schema() as update:
        update.add_column("grade", StringType())
        update.rename_column("note", "remark")
    new = [{"id": 100 + i, "region": "eu", "remark": "note 3", "grade": "ab"[i % 2]}
           for i in range(10)]
    lake.append("t", new)
    delete_equal(lake, ["remark", "grade"], [("note 3", None), ("note 3", "b")])
    old = [{"id": r["id"], "region": r["region"], "remark": r["note"], "grade": None}
           for r in plain_rows(0, 60)]
    left = [r for r in old if r["remark"] != "note 3"] + [r for r in new if r["grade"] != "b"]
    lake.rewrite("t", expected=left)


def test_both_kinds_on_the_same_rows(lake):
    """Counted once each (R100)."""
    lake.plain()
    files = paths(lake)
    delete_positions(lake, [(files[0], 0), (files[0], 1), (files[5], 9)])
    delete_equal(lake, ["id"], [(0,), (2,), (59,)])
    left = [r for r in plain_rows(0, 60) if r["id"] not in (0, 1, 2, 59)]
    assert lake.rewrite("t", expected=left)["rows_removed"] == 4
    assert not lake.delete_entries("t")


def test_delete_after_delete_and_upserts(lake):
    """As Flink writes: each batch deletes the keys that it brings."""
    schema = Schema(NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "version", LongType(), required=False))
    lake.create("t", schema)
    expected = {}
    for batch in range(8):
        rows = [{"id": (batch * 3 + i) % 11, "version": batch} for i in range(5)]
        delete = [(row["id"],) for row in rows]
        if batch:
            delete_equal(lake, ["id"], delete)
        lake.append("t", rows)
        expected.update({row["id"]: row for row in rows})
    result = lake.rewrite("t", expected=list(expected.values()))
    assert result["delete_files_removed"] == 7
    assert result["rows_removed"] == 40 - len(expected)
