"""Values and schemas of Iceberg tables through a rewrite, row by row: every primitive type, nested
types, evolved schemas, files of other shapes than pyiceberg's."""

import datetime as dt
import decimal
import math
import pathlib
import struct
import uuid

import duckdb
import iceberg_tables as it
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from iceberg_lake import duckdb_rows, plain_rows
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.expressions import EqualTo, IsNaN, IsNull
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import (BinaryType, BooleanType, DateType, DecimalType, DoubleType, FixedType,
                             FloatType, IntegerType, ListType, LongType, MapType, NestedField,
                             StringType, StructType, TimestampType, TimestamptzType, TimeType,
                             UUIDType)

UTC = dt.timezone.utc
NAN, INFINITY = float("nan"), float("inf")
D = decimal.Decimal

# name -> (type, values): each with its extremes.
PRIMITIVES = {
    "boolean": (BooleanType(), [True, False]),
    "int": (IntegerType(), [0, -1, 2**31 - 1, -2**31]),
    "long": (LongType(), [0, -1, 2**63 - 1, -2**63]),
    "float": (FloatType(), [0.0, -0.0, NAN, INFINITY, -INFINITY, 1.5]),
    "double": (DoubleType(), [0.0, -0.0, NAN, INFINITY, -INFINITY, 1e-300, 1.1]),
    "decimal9": (DecimalType(9, 2), [D("0.00"), D("-9999999.99"), D("9999999.99")]),
    "decimal18": (DecimalType(18, 4), [D("1.0000"), D("-99999999999999.9999")]),
    "decimal38": (DecimalType(38, 10), [D("-0.0000000001"), D("9" * 28 + "." + "9" * 10)]),
    "date": (DateType(), [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "time": (TimeType(), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "timestamp": (TimestampType(), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
                                    dt.datetime(2026, 11, 29, 16, 20)]),
    "timestamptz": (TimestamptzType(), [dt.datetime(1, 1, 1, tzinfo=UTC),
                                        dt.datetime(9999, 12, 31, tzinfo=UTC)]),
    "string": (StringType(), ["", "é", "𝄞", "a" * 300, "\x00", "null", "\U0010ffff" * 20]),
    "uuid": (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
    "fixed": (FixedType(3), [b"\x00\x00\x00", b"\xff\xff\xff"]),
    "binary": (BinaryType(), [b"", b"\x00", b"\xff" * 40]),
}


def primitive_schema():
    return Schema(NestedField(1, "id", LongType(), required=True),
                  *(NestedField(number, name, kind, required=False)
                    for number, (name, (kind, _)) in enumerate(PRIMITIVES.items(), 2)))


def primitive_rows(start, count):
    """Every value of each type in turn, with a null after each round."""
    rows = []
    for i in range(start, start + count):
        row = {"id": i}
        for name, (_, values) in PRIMITIVES.items():
            pick = i % (len(values) + 1)
            value = values[pick] if pick < len(values) else None
            row[name] = value.bytes if isinstance(value, uuid.UUID) else value
        rows.append(row)
    return rows


def primitives(lake, files=5, rows=12):
    lake.create("t", primitive_schema())
    lake.append("t", *(primitive_rows(n * rows, rows) for n in range(files)))
    return lake.load("t")


def test_all_primitive_types(lake):
    table = primitives(lake)
    lake.rewrite("t", duckdb_reads=False)
    read_by_duckdb(lake)
    table = lake.load("t")
    file = pq.ParquetFile(it.local(lake.data_entries("t")[0].file.file_path))
    # P22, P25: ids and logical types are the table's.
    ids = {field.name: field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow}
    assert ids == {field.name: str(field.field_id).encode() for field in table.schema().fields}
    logical = {column.name: str(column.logical_type) for column in
               (file.schema.column(i) for i in range(len(PRIMITIVES) + 1))}
    assert logical["uuid"] == "UUID"
    assert logical["decimal38"] == "Decimal(precision=38, scale=10)"
    assert "isAdjustedToUTC=true" in logical["timestamptz"]
    assert "isAdjustedToUTC=false" in logical["timestamp"]


def read_by_duckdb(lake):
    path = it.local(lake.data_entries("t")[0].file.file_path)
    with duckdb.connect() as db:
        # Not those that DuckDB gives as another Python type than they went in.
        for name in set(PRIMITIVES) - {"uuid", "timestamptz", "time"}:
            rows = db.execute(f'SELECT id, "{name}" FROM read_parquet(?) ORDER BY id',
                              [path]).fetchall()
            assert it.freeze(rows) == it.freeze([(r["id"], r[name])
                                                 for r in primitive_rows(0, 60)]), name


@pytest.mark.parametrize("column", [n for n in PRIMITIVES if n not in ("float", "double")])
def test_equality_deletes_of_every_type(lake, column):
    """A value, and null, by each type that the specification allows as a key."""
    table = primitives(lake, files=2)
    rows = primitive_rows(0, 24)
    gone = {rows[0][column], None}
    it.commit_deletes(table, [it.equality_delete_file(table, [column], [(v,) for v in gone])])
    left = [r for r in rows if r[column] not in gone]
    assert 0 < len(left) < 24
    expected = it.sorted_rows([{**r, "uuid": r["uuid"] and uuid.UUID(bytes=r["uuid"])}
                               for r in left])
    lake.run("rewrite-data-files", "t", "--rewrite-all")
    assert not lake.delete_entries("t")
    assert lake.rows("t") == expected


@pytest.mark.parametrize("column", list(PRIMITIVES))
def test_identity_partitions_of_every_type(lake, column, monkeypatch):
    """Also NaN, -0.0 and null, which are partitions like any other; the paths name real
    directories."""
    # The fast decoder of pyiceberg 0.12 gives doubles the precision of floats: 1e-300 would be 0.
    monkeypatch.setattr("pyiceberg.avro.file.new_decoder", StreamingBinaryDecoder)
    lake.create("t", primitive_schema(), partition_by=[column])
    rows = [row for row in primitive_rows(0, 16) if row[column] != "a" * 300]  # No directory name.
    for start in range(0, len(rows), 5):
        table = lake.load("t")
        it.commit_data(table, it.partitioned_files(table, rows[start:start + 5]))
    tuples = {str(e.file.partition) for e in lake.data_entries("t")}
    result = lake.rewrite("t", "--rewrite-all", duckdb_reads=False)
    assert result["files_added"] == len(tuples)
    assert {str(e.file.partition) for e in lake.data_entries("t")} == tuples


def test_bounds_and_counts(lake):
    """R112's smaller kin: counts are true, and pyiceberg, which skips files by bounds, finds every
    value in the only file that there is."""
    primitives(lake)
    rows = primitive_rows(0, 60)
    lake.rewrite("t", duckdb_reads=False)
    table = lake.load("t")
    file = lake.data_entries("t")[0].file
    for name, (_, values) in PRIMITIVES.items():
        field = table.schema().find_field(name).field_id
        nulls = sum(1 for r in rows if r[name] is None)
        assert file.null_value_counts[field] == nulls > 0
        assert file.value_counts[field] == 60
        assert table.scan(row_filter=IsNull(name)).to_arrow().num_rows == nulls
        if name in ("float", "double"):
            nans = sum(1 for r in rows if r[name] is not None and math.isnan(r[name]))
            assert (file.nan_value_counts or {field: nans})[field] == nans > 0  # Or unknown.
            assert table.scan(row_filter=IsNaN(name)).to_arrow().num_rows == nans
        for value in values:
            # What pyiceberg takes as a literal.
            if name in ("uuid", "boolean") or (isinstance(value, float) and
                                               not math.isfinite(value)):
                continue
            known = value.isoformat() if hasattr(value, "isoformat") else value
            found = table.scan(row_filter=EqualTo(name, literal(known)))
            found = found.to_arrow().num_rows
            assert found == sum(1 for r in rows if r[name] == value) > 0, (name, value)


NESTED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "place", StructType(
        NestedField(5, "lat", DoubleType(), required=True),
        NestedField(6, "label", StringType(), required=False),
        NestedField(7, "inner", StructType(NestedField(8, "deep", LongType(), required=False)),
                    required=False)), required=False),
    NestedField(3, "tags", ListType(9, StringType(), element_required=False), required=False),
    NestedField(4, "attributes", MapType(10, StringType(), 11, LongType(), value_required=False),
                required=False),
    NestedField(12, "matrix", ListType(13, ListType(14, LongType(), element_required=False),
                                       element_required=False), required=False),
    NestedField(15, "events", ListType(16, StructType(
        NestedField(17, "name", StringType(), required=False),
        NestedField(18, "at", MapType(19, StringType(), 20, DecimalType(9, 2),
                                      value_required=False), required=False)),
        element_required=False), required=False))


def nested_rows(start, count):
    """I29: null struct with a required child, empty and null lists, lists with null, and so on."""
    places = [None, {"lat": 1.0, "label": None, "inner": None},
              {"lat": -0.0, "label": "", "inner": {"deep": None}},
              {"lat": NAN, "label": "x", "inner": {"deep": 7}}]
    tags = [None, [], [None], ["a", None, ""], ["b"] * 20]
    maps = [None, [], [("k", None)], [("k", 1), ("l", 2)]]
    matrices = [None, [], [None], [[]], [[None]], [[1, 2], None, [], [3]]]
    events = [None, [], [None], [{"name": None, "at": None}],
              [{"name": "e", "at": [("t", D("1.25")), ("u", None)]}, None,
               {"name": "f", "at": []}]]
    return [{"id": i, "place": places[i % 4], "tags": tags[i % 5], "attributes": maps[i % 4],
             "matrix": matrices[i % 6], "events": events[i % 5]}
            for i in range(start, start + count)]


def test_nested_types(lake):
    lake.create("t", NESTED)
    table = lake.load("t")
    for number in range(6):
        arrow = pa.Table.from_pylist(nested_rows(number * 13, 13), table.schema().as_arrow())
        table = lake.load("t")
        it.commit_data(table, [it.foreign_data_file(table, arrow, row_group_size=5)])
    # pyiceberg reads a null list of structs that hold maps as an empty one: DuckDB is the judge.
    lake.rewrite("t", duckdb_reads=False)
    assert duckdb_rows(lake, "t") == it.sorted_rows(nested_rows(0, 78))
    written = pq.read_table(it.local(lake.data_entries("t")[0].file.file_path))
    assert it.sorted_rows(written) == it.sorted_rows(nested_rows(0, 78))
    # And with deletes, so that nothing is copied whole.
    table = lake.load("t")
    path = lake.data_entries("t")[0].file.file_path
    it.commit_deletes(table, [it.position_delete_file(table, [(path, n) for n in range(0, 78, 2)])])
    lake.rewrite("t", "--rewrite-all", duckdb_reads=False)
    ids = written["id"].to_pylist()[1::2]
    left = [row for row in nested_rows(0, 78) if row["id"] in ids]
    assert duckdb_rows(lake, "t") == it.sorted_rows(left)


def test_nested_schema_evolution(lake):
    """Fields of structs, also within lists: renamed, dropped, added."""
    lake.create("t", NESTED)
    lake.append("t", *(nested_rows(n * 13, 13) for n in range(3)))
    with lake.load("t").update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("place.label", "title")
        update.delete_column("place.inner.deep")
        update.add_column(("place", "inner", "deep2"), LongType())
        update.add_column(("events", "weight"), FloatType())
    lake.append("t", [{"id": 100, "place": {"lat": 1.0, "title": "t", "inner": {"deep2": 3}},
                       "events": [{"name": "n", "at": [], "weight": 0.5}]}])
    lake.rewrite("t", "--rewrite-all")


@pytest.mark.parametrize("kind, logical", [
    ("geometry", "Geometry(crs=)"), ("geometry('srid:3857')", "Geometry(crs=srid:3857)"),
    ("geography('srid:4326', 'karney')", "Geography(crs=srid:4326, algorithm=karney)")])
def test_geometry_columns(lake, kind, logical):
    """Well-known binary, which pyiceberg writes without an annotation: the bytes stay, the output
    says what they are, and nobody can take their order for a bound."""
    schema = Schema(NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "shape", BinaryType(), required=False))
    lake.create("t", schema)
    rows = [{"id": n, "shape": None if n % 3 == 0 else struct.pack("<BIdd", 1, 1, n, -n)}
            for n in range(20)]
    lake.append("t", *(rows[n:n + 4] for n in range(0, 20, 4)))
    location = pathlib.Path(it.local(lake.metadata_location("t")))
    text = location.read_text(encoding="utf-8")
    assert text.count('"binary"') == 1
    location.write_text(text.replace('"binary"', f'"{kind}"'), encoding="utf-8")
    result = lake.run("rewrite-data-files", "t").json
    assert (result["files_rewritten"], result["files_added"]) == (5, 1)
    file = lake.data_entries("t")[0].file
    assert 2 not in file.lower_bounds and 2 not in file.upper_bounds
    assert file.value_counts[2] == 20
    footer = pq.ParquetFile(it.local(file.file_path))
    assert str(footer.schema.column(1).logical_type) == logical
    assert it.sorted_rows(footer.read()) == it.sorted_rows(rows)


def test_evolved_schema(lake):
    """I24: renamed, dropped and added again with the same name, promoted."""
    schema = Schema(NestedField(1, "id", IntegerType(), required=False),
                    NestedField(2, "amount", FloatType(), required=False),
                    NestedField(3, "price", DecimalType(9, 2), required=False),
                    NestedField(4, "note", StringType(), required=False),
                    NestedField(5, "region", StringType(), required=False))
    lake.create("t", schema)
    lake.append("t", *([{"id": 2**31 - 1 - n, "amount": 0.1 * n, "price": D("-1.25"),
                         "note": f"old {n}", "region": "eu"} for n in range(k, k + 5)]
                       for k in range(0, 15, 5)))
    with lake.load("t").update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", LongType())
        update.update_column("amount", DoubleType())
        update.update_column("price", DecimalType(18, 2))
        update.rename_column("region", "area")
        update.delete_column("note")
    with lake.load("t").update_schema() as update:
        update.add_column("note", StringType())
        update.move_first("note")
    lake.append("t", [{"id": 2**40, "amount": 0.1, "price": D("9999999999.99"), "note": "new",
                       "area": "us"}])
    lake.rewrite("t", "--rewrite-all")
    rows = lake.load("t").scan().to_arrow().to_pylist()
    assert sorted(r["note"] for r in rows if r["note"]) == ["new"]
    assert len([r for r in rows if r["area"] == "eu"]) == 15


def test_added_column_is_null_in_old_files(lake):
    lake.plain()
    with lake.load("t").update_schema() as update:
        update.add_column("extra", DecimalType(38, 4))
    lake.append("t", [{**row, "extra": D("1.5000")} for row in plain_rows(60, 5)])
    lake.rewrite("t")
    file = lake.data_entries("t")[0].file
    assert (file.null_value_counts[4], file.value_counts[4]) == (60, 65)


def test_files_of_another_shape(lake):
    """Columns in another order, decimals as integers, many row groups, lists called "item", no
    statistics in the manifest; and a column that the table does not have."""
    schema = Schema(NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "price", DecimalType(9, 2), required=False),
                    NestedField(3, "note", StringType(), required=False))
    table = lake.create("t", schema)
    for number in range(3):
        arrow = pa.table({"note": pa.array(["x", None, "y"] * 10, pa.large_string()),
                          "price": pa.array([D("1.25"), D("-0.01"), None] * 10,
                                            pa.decimal128(9, 2)),
                          "id": pa.array(range(number * 30, number * 30 + 30), pa.int64())})
        fields = it.with_ids(table.schema(), arrow.schema)
        arrow = arrow.cast(fields).append_column(
            pa.field("stranger", pa.int64(), metadata={"PARQUET:field_id": "99"}),
            pa.array(range(30)))
        table = lake.load("t")
        it.commit_data(table, [it.foreign_data_file(
            table, arrow, store_decimal_as_integer=True, row_group_size=7,
            compression=("snappy", "gzip", "none")[number], write_statistics=False,
            data_page_version=("1.0", "2.0", "1.0")[number], use_dictionary=number != 1)])
    lake.rewrite("t", "--rewrite-all")
    assert len(lake.rows("t")) == 90
