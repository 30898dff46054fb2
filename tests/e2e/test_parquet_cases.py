"""Parquet shapes that have broken other tools. The names P4, P5, … are those of the cases that the
project collects from public bug reports; each fixture comes from pyarrow or DuckDB."""

import base64
import datetime
import decimal
import json
import math
import struct
import uuid

import cli
import judge
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
import tree as trees
from tree import HOUR, minimal_table

OTHER_HOUR = HOUR + datetime.timedelta(hours=1)


def compact_to_one(tree, lithify, *args):
    """Compacts with full verification and proves the rows; returns the one output, open."""
    before = trees.live(tree.partition())
    lithify("compact", "--verify", "full", *args)
    after = trees.live(tree.partition())
    assert len(after) == 1 and after[0] not in before
    judge.assert_same_rows(before, after, polars=False)  # Inputs are still there: grace.
    return pq.ParquetFile(after[0])


def assert_refused(tree, lithify, *words):
    """The partition stays as it is and the report says why; the next partition is compacted."""
    tree.fill(files=5, rows=10, hour=OTHER_HOUR)
    before = trees.contents(tree.partition())
    result = lithify("compact", code=None)
    assert result.code in (cli.OK, cli.PARTITION_FAILED), result.text
    assert "hour=05" in result.text, result.text
    after = trees.contents(tree.partition())
    manifest = after.pop("manifest.json", None)
    assert after == before
    if manifest is not None:
        assert sorted(trees.read_manifest(tree.partition())["files"]) == sorted(before)
    assert len(trees.live(tree.partition(hour=OTHER_HOUR))) == 1
    for text in (result.text, lithify("compact", "--json", code=None).text):
        for word in words:
            assert word.lower() in text.lower(), text
    return result


def write_each(tree, *tables, **options):
    return [tree.write(table, **options) for table in tables]


def columns_of(file):
    return {file.schema.column(i).path: file.schema.column(i) for i in range(len(file.schema))}


def test_p4_union_of_columns_by_name(tree, lithify):
    """A column that some files lack, and another order of columns."""
    a = minimal_table("acme", HOUR, x=pa.array([1, 2]), c=pa.array(["p", "q"]))
    b = minimal_table("acme", HOUR, x=pa.array([3, 4]))
    c = minimal_table("acme", HOUR, c=pa.array(["r"]), x=pa.array([5])).select(
        ["c", "x", "time_unix_nano", "tenant_id"])
    write_each(tree, a, b, c, a, b)
    file = compact_to_one(tree, lithify)
    rows = judge.pyarrow_rows([trees.live(tree.partition())[0]], ["x", "c"])
    assert rows == {(1, "p"): 2, (2, "q"): 2, (3, None): 2, (4, None): 2, (5, "r"): 1}
    assert file.metadata.num_rows == 9


def test_p4_safe_widening(tree, lithify):
    """int32 with int64 becomes int64, float with double becomes double: no value changes."""
    small = minimal_table("acme", HOUR, n=pa.array([-1, 2**31 - 1], pa.int32()),
                          f=pa.array([0.5, float("inf")], pa.float32()))
    large = minimal_table("acme", HOUR, n=pa.array([2**40, None], pa.int64()),
                          f=pa.array([1e300, None], pa.float64()))
    write_each(tree, small, large, small, large, small)
    lithify("compact", "--verify", "full")
    file = pq.ParquetFile(trees.live(tree.partition())[0])
    assert file.schema_arrow.field("n").type == pa.int64()
    assert file.schema_arrow.field("f").type == pa.float64()
    rows = judge.pyarrow_rows([trees.live(tree.partition())[0]], ["n", "f"])
    one = ("float", 0.5, 1.0), ("float", math.inf, 1.0), ("float", 1e300, 1.0)
    assert rows == {(-1, one[0]): 3, (2**31 - 1, one[1]): 3, (2**40, one[2]): 2, (None, None): 2}


@pytest.mark.parametrize("left, right", [
    (pa.array([1], pa.int64()), pa.array(["1"])),
    (pa.array([1], pa.int64()), pa.array([1.0], pa.float64())),
    (pa.array([1], pa.int64()), pa.array([1], pa.uint64())),
    (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
    (pa.array([decimal.Decimal("1.0")]), pa.array([decimal.Decimal("1.00")])),
], ids=["int-text", "int-double", "int-uint", "local-utc", "scale"])
def test_p4_unsafe_type_changes_are_refused(tree, lithify, left, right):
    """R227: nothing is guessed; the column is named."""
    a = minimal_table("acme", HOUR, odd=left)
    b = minimal_table("acme", HOUR, odd=right)
    write_each(tree, a, b, a, b, a)
    assert_refused(tree, lithify, "odd")


def test_p4_timestamps_and_decimals_widen(tree, lithify):
    """The finer unit and the greater precision win; values stay what they are."""
    coarse = minimal_table("acme", HOUR, t=pa.array([1, -1, None], pa.timestamp("us")),
                           d=pa.array([decimal.Decimal("1.25")] * 3, pa.decimal128(9, 2)))
    fine = minimal_table("acme", HOUR, t=pa.array([1, 1000, None], pa.timestamp("ns")),
                         d=pa.array([decimal.Decimal("-1.25")] * 3, pa.decimal128(18, 2)))
    write_each(tree, coarse, fine, coarse, fine, coarse)
    lithify("compact", "--verify", "full")
    table = pq.ParquetFile(trees.live(tree.partition())[0]).read()
    assert table.schema.field("t").type == pa.timestamp("ns")
    assert table.schema.field("d").type == pa.decimal128(18, 2)
    nanos = table.column("t").cast(pa.int64()).to_pylist()
    assert sorted(nanos, key=str) == sorted([1000, -1000, None] * 3 + [1, 1000, None] * 2, key=str)
    assert sorted(table.column("d").to_pylist()) == \
        [decimal.Decimal("-1.25")] * 6 + [decimal.Decimal("1.25")] * 9


def test_p4_widening_that_would_overflow_is_refused(tree, lithify):
    far = minimal_table("acme", HOUR, t=pa.array([2**62], pa.timestamp("us")))
    fine = minimal_table("acme", HOUR, t=pa.array([1], pa.timestamp("ns")))
    write_each(tree, far, fine, far, fine, far)
    assert_refused(tree, lithify, "t")


def test_p5_null_type_column(tree, lithify):
    """All null and typeless in one file, text in another: text in the output."""
    typeless = minimal_table("acme", HOUR, c=pa.nulls(3))
    text = minimal_table("acme", HOUR, c=pa.array(["a", None]))
    write_each(tree, typeless, text, typeless, text, typeless)
    lithify("compact", "--verify", "full")
    file = pq.ParquetFile(trees.live(tree.partition())[0])
    assert file.schema_arrow.field("c").type == pa.string()
    assert judge.pyarrow_rows([trees.live(tree.partition())[0]], ["c"]) == \
        {(None,): 11, ("a",): 2}


def required(table, *names):
    fields = [field.with_nullable(False) if field.name in names else field
              for field in table.schema]
    return table.cast(pa.schema(fields))


def test_p6_required_only_if_every_input_says_so(tree, lithify):
    table = minimal_table("acme", HOUR, always=pa.array([1, 2]), sometimes=pa.array([3, 4]))
    strict = required(table, "always", "sometimes", "tenant_id")
    lacking = required(minimal_table("acme", HOUR, always=pa.array([5])), "always", "tenant_id")
    write_each(tree, strict, lacking, strict, lacking, strict)
    file = compact_to_one(tree, lithify)
    assert columns_of(file)["always"].max_definition_level == 0
    assert columns_of(file)["tenant_id"].max_definition_level == 0
    assert columns_of(file)["sometimes"].max_definition_level == 1


def test_p8_names_that_differ_only_in_case_are_refused(tree, lithify):
    """Some readers would take them for one; never merged in silence."""
    a = minimal_table("acme", HOUR, a=pa.array([1]))
    b = minimal_table("acme", HOUR, A=pa.array([2]))
    write_each(tree, a, b, a, b, a)
    assert_refused(tree, lithify, "a and A")


def test_p8_duplicate_names_are_refused(tree, lithify):
    table = minimal_table("acme", HOUR, a=pa.array([1]))
    twice = table.append_column("a", pa.array([2]))
    write_each(tree, table, twice, table, table, table)
    assert_refused(tree, lithify, "two columns have the name a")


def test_p9_key_value_metadata(tree, lithify):
    """Equal entries stay, differing ones go and are reported, ARROW:schema is made anew."""
    table = minimal_table("acme", HOUR, x=pa.array([1]))
    for i in range(5):
        tree.write(table.replace_schema_metadata({"same": "yes", "differs": str(i % 2)}))
    before = trees.live(tree.partition())
    report = lithify("compact", "--json")
    file = pq.ParquetFile(trees.live(tree.partition())[0])
    metadata = file.metadata.metadata
    assert metadata[b"same"] == b"yes"
    assert b"differs" not in metadata
    assert "differs" in report.text
    judge.assert_same_rows(before, trees.live(tree.partition()))
    assert [key for key in metadata if key == b"ARROW:schema"] in ([], [b"ARROW:schema"])
    assert file.schema_arrow.names == table.column_names


def test_p10_lz4_raw_is_read(tree, lithify):
    table = minimal_table("acme", HOUR, x=pa.array(list(range(1000))))
    write_each(tree, *[table] * 5, compression="lz4")
    file = compact_to_one(tree, lithify)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_p11_brotli_is_read_or_refused_with_a_reason(tree, lithify):
    table = minimal_table("acme", HOUR, x=pa.array(list(range(1000))))
    write_each(tree, *[table] * 5, compression="brotli")
    before = trees.live(tree.partition())
    result = lithify("compact", code=None)
    after = trees.live(tree.partition())
    if after == before:
        assert "BROTLI" in result.text.upper()
    else:
        judge.assert_same_rows(before, after)
        assert pq.ParquetFile(after[0]).metadata.row_group(0).column(0).compression == "ZSTD"


def relabel_codec(path, column, codec):
    """Overwrites the codec of one column in the footer (Thrift compact: path_in_schema, a list of
    one text, then the codec as a zigzag varint)."""
    data = bytearray(path.read_bytes())
    mark = b"\x19\x18" + bytes([len(column)]) + column.encode() + b"\x15"
    at = data.rindex(mark) + len(mark)
    data[at] = codec * 2
    path.write_bytes(data)


@pytest.mark.parametrize("codec, name", [(3, "LZO"), (57, "codec")])
def test_p11_unknown_codec_is_refused(tree, lithify, codec, name):
    """LZO, and a number that no version of the format knows."""
    paths = tree.fill(files=5, rows=20)
    relabel_codec(paths[2], "row", codec)
    assert_refused(tree, lithify, paths[2].name, name)


def test_p12_int96_is_kept_verbatim(tree, lithify):
    """Years 1 and 9999, before 1970, nanoseconds: the twelve bytes stay what they were."""
    moments = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
               datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None]
    wide = minimal_table("acme", HOUR, t=pa.array(moments, pa.timestamp("us")))
    nano = minimal_table("acme", HOUR, t=pa.array([-1, 1, 1234567890123456789, None],
                                                  pa.timestamp("ns")))
    before = write_each(tree, wide, nano, wide, nano, wide, use_deprecated_int96_timestamps=True,
                        use_dictionary=False, compression="none")
    lithify("compact", "--verify", "full")
    after = trees.live(tree.partition())
    file = pq.ParquetFile(after[0])
    assert columns_of(file)["t"].physical_type == "INT96"

    def values(paths, unit):
        return sorted(value for path in paths for value in
                      pq.ParquetFile(path, coerce_int96_timestamp_unit=unit).read()
                      .column("t").cast(pa.int64()).drop_null().to_pylist())

    assert values(after, "us") == values(before, "us")
    assert min(values(after, "us")) == -62135596800 * 10**6
    # In nanoseconds the years 1 and 9999 wrap, in the same way on both sides.
    assert values(after, "ns") == values(before, "ns")
    assert {-1, 1, 1234567890123456789} <= set(values(after, "ns"))


def test_p14_dictionaries_that_overflow(tree, lithify):
    """Unique megabyte texts and 100,000 distinct keys: no dictionary holds them."""
    for i in range(5):
        texts = [f"{i}.{j}." + "x" * 2**20 for j in range(4)]
        keys = [f"k{i}.{j}" for j in range(4)]
        tree.write(minimal_table("acme", HOUR, text=pa.array(texts),
                                 k=pa.array(keys).dictionary_encode()))
    compact_to_one(tree, lithify, "--memory", "256MiB")
    for i in range(5):
        keys = pa.array([f"{i}/{j}" for j in range(20000)])
        tree.write(minimal_table("acme", OTHER_HOUR, k=keys.dictionary_encode()), hour=OTHER_HOUR)
    before = trees.live(tree.partition(hour=OTHER_HOUR))
    lithify("compact")
    judge.assert_same_rows(before, trees.live(tree.partition(hour=OTHER_HOUR)))


def test_p16_row_groups_are_bounded_by_bytes_and_rows(tree, lithify):
    vector = [float(i) for i in range(1536)]
    table = minimal_table("acme", HOUR, v=pa.array([[x + i for x in vector] for i in range(100)],
                                                   pa.list_(pa.float32())))
    write_each(tree, *[table] * 6, use_dictionary=False)
    file = compact_to_one(tree, lithify, "--set", "output.row_group_bytes=1MiB")
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    assert len(groups) >= 3
    assert max(group.total_byte_size for group in groups) <= 1.5 * 2**20

    rows = minimal_table("acme", OTHER_HOUR, x=pa.array(list(range(500))))
    for _ in range(6):
        tree.write(rows, hour=OTHER_HOUR)
    lithify("compact", "--set", "output.row_group_rows=700")
    metadata = pq.ParquetFile(trees.live(tree.partition(hour=OTHER_HOUR))[0]).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(sizes) == 3000 and max(sizes) <= 700


def odd_values_table(seed):
    """Columns whose statistics are easy to get wrong."""
    count = 50
    doubles = [(-1.0) ** i * i for i in range(count - 2)] + [float("nan"), -0.0]
    return minimal_table(
        "acme", HOUR,
        number=pa.array([seed * 1000 + i for i in range(count)], pa.int64()),
        unsigned=pa.array([2**64 - 1 - i if i % 2 else i for i in range(count)], pa.uint64()),
        small_unsigned=pa.array([255 - i for i in range(count)], pa.uint8()),
        double=pa.array(doubles, pa.float64()),
        zero=pa.array([0.0] * count, pa.float64()),
        nothing=pa.array([None] * count, pa.string()),
        part=pa.array([None if i % 3 else f"s{i}" for i in range(count)], pa.string()),
        long=pa.array([chr(97 + i % 26) * 5000 for i in range(count)], pa.string()),
        money=pa.array([decimal.Decimal(i - 25).scaleb(-2) for i in range(count)],
                       pa.decimal128(20, 2)),
        truth=pa.array([bool(i % 2) for i in range(count)]),
        day=pa.array([i - 25 for i in range(count)], pa.int32()).cast(pa.date32()))


def test_p17_statistics_are_true(tree, lithify):
    """Whatever a chunk claims must hold: bounds bound, counts count; a NaN is no bound, and a zero
    bound is -0.0 below and +0.0 above."""
    write_each(tree, *[odd_values_table(i) for i in range(6)], row_group_size=20)
    file = compact_to_one(tree, lithify, "--set", "output.row_group_rows=120")
    assert file.metadata.num_row_groups == 3
    counted = 0
    for g in range(file.metadata.num_row_groups):
        data = file.read_row_group(g)
        for c in range(file.metadata.num_columns):
            chunk = file.metadata.row_group(g).column(c)
            stats = chunk.statistics
            if stats is None:
                continue
            values = data.column(chunk.path_in_schema)
            if stats.has_null_count:
                assert stats.null_count == values.null_count, chunk.path_in_schema
            if not stats.has_min_max:
                continue
            known = [v for v in values.to_pylist() if v is not None and v == v]
            low, high = stats.min, stats.max
            counted += 1
            if isinstance(low, float):
                assert low == low and high == high
                if low == 0:
                    assert math.copysign(1, low) == -1
                if high == 0:
                    assert math.copysign(1, high) == 1
            if chunk.path_in_schema == "long":
                low, high = (x if isinstance(x, str) else x.decode() for x in (low, high))
                assert low <= min(known) and max(known) <= high
            else:
                assert (low, high) == (min(known), max(known)), chunk.path_in_schema
            assert known, chunk.path_in_schema
    assert counted >= 3 * 9
    names = {file.metadata.row_group(0).column(c).path_in_schema: c
             for c in range(file.metadata.num_columns)}
    nothing = file.metadata.row_group(0).column(names["nothing"]).statistics
    assert nothing is None or not nothing.has_min_max


def test_p17_predicates_find_every_row(tree, lithify):
    """The same through an engine that prunes by statistics and page indexes."""
    import duckdb
    tables = [odd_values_table(i) for i in range(6)]
    before = write_each(tree, *tables)
    file = compact_to_one(tree, lithify, "--set", "output.row_group_rows=110")
    after = trees.live(tree.partition())
    assert file.metadata.num_rows == 300
    with duckdb.connect() as db:
        for predicate in ("number = 3007", "unsigned > 18446744073709551600", "double >= -0.0",
                          "zero = 0", "nothing IS NULL", "part = 's21'", "long > 'y'",
                          "money = -0.25", "truth", "day < DATE '1969-12-20'",
                          "small_unsigned = 255"):
            counts = [db.execute(f"SELECT count(*) FROM {judge.duckdb_scan(paths)} "
                                 f"WHERE {predicate}").fetchone()[0] for paths in (before, after)]
            assert counts[0] == counts[1] > 0, predicate


def test_p19_bloom_filters_are_rebuilt(tree, lithify):
    """A column that has a filter in an input has one in the output, and it tells the truth."""
    import duckdb
    for i in range(5):
        ids = pa.array([f"id-{i}-{j}" for j in range(500)])
        tree.write(minimal_table("acme", HOUR, some_id=ids, x=pa.array(list(range(500)))),
                   use_dictionary=False, bloom_filter_options={"some_id": {"ndv": 500}})
    file = compact_to_one(tree, lithify)
    group = file.metadata.row_group(0)
    chunk = {group.column(c).path_in_schema: group.column(c) for c in range(group.num_columns)}
    assert chunk["some_id"].bloom_filter_offset is not None
    assert chunk["x"].bloom_filter_offset is None
    path = trees.live(tree.partition())[0]
    with duckdb.connect() as db:
        def excluded(value):
            return db.execute(f"SELECT bool_and(bloom_filter_excludes) FROM "
                              f"parquet_bloom_probe('{path}', 'some_id', '{value}')").fetchone()[0]
        assert not any(excluded(f"id-{i}-{j}") for i in range(5) for j in range(0, 500, 25))
        assert sum(bool(excluded(f"absent-{i}")) for i in range(200)) > 150


def test_p20_zero_row_files_give_only_their_schema(tree, lithify):
    full = minimal_table("acme", HOUR, x=pa.array([1, 2]))
    wider = minimal_table("acme", HOUR, x=pa.array([1]), late=pa.array(["no row has it"]))
    tree.write(full)
    tree.write(wider.slice(0, 0))
    path = tree.path()
    with pq.ParquetWriter(path, full.schema):
        pass  # No row group at all.
    path = tree.path()
    with pq.ParquetWriter(path, full.schema) as writer:
        writer.write_table(full)
        writer.write_table(full.slice(0, 0), row_group_size=1)
    tree.write(full)
    assert len(trees.live(tree.partition())) == 5
    lithify("compact")
    after = trees.live(tree.partition())
    assert len(after) == 1
    assert judge.pyarrow_rows(after, ["x"]) == {(1,): 3, (2,): 3}
    assert "late" in pq.ParquetFile(after[0]).schema_arrow.names


def test_p20_only_zero_row_files_leave_no_output(tree, lithify):
    """I26: nothing to keep means an empty live set, not an empty file."""
    table = minimal_table("acme", HOUR, x=pa.array([1])).slice(0, 0)
    write_each(tree, *[table] * 6)
    lithify("compact")
    assert sum(pq.ParquetFile(path).metadata.num_rows
               for path in trees.live(tree.partition())) == 0
    assert len(trees.live(tree.partition())) <= 1
    lithify("verify")


class OpenKms(pe.KmsClient):
    """Wraps keys with themselves: enough for a fixture, and no secret at all."""

    def __init__(self, _):
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes, master_key_identifier):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return base64.b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_p21_encrypted_files_are_refused(tree, lithify, plaintext_footer):
    """Whole file or one column: never rewritten, so never written out in the clear."""
    tree.fill(files=5, rows=10)
    factory = pe.CryptoFactory(OpenKms)
    properties = factory.file_encryption_properties(
        pe.KmsConnectionConfig(),
        pe.EncryptionConfiguration(footer_key="footer", column_keys={"secret": ["secret"]},
                                   plaintext_footer=plaintext_footer))
    table = minimal_table("acme", HOUR, secret=pa.array(["hush"] * 3), open=pa.array([1, 2, 3]))
    path = tree.write(table, encryption_properties=properties)
    assert_refused(tree, lithify, path.name, "encrypt")


def test_p22_field_ids_stay_at_every_level(tree, lithify):
    def tagged(name, kind, number, **kwargs):
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)}, **kwargs)

    schema = pa.schema([
        tagged("tenant_id", pa.string(), 1), tagged("time_unix_nano", pa.int64(), 2),
        tagged("s", pa.struct([tagged("a", pa.int32(), 4), tagged("b", pa.string(), 5)]), 3),
        tagged("l", pa.list_(tagged("element", pa.int64(), 7)), 6),
        tagged("m", pa.map_(tagged("key", pa.string(), 9, nullable=False),
                            tagged("value", pa.float64(), 10)), 8)])
    start = int(HOUR.timestamp()) * 10**9
    rows = [{"tenant_id": "acme", "time_unix_nano": start, "s": {"a": 1, "b": None}, "l": [1, None],
             "m": [("k", 0.5)]},
            {"tenant_id": "acme", "time_unix_nano": start, "s": None, "l": [], "m": None}]
    table = pa.Table.from_pylist(rows, schema)
    write_each(tree, *[table] * 5)
    file = compact_to_one(tree, lithify)

    def ids(field):
        own = int((field.metadata or {}).get(b"PARQUET:field_id", -1))
        below = []
        if pa.types.is_map(field.type):
            below = [ids(field.type.key_field), ids(field.type.item_field)]
        elif pa.types.is_list(field.type) or pa.types.is_struct(field.type):
            below = [ids(field.type.field(i)) for i in range(field.type.num_fields)]
        return (own, *below)

    found = {field.name: ids(field) for field in file.schema_arrow}
    assert found == {"tenant_id": (1,), "time_unix_nano": (2,), "s": (3, (4,), (5,)),
                     "l": (6, (7,)), "m": (8, (9,), (10,))}


def test_p23_list_and_map_shapes(tree, lithify):
    """`element` and `item`, lists of lists, maps: one shape in the output, the same values."""
    values = [[1, None], [], None, [3]]
    nested = [[["a"], []], None, [], [None, ["b", None]]]
    pairs = [[("k", 1)], [], None, [("x", None), ("y", 2)]]
    table = minimal_table("acme", HOUR, l=pa.array(values, pa.list_(pa.int64())),
                          n=pa.array(nested, pa.list_(pa.list_(pa.string()))),
                          m=pa.array(pairs, pa.map_(pa.string(), pa.int64())))
    for compliant in (True, False, True, False):
        tree.write(table, use_compliant_nested_type=compliant)
    tree.write_duckdb(table)
    before = trees.live(tree.partition())
    lithify("compact", "--verify", "full")
    after = trees.live(tree.partition())
    assert len(after) == 1
    rows = judge.pyarrow_rows(after, ["l", "n", "m"])
    assert rows == judge.pyarrow_rows(before, ["l", "n", "m"])
    assert sum(rows.values()) == 20 and len(rows) == 4
    assert judge.duckdb_difference(before, after) == (0, 0)
    assert "l.list.element" in columns_of(pq.ParquetFile(after[0]))


def test_i29_nulls_at_every_depth(tree, lithify):
    """A null struct whose child is required, null and empty lists and binaries, interleaved."""
    kind = pa.struct([pa.field("must", pa.int32(), nullable=False), pa.field("may", pa.string())])
    structs = pa.array([None, {"must": 1, "may": None}, {"must": 2, "may": ""}, None], kind)
    lists = pa.array([[None, {"must": 3, "may": "x"}], [], None, [None]], pa.list_(kind))
    table = minimal_table("acme", HOUR, s=structs, ls=lists,
                          b=pa.array([None, b"", b"\x00", None], pa.binary()))
    write_each(tree, *[table] * 7)
    compact_to_one(tree, lithify)


def test_p25_logical_types_stay(tree, lithify):
    """uuid, decimals in every physical shape, times and dates keep their annotation."""
    table = minimal_table(
        "acme", HOUR,
        u=pa.array([uuid.UUID(int=i).bytes for i in range(3)], pa.uuid()),
        d4=pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-9.99")], pa.decimal128(5, 2)),
        d38=pa.array([decimal.Decimal(10**37), None, decimal.Decimal(-1)], pa.decimal128(38, 0)),
        ts_ns=pa.array([0, -1, 2**62], pa.timestamp("ns", "UTC")),
        ts_ms=pa.array([0, -1, None], pa.timestamp("ms")),
        t_us=pa.array([0, 1, None], pa.time64("us")),
        dt=pa.array([0, -719162, None], pa.date32()),
        half=pa.array([struct.unpack("<e", b"\x00\x3c")[0], None, -0.0], pa.float16()),
        j=pa.array(["{}", None, "[1]"], pa.json_()))
    paths = write_each(tree, *[table] * 5)
    expected = {path: (column.physical_type, str(column.logical_type))
                for path, column in columns_of(pq.ParquetFile(paths[0])).items()}
    assert "UUID" in expected["u"][1]
    lithify("compact", "--verify", "full")
    after = trees.live(tree.partition())
    assert len(after) == 1
    found = {path: (column.physical_type, str(column.logical_type))
             for path, column in columns_of(pq.ParquetFile(after[0])).items()}
    assert found == expected
    assert judge.duckdb_difference(paths, after) == (0, 0)


def test_p25_decimals_stored_as_integers(tree, lithify):
    """DuckDB stores small decimals as INT32 and INT64, pyarrow as fixed bytes: same values."""
    table = minimal_table("acme", HOUR, d=pa.array([decimal.Decimal("1.25"), None],
                                                   pa.decimal128(9, 2)))
    for _ in range(5):
        tree.write_duckdb(table)
    file = compact_to_one(tree, lithify)
    assert "Decimal" in str(columns_of(file)["d"].logical_type)


@pytest.mark.parametrize("codec, name", [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("gzip", "GZIP"),
                                         ("lz4_raw", "LZ4"), ("none", "UNCOMPRESSED")])
def test_p29_output_codec_is_the_configured_one(tree, lithify, codec, name):
    tree.fill(files=6, rows=50, compression="snappy")
    file = compact_to_one(tree, lithify, "--set", f"output.codec={codec}", "--set",
                          "output.growth_max=0")
    found = {file.metadata.row_group(g).column(c).compression
             for g in range(file.metadata.num_row_groups)
             for c in range(file.metadata.num_columns)}
    assert found == {name}


def test_p29_a_rewrite_that_grows_is_refused(tree, lithify):
    """Dense inputs written without compression would be many times larger: nothing is changed."""
    table = minimal_table("acme", HOUR, x=pa.array(["the same text again and again"] * 20000))
    write_each(tree, *[table] * 6, compression="zstd", use_dictionary=False)
    before = trees.live(tree.partition())
    result = lithify("compact", "--set", "output.codec=none", "--set", "output.plain_columns=x",
                     "--set", "output.growth_max=1.5", code=None)
    assert trees.live(tree.partition()) == before
    assert "growth_max" in result.text


def test_p24_page_checksums_and_indexes_are_written(tree, lithify):
    """The output has page indexes, and its pages carry checksums that hold."""
    tree.fill(files=6, rows=500)
    file = compact_to_one(tree, lithify)
    group = file.metadata.row_group(0)
    assert all(group.column(c).has_offset_index for c in range(group.num_columns))
    assert any(group.column(c).has_column_index for c in range(group.num_columns))
    path = trees.live(tree.partition())[0]
    with pq.ParquetFile(path, page_checksum_verification=True) as checked:
        assert checked.read().num_rows == 3000


def test_footer_says_who_wrote_it(tree, lithify):
    """The mark by which an output is known wherever it is found (docs/FORMATS.md)."""
    inputs = tree.fill(files=6, rows=5)
    lithify("compact")
    metadata = pq.ParquetFile(trees.live(tree.partition())[0]).metadata.metadata
    ours = {key.decode(): value.decode() for key, value in metadata.items()
            if key.startswith(b"lithify.")}
    assert ours
    text = json.dumps(ours)
    assert tree.key(tree.partition()) in text
    assert all(path.name in text for path in inputs)
