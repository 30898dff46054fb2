"""Partitions, specs, format versions and locations of Iceberg tables through a rewrite."""

import datetime as dt
import pathlib
import urllib.parse

import cli
import iceberg_tables as it
import pyarrow as pa
import pytest
from iceberg_lake import PLAIN, Lake, plain_rows
from pyiceberg.schema import Schema
from pyiceberg.transforms import (BucketTransform, DayTransform, HourTransform, MonthTransform,
                                  TruncateTransform, YearTransform)
from pyiceberg.typedef import Record
from pyiceberg.types import (DateType, DecimalType, LongType, NestedField, StringType,
                             TimestampType)

EVENTS = Schema(NestedField(1, "id", LongType(), required=False),
                NestedField(2, "at", TimestampType(), required=False),
                NestedField(3, "day", DateType(), required=False),
                NestedField(4, "name", StringType(), required=False),
                NestedField(5, "price", DecimalType(9, 2), required=False))


def event_rows(start, count):
    return [{"id": i % 35, "at": dt.datetime(1969, 12, 31, 22) + dt.timedelta(hours=i % 5),
             "day": None if i % 7 == 0 else dt.date(2026, 11, 28) + dt.timedelta(days=i % 3),
             "name": ("alpha", "alabama", "", "ßeta", None)[i % 5], "price": None}
            for i in range(start, start + count)]


@pytest.mark.parametrize("fields", [
    [("at", DayTransform())], [("at", MonthTransform())], [("at", YearTransform())],
    [("at", HourTransform())], [("id", BucketTransform(3))], [("name", BucketTransform(4))],
    [("name", TruncateTransform(2))], [("id", TruncateTransform(20))], ["day"], ["name"],
    ["day", ("id", BucketTransform(2))],
], ids=str)
def test_partitions_stay_apart(lake, fields):
    """R083: one output per partition tuple, with the tuple of its inputs."""
    lake.create("t", EVENTS, partition_by=fields)
    for number in range(5):
        table = lake.load("t")
        it.commit_data(table, it.partitioned_files(table, event_rows(number * 35, 35)))
    tuples = {str(e.file.partition) for e in lake.data_entries("t")}
    assert len(tuples) > 1
    result = lake.rewrite("t")
    assert result["groups"] == result["files_added"] == len(tuples)
    assert {str(e.file.partition) for e in lake.data_entries("t")} == tuples
    few = "below min_input_files" if len(tuples) < 5 else "no eligible groups"
    assert lake.skipped("t") == few


def test_version_1_table(lake):
    lake.plain(version=1, partition_by=["region"])
    result = lake.rewrite("t")
    assert result["files_added"] == 2
    assert lake.load("t").metadata.format_version == 1
    lake.append("t", plain_rows(60, 10))
    lake.rewrite("t", "--rewrite-all")


def test_version_1_table_that_became_version_2(lake):
    lake.plain(version=1)
    with lake.load("t").transaction() as transaction:
        transaction.upgrade_table_version(2)
    path = lake.data_entries("t")[0].file.file_path
    table = lake.load("t")
    it.commit_deletes(table, [it.position_delete_file(table, [(path, 1)])])
    assert lake.rewrite("t")["rows_removed"] == 1


def test_empty_table(lake):
    """R092: no snapshot is a skip with a reason; so is a snapshot without files."""
    lake.create("t", PLAIN)
    assert lake.skipped("t") == "empty table"
    health = lake.run("table-health", "t").json
    assert (health["live_data_files"], health["avg_file_mb"], health["snapshot_id"]) == (0, 0, None)
    lake.append("t", plain_rows(0, 3))
    lake.load("t").delete("id >= 0")
    assert lake.head("t") is not None
    assert lake.skipped("t", "--rewrite-all") == "empty table"
    for command in ("expire-snapshots", "remove-orphan-files", "rewrite-manifests"):
        lake.run(command, "t")


STRANGE = ["a%20b", "a b", "a+b", "a=b", "a/b", "é", "日本", "", "..", "a&b?c#d", "x" * 60, None]


def test_strange_partition_values(lake):
    """I17: percent signs, plus, slashes, non-ASCII: found, rewritten, expired, and no live file is
    taken for an orphan."""
    lake.create("t", PLAIN, partition_by=["region"])
    lake.append("t", *([{"id": n * 20 + i, "region": value, "note": str(value)}
                        for i, value in enumerate(STRANGE)] for n in range(5)))
    result = lake.rewrite("t")
    assert result["files_added"] == len(STRANGE)
    before = lake.rows("t")
    lake.run("expire-snapshots", "t", "--older-than", "now")
    assert lake.rows("t") == before
    lake.age("t")
    orphans = lake.run("remove-orphan-files", "t", "--dry-run").json
    kept = {pathlib.Path(it.local(e.file.file_path)) for e in lake.data_entries("t")}
    assert not kept & {pathlib.Path(it.local(path)) for path in orphans["files"]}
    lake.run("remove-orphan-files", "t")
    assert lake.rows("t") == before
    assert set(lake.tree("t")) == lake.reached("t")
    # The directory names are those of pyiceberg and Java: escaped as in a query string.
    names = {urllib.parse.unquote_plus(path.parent.name.removeprefix("region=")) for path in kept}
    assert {"a%20b", "a+b", "a/b", "é", "null"} <= names


@pytest.mark.parametrize("directory", ["with space", "p%20q", "plus+eq=", "日本é"])
def test_strange_table_locations(tmp_path, directory):
    """I17 for the table's own location: a URI is not decoded twice."""
    lake = Lake(tmp_path / directory, tmp_path / "catalog.db")
    lake.plain()
    lake.rewrite("t")
    lake.age("t")
    assert lake.run("remove-orphan-files", "t").json["files_removed"] == 0
    before = lake.rows("t")
    lake.run("expire-snapshots", "t", "--older-than", "now")
    assert lake.rows("t") == before


def test_old_specs_keep_their_files(lake):
    """Q18: outputs keep the spec of their inputs; specs are never mixed."""
    lake.plain()
    lake.partition("t", ["region"])
    lake.append("t", *(plain_rows(100 + n * 10, 10) for n in range(5)))
    lake.partition("t", [("id", BucketTransform(2))])
    for number in range(5):
        table = lake.load("t")
        it.commit_data(table, it.partitioned_files(table, plain_rows(200 + number * 10, 10)))
    result = lake.rewrite("t")
    specs = sorted(e.spec_id for e in lake.data_entries("t"))
    assert specs == [0, 1, 1, 2, 2, 2, 2]
    assert result["groups"] == 7


def test_partition_column_that_is_not_in_the_file(lake):
    """Files that came from Hive: the value is in the partition tuple alone."""
    lake.create("t", PLAIN, partition_by=["region"])
    for number in range(5):
        table = lake.load("t")
        arrow = pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64()),
                          "note": pa.array(["n"] * 10)})
        arrow = arrow.cast(it.with_ids(table.schema(), arrow.schema))
        it.commit_data(table, [it.foreign_data_file(table, arrow, Record("eu"))])
    assert {dict(row)["region"] for row in lake.rows("t")} == {"eu"}
    lake.rewrite("t", duckdb_reads=False)


def test_data_path_of_the_table(lake):
    """write.data.path: outputs go there, and orphans are looked for there, too."""
    other = cli.place.location(lake.root / "elsewhere")
    lake.plain(properties={"write.data.path": other})
    lake.rewrite("t")
    assert all(e.file.file_path.startswith(f"{other}/") for e in lake.data_entries("t"))


def test_nested_namespace(lake, tmp_path):
    """The first part of a name is the catalog, the last the table; the configuration knows it."""
    lake.catalog.create_namespace("sales.north")
    table = lake.catalog.create_table("sales.north.t", PLAIN)
    for number in range(5):
        table.append(pa.Table.from_pylist(plain_rows(number, 1), schema=PLAIN.as_arrow()))
    config = tmp_path / "lithify.toml"
    config.write_text(f'[catalogs.lake]\nuri = "{lake.uri}"\n', encoding="utf-8")
    result = cli.run("rewrite-data-files", "lake.sales.north.t", "--config", config, "--json").json
    assert result["files_added"] == 1


def test_any_name_for_the_only_catalog_of_a_file(lake):
    """docs/CLI.md: "any name together with --catalog-uri"."""
    lake.plain()
    result = cli.run("table-health", "any.sales.t", "--catalog-uri", lake.uri, "--json").json
    assert result["live_data_files"] == 6
