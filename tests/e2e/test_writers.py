"""Files of three writers in every form that these can give them, compacted, and read by three
readers: the same rows, and the same answers to questions about every column.

LITHIFY_WRITER_CASES sets how many random cases are tried; LITHIFY_WRITER_SEED is the first one's
number."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import questions
import tree as trees
import writers
from writers import CODECS, COLUMNS, LACKS, WRITERS, pick

FIRST = int(os.environ.get("LITHIFY_WRITER_SEED", "1"))
CASES = int(os.environ.get("LITHIFY_WRITER_CASES", "6"))
KEPT_CODECS = ("zstd", "snappy", "none", "gzip", "lz4_raw")  # Those that lithify writes.


class Case:
    """What a seed stands for. Writers and codecs take turns, so that few cases have them all."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.writer = ("pyarrow", "duckdb", "polars", "pyarrow", "mixed")[seed % 5]
        self.codec = CODECS[seed // 5 % 6] if self.writer != "pyarrow" else CODECS[seed % 6]
        if self.codec == "brotli" and self.writer in ("duckdb", "mixed") and CASES < 100:
            self.codec = "zstd"  # DuckDB's takes seconds.
        lacks = LACKS[self.writer]
        self.columns = [name for i, name in enumerate(COLUMNS)
                        if name not in lacks and (i + seed) % 3 != 0]
        if self.writer in ("duckdb", "mixed") and seed % 2:
            self.columns = [name for name in self.columns if name not in writers.WIDE]
        self.files = int(self.rng.integers(4, 6))
        self.output_codec = self.codec if self.codec in KEPT_CODECS else "zstd"
        if self.rng.random() < 0.1:
            self.output_codec = "zstd"
        # These make other types; files of other writers have those of version 2.
        self.row_group_bytes = pick(self.rng, "1MiB", "128MiB")
        self.same_options = {
            "version": "2.6" if self.writer == "mixed" else pick(self.rng, "1.0", "2.4", "2.6"),
            "store_decimal_as_integer": self.writer == "mixed" or pick(self.rng, True, False)}

    def splices(self):
        """Whether something has to be. Row groups that are cut are recoded, and so are small ones
        of one writer beside those of another."""
        return self.row_group_bytes == "128MiB" and self.writer != "mixed"

    def write(self, tree):
        first = 0
        for number in range(self.files):
            rows = 0 if number == 2 and self.rng.random() < 0.3 else \
                int(self.rng.integers(3500, 5500))
            table = writers.make_table(self.rng, first, rows, self.columns)
            name = self.writer if self.writer != "mixed" else list(WRITERS)[number % 3]
            WRITERS[name](self.rng, table, tree.path(), self.codec, self.same_options)
            first += rows

    def options(self):
        return ("--set", f"output.codec={self.output_codec}",
                "--set", f"output.row_group_bytes={self.row_group_bytes}",
                "--set", f"output.page_bytes={pick(self.rng, '16KiB', '1MiB')}",
                "--verify", pick(self.rng, "sample", "full", "counts"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
def test_any_writer(tree, lithify, seed):
    case = Case(seed)
    case.write(tree)
    before = trees.live(tree.partition())
    report = lithify("compact", "--json", *case.options()).json
    after = trees.live(tree.partition())
    assert after and not set(after) & set(before), report
    tiers = report["partitions"][0]["tiers"]
    if case.splices():
        assert tiers.get("splice", 0) > 0, tiers
    if case.codec != case.output_codec:
        # Pages are unpacked and packed again, and none is moved as it is.
        ways = report["partitions"][0]["splices"]
        assert "copy" not in tiers and not set(ways) & {"copied", "unfolded"}, (tiers, ways)
    readers = questions.readers_of(before)
    rows = questions.assert_same_rows(before, after, readers)
    questions.assert_same_answers(before, after, rows, readers)
    lithify("verify")


# --- what is worth a test of its own -------------------------------------------------------------

@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_huge_values(tree, lithify, dictionary):
    """Values of some MiB, in pages of their own."""
    rng = np.random.default_rng(1)
    for number in range(4):
        table = writers.make_table(rng, number * 5, 5, ["kind"])
        sizes = [0, 100, 3 << 20, 1 << 10, 4 << 20]
        values = pa.array([rng.bytes(size) if size else None for size in sizes], pa.large_binary())
        tree.write(table.append_column("value", values.cast(pa.binary())), compression="zstd",
                   use_dictionary=dictionary, data_page_version=f"{1 + number % 2}.0",
                   write_page_index=number % 2 == 0)
    before = trees.live(tree.partition())
    lithify("compact")
    after = trees.live(tree.partition())
    assert len(after) == 1
    rows = questions.assert_same_rows(before, after)
    questions.assert_same_answers(before, after, rows.drop_columns("value"))
    questions.assert_same_answers(before, after, rows.select(["value"]), ["duckdb"])
    lithify("verify")


def test_files_without_rows_and_columns_without_values(tree, lithify):
    rng = np.random.default_rng(2)
    columns = ["nothing", "kind", "tags", "deep", "counts", "rising"]
    for number in range(5):
        table = writers.make_table(rng, number * 5000, 5000 * (number % 2), columns)
        if number == 3:
            table = pa.table([pa.nulls(table.num_rows, field.type) if field.name in columns
                              else table.column(field.name) for field in table.schema],
                             table.schema)
        tree.write(table, data_page_version="2.0", write_page_index=True)
    before = trees.live(tree.partition())
    report = lithify("compact", "--json").json
    after = trees.live(tree.partition())
    assert len(after) == 1 and pq.ParquetFile(after[0]).metadata.num_rows == 10_000
    assert report["partitions"][0]["tiers"]["splice"] > 0
    rows = questions.assert_same_rows(before, after)
    questions.assert_same_answers(before, after, rows)


def test_nothing_but_files_without_rows(tree, lithify):
    table = writers.make_table(np.random.default_rng(3), 0, 0, ["kind", "tags"])
    for _ in range(4):
        tree.write(table)
    lithify("compact")
    live = trees.live(tree.partition())
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in live) == 0


def test_deltas_that_only_duckdb_reads(tree, lithify):
    """Differences of 33 bits between values of 32: Arrow refuses them. The files are moved as they
    are, to read as they did, or left alone with a message that names file and column."""
    rng = np.random.default_rng(4)
    for number in range(4):
        table = writers.make_table(rng, number * 5000, 5000, ["number"])
        tree.write_duckdb(table, options="compression zstd, parquet_version v2, "
                                         "dictionary_size_limit 100")
    before = trees.live(tree.partition())
    with pytest.raises(OSError, match="InitBlock"):
        pq.read_table(before[0], partitioning=None)
    contents = trees.contents(tree.partition())
    summary = questions.duckdb_rows(before)
    run = lithify("compact", code=None)
    after = trees.live(tree.partition())
    assert questions.duckdb_rows(after) == summary
    assert contents.items() <= trees.contents(tree.partition()).items()
    if run.code != 0:
        assert sorted(after) == sorted(before)
        assert "column number" in run.text and any(path.name in run.text for path in before)
