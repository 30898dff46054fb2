"""Seeds for the fuzz targets. Usage: corpus.py OUT_DIR. Makes OUT_DIR/<target>/<seed>, from
tests/data/iceberg and from files that pyarrow writes; seeds of an earlier run are replaced, what
the fuzzer found stays.
"""

import base64
import datetime
import decimal
import hashlib
import json
import os
import shutil
import struct
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = os.path.join(ROOT, "tests", "data", "iceberg")
FILE_PATH_ID = 2147483546
POS_ID = 2147483545


class Corpus:
    """Seeds of one target; names count up."""

    def __init__(self, out, target):
        self.folder = os.path.join(out, target)
        self.made = 0
        os.makedirs(self.folder, exist_ok=True)

    def path(self):
        self.made += 1
        return os.path.join(self.folder, f"seed-{self.made:03d}")

    def add(self, data):
        with open(self.path(), "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    def add_sample(self, path):
        shutil.copyfile(path, self.path())


def samples(suffix):
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(SAMPLES)
                  for name in names if name.endswith(suffix))


# --- Parquet -------------------------------------------------------------------------------------

def field(number, name, kind, nullable=True):
    return pa.field(name, kind, nullable, metadata={"PARQUET:field_id": str(number)})


def wide_table(rows):
    """One column per kind of value, nested ones too."""
    def values(make):
        return [None if i % 7 == 3 else make(i) for i in range(rows)]
    start = datetime.datetime(2026, 11, 29, tzinfo=datetime.timezone.utc)
    columns = [
        ("i", pa.int64(), values(lambda i: i * 1000)),
        ("s", pa.string(), values(lambda i: "text" * (i % 3))),
        ("f", pa.float64(), values(lambda i: i / 3)),
        ("b", pa.bool_(), values(lambda i: i % 2 == 0)),
        ("d", pa.decimal128(20, 2), values(lambda i: decimal.Decimal(i) / 4)),
        ("t", pa.timestamp("us", "UTC"), values(lambda i: start + datetime.timedelta(0, i))),
        ("x", pa.binary(4), values(lambda i: struct.pack("<i", i))),
        ("l", pa.list_(pa.int32()), values(lambda i: list(range(i % 4)))),
        ("m", pa.map_(pa.string(), pa.int64()), values(lambda i: [("k", i)] * (i % 2))),
        ("r", pa.struct([("a", pa.int32()), ("z", pa.list_(pa.string()))]),
         values(lambda i: {"a": i, "z": ["y"] * (i % 3)})),
    ]
    return pa.table([pa.array(data, kind) for _, kind, data in columns],
                    pa.schema([field(n, name, kind) for n, (name, kind, _) in
                               enumerate(columns, 1)]))


def flat_tables():
    yield pa.table({"n": pa.array([], pa.int64())})
    yield pa.table({"n": pa.array(range(300), pa.int64())})
    yield pa.table({"s": pa.array(["a", None, "bc"] * 20)})
    yield pa.table({"f": pa.array([1.5, float("nan"), None], pa.float32())})
    yield pa.table({"d": pa.array([["a"], [], None, ["b", None]], pa.list_(pa.string()))})


SHAPES = (
    {"compression": "none", "use_dictionary": False},
    {"compression": "none"},
    {"compression": "none", "data_page_version": "2.0", "use_dictionary": False},
    {"compression": "snappy", "data_page_version": "2.0"},
    {"compression": "zstd", "row_group_size": 5},
    {"compression": "gzip", "use_dictionary": False},
    {"compression": "lz4", "write_page_checksum": True},
    {"compression": "none", "version": "1.0", "use_deprecated_int96_timestamps": True},
    {"compression": "none", "write_page_index": True, "data_page_size": 64},
)
ENCODINGS = (
    ("n", pa.int64(), range(100), "DELTA_BINARY_PACKED"),
    ("n", pa.int32(), range(100), "BYTE_STREAM_SPLIT"),
    ("s", pa.string(), ["abc", "abd", "x" * 40] * 9, "DELTA_BYTE_ARRAY"),
    ("s", pa.string(), ["abc", "", "x" * 40] * 9, "DELTA_LENGTH_BYTE_ARRAY"),
    ("f", pa.float64(), [0.5 * i for i in range(50)], "BYTE_STREAM_SPLIT"),
    ("b", pa.bool_(), [True, False, True] * 30, "RLE"),
)


def footer_seeds(out):
    corpus = Corpus(out, "footer_fuzz")
    for shape in SHAPES:
        pq.write_table(wide_table(20), corpus.path(), **shape)
    for table in flat_tables():
        for shape in SHAPES[:3]:
            pq.write_table(table, corpus.path(), store_schema=False, **shape)
    for name, kind, values, encoding in ENCODINGS:
        for version in ("1.0", "2.0"):
            pq.write_table(pa.table({name: pa.array(values, kind)}), corpus.path(),
                           compression="none", use_dictionary=False, store_schema=False,
                           column_encoding={name: encoding}, data_page_version=version)
    # As lithify marks its outputs; pyarrow's name has the same length.
    marked = pa.table({"n": pa.array([1], pa.int64())}).replace_schema_metadata(
        {"lithify.format": "1", "lithify.job_id": "j", "lithify.partition": "p/",
         "lithify.inputs": '["a.parquet"]',
         "lithify.digest": json.dumps({"rows": 1, "row": "0" * 32, "columns": {"n": "0" * 32}})})
    path = corpus.path()
    pq.write_table(marked, path, store_schema=False)
    with open(path, "rb") as file:
        data = file.read()
    name = f"parquet-cpp-arrow version {pa.__version__}".encode()
    with open(path, "wb") as file:
        file.write(data.replace(name, b"lithify version 0.1.0".ljust(len(name))))


def stored_footer_seeds(out):
    """Footers of what footer_seeds() wrote."""
    corpus = Corpus(out, "file_footer_fuzz")
    folder = os.path.join(out, "footer_fuzz")
    for name in sorted(os.listdir(folder)):
        if not name.startswith("seed-"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        length = struct.unpack("<I", data[-8:-4])[0]
        corpus.add(data[-8 - length:-8])


def delete_seeds(out):
    corpus = Corpus(out, "delete_scan_fuzz")
    positions = pa.schema([field(FILE_PATH_ID, "file_path", pa.string(), False),
                           field(POS_ID, "pos", pa.int64(), False)])
    paths = ["file:///t/a.parquet"] * 30 + ["file:///t/b.parquet"] * 20
    for shape in SHAPES[:6]:
        table = pa.table([pa.array(paths), pa.array(range(50), pa.int64())], positions)
        pq.write_table(table, corpus.path(), store_schema=False, **shape)
    start = datetime.datetime(2026, 11, 29, tzinfo=datetime.timezone.utc)
    kinds = [
        (pa.int64(), 7), (pa.string(), "x"), (pa.decimal128(20, 2), decimal.Decimal("1.50")),
        (pa.float64(), float("nan")), (pa.bool_(), True), (pa.date32(), start.date()),
        (pa.timestamp("us", "UTC"), start), (pa.binary(4), b"abcd"), (pa.int32(), -1),
    ]
    for shape in SHAPES[:8]:
        for chosen in (range(1), range(2), range(len(kinds))):
            schema = pa.schema([field(n + 1, f"c{n + 1}", kinds[n][0]) for n in chosen])
            table = pa.table([pa.array([kinds[n][1], None] * 9, kinds[n][0]) for n in chosen],
                             schema)
            pq.write_table(table, corpus.path(), store_schema=False, **shape)


def chunk_of(path):
    """(values, bytes) of the first column chunk of a file."""
    with pq.ParquetFile(path) as file:
        chunk = file.metadata.row_group(0).column(0)
    start = chunk.data_page_offset
    if chunk.has_dictionary_page:
        start = min(start, chunk.dictionary_page_offset)
    with open(path, "rb") as file:
        file.seek(start)
        return chunk.num_values, file.read(chunk.total_compressed_size)


def page_seeds(out):
    """The first byte says what follows, the second how much of it; of a chunk also its levels."""
    corpus = Corpus(out, "page_fuzz")
    scratch = os.path.join(out, "page_fuzz.parquet")
    # 100 values: levels up to 1, none repeated; 94: up to 1 and 1; 95: up to 2 and 1.
    columns = (
        pa.array([None if i % 9 == 4 else i // 20 for i in range(100)], pa.int64()),
        pa.array([None if i % 9 == 4 else i * i for i in range(100)], pa.int64()),
        pa.array([f"text {i % 13}" for i in range(100)]),
        pa.array([[i, i + 1] for i in range(47)], pa.list_(pa.field("e", pa.int64(), False))),
        pa.array([[i, None, 3, 4, 5] for i in range(19)], pa.list_(pa.int64())),
    )
    for column in columns:
        nested = pa.types.is_list(column.type)
        schema = pa.schema([pa.field("c", column.type, not nested)])
        for version in ("1.0", "2.0"):
            for dictionary in (True, False):
                pq.write_table(pa.table([column], schema), scratch, compression="none",
                               use_dictionary=dictionary, data_page_version=version,
                               write_page_checksum=True, data_page_size=64, write_batch_size=20)
                values, data = chunk_of(scratch)
                corpus.add(bytes((1, values)) + data)
                corpus.add(bytes((0, 0)) + data[:200])
    os.remove(scratch)
    corpus.add(bytes((2, 3, 3)) + b"\x03\x88\xc6\xfa" + b"\x50\x05")
    corpus.add(bytes((2, 8, 12)) + b"\x21" + bytes(range(192)))
    corpus.add(bytes((3, 3)) + b"abcabcdef")
    corpus.add(bytes((3, 18)) + b"\2\0\0\0ab\0\0\0\0\1\0\0\0c" * 6)


def splice_seeds(out):
    """A form, options, and changes: a place of two bytes and the byte that is put there."""
    corpus = Corpus(out, "splice_fuzz")
    for form in range(128):
        corpus.add(bytes((form, form % 7)))
        corpus.add(bytes((form, form % 7)) + bytes((0, form, 1)) + bytes((0, 2 * form, 0xFF)))
    for form in (0, 1, 5, 13, 33, 45):
        for place in range(0, 160, 8):
            corpus.add(bytes((form, 0, 0, place, 0x80)))


# --- Puffin --------------------------------------------------------------------------------------

def container(values):
    """(cardinality, bytes) of one container with these 16-bit values."""
    if len(values) <= 4096:
        return struct.pack(f"<{len(values)}H", *values)
    bits = bytearray(8192)
    for value in values:
        bits[value // 8] |= 1 << value % 8
    return bytes(bits)


def roaring(containers):
    """32-bit portable format without runs: {high half: sorted low halves}."""
    out = struct.pack("<II", 12346, len(containers))
    body = b""
    offsets = []
    start = len(out) + 8 * len(containers)
    for key, values in containers.items():
        out += struct.pack("<HH", key, len(values) - 1)
        offsets.append(start + len(body))
        body += container(values)
    return out + struct.pack(f"<{len(offsets)}I", *offsets) + body


def roaring_runs(runs):
    """One container of runs (first, length - 1)."""
    count = sum(length + 1 for _, length in runs)
    out = struct.pack("<I", 12347) + b"\1" + struct.pack("<HHH", 0, count - 1, len(runs))
    return out + b"".join(struct.pack("<HH", *run) for run in runs)


def bitmap(maps):
    out = struct.pack("<Q", len(maps))
    for key, data in maps.items():
        out += struct.pack("<I", key) + data
    return out


def vector(data):
    body = b"\xd1\xd3\x39\x64" + data
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(blobs, flags=0):
    out = b"PFA1"
    entries = []
    for blob in blobs:
        entries.append({"type": "deletion-vector-v1", "fields": [POS_ID], "snapshot-id": -1,
                        "sequence-number": -1, "offset": len(out), "length": len(blob),
                        "properties": {"referenced-data-file": "file:///t/a.parquet",
                                       "cardinality": "3"}})
        out += blob
    payload = json.dumps({"blobs": entries, "properties": {"created-by": "x"}}).encode()
    return out + b"PFA1" + payload + struct.pack("<II", len(payload), flags) + b"PFA1"


def puffin_seeds(out):
    corpus = Corpus(out, "puffin_fuzz")
    maps = [
        bitmap({}),
        bitmap({0: roaring({0: [1, 5, 9]})}),
        bitmap({0: roaring({0: [0], 3: [7, 65535]}), 1: roaring({65535: [65535]})}),
        bitmap({0: roaring({0: list(range(0, 10000, 2))})}),
        bitmap({0: roaring_runs([(0, 99), (200, 0)])}),
        bitmap({0: roaring_runs([(0, 65535)]), 0x7fffffff: roaring({65535: [65535]})}),
    ]
    for data in maps:
        corpus.add(data)
        corpus.add(vector(data))
    corpus.add(puffin([vector(maps[1]), vector(maps[4])]))
    corpus.add(puffin([]))
    corpus.add(puffin([vector(maps[1])], flags=1))


# --- text ----------------------------------------------------------------------------------------

def avro_seeds(out):
    corpus = Corpus(out, "avro_fuzz")
    for path in samples(".avro"):
        corpus.add_sample(path)
    corpus.add(json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": ["null", "long"], "field-id": 1},
        {"name": "b", "type": {"type": "array", "items": "string", "element-id": 3}},
        {"name": "c", "type": {"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}},
        {"name": "d", "type": {"type": "map", "values": "f"}},
        {"name": "e", "type": {"type": "enum", "name": "g", "symbols": ["A"]}}]}))


def metadata_seeds(out):
    corpus = Corpus(out, "metadata_fuzz")
    for path in samples(".metadata.json"):
        corpus.add_sample(path)
    with open(samples("v2_rows.metadata.json")[0], "rb") as file:
        corpus.add(zlib.compress(file.read(), wbits=31))
    corpus.add('[{"field-id":1,"names":["id","record_id"]},'
               '{"field-id":3,"names":["l"],"fields":[{"field-id":4,"names":["lat"]}]}]')
    corpus.add('{"a":' * 3000 + "[" * 3000)


def hive_seeds(out):
    corpus = Corpus(out, "hive_manifest_fuzz")
    corpus.add('{"generation":1,"files":[]}')
    corpus.add('{ "files" : ["x.parquet"], "generation" : 18446744073709551615 }')
    corpus.add(json.dumps({
        "generation": 7, "files": ["a.parquet", "b.parquet"],
        "lithify": {"version": 1, "job_id": "job-1", "retired": [
            {"file": "c.parquet", "at": "2026-11-29T08:00:00.000001Z", "reason": "superseded",
             "job_id": "job-1"},
            {"file": "d.parquet", "at": "2026-11-29T09:00:00.000000Z", "reason": "fenced",
             "job_id": "job-0"},
            {"file": "e.parquet", "at": "2026-11-29T10:00:00.000000Z", "reason": "foreign",
             "job_id": ""}]}, "note": {"x": [1, 2.50, None, True, "\u00e4\\"]}}))
    corpus.add('{"generation":1,"files":[],"x":' + "[" * 5000 + "]" * 5000 + "}")
    for text in ("data/tenant_id=a%2Fb/year=2026/month=11/day=29/hour=07/",
                 "audit/tenant_id=a/year=2026/month=11/day=29/", "date=2026-11-29/region=eu/",
                 "a%20b%C3%A4", "s3://bucket/t/data/x.parquet", "s3a://bucket//t/./x",
                 "file:///lake/t/data", "/lake/t"):
        corpus.add(text)


FILTERS = (
    "day >= DATE '2026-11-29' AND (region IN ('eu', 'us') OR NOT price < 12.50)",
    "id BETWEEN -5 AND 9223372036854775807", "region LIKE 'eu%'", "region NOT LIKE 'a\\%b%'",
    "score IS NOT NULL OR ratio IS NULL", "ts > TIMESTAMP '2026-11-29T10:00:00.000001+00:00'",
    "key = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", "blob = X'00ff' OR code <> X'010203'",
    "at < TIME '10:11:12.5' AND ok = TRUE", "`id` != 5 AND \"region\" = 'it''s'",
    "score = 1e308 OR score < -0.0", "n IN (1,2,3)", "ns >= '2026-11-29T10:00:00.123456789'",
    "(" * 3000 + "id=1", "NOT " * 3000 + "id=1", "id=1" + " OR id=2" * 2000,
)


def filter_seeds(out):
    corpus = Corpus(out, "filter_fuzz")
    values = b"\x64" + b"\2eu" + b"\4\x01\0\0\0" + b"\4\x07\0\0\0" + b"\2eu" + b"\2\x01\xf4"
    bounds = b"".join(b"\x1f" + b"\x08" + bytes(8) + b"\x08" + b"\xff" * 7 + b"\x7f" + b"\1\2\0"
                      for _ in range(14))
    for text in FILTERS:
        corpus.add(text.encode() + b"\0" + values + bounds + b"\3\x1f\2eu\2us\x01\x18\4\1\0\0\0")
        corpus.add(text)


STATEMENTS = (
    "SELECT ';' -- ;\n, $x$;$x$, E'\\';', \"a;b\" /* /* ; */ */ FROM lake.sales.orders;",
    "WITH x AS (SELECT 1) FROM x", "EXPLAIN (FORMAT json) SELECT 1", "((VALUES (1, [2], {'a': 3}",
    "CALL lake.system.rewrite_data_files(table => 'sales.orders', target_file_size_bytes => "
    "'64MiB', min_input_files => 2, delete_ratio_threshold => 0.25, where => 'day = ''x''', "
    "options => map('partial-progress.enabled', 'true', 'rewrite-job-order', 'bytes-asc'))",
    "EXPLAIN CALL system.expire_snapshots(table => 'a.\"b.c\".t', older_than => TIMESTAMP "
    "'2026-11-01 10:20:30.5+02:00', retain_last => 5, snapshot_ids => ARRAY(1, -2))",
    "call remove_orphan_files(older_than => now() - INTERVAL '5' DAY, table => `t`, force => TRUE)",
    "CALL system.p(a => [1, 1.5, 1e3, 9999999999999999999, DATE '2026-11-01', INTERVAL 1 DAY 2 "
    "HOURS, MAP {'k': NULL}])", "CALL system.table_health('ns', 't')",
    "ALTER TABLE a.`b c` SET TBLPROPERTIES ('k' = 'v', write.x = -5, 'b' = TRUE)",
    "ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a', b.c)", "SHOW TABLES IN a.b LIKE 'o%\\_'",
    "SHOW NAMESPACES FROM a", "SHOW TBLPROPERTIES a.t ('k')", "SHOW SNAPSHOTS IN a.t",
    "SHOW JOBS;;", "DESCRIBE TABLE a.t", "CANCEL JOB '0199'", "a.\"b.c\".d", "a%b%caXbXc",
    "2026-11-01T10:20:30.123456789-05:30", "CALL p(" + "a => [" * 3000, "SELECT " + "(" * 3000,
)


def statement_seeds(out):
    corpus = Corpus(out, "sql_fuzz")
    for text in STATEMENTS:
        corpus.add(text)


def token_seeds(out):
    corpus = Corpus(out, "jwt_fuzz")
    claims = {"iss": "https://id.example/realms/a", "aud": ["account", "lake"], "sub": "u-1",
              "preferred_username": "alice", "email": "alice@example.org", "iat": 1799999990,
              "nbf": 0, "realm_access": {"roles": ["analyst", "steward"]},
              "a": {"b.c": "one two"}, "exp": 1800000300}
    header = {"alg": "EdDSA", "kid": "k", "typ": "JWT", "crit": ["b64"]}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
             for part in (header, claims)]
    corpus.add(b"\0" + b".".join([*parts, b"AAAA"]))
    corpus.add(b"\1" + json.dumps(claims).encode())
    del header["crit"]
    for algorithm, key, size in (("EdDSA", "k", 64), ("RS256", "r", 256), ("ES256", "e", 64),
                                 ("PS512", "r", 256)):
        header.update(alg=algorithm, kid=key)
        corpus.add(b"\2" + b"\0".join([json.dumps(header).encode(), json.dumps(claims).encode(),
                                        b"s" * size]))
    keys = [{"kty": "RSA", "kid": "r", "alg": "RS256", "use": "sig", "e": "AQAB", "n": "u" * 342},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": "A" * 43, "y": "A" * 43},
            {"kty": "OKP", "kid": "k", "crv": "Ed25519", "x": "A" * 43, "key_ops": ["verify"]},
            {"kty": "oct", "k": "c2VjcmV0"}]
    corpus.add(b"\3" + json.dumps({"keys": keys}).encode())


AUDIT_LINES = (
    '{"time":"2026-11-30T00:53:20.123463Z","kind":"maintenance","statement_type":"hive_compact",'
    '"phase":"intent","job_id":"j","actor":{"username":"me"},"status":"success","series":"data",'
    '"tenant":"a","partition":"p/","inputs":["x"],"outputs":[],"rows":7,"bytes_in":1,'
    '"bytes_out":1,"generation":1',
    '{"time":"2026-11-30T00:53:20.123463Z","kind":"query","statement_type":"select","actor":'
    '{"username":"me","subject":"s","roles":["r"]},"status":"failure","error":"denied: no",'
    '"session_id":"s","client_ip":"::1","query":{"text":"SELECT 1","query_hash":"ab"},"timing":'
    '{"duration_ms":1},"resources":[{"catalog":"c","namespace":["n"],"name":"t","object_type":'
    '"table"}]',
)
SECRETS = (
    "Authorization: Bearer abc.DEF-1", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig",
    "'s3.secret-access-key' = 'a''b'", "{\"token\":\"a\\\"b\"}", "https://me:pw@host/x?sig=1",
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", "jane.doe+x@example.org",
    "4111 1111 1111 1111", "AKIAIOSFODNN7EXAMPLE", "SECRET 'x'",
)


def audit_seeds(out):
    corpus = Corpus(out, "audit_fuzz")
    before = "0" * 64
    chain = ""
    for seq, event in enumerate(AUDIT_LINES):
        line = f'{event},"integrity":{{"seq":{seq},"prev_hash":"{before}","hash":""}}}}'
        before_hash = hashlib.sha256((before + line).encode()).hexdigest()
        line = line[:-3] + before_hash + line[-3:]
        before = before_hash
        corpus.add(line)
        chain += line + "\n"
    corpus.add(chain + '{"torn #torn\n')
    corpus.add('{"seq":7,"hash":"ab","time":"2026-11-30T00:53:20.123463Z","key_id":"cd",'
               '"signature":"ef"}')
    for text in SECRETS:
        corpus.add(text)
        corpus.add(b"\1me\nselect\n\n" + text.encode() + b"\n" + text.encode())


# --- the fleet -----------------------------------------------------------------------------------

def fleet_seeds(out):
    """Orders and answers; those with manifests in them are among the regressions."""
    corpus = Corpus(out, "fleet_fuzz")
    loan = {"prefix": "s3://lake", "endpoint": "", "region": "r", "addressing": "path",
            "access_key": "id", "secret_key": "key", "session_token": "", "expires_at_us": 1}
    order = {"protocol": 1, "job_id": "j", "group_id": 0, "attempt": "a", "table_ident": "n.t",
             "metadata_location": "s3://lake/t/metadata/1.metadata.json", "snapshot_id": 1,
             "group_file_paths": ["s3://lake/t/data/a.parquet"], "outputs": 1,
             "target_file_size_bytes": 2, "min_file_size_bytes": 1, "max_file_size_bytes": 2,
             "max_output_partitions": 1, "verify": "full", "memory_bytes": 1, "s3": [loan],
             "output_spec_id": 1}
    corpus.add(b"\0" + json.dumps(order).encode())
    corpus.add(b"\1" + json.dumps({"protocol": 1, "attempt": "a", "s3": [loan]}).encode())
    for frame in ({"frame": "accepted"},
                  {"frame": "progress", "group_id": 1, "bytes_read": 2, "moved": True},
                  {"frame": "failed", "transport": False, "code": "conflict", "message": "m",
                   "context": "c", "hint": "h"}):
        corpus.add(b"\2" + json.dumps(frame).encode())


def main(out):
    if os.path.isdir(out):
        for folder, _, names in os.walk(out):
            for name in names:
                if name.startswith("seed-"):
                    os.remove(os.path.join(folder, name))
    for make in (audit_seeds, avro_seeds, delete_seeds, filter_seeds, fleet_seeds, footer_seeds,
                 stored_footer_seeds, hive_seeds, metadata_seeds, page_seeds, puffin_seeds,
                 splice_seeds, statement_seeds, token_seeds):
        make(out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
