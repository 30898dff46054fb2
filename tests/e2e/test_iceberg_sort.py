"""Rows of a table brought into an order: the order is read row by row from the outputs by pyarrow,
and the bounds from the manifests by pyiceberg."""

import itertools
import json
import random

import iceberg_tables as it
import pyarrow.parquet as pq
import pytest
from iceberg_lake import plain_rows
from pyiceberg.conversions import from_bytes
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType


def shuffled(count, seed=1):
    rows = plain_rows(0, count)
    random.Random(seed).shuffle(rows)
    return rows


def spread(lake, name="t", count=600, files=6, **options):
    """Rows in no order, so that each file reaches over all keys."""
    lake.plain(name, files=0, **options)
    rows = shuffled(count)
    lake.append(name, *(rows[i::files] for i in range(files)))
    return rows


def outputs(lake, name="t"):
    """The live data files in the order of their least id, and each one's rows as they lie there."""
    found = []
    for entry in lake.data_entries(name):
        rows = pq.read_table(it.local(entry.file.file_path)).to_pylist()
        found.append((entry.file, rows))
    return sorted(found, key=lambda pair: from_bytes(LongType(), pair[0].lower_bounds[1]))


def bounds(file, field=1):
    return (from_bytes(LongType(), file.lower_bounds[field]),
            from_bytes(LongType(), file.upper_bounds[field]))


def test_rows_come_in_order_and_files_are_disjoint(lake):
    """R107, and the fixed point: a second run has nothing to do."""
    spread(lake, count=20_000)
    result = lake.rewrite("t", "--strategy", "sort", "--sort-order", "id",
                          "--target-file-size-bytes", "10000", "--min-file-size-bytes", "1")
    assert result["files_added"] > 1
    files = outputs(lake)
    assert [row["id"] for _, rows in files for row in rows] == list(range(20_000))
    for (one, _), (other, _) in itertools.pairwise(files):
        assert bounds(one)[1] < bounds(other)[0]
    assert {file.sort_order_id for file, _ in files} <= {None, 0}
    assert lake.skipped("t", "--strategy", "sort", "--sort-order", "id",
                        "--target-file-size-bytes", "10000", "--min-file-size-bytes", "1")


def test_several_fields_directions_and_nulls(lake):
    rows = spread(lake)
    lake.rewrite("t", "--sort-order", "region DESC, note ASC NULLS LAST, id DESC")
    found = [(r["region"], r["note"], r["id"]) for _, rows in outputs(lake) for r in rows]
    expected = sorted(rows, key=lambda r: -r["id"])
    expected.sort(key=lambda r: (r["note"] is None, r["note"] or ""))
    expected.sort(key=lambda r: r["region"], reverse=True)
    assert found == [(r["region"], r["note"], r["id"]) for r in expected]


def test_the_order_of_the_table_is_stamped(lake):
    spread(lake)
    table = lake.load("t")
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform(), NullOrder.NULLS_FIRST)
    lake.rewrite("t", "--strategy", "sort")
    order = lake.load("t").sort_order().order_id
    assert order > 0
    files = outputs(lake)
    assert {file.sort_order_id for file, _ in files} == {order}
    assert [row["id"] for _, rows in files for row in rows] == list(range(600))
    assert lake.skipped("t", "--strategy", "sort")
    # A new file is sorted into those that it shares keys with.
    lake.append("t", [{"id": 77, "region": "eu", "note": "again"}])
    lake.rewrite("t", "--strategy", "sort")
    ids = [row["id"] for _, rows in outputs(lake) for row in rows]
    assert ids == sorted([*range(600), 77])


def test_a_table_without_an_order(lake):
    lake.plain()
    report = lake.run("rewrite-data-files", "t", "--strategy", "sort", code=2).json
    assert report["status"] == "failed"
    assert "sort_order" in json.dumps(report["error"])


def test_partitions_are_sorted_each_by_itself(lake):
    spread(lake, partition_by=["region"])
    lake.rewrite("t", "--sort-order", "id DESC")
    files = outputs(lake)
    assert len(files) == 2
    for _, rows in files:
        ids = [row["id"] for row in rows]
        assert ids == sorted(ids, reverse=True) and len({row["region"] for row in rows}) == 1


def test_deleted_rows_are_left_out(lake):
    rows = spread(lake)
    table = lake.load("t")
    first = it.data_files(table)[0][0]
    gone = pq.read_table(it.local(first)).column("id").to_pylist()[3:40]
    it.commit_deletes(table, [it.position_delete_file(table, [(first, i) for i in range(3, 40)])])
    lake.rewrite("t", "--sort-order", "id")
    ids = [row["id"] for _, found in outputs(lake) for row in found]
    assert ids == sorted(row["id"] for row in rows if row["id"] not in set(gone))


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_curves_keep_neighbours_together(lake, curve):
    """Files that a filter on either column opens: fewer than all, and no more than now."""
    lake.plain("t", files=0)
    rows = [{"id": i % 100, "region": f"r{i // 100:03}",
             "note": f"{random.Random(i).getrandbits(64):x}"} for i in range(10_000)]
    random.Random(3).shuffle(rows)
    lake.append("t", *(rows[i::6] for i in range(6)))
    args = ("--sort-order", f"{curve}(id, region)", "--target-file-size-bytes", "20000",
            "--min-file-size-bytes", "1")
    lake.rewrite("t", *args)
    files = [file for file, _ in outputs(lake)]
    assert len(files) >= 4
    for value in (10, 55, 90):
        opened = sum(bounds(f)[0] <= value <= bounds(f)[1] for f in files)
        assert opened <= len(files) * 0.8
        name = f"r{value:03}".encode()
        opened = sum(f.lower_bounds[2] <= name <= f.upper_bounds[2] for f in files)
        assert opened <= len(files) * 0.8
    assert lake.skipped("t", *args)


def test_explain_tells_what_it_saves(lake):
    spread(lake)
    plan = lake.run("rewrite-data-files", "t", "--sort-order", "id", "--dry-run").json
    assert "6" in json.dumps(plan) and plan["status"] == "planned"
