"""SELECT on Iceberg tables without a server: rows as pyiceberg reads them, or as the test says
where it does not; which files and columns are read."""

import collections
import datetime as dt
import decimal
import pathlib
import random as randomly
import subprocess
import uuid

import cli
import iceberg_tables as it
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from iceberg_lake import PLAIN, plain_rows
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, MonthTransform
from pyiceberg.types import (BooleanType, DateType, DecimalType, DoubleType, FloatType,
                             IntegerType, LongType, NestedField, StringType, TimestampType,
                             TimestamptzType)
from test_iceberg_deletes import delete_equal, delete_positions, paths
from test_iceberg_types import NESTED, PRIMITIVES, nested_rows, primitive_rows, primitives

TOOL = pathlib.Path(cli.BINARY).resolve().parents[1] / "tests" / "select_tool"
D = decimal.Decimal


def run(lake, sql, threads=2):
    out = pathlib.Path(lake.root) / f"{uuid.uuid4()}.arrow"
    done = subprocess.run([TOOL, lake.uri, out, str(threads), sql], text=True, check=False,
                          capture_output=True, timeout=120, env=cli.environment())
    assert done.returncode in (0, 1), done.stderr
    if done.returncode == 1:
        return None, done.stderr
    with pa.OSFile(str(out)) as file:
        return pa.ipc.open_stream(file).read_all(), ""


def select(lake, sql, threads=2):
    table, error = run(lake, sql, threads)
    assert not error, error
    return table


def rows_of(lake, name="t", threads=2):
    """As sorted_rows() has them; UUIDs come as text."""
    table = select(lake, f"SELECT * FROM sales.{name}", threads)
    rows = table.to_pylist()
    for row in rows:
        if row.get("uuid") is not None:
            row["uuid"] = uuid.UUID(row["uuid"])
    return it.sorted_rows(rows)


def gone(lake, *locations):
    """Files that whoever reads them will miss."""
    for location in locations:
        pathlib.Path(it.local(location)).unlink()


# --- whole tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("threads", [1, 3])
def test_plain_tables(lake, version, threads):
    lake.plain(version=version)
    assert rows_of(lake, threads=threads) == lake.rows("t")
    assert select(lake, "SELECT count(*) AS n FROM lake.sales.t").to_pylist() == [{"n": 60}]


def test_a_table_without_snapshot(lake):
    lake.create("t", PLAIN)
    assert rows_of(lake) == []
    assert select(lake, "SELECT count(*) AS n, max(id) AS m FROM sales.t").to_pylist() == [
        {"n": 0, "m": None}]


def test_all_primitive_types(lake):
    primitives(lake)
    assert rows_of(lake) == lake.rows("t")
    for name in PRIMITIVES:
        table = select(lake, f'SELECT id, "{name}" FROM sales.t')
        assert table.num_rows == 60


def test_nested_types(lake):
    lake.create("t", NESTED)
    for number in range(6):
        table = lake.load("t")
        arrow = pa.Table.from_pylist(nested_rows(number * 13, 13), table.schema().as_arrow())
        it.commit_data(table, [it.foreign_data_file(table, arrow, row_group_size=5)])
    assert rows_of(lake) == it.sorted_rows(nested_rows(0, 78))
    found = select(lake, "SELECT place.inner.deep AS deep, len(tags) AS n, attributes['k'] AS k "
                         "FROM sales.t ORDER BY id LIMIT 4").to_pylist()
    assert [row["deep"] for row in found] == [None, None, None, 7]
    assert [row["n"] for row in found] == [None, 0, 1, 3]
    assert [row["k"] for row in found] == [None, None, None, 1]
    path = lake.data_entries("t")[0].file.file_path
    it.commit_deletes(lake.load("t"), [it.position_delete_file(
        lake.load("t"), [(path, n) for n in range(0, 13, 2)])])
    ids = {row["id"] for row in pq.read_table(it.local(path)).to_pylist()[0::2]}
    assert rows_of(lake) == it.sorted_rows([r for r in nested_rows(0, 78) if r["id"] not in ids])


def test_large_tables_come_in_many_batches(lake):
    lake.create("t", PLAIN)
    lake.append("t", plain_rows(0, 150_000), plain_rows(150_000, 1))
    table = lake.load("t")
    it.commit_data(table, [it.foreign_data_file(
        table, pa.Table.from_pylist(plain_rows(150_001, 90_000), table.schema().as_arrow()),
        row_group_size=20_000)])
    assert rows_of(lake) == lake.rows("t")
    found = select(lake, "SELECT count(*) AS n, sum(id)::BIGINT AS s, count(note) AS m "
                         "FROM sales.t").to_pylist()
    assert found == [{"n": 240_001, "s": sum(range(240_001)),
                      "m": sum(1 for i in range(240_001) if i % 5)}]


# --- deletes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [True, False])
def test_position_deletes(lake, bounds):
    lake.plain()
    files = paths(lake)
    delete_positions(lake, *([(path, 3), (path, 7)] for path in files[:4]), bounds=bounds)
    delete_positions(lake, [(path, row) for path in files for row in (0, 3)])
    delete_positions(lake, [(files[5], row) for row in range(10)])
    assert rows_of(lake) == lake.rows("t")
    left = len(lake.rows("t"))
    assert select(lake, "SELECT count(*) AS n FROM sales.t").to_pylist() == [{"n": left}]


def test_equality_deletes(lake):
    """I23: of rows that are older than the delete, null equals null, on several columns."""
    lake.plain()
    delete_equal(lake, ["region", "note"], [("eu", "note 1"), ("us", None)])
    lake.append("t", plain_rows(60, 10))
    delete_equal(lake, ["id"], [(61,), (2,)])
    expected = [r for r in plain_rows(0, 60)
                if (r["region"], r["note"]) not in {("eu", "note 1"), ("us", None)}]
    expected += plain_rows(60, 10)
    expected = [r for r in expected if r["id"] not in (61, 2)]
    assert rows_of(lake) == it.sorted_rows(expected)
    # Columns that are not selected are compared all the same.
    assert select(lake, "SELECT count(*) AS n, count(DISTINCT region) AS r "
                        "FROM sales.t").to_pylist() == [{"n": len(expected), "r": 2}]
    delete_positions(lake, [(paths(lake)[0], 0)])
    expected = [r for r in expected if r["id"] != 0]
    assert rows_of(lake) == it.sorted_rows(expected)


@pytest.mark.parametrize("column", ["int", "decimal38", "string", "timestamptz", "uuid"])
def test_equality_deletes_of_types(lake, column):
    table = primitives(lake, files=2)
    rows = primitive_rows(0, 24)
    deleted = {rows[0][column], None}
    it.commit_deletes(table, [it.equality_delete_file(table, [column], [(v,) for v in deleted])])
    left = [r for r in rows if r[column] not in deleted]
    assert rows_of(lake) == it.sorted_rows(
        [{**r, "uuid": r["uuid"] and uuid.UUID(bytes=r["uuid"])} for r in left])


# --- evolved schemas ----------------------------------------------------------------------------


def test_evolved_schema(lake):
    schema = Schema(NestedField(1, "id", IntegerType(), required=False),
                    NestedField(2, "amount", FloatType(), required=False),
                    NestedField(3, "price", DecimalType(9, 2), required=False),
                    NestedField(4, "note", StringType(), required=False),
                    NestedField(5, "region", StringType(), required=False))
    lake.create("t", schema)
    lake.append("t", *([{"id": 2**31 - 1 - n, "amount": 0.1 * n, "price": D("-1.25"),
                         "note": f"old {n}", "region": "eu"} for n in range(k, k + 5)]
                       for k in range(0, 15, 5)))
    before = lake.head("t").snapshot_id
    old_rows = lake.rows("t")
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
    assert rows_of(lake) == lake.rows("t")
    found = select(lake, "SELECT note, count(*) AS n FROM sales.t WHERE area IS NOT NULL "
                         "GROUP BY 1 ORDER BY 1 NULLS LAST").to_pylist()
    assert found == [{"note": "new", "n": 1}, {"note": None, "n": 15}]
    # As of a snapshot, under the schema of that time.
    then = select(lake, f"SELECT * FROM sales.t AT (VERSION => {before})")
    assert it.sorted_rows(then) == old_rows
    assert then.schema.names == ["id", "amount", "price", "note", "region"]
    # Only a column that old files lack.
    assert select(lake, "SELECT note FROM sales.t").column("note").null_count == 15


def test_nested_schema_evolution(lake):
    """Fields of structs, also within lists: renamed, dropped, added. Files by pyarrow: pyiceberg
    makes an empty list of a null one of structs that hold maps."""
    lake.create("t", NESTED)

    def add(rows):
        table = lake.load("t")
        arrow = pa.Table.from_pylist(rows, table.schema().as_arrow())
        it.commit_data(table, [it.foreign_data_file(table, arrow)])

    add(nested_rows(0, 39))
    with lake.load("t").update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("place.label", "title")
        update.delete_column("place.inner.deep")
        update.add_column(("place", "inner", "deep2"), LongType())
        update.add_column(("events", "weight"), FloatType())
    new = {"id": 100, "place": {"lat": 1.0, "title": "t", "inner": {"deep2": 3}}, "tags": None,
           "attributes": None, "matrix": None,
           "events": [{"name": "n", "at": [], "weight": 0.5}]}
    add([new])

    def evolved(row):
        place, events = row["place"], row["events"]
        return {**row,
                "place": place and {"lat": place["lat"], "title": place["label"],
                                    "inner": place["inner"] and {"deep2": None}},
                "events": events and [e and {**e, "weight": None} for e in events]}

    assert rows_of(lake) == it.sorted_rows([evolved(row) for row in nested_rows(0, 39)] + [new])


def test_partition_columns_that_only_metadata_has(lake):
    """Column Projection: files of another engine leave out what their partition says."""
    schema = Schema(NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "region", StringType(), required=False))
    lake.create("t", schema, partition_by=["region"])
    table = lake.load("t")
    files = []
    for number, region in enumerate(("eu", "us", None)):
        arrow = pa.table({"id": pa.array(range(number * 5, number * 5 + 5), pa.int64())},
                         schema=it.with_ids(table.schema(), [pa.field("id", pa.int64())]))
        files.append(it.foreign_data_file(table, arrow, it.Record(region)))
    it.commit_data(table, files)
    assert rows_of(lake) == it.sorted_rows(
        [{"id": n, "region": ("eu", "us", None)[n // 5]} for n in range(15)])
    found = select(lake, "SELECT region, count(*) AS n FROM sales.t GROUP BY 1 "
                         "ORDER BY 1 NULLS LAST")
    assert found.to_pylist() == [{"region": "eu", "n": 5}, {"region": "us", "n": 5},
                                 {"region": None, "n": 5}]


# --- what is read -------------------------------------------------------------------------------


def test_files_that_cannot_match_are_not_read(lake):
    schema = Schema(NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "region", StringType(), required=False),
                    NestedField(3, "day", DateType(), required=False),
                    NestedField(4, "price", DecimalType(9, 2), required=False))
    lake.create("t", schema)
    lake.append("t", *([{"id": n, "region": f"r{n // 10}", "day": dt.date(2026, 1, 1 + n // 10),
                         "price": D(n) / 4} for n in range(k, k + 10)] for k in range(0, 60, 10)))
    keep = paths(lake)[3]  # Rows 30 to 39.
    gone(lake, *(path for path in paths(lake) if path != keep))
    for where in ("id BETWEEN 30 AND 39", "id >= 30 AND id < 40", "region = 'r3'",
                  "region LIKE 'r3%'", "day = DATE '2026-01-04'", "day IN ('2026-01-04')",
                  "price >= 7.5 AND price <= 9.75", "id = 33 OR id = 34",
                  "region > 'r2' AND region < 'r4' AND random() <= 1"):
        rows = select(lake, f"SELECT id FROM sales.t WHERE {where}").to_pylist()
        assert {row["id"] for row in rows} <= set(range(30, 40)) and rows, where
    # The control: whoever looks at the others misses them.
    for where in ("id >= 20", "region || 'x' = 'r3x'", "id + 0 = 33"):
        _, error = run(lake, f"SELECT id FROM sales.t WHERE {where}")
        assert "not_found" in error, where
    # Nothing is opened to count rows.
    assert select(lake, "SELECT count(*) AS n FROM sales.t").to_pylist() == [{"n": 60}]


@pytest.mark.parametrize("transform", [BucketTransform(4), MonthTransform()])
def test_partitions_that_cannot_match_are_not_read(lake, transform):
    schema = Schema(NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "day", DateType(), required=False))
    column = "id" if isinstance(transform, BucketTransform) else "day"
    lake.create("t", schema, partition_by=[(column, transform)])
    rows = [{"id": n, "day": dt.date(2026, 1 + n % 6, 1 + n % 20)} for n in range(60)]
    it.commit_data(lake.load("t"), it.partitioned_files(lake.load("t"), rows))
    assert rows_of(lake) == it.sorted_rows(rows)
    if column == "day":
        gone(lake, *(e.file.file_path for e in lake.data_entries("t")
                     if e.file.partition[0] != (2026 - 1970) * 12 + 2))
        found = select(lake, "SELECT id FROM sales.t WHERE day >= '2026-03-01' "
                             "AND day < DATE '2026-04-01'")
        assert sorted(found.column("id").to_pylist()) == [n for n in range(60) if n % 6 == 2]


def test_only_columns_that_are_used_are_read(lake):
    """Pages of other columns are damaged; whoever reads them finds out."""
    lake.create("t", PLAIN)
    table = lake.load("t")
    arrow = pa.Table.from_pylist(plain_rows(0, 1000), table.schema().as_arrow())
    file = it.foreign_data_file(table, arrow, compression="none", use_dictionary=False,
                                write_page_checksum=True)
    it.commit_data(table, [file])
    path = pathlib.Path(it.local(file.file_path))
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(2)
    data = bytearray(path.read_bytes())
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[middle] ^= 0xff
    path.write_bytes(bytes(data))
    assert select(lake, "SELECT sum(id)::BIGINT AS s FROM sales.t WHERE region = 'eu'").to_pylist(
    ) == [{"s": sum(range(0, 1000, 2))}]
    _, error = run(lake, "SELECT max(note) FROM sales.t")
    assert error.startswith("corrupt: "), error
    assert file.file_path in error


def condition(random, depth=0):
    """Of any columns of FILTERED, such as people write and such as nobody does."""
    if depth < 2 and random.random() < 0.4:
        joined = random.choice((" AND ", " OR ")).join(
            condition(random, depth + 1) for _ in range(random.randint(2, 3)))
        return f"NOT ({joined})" if random.random() < 0.2 else f"({joined})"
    column = random.choice(list(FILTERED))
    literals = LITERALS[column]
    kind = random.randrange(7)
    if kind == 0:
        return f"{column} IS {random.choice(('', 'NOT '))}NULL"
    if kind == 1:
        return f"{column} IN ({', '.join(random.choices(literals, k=3))})"
    if kind == 2:
        return f"{column} BETWEEN {random.choice(literals)} AND {random.choice(literals)}"
    if kind == 3:
        return (f"{random.choice(literals)} {random.choice(('<', '>=', '='))} "
                f"{random.choice(('', 'o.'))}{column}")
    if kind == 4 and column == "name":
        return f"name LIKE '{random.choice(('a%', 'é%', 'b_%', '%', 'zz%', 'a'))}'"
    return f"{column} {random.choice(('<', '<=', '=', '<>', '>', '>='))} {random.choice(literals)}"


FILTERED = {"n": LongType(), "i": IntegerType(), "f": FloatType(), "d": DoubleType(),
            "price": DecimalType(9, 2), "wide": DecimalType(38, 10), "day": DateType(),
            "ts": TimestampType(), "tz": TimestamptzType(), "name": StringType(),
            "flag": BooleanType()}
LITERALS = {
    "n": ["0", "-5", "7", "2.5", "9223372036854775807", "1e3", "'3'"],
    "i": ["0", "-3", "4", "3.5", "2147483648", "'2'"],
    "f": ["0", "0.1", "-2", "16777217", "1e40::DOUBLE", "'nan'::FLOAT"],
    "d": ["0", "0.1", "-0.0", "9007199254740993", "'nan'::DOUBLE", "'inf'::DOUBLE"],
    "price": ["0", "1.25", "-0.01", "1.255", "10000000", "99999999999999999999", "0.1::DOUBLE"],
    "wide": ["0", "0.0000000001", "-1", "12345678901234567890", "1e20::DOUBLE"],
    "day": ["DATE '2026-01-03'", "'2026-01-05'", "DATE '1969-12-31'",
            "TIMESTAMP '2026-01-03 12:00:00'"],
    "ts": ["TIMESTAMP '2026-01-02 00:00:00'", "'2026-01-02 03:04:05.678'", "DATE '2026-01-03'",
           "TIMESTAMPTZ '2026-01-02 00:00:00+05'"],
    "tz": ["TIMESTAMPTZ '2026-01-02 00:00:00+00'", "'2026-01-02 03:04:05'",
           "TIMESTAMP '2026-01-03 00:00:00'", "DATE '2026-01-04'", "'2026-01-02 00:00:00-08'"],
    "name": ["'a'", "'b''c'", "'é'", "''", "'zz'", "'1'"],
    "flag": ["TRUE", "FALSE", "'t'"],
}


def filtered_rows(random, count):
    def pick(value):
        return None if random.random() < 0.1 else value

    start = dt.datetime(2026, 1, 1)
    base = random.randint(-10, 10)
    rows = []
    for _ in range(count):
        at = start + dt.timedelta(hours=12 * base + random.randint(0, 30),
                                  microseconds=random.choice((0, 678000)))
        rows.append({
            "n": pick(base + random.randint(0, 2)), "i": pick(random.randint(-4, 4)),
            "f": pick(random.choice((0.1, -2.0, 0.0, float("nan"), 16777216.0, float(base)))),
            "d": pick(random.choice((0.1, -0.0, 9007199254740992.0, float("nan"), float("inf"),
                                     float(base)))),
            "price": pick(D(base) + random.choice((D("0"), D("1.25"), D("-0.01")))),
            "wide": pick(D(base) + random.choice((D("0"), D("0.0000000001"), D(10**20)))),
            "day": pick(at.date()), "ts": pick(at),
            "tz": pick(at.replace(tzinfo=dt.timezone.utc)),
            "name": pick(random.choice(("a", "b'c", "é", "", "abc", "1", "A"))),
            "flag": pick(base % 2 == 0)})
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_pruning_loses_no_row(lake, seed):
    """Arbitrary conditions, judged by the same ones where nothing can be pruned."""
    random = randomly.Random(seed)
    lake.create("t", Schema(*(NestedField(number, name, kind, required=False)
                              for number, (name, kind) in enumerate(FILTERED.items(), 1))))
    lake.append("t", *(filtered_rows(random, 6) for _ in range(8)))
    questions = [condition(random) for _ in range(120)]
    pruned = [f"(SELECT count(*) FROM sales.t o WHERE {where}) AS q{number}"
              for number, where in enumerate(questions)]
    judge = ", ".join(f"count(*) FILTER (WHERE {where}) AS q{number}"
                      for number, where in enumerate(questions))
    mine = {}
    for begin in range(0, len(pruned), 60):  # A statement has 64 subqueries at most.
        part = ", ".join(pruned[begin:begin + 60])
        mine.update(select(lake, f"SELECT {part}").to_pylist()[0])
    whole = select(lake, f"SELECT {judge} FROM sales.t o").to_pylist()[0]
    for number, where in enumerate(questions):
        assert mine[f"q{number}"] == whole[f"q{number}"], where
    assert any(0 < count < 48 for count in mine.values())


def test_joins_and_aggregates_are_those_of_duckdb(lake):
    lake.plain("a", files=3, rows=40)
    lake.plain("b", files=2, rows=30)
    found = select(lake, """
        WITH big AS (SELECT region, note, count(*) AS n FROM sales.a GROUP BY ALL)
        SELECT b.region, sum(big.n)::BIGINT AS n, max(b.id) AS m
        FROM sales.b b JOIN big ON b.region = big.region AND b.note = big.note
        WHERE b.id < 50 GROUP BY 1 ORDER BY 1""")
    counts = collections.Counter((r["region"], r["note"]) for r in plain_rows(0, 120))
    expected = {}
    for row in plain_rows(0, 50):
        if row["note"] is not None:
            total, last = expected.get(row["region"], (0, 0))
            expected[row["region"]] = (total + counts[(row["region"], row["note"])],
                                       max(last, row["id"]))
    assert found.to_pylist() == [{"region": region, "n": n, "m": m}
                                 for region, (n, m) in sorted(expected.items())]


def test_a_table_that_is_not_there(lake):
    lake.plain()
    for sql, what in (("SELECT * FROM sales.u", "not_found"),
                      ("SELECT nope FROM sales.t", "line 1"),
                      ("SELECT * FROM sales.t AT (VERSION => 5)", "no snapshot"),
                      (f"SELECT * FROM '{it.local(paths(lake)[0])}'", "not_found")):
        table, error = run(lake, sql)
        assert table is None and what in error, error
