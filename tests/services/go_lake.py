"""Tables of the Go implementation in the SQLite catalog that lithify and pyiceberg share: Go makes
them and reads them, pyiceberg where it can."""

import datetime
import decimal
import subprocess

import iceberg_lake
import iceberg_tables as it
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (BucketTransform, DayTransform, HourTransform, IdentityTransform,
                                  MonthTransform, TruncateTransform, VoidTransform, YearTransform)
from pyiceberg.types import (BinaryType, BooleanType, DateType, DecimalType, DoubleType, FloatType,
                             IntegerType, ListType, LongType, MapType, NestedField, StringType,
                             StructType, TimestampType, TimestamptzType)

COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
    NestedField(4, "day", DateType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "score", DoubleType(), required=False),
    NestedField(7, "ratio", FloatType(), required=False),
    NestedField(8, "ok", BooleanType(), required=False),
    NestedField(9, "count", IntegerType(), required=False),
    NestedField(10, "blob", BinaryType(), required=False),
    NestedField(11, "naive", TimestampType(), required=False),
    NestedField(12, "note", StringType(), required=False),
    NestedField(13, "tags", ListType(14, StringType(), False), required=False),
    NestedField(15, "place", StructType(NestedField(16, "lat", DoubleType(), required=False),
                                        NestedField(17, "lon", DoubleType(), required=False)),
                required=False),
    NestedField(18, "marks", MapType(19, StringType(), 20, IntegerType(), False), required=False))

PARTITIONED = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "region"),
    PartitionField(1, 1001, BucketTransform(2), "id_bucket"),
    PartitionField(3, 1002, DayTransform(), "at_day"), spec_id=0)

AT = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "at"), spec_id=0)

# One field over each type, and each transform; Go takes one decimal.
EVERY_KIND = PartitionSpec(*(
    PartitionField(source, 1000 + number, transform, name)
    for number, (source, transform, name) in enumerate((
        (4, IdentityTransform(), "day"), (5, IdentityTransform(), "price"),
        (6, IdentityTransform(), "score"), (7, IdentityTransform(), "ratio"),
        (8, IdentityTransform(), "ok"), (9, IdentityTransform(), "count"),
        (10, IdentityTransform(), "blob"),
        (12, TruncateTransform(2), "note_start"), (12, BucketTransform(8), "note_bucket"),
        (9, TruncateTransform(10), "count_start"), (3, YearTransform(), "at_year"),
        (4, MonthTransform(), "day_month"), (11, HourTransform(), "naive_hour"),
        (2, VoidTransform(), "nothing")))), spec_id=0)

START = datetime.datetime(2026, 1, 1, 23, tzinfo=datetime.UTC)


def make_row(i):
    """Nulls in every column but `id`; two days; three regions, one of them null."""
    def some(value, every):
        return None if i % every == every - 1 else value

    at = START + datetime.timedelta(seconds=i * 60, microseconds=i)
    return {"id": i, "region": ("eu", None, "us")[i % 3], "at": some(at, 19),
            "day": some(at.date(), 7), "price": some(decimal.Decimal(i * 37 - 900) / 100, 5),
            "score": some(float("nan") if i % 11 == 3 else i / 3, 6), "ratio": some(-i / 4, 8),
            "ok": some(i % 2 == 0, 9), "count": some(i - 50, 10),
            "blob": some(bytes([i % 200, 0, 1]), 4),
            "naive": some(at.replace(tzinfo=None), 13), "note": some(f"note {i % 7}", 3),
            "tags": some([f"t{i}", None][:i % 3], 11),
            "place": some({"lat": i / 2, "lon": None}, 12),
            "marks": some([("a", i), ("b", None)][:i % 3], 14)}


def make_rows(start, count):
    return [make_row(i) for i in range(start, start + count)]


class GoLake(iceberg_lake.Lake):
    """Tables of COLUMNS whose rows and snapshots Go writes. Every call reads the newest state."""

    def __init__(self, root, program):
        super().__init__(root / "lake")
        self.program = program
        self.exchanged = root / "rows.arrow"

    def go(self, command, name, *args, code=0):
        done = subprocess.run(
            [self.program, command, "-database", str(self.db), "-warehouse", f"file://{self.root}",
             "-table", f"sales.{name}", *(str(arg) for arg in args)],
            capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr

    def go_create(self, name, version, spec=None, properties=None):
        spec = ["-spec", spec.model_dump_json()] if spec else []
        given = {"format-version": version, **(properties or {})}
        self.go("create", name, "-schema", COLUMNS.model_dump_json(), *spec,
                *(arg for key, value in given.items()
                  for arg in ("-property", f"{key}={value}")))

    def exchange(self, rows, names=COLUMNS.column_names):
        """The rows in a file for Go; these columns of them."""
        fields = [field for field in COLUMNS.as_arrow() if field.name in names]
        table = pa.Table.from_pylist([{f.name: row[f.name] for f in fields} for row in rows],
                                     schema=pa.schema(fields))
        with pa.ipc.new_file(str(self.exchanged), table.schema) as writer:
            writer.write_table(table)
        return self.exchanged

    def go_append(self, name, rows):
        self.go("append", name, self.exchange(rows))

    def go_delete(self, name, ids):
        self.go("delete", name, *ids)

    def go_delete_equal(self, name, rows, key="id"):
        """By `key`; the file holds what the partition needs, too."""
        self.go("equality", name, "-key", key,
                self.exchange(rows, {*key.split(","), "region", "id", "at"}
                              if self.load(name).spec().fields else set(key.split(","))))

    def go_rows(self, name, *args):
        """What Go reads, sorted as Warehouse.rows is."""
        self.go("scan", name, *args, self.exchanged)
        with pa.ipc.open_file(str(self.exchanged)) as reader:
            return it.sorted_rows(reader.read_all())
