"""I31: what a table's properties ask for is what outputs are, by pyarrow's footers and pyiceberg's
manifests; and the record of each change: snapshot, result, audit log."""

import getpass
import hashlib
import json

import cli
import iceberg_tables as it
import pyarrow.parquet as pq
import pytest
from iceberg_lake import plain_rows


def output(lake):
    """The only data file: its manifest entry, its footer and its reader."""
    entry, = lake.data_entries("t")
    file = pq.ParquetFile(it.local(entry.file.file_path))
    return entry.file, file


def columns(footer):
    return [footer.row_group(g).column(c) for g in range(footer.num_row_groups)
            for c in range(footer.num_columns)]


@pytest.mark.parametrize("codec, written", [
    (None, "ZSTD"), ("zstd", "ZSTD"), ("gzip", "GZIP"), ("snappy", "SNAPPY"), ("lz4", "LZ4"),
    ("uncompressed", "UNCOMPRESSED")])
def test_codec(lake, codec, written):
    lake.plain(properties={"write.parquet.compression-codec": codec} if codec else {}, rows=400)
    lake.rewrite("t")
    assert {c.compression for c in columns(output(lake)[1].metadata)} == {written}


def test_codec_level(lake):
    """The higher level makes the smaller file of the same rows."""
    sizes = {}
    for level in ("1", "19"):
        lake.plain(f"t{level}", rows=4000, properties={
            "write.parquet.compression-codec": "zstd", "write.parquet.compression-level": level})
        lake.rewrite(f"t{level}")
        sizes[level] = lake.data_entries(f"t{level}")[0].file.file_size_in_bytes
    assert sizes["19"] < sizes["1"]


def test_codec_that_cannot_be_written(lake):
    lake.plain()
    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"write.parquet.compression-codec": "brotli"})
    result = lake.rewrite("t")
    assert any("brotli" in note for note in result["notes"])
    assert {c.compression for c in columns(output(lake)[1].metadata)} == {"ZSTD"}


def test_row_group_and_page_size(lake):
    """Row groups are bounded by bytes; without the property they are large."""
    lake.plain(rows=3000)
    lake.rewrite("t")
    assert output(lake)[1].metadata.num_row_groups == 1
    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-size-bytes": str(64 * 1024)})
    lake.append("t", *(plain_rows(n * 3000, 3000) for n in range(10, 14)))
    lake.rewrite("t")
    footer = output(lake)[1].metadata
    assert footer.num_row_groups >= 3
    assert footer.num_rows == 30000


def test_bloom_filter(lake):
    """Of the columns that are named, and of no other."""
    lake.plain(properties={"write.parquet.bloom-filter-enabled.column.id": "true",
                           "write.parquet.bloom-filter-enabled.column.note": "false"})
    lake.rewrite("t")
    footer = output(lake)[1].metadata
    assert [footer.row_group(0).column(c).bloom_filter_offset is not None for c in range(3)] == [
        True, False, False]


def test_metrics_modes(lake):
    """none, counts, truncate(n), full; an upper bound that is cut is raised."""
    lake.plain(files=0, properties={
        "write.metadata.metrics.default": "truncate(3)",
        "write.metadata.metrics.column.id": "none",
        "write.metadata.metrics.column.region": "counts"})
    lake.append("t", *([{"id": n, "region": "eu", "note": f"abcdef{n}"}] for n in range(5)))
    lake.rewrite("t")
    file, _ = output(lake)
    assert file.value_counts == {2: 5, 3: 5}
    assert file.null_value_counts == {2: 0, 3: 0}
    assert (file.lower_bounds, file.upper_bounds) == ({3: b"abc"}, {3: b"abd"})

    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.default": "full"})
    lake.rewrite("t", "--rewrite-all")
    file, _ = output(lake)
    assert (file.lower_bounds, file.upper_bounds) == ({3: b"abcdef0"}, {3: b"abcdef4"})


def test_default_metrics(lake):
    """truncate(16), column sizes as in the footer."""
    lake.plain(files=0)
    lake.append("t", *([{"id": n, "region": "r" * 40, "note": None}] for n in range(5)))
    lake.rewrite("t")
    file, parquet = output(lake)
    assert file.lower_bounds[2] == b"r" * 16
    assert file.upper_bounds[2] == b"r" * 15 + b"s"
    assert file.lower_bounds[1] == (0).to_bytes(8, "little")
    assert file.upper_bounds[1] == (4).to_bytes(8, "little")
    assert 3 not in file.lower_bounds and file.null_value_counts[3] == 5
    sizes = {c + 1: parquet.metadata.row_group(0).column(c).total_compressed_size for c in range(3)}
    assert file.column_sizes == sizes


def test_target_of_the_table(lake):
    """write.target-file-size-bytes; an option goes before it."""
    # Notes that merging cannot make any smaller: as many files come out as were planned.
    lake.plain(files=0)
    lake.append("t", *([{"id": n, "region": "eu", "note": hashlib.sha256(b"%d" % n).hexdigest()}
                        for n in range(start, start + 2000)] for start in range(0, 16000, 2000)))
    size = lake.data_entries("t")[0].file.file_size_in_bytes
    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": str(size * 4)})
    assert lake.run("table-health", "t").json["small_files"] == 8
    plan = lake.run("rewrite-data-files", "t", "--dry-run").json["plan"]["groups"]
    assert sum(group["outputs"] for group in plan) == 2
    wider = lake.run("rewrite-data-files", "t", "--dry-run", "--target-file-size-bytes", "1GiB")
    assert [group["outputs"] for group in wider.json["plan"]["groups"]] == [1]
    assert lake.rewrite("t")["files_added"] == 2


# --- audit log ----------------------------------------------------------------------------------


def audit(lake):
    """The records, after their chain was checked (R170)."""
    previous = "0" * 64
    records = []
    for number, line in enumerate(
            lake.db.with_name("catalog.db.audit.jsonl").read_text("utf-8").splitlines()):
        record = json.loads(line)
        integrity = record["integrity"]
        assert (integrity["seq"], integrity["prev_hash"]) == (number, previous)
        blank = line.replace(f'"hash":"{integrity["hash"]}"', '"hash":""')
        assert hashlib.sha256((previous + blank).encode()).hexdigest() == integrity["hash"]
        previous = integrity["hash"]
        records.append(record)
    return records


def test_audit_log(lake):
    """R056, R178: an intent before and the outcome after, with the numbers of the result."""
    lake.plain()
    result = lake.rewrite("t")
    lake.run("rewrite-manifests", "t")
    older = lake.load("t").metadata.snapshots[0].snapshot_id
    lake.run("rollback-to-snapshot", "t", older)
    lake.run("expire-snapshots", "t", "--older-than", "now")
    lake.run("remove-orphan-files", "t")
    records = audit(lake)
    intent, committed = records[:2]
    assert [r["phase"] for r in records[:2]] == ["intent", "committed"]
    for record in (intent, committed):
        assert record["kind"] == "maintenance"
        assert record["statement_type"] == "rewrite_data_files"
        assert record["job_id"] == result["job_id"]
        assert record["table"] == "sales.t"
        assert record["catalog"].endswith("/catalog.db")
        assert record["actor"]["username"] == getpass.getuser()
        assert record["status"] == "success"
    assert committed["snapshot_id"] == result["snapshot_id"]
    assert (committed["rows"], committed["bytes_in"], committed["bytes_out"]) == (
        60, result["bytes_in"], result["bytes_out"])
    phases = [(r["statement_type"], r["phase"]) for r in records[2:]]
    assert ("rollback_to_snapshot", "committed") in phases
    assert phases[-3:] == [("expire_snapshots", "intent"), ("expire_snapshots", "committed"),
                           ("expire_snapshots", "collected")]


def test_audit_log_of_a_failure(lake):
    """The outcome is there in every branch; a run without work writes nothing."""
    lake.plain()
    assert lake.skipped("t", "--min-input-files", "7")
    victim = it.local(lake.data_entries("t")[0].file.file_path)
    with open(victim, "r+b") as file:
        file.truncate(100)
    lake.run("rewrite-data-files", "t", code=1)
    records = audit(lake)
    assert [r["phase"] for r in records] == ["intent", "aborted"]
    assert records[1]["status"] == "failure"
    assert victim.rsplit("/", 1)[1] in records[1]["error"]


def test_an_audit_log_that_cannot_be_written_stops_the_job(lake):
    """R178."""
    lake.plain()
    before = lake.metadata_location("t"), lake.tree("t")
    (lake.root / "file").write_text("no directory", encoding="utf-8")
    lake.run("rewrite-data-files", "t", "--audit-log", lake.root / "file" / "log",
             code=cli.USAGE)
    assert (lake.metadata_location("t"), lake.tree("t")) == before
