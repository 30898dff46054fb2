"""The copy tier: a large file of well-sized row groups, and late small ones. The row groups move as
they are; the judges read rows, and ask with conditions, so that what is stated of them is used."""

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tree as trees
from test_splice import FILES, ROWS, TABLES, compact

COLUMNS = TABLES[0].num_columns
# The large file's row groups have this many rows: more than half of the bound.
BOUND = ("--set", f"output.row_group_rows={ROWS}", "--set", "output.plain_columns=[]",
         "--set", "compaction.min_files=1")
LARGE = pa.concat_tables(TABLES[:2])

PYARROW = {
    "default": {},
    "version 2 pages, snappy": {"data_page_version": "2.0", "compression": "snappy"},
    "page index and checksums": {"write_page_index": True, "write_page_checksum": True,
                                 "data_page_size": 16 * 1024, "write_batch_size": 500},
    "plain": {"use_dictionary": False},
}


def leaves(path):
    return pq.ParquetFile(path).metadata.num_columns


def stated(path, group):
    """What the footer says of each chunk of a row group, but for where it lies."""
    metadata = pq.ParquetFile(path).metadata.row_group(group)
    facts = []
    for c in range(metadata.num_columns):
        chunk = metadata.column(c)
        bounds = chunk.statistics
        facts.append((
            chunk.path_in_schema, chunk.num_values, chunk.compression, set(chunk.encodings),
            chunk.has_dictionary_page,
            None if bounds is None else (bounds.null_count, bounds.min_raw, bounds.max_raw)
            if bounds.has_min_max else bounds.null_count))
    return facts


@pytest.mark.parametrize("options", PYARROW.values(), ids=PYARROW.keys())
def test_a_large_file_of_pyarrow_and_small_ones(tree, lithify, options):
    options = {"compression": "zstd", **options}
    large = tree.write(LARGE, row_group_size=ROWS - 100, **options)
    for each in TABLES[2:]:
        tree.write(each.slice(0, 1000), **options)
    before = [stated(large, group) for group in range(3)]
    count = leaves(large)
    out, tiers = compact(tree, lithify, *BOUND, "--set", f"output.codec={options['compression']}")
    assert tiers["copy"] == 2 * count and "recode" not in tiers
    after = [stated(out, group) for group in range(pq.ParquetFile(out).metadata.num_row_groups)]
    assert [facts for facts in after if facts in before[:2]] == before[:2]


@pytest.mark.parametrize("filters", [True, False])
def test_a_large_file_of_duckdb_keeps_its_filters(tree, lithify, filters):
    """DuckDB has row groups of 2048 rows and more, and filters where it has dictionaries."""
    path = tree.path()
    with duckdb.connect() as db:
        db.register("rows", LARGE.drop_columns(["counts"]))
        db.execute(f"COPY rows TO '{path}' (FORMAT parquet, COMPRESSION zstd, "
                   f"ROW_GROUP_SIZE 4096, WRITE_BLOOM_FILTER {filters})")
    large = pq.ParquetFile(path).metadata
    offsets = [large.row_group(0).column(c).bloom_filter_offset is not None
               for c in range(large.num_columns)]
    assert any(offsets) == filters
    tree.write(TABLES[2].slice(0, 500).drop_columns(["counts"]))
    out, tiers = compact(tree, lithify, *BOUND)
    assert tiers["copy"] >= large.num_columns
    moved = [pq.ParquetFile(out).metadata.row_group(g) for g in range(2)]
    group = next(group for group in moved if group.num_rows == 4096)
    assert [group.column(c).bloom_filter_offset is not None
            for c in range(group.num_columns)] == offsets


def test_a_large_file_of_polars(tree, lithify):
    path = tree.path()
    pl.from_arrow(LARGE.drop_columns(["counts"])).write_parquet(path, row_group_size=ROWS)
    count = leaves(path)
    tree.write(TABLES[2].slice(0, 500).drop_columns(["counts"]))
    _, tiers = compact(tree, lithify, *BOUND)
    assert tiers["copy"] >= count


def test_our_own_output_is_moved_when_late_files_come(tree, lithify):
    for each in TABLES:
        tree.write(each)
    first, _ = compact(tree, lithify, *BOUND)
    assert pq.ParquetFile(first).metadata.num_row_groups == FILES
    tree.write(TABLES[3].slice(100, 500))
    report = lithify("compact", "--json", *BOUND).json
    tiers = report["partitions"][0]["tiers"]
    out = trees.live(tree.partition())
    assert len(out) == 1 and out[0] != first
    assert tiers["copy"] >= (FILES - 1) * leaves(first)
    assert pq.ParquetFile(out[0]).metadata.num_rows == FILES * ROWS + 500
    lithify("verify")
