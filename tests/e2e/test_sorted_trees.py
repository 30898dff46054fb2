"""Plain Parquet whose rewrites are brought into an order (`output.sort`), read row by row."""

import hashlib
import shutil

import judge
import pyarrow.parquet as pq
import pytest
import tree as trees

SORT = ("--set", "output.sort=service, time_unix_nano DESC")


def merged(tree, lithify, *args):
    before = trees.live(tree.partition())
    report = lithify("compact", "--json", *args).json
    after = trees.live(tree.partition())
    assert len(after) == 1 and after[0] not in before, report
    judge.assert_same_rows(before, after)
    lithify("verify")
    return after[0]


def test_r232_rows_come_in_the_order_that_is_asked_for(tree, lithify):
    """Nulls first where it ascends; rows that are equal stay as they were."""
    inputs = tree.fill(files=8, rows=500)
    rows = [row for path in sorted(inputs) for row in pq.read_table(path).to_pylist()]
    out = merged(tree, lithify, *SORT)
    rows.sort(key=lambda row: -row["time_unix_nano"])
    rows.sort(key=lambda row: (row["service"] is not None, row["service"] or ""))
    assert [row["row"] for row in pq.read_table(out).to_pylist()] == [row["row"] for row in rows]


def test_r232_equal_inputs_give_equal_rows_bytes(tree, lithify, tmp_path):
    """The pages are the same bytes: only the mark in the footer tells one job from another."""
    tree.fill(files=6, rows=400)
    kept = tree.copy_to(tmp_path / "kept")

    def pages():
        out = merged(tree, lithify, *SORT, "--jobs", "2")
        chunk = pq.ParquetFile(out).metadata.row_group(0)
        end = max(chunk.column(c).total_compressed_size
                  + (chunk.column(c).dictionary_page_offset or chunk.column(c).data_page_offset)
                  for c in range(chunk.num_columns))
        return hashlib.sha256(out.read_bytes()[:end]).hexdigest()

    first = pages()
    shutil.rmtree(tree.root)
    shutil.copytree(kept, tree.root)
    assert pages() == first


@pytest.mark.parametrize("sort", ["nosuch", "service, service", "service SIDEWAYS", "zorder()"])
def test_an_order_that_cannot_be_followed(tree, lithify, sort):
    tree.fill(files=6, rows=50)
    before = trees.tree_hash(tree.root / "data")
    run = lithify("compact", "--json", "--set", f"output.sort={sort}", code=None)
    assert run.code != 0 and run.text
    assert trees.tree_hash(tree.root / "data") == before
