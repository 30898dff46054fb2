"""The files that the benchmarks start from. A shape is rows of a kind, in so many files, written by
one writer with one codec, for example mixed.duckdb.zstd:

kinds    d2       32 files, 494 MiB: 4,800 rows each with bodies of 4,096 random letters (R279)
         logs512  512 small files of typical log lines
         runs     10 files of about 20 kB that hold 1.4 million rows each (I32)
         strings  8 files of 32 texts of 1 MiB each, of high entropy
         mixed    512 files of about 0.75 MiB: numbers, texts, times, decimals, lists and a map
         flat     1,000 files of about 1 MiB, flat columns
         tiny     10,000 files of about 20 KiB
         wide     128 files of about 2 MiB with 200 columns
         codes    256 files of about 1 MiB: every column has few different values
writers  pyarrow  its defaults: every column in a dictionary, up to 1 MiB of it, whatever it holds
         duckdb   COPY: a dictionary where a column has few values, else plain or delta pages
         polars   write_parquet
         rust     parquet-rewrite of the Rust crate: a dictionary up to 1 MiB, then plain pages
         spark    parquet-java in Spark: a dictionary where it makes the first page smaller
The first four kinds are pyarrow's with dictionaries for named columns only. Everybody writes zstd
of level 3, or snappy. Files are made once and stay in the scratch directory; their folder's name
has a hash of all that they depend on.
"""

import base64
import concurrent.futures
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import measure

START = 1741064400  # 2025-03-04T05:00:00Z
OURIOS = "data/tenant_id=acme/year=2025/month=03/day=04/hour=05"
EVENTS = "events/day=2025-03-04"
LEVEL = 3
# For trees that are not laid out like Ourios: nothing is checked against the path.
EVENTS_TOML = """[layout]
preset = "none"

[[series]]
name = "events"
partition_columns = ["day"]
date = "day"
"""


# --- rows made by Python -----------------------------------------------------------------------

def log_columns(rng, count, bodies):
    import pyarrow as pa
    return {"tenant_id": pa.array(["acme"] * count),
            "time_unix_nano": pa.array([START * 10**9 + rng.randrange(3600 * 10**9)
                                        for _ in range(count)], pa.int64()),
            "template_id": pa.array([f"template-{rng.randrange(200)}" for _ in range(count)]),
            "trace_id": pa.array([rng.randbytes(16) for _ in range(count)], pa.binary(16)),
            "span_id": pa.array([rng.randbytes(8) for _ in range(count)], pa.binary(8)),
            "service": pa.array([rng.choice(["cart", "pay", "ship", "web"])
                                 for _ in range(count)]),
            "body": pa.array(bodies, pa.binary())}


def d2_file(rng, _, count):
    # 85 letters at random are 6.4 bits in each byte, which gives the 485 MiB of R279.
    return log_columns(rng, count, [base64.b85encode(rng.randbytes(3280))[:4096]
                                    for _ in range(count)])


def logs_file(rng, _, count):
    return log_columns(rng, count, [
        f"{rng.choice(['GET', 'POST', 'PUT'])} /api/v{rng.randrange(3)}/item/{rng.randrange(10**6)}"
        f" took {rng.randrange(5000)} ms, status {rng.choice([200, 200, 200, 404, 500])},"
        f" user {rng.randrange(10**5)}".encode() for _ in range(count)])


def runs_file(_, number, count):
    import pyarrow as pa
    return {"tenant_id": pa.array(["acme"] * count),
            "time_unix_nano": pa.array([(START + number) * 10**9] * count, pa.int64()),
            "template_id": pa.array(["template-1"] * count),
            "body": pa.array(["the same line again and again"] * count)}


def strings_file(rng, _, count):
    import pyarrow as pa
    return {"tenant_id": pa.array(["acme"] * count),
            "time_unix_nano": pa.array([START * 10**9 + i for i in range(count)], pa.int64()),
            "body": pa.array([rng.randbytes(measure.MIB // 2).hex() for _ in range(count)])}


# --- rows made by DuckDB, from their number `id` -------------------------------------------------

def pick(salt, count):
    """A number below `count`, at random by `id`."""
    return f"(hash(id, {salt}) % {count})::bigint"


MIXED = f"""id, make_timestamp(1772000000000000 + id * 1000 + {pick(1, 1000)}) AS "at",
    'region-' || {pick(2, 4)} AS region, 'customer ' || {pick(3, 5000)} AS customer,
    ['open', 'paid', 'sent', 'closed'][{pick(4, 4)} + 1] AS state,
    {pick(5, 100)}::int AS quantity, ({pick(6, 1000000)} / 100)::decimal(12, 2) AS price,
    {pick(7, 8000)} / 8.0 AS ratio, hex(hash(id // 3, 8)) AS token,
    CASE WHEN id % 5 > 0 THEN 'took ' || {pick(9, 5000)} || ' ms in zone ' || {pick(10, 40)} END
        AS note,
    ['new', 'gift', 'bulk'][1:id % 4] AS tags,
    MAP {{'host': 'node-' || {pick(11, 300)}, 'build': 'v' || {pick(12, 20)},
         'trace': hex({pick(13, 1000000)})}} AS attributes,
    hash(id, 14) % 2 = 0 AS valid"""

FLAT = f"""id, make_timestamp(1772000000000000 + id * 1000 + {pick(1, 1000)}) AS "at",
    'device-' || {pick(2, 2000)} AS device, ['start', 'stop', 'sample'][{pick(3, 3)} + 1] AS kind,
    md5((id // 8)::varchar) AS "session", {pick(4, 1 << 22)} / 1024.0 AS amount,
    ({pick(5, 1000000)} / 100)::decimal(12, 2) AS price, {pick(6, 100)}::int AS quantity,
    [200, 200, 200, 404, 500][{pick(7, 5)} + 1]::int AS status,
    '/api/v' || {pick(8, 3)} || '/item/' || {pick(9, 100000)} AS url,
    CASE WHEN id % 7 > 0 THEN ({pick(10, 5000)} / 10)::float END AS latency,
    hash(id, 11) % 2 = 0 AS valid"""

TINY = f"""id, make_timestamp(1772000000000000 + id * 1000 + {pick(1, 1000)}) AS "at",
    'host-' || {pick(2, 500)} AS host, ['info', 'warn', 'error'][{pick(3, 3)} + 1] AS severity,
    {pick(4, 5000)}::int AS took, hex(hash(id // 4, 5)) AS trace,
    'item ' || {pick(6, 2000)} || ' took ' || {pick(7, 50)} || ' ms' AS message,
    {pick(8, 1 << 40)} / 1048576.0 AS amount"""

CODES = ", ".join(
    ["id // 1000 AS batch", f"'device-' || {pick(1, 2000)} AS device"] +
    [f"{pick(100 + i, 3 * 4**(i // 2))}::int AS code{i}" for i in range(8)] +
    [f"'label ' || {pick(200 + i, 4 + 40 * i)} AS label{i}" for i in range(8)])

WIDE_TYPES = (  # Of columns 0, 1, …, and again.
    lambda c: f"id * {c} + {pick(c, 1000)}", lambda c: f"'value ' || {pick(c, 20)}",
    lambda c: f"{pick(c, 1 << 22)} / 1024.0", lambda c: f"{pick(c, 100)}::int",
    lambda c: f"CASE WHEN hash(id, {c}) % 50 = 0 THEN 'remark ' || {pick(c + 1000, 1000)} END",
    lambda c: f"hash(id, {c}) % 2 = 0", lambda c: f"({pick(c, 100000)} / 100)::decimal(12, 2)",
    lambda c: f"'name-' || {pick(c, 10000)}",
    lambda c: f"make_timestamp(1772000000000000 + id * 1000000 + {pick(c, 1000000)})",
    lambda c: f"({pick(c, 300)} / 4.0)::float")
WIDE = "id, " + ", ".join(f"{WIDE_TYPES[c % 10](c)} AS c{c:03}" for c in range(199))


@dataclasses.dataclass(frozen=True)
class Kind:
    files: int
    rows: int  # Of each file.
    where: str  # A selective query's condition.
    select: str = ""  # DuckDB's; else `columns` makes them.
    columns: object = None  # (random generator, number of the file, rows) -> columns
    dictionary: object = True  # pyarrow: the columns in dictionaries.

    @property
    def partition(self):
        return OURIOS if self.columns else EVENTS


KINDS = {
    "d2": Kind(32, 4800, "template_id = 'template-7'", columns=d2_file,
               dictionary=["tenant_id", "template_id", "service"]),
    "logs512": Kind(512, 2000, "template_id = 'template-7'", columns=logs_file,
                    dictionary=["tenant_id", "template_id", "service"]),
    "runs": Kind(10, 1_400_000, f"time_unix_nano = {(START + 3) * 10**9}", columns=runs_file),
    "strings": Kind(8, 32, f"time_unix_nano = {START * 10**9 + 7}", columns=strings_file,
                    dictionary=["tenant_id"]),
    "mixed": Kind(512, 22_500, "customer = 'customer 7'", select=MIXED),
    "flat": Kind(1000, 33_500, "device = 'device-7'", select=FLAT),
    "tiny": Kind(10_000, 600, "host = 'host-7'", select=TINY),
    "wide": Kind(128, 4_200, "c007 = 'name-7'", select=WIDE),
    "codes": Kind(256, 82_000, "device = 'device-7'", select=CODES),
}
WRITERS = ("pyarrow", "duckdb", "polars", "rust", "spark")
CODECS = ("zstd", "snappy")


@dataclasses.dataclass(frozen=True)
class Shape:
    """`name` is KIND, which is KIND.pyarrow.zstd, or KIND.WRITER.CODEC."""
    name: str

    def __post_init__(self):
        known = len(self.parts) == 3 and self.parts[0] in KINDS and self.writer in WRITERS
        if not known or self.codec not in CODECS or (
                self.kind.columns and self.parts[1:] != ["pyarrow", "zstd"]):
            sys.exit(f"no such shape: {self.name}\n{__doc__}")

    @property
    def parts(self):
        parts = self.name.split(".")
        return parts + ["pyarrow", "zstd"] if len(parts) == 1 else parts

    @property
    def kind(self):
        return KINDS[self.parts[0]]

    @property
    def writer(self):
        return self.parts[1]

    @property
    def codec(self):
        return self.parts[2]


# --- writing -----------------------------------------------------------------------------------

@functools.cache
def database():
    import duckdb
    return duckdb.connect(config={"threads": 1})


def rows_of(shape, number, rows):
    """The Arrow table of one file."""
    import pyarrow as pa
    if shape.kind.columns:
        rng = random.Random(f"{shape.parts[0]} {number}")
        return pa.table(shape.kind.columns(rng, number, rows))
    return database().sql(f"SELECT {shape.kind.select} FROM range({number * rows}, "
                          f"{(number + 1) * rows}) numbers(id)").to_arrow_table()


def level(codec):
    return LEVEL if codec == "zstd" else None


def write_file(shape, number, rows, path):
    import pyarrow.parquet as pq
    table, codec = rows_of(shape, number, rows), shape.codec
    if shape.writer == "pyarrow":
        pq.write_table(table, path, compression=codec, compression_level=level(codec),
                       use_dictionary=shape.kind.dictionary)
    elif shape.writer == "polars":
        import polars as pl
        pl.from_arrow(table).write_parquet(path, compression=codec,
                                           compression_level=level(codec))
    elif shape.writer == "duckdb":
        database().register("made", table)
        database().sql(f"COPY (FROM made) TO '{path}' (FORMAT parquet, {duckdb_codec(codec)})")
    elif shape.writer == "rust":
        plain = path.with_suffix(".plain")
        pq.write_table(table, plain, compression="none", use_dictionary=False,
                       store_schema=False)
        subprocess.run([rust_tool("parquet-rewrite"), "--input", plain, "--output", path,
                        *rust_codec(codec)], check=True, stdout=subprocess.DEVNULL)
        plain.unlink()
    else:  # Spark's input.
        pq.write_table(table, path, compression="none", use_dictionary=False)


def duckdb_codec(codec):
    return f"COMPRESSION {codec}" + (f", COMPRESSION_LEVEL {LEVEL}" if codec == "zstd" else "")


def rust_codec(codec):
    return ["--compression", codec] + (["--compression-level", str(LEVEL)]
                                       if codec == "zstd" else [])


def rust_tool(name):
    where = os.environ.get("LITHIFY_PARQUET_RUST")
    if not where:
        raise measure.Failed("LITHIFY_PARQUET_RUST is not set: see bench/parquet_rust.sh")
    return str(pathlib.Path(where) / name)


def write_by_spark(shape, folder):
    """parquet-java makes one file of each that is there."""
    source = folder.with_name(folder.name + ".source")
    folder.rename(source)
    folder.mkdir()
    measure.spawn([sys.executable, str(measure.ROOT / "bench" / "spark_files.py"), "write",
                   str(source), str(folder), shape.codec])
    shutil.rmtree(source)


# What must be there for a writer: where it is.
PLACES = {"rust": "LITHIFY_PARQUET_RUST", "spark": "LITHIFY_SPARK"}


def make(shape, scratch, scale):
    """The folder of the shape's files, made unless it is there; None where a tool is missing that
    writes them. `scale` is the fraction of the files, at least 16 of them; a kind with fewer files
    or large ones has all of them, with that fraction of their rows."""
    kind = shape.kind
    files, rows = max(16, round(kind.files * scale)), kind.rows
    if kind.files < 100:
        files, rows = kind.files, max(1, round(kind.rows * scale))
    place = os.environ.get(PLACES.get(shape.writer, ""), "")
    if shape.writer in PLACES and not place:
        return None
    depends = json.dumps([shape.parts, files, rows, kind.select, kind.dictionary, START, LEVEL,
                          place, *(importlib.metadata.version(name)
                                   for name in ("pyarrow", "duckdb", "polars"))])
    root = scratch / "shapes" / f"{shape.name}-{hashlib.sha256(depends.encode()).hexdigest()[:10]}"
    if not (root / "complete").exists():
        print(f"{shape.name}: writing {files:,} files", flush=True)
        shutil.rmtree(root, ignore_errors=True)
        folder = root / "files"
        folder.mkdir(parents=True)
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(write_file, shape, i, rows, folder / name_of(i))
                         for i in range(files)]:
                done.result()
        if shape.writer == "spark":
            write_by_spark(shape, folder)
        (root / "complete").touch()
    return root / "files"


def name_of(number):
    return f"01955f86-{number:04x}-7000-8000-000000000000.parquet"
