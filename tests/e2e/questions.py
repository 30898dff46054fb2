"""Counting questions about every column, put to three readers with the condition pushed down, so
that statistics, page indexes, dictionaries and bloom filters are used for the answers."""

import duckdb
import judge
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

OPERATORS = ("is null", "is not null", "=", "<", ">", "in")


def flat(kind):
    return not pa.types.is_nested(kind)


def ordered(kind):
    return not pa.types.is_boolean(kind)


def values_of(column):
    """The values to ask for: the least one, two between, the largest."""
    values = column.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.is_finite(values))
    if len(values) == 0:
        return []
    places = [0, len(values) // 3, len(values) // 2, len(values) - 1]
    asked = [values[i] for i in places]
    if ordered(values.type) and not pa.types.is_fixed_size_binary(values.type):
        ends = pc.min_max(values)
        asked = [ends["min"], *asked[1:3], ends["max"]]
    return asked


def questions(name, column):
    """(operator, values) pairs about a column."""
    asked = [("is null", []), ("is not null", [])]
    if not flat(column.type):
        return asked
    found = values_of(column)
    if not found:
        return asked
    low, third, middle, high = found
    asked += [("=", [third]), ("=", [high]), ("in", [low, middle])]
    if ordered(column.type):
        asked += [("<", [middle]), (">", [middle]), ("<", [low]), (">", [high]), ("=", [low])]
    if pa.types.is_string(column.type):
        asked += [("=", [pa.scalar(third.as_py() + "!", column.type)])]
    return asked


# --- the truth: of the rows in memory, nothing to skip -------------------------------------------

def count_rows(column, operator, values):
    if operator in ("is null", "is not null"):
        missing = column.null_count
        return missing if operator == "is null" else len(column) - missing
    if operator == "in":
        return pc.sum(pc.is_in(column, pa.array(values, values[0].type))).as_py()
    compare = {"=": pc.equal, "<": pc.less, ">": pc.greater}[operator]
    return pc.sum(compare(column, values[0])).as_py() or 0


# --- the readers ---------------------------------------------------------------------------------

class Pyarrow:
    """Skips row groups by their statistics."""

    def __init__(self, paths):
        self.data = ds.dataset([str(path) for path in paths], format="parquet")

    def count(self, name, operator, values):
        field = ds.field(name)
        condition = {
            "is null": lambda: field.is_null(), "is not null": lambda: field.is_valid(),
            "=": lambda: field == values[0], "<": lambda: field < values[0],
            ">": lambda: field > values[0], "in": lambda: field.isin(pa.array(values)),
        }[operator]()
        return self.data.count_rows(filter=condition)


class Duckdb:
    """Skips row groups by statistics and bloom filters."""

    def __init__(self, paths):
        self.db = duckdb.connect()
        self.db.execute("SET timezone = 'UTC'; SET threads = 1")
        self.scan = judge.duckdb_scan(paths)

    def count(self, name, operator, values):
        marks = ", ".join("?" * len(values))
        if operator == "in":
            marks = f"({marks})"
        return self.db.execute(
            f'SELECT count(*) FROM {self.scan} WHERE "{name}" {operator} {marks}',
            [self._value(value) for value in values]).fetchone()[0]

    @staticmethod
    def _value(value):
        # As text where Python's types hold less than the column.
        if pa.types.is_timestamp(value.type) or pa.types.is_time(value.type):
            return value.cast(pa.string()).as_py()
        return value.as_py()


class Polars:
    """Skips row groups by statistics, and decodes the other columns only where a row is left."""

    def __init__(self, paths):
        self.frame = pl.scan_parquet([str(path) for path in paths], hive_partitioning=False,
                                     missing_columns="insert")
        self.schema = self.frame.collect_schema()

    def count(self, name, operator, values):
        field = pl.col(name)
        wanted = pl.from_arrow(pa.array(values, values[0].type)).cast(self.schema[name]) \
            if values else None
        condition = {
            "is null": lambda: field.is_null(), "is not null": lambda: field.is_not_null(),
            "=": lambda: field == pl.lit(wanted[0], dtype=self.schema[name]),
            "<": lambda: field < pl.lit(wanted[0], dtype=self.schema[name]),
            ">": lambda: field > pl.lit(wanted[0], dtype=self.schema[name]),
            "in": lambda: field.is_in(wanted.implode()),
        }[operator]()
        return self.frame.filter(condition).select(pl.len()).collect().item()


READERS = {"pyarrow": Pyarrow, "duckdb": Duckdb, "polars": Polars}


def asks(reader, column, operator):
    """Whether the reader has one answer to such a question."""
    if reader == "polars" and pa.types.is_map(column.type):
        return False
    # To DuckDB a NaN is larger than all numbers; yet it skips by a maximum, which leaves NaN out.
    odd = pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py()
    return not (reader == "duckdb" and odd and operator == ">")


def readers_of(paths):
    """Those who can read the files at all: some lack an encoding of fixed-length bytes."""
    able = []
    for name, summary in SUMMARIES.items():
        try:
            summary(paths)
        except (duckdb.Error, pl.exceptions.ComputeError):
            continue
        able.append(name)
    return able


def assert_same_answers(before, after, rows, readers=tuple(READERS)):
    """Each reader's answers about `after` are those of `rows`, the table of all rows; or, where a
    reader has ideas of its own, its answers about `before`."""
    for reader in readers:
        there = READERS[reader](after)
        original = None
        for name in rows.column_names:
            column = rows.column(name)
            for operator, values in questions(name, column):
                if not asks(reader, column, operator):
                    continue
                found = there.count(name, operator, values)
                if found == count_rows(column, operator, values):
                    continue
                original = original or READERS[reader](before)
                assert found == original.count(name, operator, values), \
                    f"{reader}: {name} {operator} {[value.as_py() for value in values]}"


# --- equal rows ----------------------------------------------------------------------------------

def read_rows(paths, schema=None):
    """All rows in the order of "id", which is a row's own, as Arrow reads them."""
    tables = [pq.ParquetFile(path).read() for path in paths]
    table = pa.concat_tables(tables, promote_options="permissive")
    table = table.sort_by("id").combine_chunks()
    return table.select(sorted(table.column_names)).cast(schema) if schema else \
        table.select(sorted(table.column_names))


def bits(column):
    """Floats as the bytes they are: NaN is NaN, and no zero is another's."""
    column = column.combine_chunks()
    kinds = {pa.float32(): pa.int32(), pa.float64(): pa.int64(), pa.float16(): pa.int16()}
    return column.view(kinds[column.type]) if column.type in kinds else column


def duckdb_rows(paths):
    with duckdb.connect() as db:
        db.execute("SET timezone = 'UTC'")
        names = sorted(row[0] for row in db.execute(
            f"DESCRIBE SELECT * FROM {judge.duckdb_scan(paths)}").fetchall())
        columns = ", ".join(f'"{name}"' for name in names)
        return names, db.execute(f"SELECT count(*), sum(cast(hash({columns}) AS HUGEINT)) FROM "
                                 f"{judge.duckdb_scan(paths)}").fetchall()


# Rows and their hashes, whatever their order, by reader.
SUMMARIES = {"pyarrow": read_rows, "duckdb": duckdb_rows, "polars": judge.polars_rows}


def assert_same_rows(before, after, readers=tuple(SUMMARIES)):
    """Returns the rows."""
    rows = read_rows(before)
    assert len(pc.unique(rows.column("id"))) == rows.num_rows
    found = read_rows(after, rows.schema)
    for name in rows.column_names:
        assert bits(found.column(name)).equals(bits(rows.column(name))), f"pyarrow: {name}"
    for reader in readers:
        if reader != "pyarrow":
            assert SUMMARIES[reader](after) == SUMMARIES[reader](before), reader
    return rows
