"""Wrong calls, damaged tables, full stops: the error names what is wrong, nothing is committed and
nothing is left behind."""

import json
import os
import pathlib

import cli
import iceberg_tables as it
import pyarrow as pa
import pytest
from iceberg_lake import plain_rows

PROCEDURES = ("rewrite-data-files", "table-health", "expire-snapshots", "remove-orphan-files",
              "rewrite-manifests")


def state(lake):
    return lake.db.read_bytes(), lake.tree("t")


def fails(lake, command, *args, code=1, name="t", unchanged=True):
    """The error as JSON, the same error as text; the table as it was."""
    before = state(lake) if unchanged else None
    run = lake.run(command, name, *args, code=code)
    report = run.json
    assert (report["status"], report["table"]) == ("failed", f"sales.{name}")
    assert report["error"]["message"] in report["reason"]
    assert report["error"]["message"] in run.err and run.err.startswith("lithify: ")
    if unchanged:
        assert state(lake) == before
    return report


# --- wrong calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", PROCEDURES)
def test_unknown_names(lake, command):
    lake.plain(files=1)
    for table, uri, code in (
            ("lake.sales.nosuch", lake.uri, 1), ("lake.nosuch.t", lake.uri, 1),
            ("nosuch.sales.t", None, cli.USAGE), ("t", lake.uri, cli.USAGE),
            ("lake..t", lake.uri, cli.USAGE)):
        args = ("--catalog-uri", uri) if uri else ()
        run = cli.run(command, table, *args, "--json", code=code)
        assert run.json["status"] == "failed", (table, run.text)
        assert run.json["error"]["code"] == ("invalid" if code == cli.USAGE else "not_found")


@pytest.mark.parametrize("uri, code", [
    ("sqlite:///relative.db", 1), ("sqlite://relative.db", cli.USAGE), ("postgresql://x/y", 2),
    ("file:///tmp/x", cli.USAGE), ("", cli.USAGE), ("sqlite:////nosuch/catalog.db", 1)])
def test_wrong_catalog_uris(uri, code):
    run = cli.run("table-health", "lake.sales.t", "--catalog-uri", uri, "--json", code=code)
    assert run.json["error"]["message"]


def test_a_file_that_is_no_catalog(lake, tmp_path):
    for content in (b"", b"no database at all", b"SQLite format 3\x00" + b"\x00" * 100):
        path = tmp_path / "other.db"
        path.write_bytes(content)
        run = cli.run("rewrite-data-files", "lake.sales.t", "--catalog-uri", f"sqlite:///{path}",
                      "--json", code=None)
        assert run.code in (1, 2) and run.json["error"]["message"]
        assert path.read_bytes() == content


@pytest.mark.parametrize("options", [
    ("--nosuch",), ("--target-file-size-bytes", "-1"), ("--target-file-size-bytes", "x"),
    ("--min-input-files", "0"), ("--delete-ratio-threshold", "1.5"), ("--max-attempts", "0"),
    ("--min-file-size-bytes", "1GiB"), ("--max-file-size-bytes", "1MiB"),
    ("--rewrite-job-order", "random"), ("--max-file-group-size-bytes", "1KiB"),
    ("--verify", "maybe"), ("--jobs", "-1"), ("--memory", "lots")])
def test_wrong_options(lake, options):
    lake.plain()
    before = state(lake)
    run = lake.run("rewrite-data-files", "t", *options, code=cli.USAGE)
    assert options[0].lstrip("-") in run.text.replace("_", "-") or "limits." in run.text \
        or "compaction." in run.text
    assert state(lake) == before


@pytest.mark.parametrize("options, told", [
    (("--strategy", "sort"), "declares no sort order"),
    (("--strategy", "zorder"), "--sort-order 'zorder(a, b)'"),
    (("--strategy", "shuffle"), "neither binpack nor sort"),
    (("--sort-order", "idd"), 'no column "idd"'),
    (("--sort-order", "id up"), "at character 4"),
    (("--sort-order", "zorder(id), id"), "a curve stands alone"),
])
def test_orders_that_cannot_be_followed(lake, options, told):
    """R103, T5: nothing is changed, and the answer says what to write."""
    lake.plain()
    before = state(lake)
    error = fails(lake, "rewrite-data-files", *options, code=cli.USAGE)["error"]
    assert error["code"] == "invalid"
    assert told in f"{error['message']}, {error['hint']}"
    assert state(lake) == before


# --- damaged tables -----------------------------------------------------------------------------


def damage(path, how):
    path = pathlib.Path(it.local(str(path)))
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        os.truncate(path, path.stat().st_size - 50)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "garbage":
        path.write_bytes(os.urandom(path.stat().st_size))
    else:  # Bytes in the middle; the size stays.
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        content[middle:middle + 8] = bytes(b ^ 0xff for b in content[middle:middle + 8])
        path.write_bytes(content)
    return path.name


@pytest.mark.parametrize("how", ["missing", "truncated", "empty", "garbage"])
@pytest.mark.parametrize("kind", ["data", "position", "equality"])
def test_damaged_files(lake, kind, how):
    """The file is named, whichever kind it is."""
    lake.plain()
    table = lake.load("t")
    paths = [e.file.file_path for e in lake.data_entries("t")]
    if kind == "position":
        it.commit_deletes(table, [it.position_delete_file(table, [(paths[0], 1), (paths[1], 1)])])
    if kind == "equality":
        it.commit_deletes(table, [it.equality_delete_file(table, ["id"], [(1,)])])
    path = paths[2] if kind == "data" else lake.delete_entries("t")[0].file.file_path
    name = damage(path, how)
    assert name in fails(lake, "rewrite-data-files")["reason"]


def test_damaged_file_among_healthy_partitions(lake):
    """Without partial progress nothing is committed; with it the others are, and exit 1 says so."""
    lake.plain(partition_by=["region"])
    victim = next(e.file for e in lake.data_entries("t") if e.file.partition[0] == "eu")
    name = damage(victim.file_path, "truncated")
    assert name in fails(lake, "rewrite-data-files")["reason"]
    result = lake.run("rewrite-data-files", "t", "--partial-progress", code=1).json
    assert (result["status"], result["files_rewritten"], result["files_added"]) == ("partial", 6, 1)
    assert any(name in note for note in result["notes"])
    assert [e.file.partition[0] for e in lake.data_entries("t")].count("us") == 1


@pytest.mark.parametrize("how", ["missing", "truncated", "empty", "garbage"])
@pytest.mark.parametrize("command", [c for c in PROCEDURES if c != "expire-snapshots"])
def test_damaged_manifests(lake, command, how):
    """A manifest, then the manifest list of the current snapshot."""
    lake.plain()
    manifest = lake.manifests("t")[2].manifest_path
    kept = pathlib.Path(it.local(manifest)).read_bytes()
    name = damage(manifest, how)
    assert name in fails(lake, command)["reason"]
    pathlib.Path(it.local(manifest)).write_bytes(kept)
    name = damage(lake.head("t").manifest_list, how)
    assert name in fails(lake, command)["reason"]


@pytest.mark.parametrize("how", ["missing", "truncated", "empty", "garbage"])
def test_damaged_metadata(lake, how):
    lake.plain(files=1)
    location = lake.metadata_location("t")
    directory = lake.directory("t")
    name = damage(location, how)
    before = lake.db.read_bytes(), sorted(directory.rglob("*"))
    for command in PROCEDURES:
        report = lake.run(command, "t", code=1).json
        assert name in report["reason"], (command, report)
    assert (lake.db.read_bytes(), sorted(directory.rglob("*"))) == before


@pytest.mark.parametrize("field, value", [
    ("format-version", 99), ("current-schema-id", 77), ("table-uuid", None), ("schemas", []),
    ("snapshots", "none"), ("current-snapshot-id", 12345), ("partition-specs", [{}]),
    ("last-sequence-number", "x"), ("location", 7)])
def test_metadata_that_makes_no_sense(lake, field, value):
    lake.plain(files=5)
    path = pathlib.Path(it.local(lake.metadata_location("t")))
    metadata = json.loads(path.read_text(encoding="utf-8"))
    metadata[field] = value
    path.write_text(json.dumps(metadata), encoding="utf-8")
    before = lake.db.read_bytes()
    for command in PROCEDURES:
        report = lake.run(command, "t", code=1).json
        assert report["error"]["code"] in ("corrupt", "unsupported"), (command, report)
    assert lake.db.read_bytes() == before


def test_expiry_of_a_damaged_old_snapshot(lake):
    """It goes; files that nobody can list any more wait for remove-orphan-files."""
    lake.plain()
    old = lake.load("t").metadata.snapshots[0]
    name = damage(old.manifest_list, "garbage")
    rows = lake.rows("t")
    result = lake.run("expire-snapshots", "t", "--older-than", "now").json
    assert result["snapshots_removed"] == 5
    assert any(name in note for note in result["notes"])
    assert lake.rows("t") == rows


# --- places that cannot be written --------------------------------------------------------------


@pytest.mark.local_disk("a file where a directory should be")
def test_data_location_that_is_no_directory(lake):
    lake.plain()
    (lake.root / "plain").write_text("a file", encoding="utf-8")
    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"write.data.path": f"file://{lake.root}/plain/data"})
    assert "plain" in fails(lake, "rewrite-data-files", code=cli.USAGE)["reason"]


@pytest.mark.local_disk("a directory that may not be written")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("directory", ["data", "metadata"])
def test_read_only_directory(lake, directory):
    lake.plain()
    path = lake.directory("t") / directory
    path.chmod(0o555)
    try:
        assert directory in fails(lake, "rewrite-data-files")["reason"]
    finally:
        path.chmod(0o755)
    lake.rewrite("t")


@pytest.mark.local_disk("a file where a directory should be")
def test_metadata_location_that_is_no_directory(lake):
    """The outputs are written when the commit fails: they go again."""
    lake.plain()
    (lake.root / "plain").write_text("a file", encoding="utf-8")
    path = pathlib.Path(it.local(lake.metadata_location("t")))
    metadata = json.loads(path.read_text(encoding="utf-8"))
    metadata["properties"]["write.metadata.path"] = f"file://{lake.root}/plain/metadata"
    path.write_text(json.dumps(metadata), encoding="utf-8")
    assert "plain" in fails(lake, "rewrite-data-files", code=None)["reason"]


def test_orc_and_avro_files_are_left_alone(lake):
    """R092: a note says so; the others go on."""
    lake.plain()
    table = lake.load("t")
    orc = it.foreign_data_file(table, pa.table({"id": [1]}))
    orc = type(orc).from_args(**{**_arguments(orc), "file_format": it.FileFormat.ORC})
    orc.spec_id = 0
    it.commit_data(table, [orc])
    result = lake.run("rewrite-data-files", "t").json
    assert (result["status"], result["files_rewritten"]) == ("committed", 6)
    assert any("ORC" in note for note in result["notes"])
    assert len(lake.data_entries("t")) == 2


def _arguments(file):
    return {name: getattr(file, name) for name in (
        "content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes",
        "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds",
        "upper_bounds", "key_metadata", "split_offsets", "sort_order_id", "equality_ids")}


def test_wrong_record_count_in_the_manifest(lake):
    """R100: a file that holds another number of rows than the metadata says is not touched."""
    lake.plain()
    table = lake.load("t")
    file = it.foreign_data_file(table, pa.Table.from_pylist(
        plain_rows(100, 10), schema=table.schema().as_arrow()))
    wrong = type(file).from_args(**{**_arguments(file), "record_count": 11})
    wrong.spec_id = 0
    it.commit_data(table, [wrong])
    report = fails(lake, "rewrite-data-files")
    assert report["error"]["code"] == "corrupt"
    assert file.file_path.rsplit("/", 1)[1] in report["reason"]
