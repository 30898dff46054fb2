"""Random tables with a column for each kind of value, and files of them by three writers, in every
form that these can give them. All is drawn from numpy generators: a seed gives a case again."""

import decimal

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

START = 1_741_064_400_000_000  # 2025-03-04T05:00Z in microseconds: the hour of the test trees.


# --- columns -------------------------------------------------------------------------------------
# Each takes a generator, the number of the first row in the case, and the number of rows.

def with_nulls(rng, array, share=0.15):
    """The same values, some of them missing; none where the share is 0."""
    mask = pa.array(rng.random(len(array)) < share)
    return pc.if_else(mask, pa.scalar(None, array.type), array)


def texts(template, numbers):
    return pa.array([template.format(n) for n in numbers.tolist()], pa.string())


def binaries(rng, rows, size):
    data = rng.bytes(rows * size)
    return [data[i * size:(i + 1) * size] for i in range(rows)]


def decimals(rng, rows, precision, digits):
    """Of two digits behind the point, and up to `digits` in all."""
    values = pa.array(rng.integers(-10**digits, 10**digits, rows)).cast(pa.decimal128(22, 0))
    hundredth = pa.scalar(decimal.Decimal("0.01"), pa.decimal128(3, 2))
    return pc.multiply(values, hundredth).cast(pa.decimal128(precision, 2))


def offsets(rng, rows, longest):
    lengths = rng.integers(0, longest + 1, rows)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)


def lists(rng, rows, longest, make, null_share=0.1):
    ends = offsets(rng, rows, longest)
    return pa.ListArray.from_arrays(pa.array(ends), make(int(ends[-1])),
                                    mask=pa.array(rng.random(rows) < null_share))


def structs(rng, rows, fields, null_share=0.1):
    return pa.StructArray.from_arrays(list(fields.values()), list(fields),
                                      mask=pa.array(rng.random(rows) < null_share))


def labels(rng, rows, kinds=9):
    return with_nulls(rng, texts("label {}", rng.integers(0, kinds, rows)))


def longs(rng, rows, most=10**12):
    return with_nulls(rng, pa.array(rng.integers(-most, most, rows)))


def reals(rng, rows, kind, odd):
    values = rng.normal(size=rows)
    at = rng.random(rows) < 0.1
    values[at] = rng.choice(np.array(odd), at.sum())
    return with_nulls(rng, pa.array(values.astype(kind)))


def instants(rng, first, rows, unit):
    micros = START + np.sort(rng.integers(0, 10**9, rows)) + first
    kind = pa.timestamp(unit, "UTC" if unit == "us" else None)
    return with_nulls(rng, pa.array(micros * (1000 if unit == "ns" else 1)).cast(kind), 0.05)


def items(rng, rows):
    return lists(rng, rows, 3, lambda n: structs(rng, n, {
        "x": longs(rng, n, 100), "tags": lists(rng, n, 2, lambda k: labels(rng, k))}))


def counts(rng, rows):
    ends = pa.array(offsets(rng, rows, 3), pa.int32())
    total = ends[-1].as_py()
    starts = with_nulls(rng, ends[:-1], 0.1)
    keys = texts("key {}", np.arange(total))
    return pa.MapArray.from_arrays(pa.concat_arrays([starts, ends[-1:]]), keys,
                                   longs(rng, total, 5))


COLUMNS = {
    "tiny": lambda r, f, n: with_nulls(r, pa.array(r.integers(-128, 128, n), pa.int8())),
    "number": lambda r, f, n: with_nulls(r, pa.array(r.integers(-2**31, 2**31, n), pa.int32())),
    "big": lambda r, f, n: longs(r, n),
    "few": lambda r, f, n: with_nulls(r, pa.array(r.integers(0, 20, n) * 10**10), 0.3),
    "rising": lambda r, f, n: with_nulls(r, pa.array(np.arange(f, f + n) * 3)),
    "unsigned": lambda r, f, n: with_nulls(r, pa.array(r.integers(0, 2**32, n), pa.uint32())),
    "huge": lambda r, f, n: with_nulls(
        r, pa.array(r.integers(0, 2**64, n, dtype=np.uint64), pa.uint64())),
    "real": lambda r, f, n: reals(r, n, np.float32, [0.0, -0.0, np.inf, 1.5]),
    "ratio": lambda r, f, n: reals(r, n, np.float64, [-np.inf, -0.0, 1e300]),
    "odd": lambda r, f, n: reals(r, n, np.float64, [np.nan, 0.0, 2.0]),
    "flag": lambda r, f, n: with_nulls(r, pa.array(r.random(n) < 0.5), 0.3),
    "day": lambda r, f, n: with_nulls(
        r, pa.array(r.integers(15_000, 20_000, n).astype(np.int32)).cast(pa.date32())),
    "at": lambda r, f, n: instants(r, f, n, "us"),
    "exact": lambda r, f, n: instants(r, f, n, "ns"),
    "clock": lambda r, f, n: pa.array(r.integers(0, 86_400 * 10**6, n)).cast(pa.time64("us")),
    "price": lambda r, f, n: with_nulls(r, decimals(r, n, 9, 9)),
    "amount": lambda r, f, n: with_nulls(r, decimals(r, n, 22, 17)),
    "name": lambda r, f, n: with_nulls(r, texts("name {:08d}", np.arange(f, f + n)), 0.1),
    "unique": lambda r, f, n: texts("key-{:08x}", np.arange(f, f + n) * 2654435761 % 2**32),
    "kind": lambda r, f, n: labels(r, n, 3 + f % 17),
    "word": lambda r, f, n: texts("word {}", r.integers(0, 1000, n)),
    "long": lambda r, f, n: with_nulls(r, texts("x" * 80 + "{:06d}", r.integers(0, 10**6, n))),
    "empty": lambda r, f, n: with_nulls(r, pa.array([""] * n), 0.5),
    "raw": lambda r, f, n: with_nulls(r, pa.array(binaries(r, n, 24), pa.binary())),
    "fixed": lambda r, f, n: pa.array(binaries(r, n, 16), pa.binary(16)),
    "constant": lambda r, f, n: pa.array(["always"] * n),
    "nothing": lambda r, f, n: pa.nulls(n, pa.int32()),
    "sometimes": lambda r, f, n: with_nulls(
        r, pa.array(r.integers(0, 100, n)), 1 if r.random() < 0.5 else 0.2),
    "tags": lambda r, f, n: lists(r, n, 3, lambda k: labels(r, k)),
    "numbers": lambda r, f, n: lists(r, n, 4, lambda k: longs(r, k)),
    "counts": lambda r, f, n: counts(r, n),
    "pair": lambda r, f, n: structs(r, n, {"a": longs(r, n), "b": labels(r, n)}),
    "items": lambda r, f, n: items(r, n),
    "deep": lambda r, f, n: structs(r, n, {"in": structs(r, n, {"most": longs(r, n, 50)})}),
}
ALWAYS = ("id", "tenant_id", "time_unix_nano")


def make_table(rng, first, rows, columns):
    """Rows `first` to `first + rows` of a case; "id" is theirs alone."""
    numbers = np.arange(first, first + rows)
    made = {"id": pa.array(numbers), "tenant_id": pa.array(["acme"] * rows, pa.string()),
            "time_unix_nano": pa.array(START * 1000 + numbers)}
    for name in columns:
        # Each column has a generator of its own: leaving one out changes no other.
        made[name] = COLUMNS[name](rng.spawn(1)[0], first, rows)
    return pa.table(made)


# --- writers -------------------------------------------------------------------------------------

ENCODINGS = {
    "INT32": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"),
    "FLOAT": ("BYTE_STREAM_SPLIT", "PLAIN"),
    "BOOLEAN": ("RLE", "PLAIN"),
    "BYTE_ARRAY": ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"),
    "FIXED": ("BYTE_STREAM_SPLIT", "PLAIN", "DELTA_BYTE_ARRAY"),
}


def encodings_of(kind):
    if pa.types.is_boolean(kind):
        return ENCODINGS["BOOLEAN"]
    if pa.types.is_floating(kind):
        return ENCODINGS["FLOAT"]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return ENCODINGS["BYTE_ARRAY"]
    if pa.types.is_fixed_size_binary(kind):
        return ENCODINGS["FIXED"]
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return ENCODINGS["INT32"]
    return None


def pick(rng, *options):
    return options[rng.integers(len(options))]


def pyarrow_options(rng, schema):
    options = {
        "data_page_version": pick(rng, "1.0", "2.0"),
        "write_page_index": pick(rng, True, False), "write_page_checksum": pick(rng, True, False),
        "data_page_size": pick(rng, 16 << 10, 64 << 10, 1 << 20), "write_batch_size": 500,
        "row_group_size": pick(rng, None, None, None, 3000),
        "dictionary_pagesize_limit": pick(rng, 20_000, 1 << 20),
        "write_statistics": pick(rng, True, True, True, False),
        "store_schema": pick(rng, True, False),
    }
    coded = pick(rng, "dictionaries", "plain", "mixed")
    if coded == "plain":
        options["use_dictionary"] = False
    if coded == "mixed":
        names = [field.name for field in schema]
        folded = [name for name in names if rng.random() < 0.4]
        rest = {field.name: pick(rng, *encodings_of(field.type)) for field in schema
                if field.name not in folded and encodings_of(field.type)}
        options.update(use_dictionary=folded, column_encoding=rest)
    if rng.random() < 0.4:
        options["bloom_filter_options"] = {
            field.name: True for field in schema
            if pa.types.is_string(field.type) or pa.types.is_integer(field.type)}
    return options


def write_pyarrow(rng, table, path, codec, schema_options=None):
    """`schema_options`: what has to be equal in all files of a case."""
    options = pyarrow_options(rng, table.schema) | (schema_options or {})
    pq.write_table(table, path, compression={"lz4_raw": "lz4"}.get(codec, codec), **options)


# DuckDB 2.0 writes differences of 32-bit values that need 33 bits as such, which the format does
# not know and Arrow does not read (test_writers.py, test_deltas_that_only_duckdb_reads).
WIDE = {"number", "unsigned"}


def write_duckdb(rng, table, path, codec, _=None):
    options = {"compression": {"none": "uncompressed"}.get(codec, codec),
               "parquet_version": "v1" if WIDE & set(table.column_names) else "v2",
               "row_group_size": pick(rng, 122_880, 2048 * 2),
               "write_bloom_filter": pick(rng, "true", "false"),
               "dictionary_size_limit": pick(rng, 100, 5000, 100_000)}
    listed = ", ".join(f"{key} {value}" for key, value in options.items())
    with duckdb.connect() as db:
        db.execute("SET timezone = 'UTC'")
        db.register("source", table)
        db.execute("COPY (SELECT * FROM source ORDER BY id) "
                   f"TO '{path}' (FORMAT parquet, {listed})")


def write_polars(rng, table, path, codec, _=None):
    pl.from_arrow(table).write_parquet(
        path, compression={"none": "uncompressed", "lz4_raw": "lz4"}.get(codec, codec),
        statistics=pick(rng, True, "full", False), row_group_size=pick(rng, None, None, 3000),
        data_page_size=pick(rng, None, 32 << 10))


WRITERS = {"pyarrow": write_pyarrow, "duckdb": write_duckdb, "polars": write_polars}
CODECS = ("zstd", "snappy", "none", "gzip", "lz4_raw", "brotli")
# Polars has no maps; what is stored in different types by different writers is not mixed.
LACKS = {"pyarrow": (), "duckdb": (), "polars": ("counts",),
         "mixed": ("counts", "amount", "fixed", "clock")}
