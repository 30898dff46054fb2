"""The splice tier: pages move from small files to a large one as they are. Files of three writers;
the judges read rows, and ask with conditions on every column, so that statistics, page indexes and
dictionaries are used."""

import datetime
import decimal
import itertools
import random

import duckdb
import judge
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tree as trees
from tree import HOUR, minimal_table

ROWS = 6000
FILES = 4


def table(seed, rows=ROWS):
    """One file's rows: what is unique, what repeats, what is missing, what is odd."""
    rng = random.Random(seed)
    start = seed * rows
    odd = [float("nan"), -0.0, 1e300, float("inf"), None]
    lists = [None if i % 13 == 7 else [rng.choice(["x", "y", None]) for _ in range(i % 4)]
             for i in range(rows)]
    maps = [[(f"k{k}", rng.randrange(5)) for k in range(i % 3)] for i in range(rows)]
    structs = [None if i % 9 == 1 else {"a": rng.randrange(10**9), "b": f"s{i % 7}"}
               for i in range(rows)]
    moment = datetime.datetime(2020, 1, 1)
    return minimal_table(
        "acme", HOUR,
        id=pa.array(range(start, start + rows), pa.int64()),
        name=pa.array([None if i % 11 == 3 else f"name-{start + i:08d}" for i in range(rows)]),
        kind=pa.array([None if i % 5 == 2 else f"kind{rng.randrange(3 + seed)}"
                       for i in range(rows)]),
        constant=pa.array(["always"] * rows),
        nothing=pa.array([None] * rows, pa.int32()),
        some=pa.array([None] * rows if seed % 2 else [rng.randrange(100) for _ in range(rows)],
                      pa.int32()),
        ratio=pa.array([rng.choice([rng.random(), float("-inf"), None]) for _ in range(rows)],
                       pa.float64()),
        odd=pa.array([rng.choice(odd) if seed == 2 else rng.random() for _ in range(rows)],
                     pa.float64()),
        zero=pa.array([rng.choice([0.0, -0.0]) for _ in range(rows)], pa.float32()),
        flag=pa.array([rng.choice([True, False, None]) for _ in range(rows)]),
        unsigned=pa.array([rng.randrange(2**32) for _ in range(rows)], pa.uint32()),
        price=pa.array([decimal.Decimal(rng.randrange(-10**8, 10**8)) / 100 for _ in range(rows)],
                       pa.decimal128(20, 2)),
        day=pa.array([datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 400)
                      for i in range(rows)]),
        at=pa.array([moment + datetime.timedelta(microseconds=start * 1000 + i)
                     for i in range(rows)], pa.timestamp("us")),
        tags=pa.array(lists, pa.list_(pa.string())),
        counts=pa.array(maps, pa.map_(pa.string(), pa.int64())),
        pair=pa.array(structs, pa.struct([("a", pa.int64()), ("b", pa.string())])),
        body=pa.array([rng.randbytes(30) for _ in range(rows)], pa.binary()))


TABLES = [table(seed) for seed in range(FILES)]
# Not "odd": with a NaN in it, pyarrow counts by statistics that leave it out.
FLAT = ["id", "name", "kind", "constant", "nothing", "some", "ratio", "zero", "flag", "unsigned",
        "price", "day", "at"]


def conditions(column):
    """(operator, value) pairs about the column: inside, at the ends, outside, missing."""
    values = pa.concat_tables(TABLES).column(column).drop_null()
    if len(values) == 0:
        return [("is null", None), ("is not null", None)]
    ends = pc.min_max(values).as_py() if not pa.types.is_boolean(values.type) else {
        "min": False, "max": True}
    middle = values[len(values) // 3].as_py()
    asked = [("is null", None), ("is not null", None)]
    for value in (ends["min"], middle, ends["max"]):
        asked += [("=", value), ("<", value), (">=", value)]
    return asked


def count_pyarrow(paths, column, operator, value):
    field = ds.field(column)
    condition = {
        "is null": lambda: field.is_null(), "is not null": lambda: field.is_valid(),
        "=": lambda: field == value, "<": lambda: field < value, ">=": lambda: field >= value,
    }[operator]()
    return ds.dataset([str(path) for path in paths], format="parquet").count_rows(filter=condition)


def count_duckdb(db, paths, column, operator, value):
    condition = f'"{column}" {operator}' if value is None else f'"{column}" {operator} ?'
    return db.execute(f"SELECT count(*) FROM {judge.duckdb_scan(paths)} WHERE {condition}",
                      [] if value is None else [value]).fetchone()[0]


def count_polars(paths, column, operator, value):
    field = pl.col(column)
    if value is not None:
        value = pl.lit(value, dtype=pl.read_parquet_schema(paths[0])[column])
    condition = {
        "is null": lambda: field.is_null(), "is not null": lambda: field.is_not_null(),
        "=": lambda: field == value, "<": lambda: field < value, ">=": lambda: field >= value,
    }[operator]()
    frames = [pl.scan_parquet(path, hive_partitioning=False).filter(condition).select(pl.len())
              for path in paths]
    return sum(frame.collect().item() for frame in frames)


def assert_same_answers(before, after):
    with duckdb.connect() as db:
        for column in FLAT:
            for operator, value in conditions(column):
                asked = f"{column} {operator} {value}"
                assert count_pyarrow(after, column, operator, value) == \
                    count_pyarrow(before, column, operator, value), f"pyarrow: {asked}"
                assert count_duckdb(db, after, column, operator, value) == \
                    count_duckdb(db, before, column, operator, value), f"duckdb: {asked}"
                assert count_polars(after, column, operator, value) == \
                    count_polars(before, column, operator, value), f"polars: {asked}"


def compact(tree, lithify, *args, verify="sample", asked=None):
    """One output, proved by the judges; returns it and the tiers of the report. `asked`: files of
    the same rows that are faster to ask than the inputs."""
    before = trees.live(tree.partition())
    report = lithify("compact", "--json", "--verify", verify, *args).json
    after = trees.live(tree.partition())
    assert len(after) == 1 and after[0] not in before
    judge.assert_same_rows(before, after)
    assert_same_answers(asked or before, after)
    lithify("verify")
    return after[0], report["partitions"][0]["tiers"]


def write_pyarrow(tree, **options):
    for each in TABLES:
        tree.write(each, **options)


def write_polars(tree, **options):
    for each in TABLES:
        path = tree.path()
        # Polars has no maps.
        pl.from_arrow(each.drop_columns(["counts"])).write_parquet(path, **options)


PYARROW = {
    "default": {},
    "plain": {"use_dictionary": False},
    "version 2 pages": {"data_page_version": "2.0"},
    "plain, version 2 pages, small": {"use_dictionary": False, "data_page_version": "2.0",
                                      "data_page_size": 16 * 1024, "write_batch_size": 500},
    "page index and checksums": {"write_page_index": True, "write_page_checksum": True,
                                 "data_page_size": 16 * 1024, "write_batch_size": 500},
    "dictionaries given up": {"dictionary_pagesize_limit": 20_000, "write_batch_size": 100},
    "row groups": {"row_group_size": 2500},
    "other encodings": {
        "use_dictionary": ["kind", "constant"],
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY",
                            "body": "DELTA_LENGTH_BYTE_ARRAY", "ratio": "BYTE_STREAM_SPLIT",
                            "flag": "RLE", "unsigned": "BYTE_STREAM_SPLIT"}},
}


@pytest.mark.parametrize("options", PYARROW.values(), ids=PYARROW.keys())
def test_files_of_pyarrow(tree, lithify, options):
    write_pyarrow(tree, **options)
    output, tiers = compact(tree, lithify)
    assert tiers["splice"] >= 0.75 * sum(tiers.values()), tiers
    assert pq.ParquetFile(output).metadata.created_by.startswith("lithify ")


SMALL = {
    "default": {},
    "plain": {"use_dictionary": False},
    "tiny row groups, version 2 pages": {"row_group_size": 37, "data_page_version": "2.0"},
    "tiny pages": {"data_page_size": 64, "write_batch_size": 10, "write_page_index": True},
    "dictionaries given up": {"dictionary_pagesize_limit": 300, "write_batch_size": 20},
}


@pytest.mark.parametrize("options", SMALL.values(), ids=SMALL.keys())
def test_small_files_are_joined(tree, lithify, options, tmp_path):
    """160 files of 150 rows, every page far below what is moved as it is."""
    reference = tmp_path / "all.parquet"
    pq.write_table(pa.concat_tables(TABLES), reference)
    for each in TABLES:
        for first in range(0, ROWS, 150):
            tree.write(each.slice(first, 150), **options)
    output, tiers = compact(tree, lithify, asked=[reference])
    assert set(tiers) == {"splice"}, tiers
    group = pq.ParquetFile(output).metadata.row_group(0)
    assert group.num_rows == FILES * ROWS
    chunks = [group.column(i) for i in range(group.num_columns)]
    dictionary = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}
    assert "body" not in dictionary
    assert ("kind" in dictionary) == options.get("use_dictionary", True)


def test_values_that_repeat_across_pages_are_gathered(tree, lithify):
    """Half of the values come twice, in no order: no dictionary is of use, nor is it in order."""
    rng = random.Random(11)
    for each in TABLES:
        again = each.take(rng.sample(range(ROWS), ROWS // 2))
        tree.write(pa.concat_tables([each, again]).combine_chunks())
    output, tiers = compact(tree, lithify)
    assert set(tiers) == {"splice"}, tiers
    group = pq.ParquetFile(output).metadata.row_group(0)
    plain = [group.column(i).path_in_schema for i in range(group.num_columns)
             if not group.column(i).has_dictionary_page]
    assert {"id", "name", "body"} <= set(plain), plain


@pytest.mark.parametrize("rows", [100, ROWS])
def test_required_columns_become_optional(tree, lithify, rows):
    names = ["id", "constant", "zero", "price", "day", "unsigned"]
    for number, each in enumerate(TABLES):
        part = each.slice(0, rows).select(["tenant_id", "time_unix_nano", "kind"] + names)
        if number % 2:
            part = part.cast(pa.schema([field.with_nullable(field.name not in names)
                                        for field in part.schema]))
        tree.write(part, data_page_version=f"{1 + number // 2}.0")
    before = trees.live(tree.partition())
    lithify("compact")
    after = trees.live(tree.partition())
    judge.assert_same_rows(before, after)
    with duckdb.connect() as db:
        for column in names:
            for operator, value in conditions(column):
                asked = f"{column} {operator} {value}"
                count = count_pyarrow(before, column, operator, value)
                assert count_pyarrow(after, column, operator, value) == count, asked
                assert count_duckdb(db, after, column, operator, value) == count, asked
                assert count_polars(after, column, operator, value) == count, asked


def required(kind):
    """The type with all of its parts required, of maps the values."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", required(kind.value_type), nullable=False))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, pa.field("value", kind.item_type, nullable=False))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(required(field.type)).with_nullable(False)
                          for field in kind])
    return kind


@pytest.mark.parametrize("dictionary", [True, False])
def test_parts_that_are_required_in_some_files_become_optional(tree, lithify, dictionary):
    """As Spark writes them, which goes by the rows that it is given."""
    columns = ["tags", "counts", "pair"]
    for number, each in enumerate(TABLES):
        rows = each.select(["tenant_id", "time_unix_nano", *columns])
        lists = [None if value is None else [text or "z" for text in value]
                 for value in rows["tags"].to_pylist()]
        if number % 2:
            kinds = [required(rows.schema.field(name).type) for name in columns]
            values = [lists, rows["counts"].to_pylist(), rows["pair"].to_pylist()]
            for name, kind, some in zip(columns, kinds, values, strict=True):
                rows = rows.set_column(rows.schema.get_field_index(name), pa.field(name, kind),
                                       pa.array(some, kind))
        tree.write(rows, data_page_version=f"{1 + number // 2}.0", use_dictionary=dictionary,
                   data_page_size=32 * 1024)
    before = trees.live(tree.partition())
    report = lithify("compact", "--json").json["partitions"][0]
    assert set(report["tiers"]) == {"splice"}, report
    after = trees.live(tree.partition())
    judge.assert_same_rows(before, after)
    lithify("verify")


@pytest.mark.parametrize("codec", ["snappy", "none", "gzip", "lz4_raw"])
def test_codecs(tree, lithify, codec):
    write_pyarrow(tree, compression={"lz4_raw": "lz4"}.get(codec, codec))
    _, tiers = compact(tree, lithify, "--set", f"output.codec={codec}")
    assert tiers["splice"] > 0.7 * sum(tiers.values()), tiers


CODECS = {"snappy": "SNAPPY", "none": "UNCOMPRESSED", "gzip": "GZIP", "lz4_raw": "LZ4",
          "zstd": "ZSTD"}


def assert_chunks(path, codec):
    """Every chunk has the codec, and the sizes that its neighbours leave it."""
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        for column in (group.column(i) for i in range(group.num_columns)):
            assert column.compression == CODECS[codec], column.path_in_schema
            if codec == "none":
                assert column.total_compressed_size == column.total_uncompressed_size
        assert group.total_byte_size == sum(group.column(i).total_uncompressed_size
                                            for i in range(group.num_columns))


OTHER_CODECS = {
    "default": ("snappy", "zstd", {}),
    "plain, version 2 pages": ("snappy", "zstd", PYARROW["plain"] | PYARROW["version 2 pages"]),
    "other encodings": ("snappy", "zstd", PYARROW["other encodings"]),
    "none before": ("none", "snappy", {}),
    "none behind": ("zstd", "none", PYARROW["version 2 pages"]),
    "gzip": ("gzip", "lz4_raw", PYARROW["version 2 pages"]),
    "brotli": ("brotli", "zstd", {}),
}


@pytest.mark.parametrize("before, after, options", OTHER_CODECS.values(), ids=OTHER_CODECS.keys())
def test_pages_of_another_codec_are_packed_again(tree, lithify, before, after, options):
    write_pyarrow(tree, compression=before, **options)
    output, tiers = compact(tree, lithify, "--set", f"output.codec={after}", "--set",
                            "output.growth_max=10")
    assert tiers["splice"] >= 0.75 * sum(tiers.values()), tiers
    assert_chunks(output, after)


def test_writers_with_their_own_codecs(tree, lithify):
    """pyarrow and DuckDB write snappy unless they are told otherwise, Polars zstd."""
    flat = [each.drop_columns(["counts", "tags", "pair"]) for each in TABLES]
    tree.write(flat[0], compression="snappy")
    tree.write_duckdb(flat[1], options="compression snappy, write_bloom_filter false")
    pl.from_arrow(flat[2]).write_parquet(tree.path())
    tree.write(flat[3], compression="gzip", data_page_version="2.0")
    output, tiers = compact(tree, lithify)
    assert tiers["splice"] > 0.5 * sum(tiers.values()), tiers
    assert_chunks(output, "zstd")


def test_a_dry_run_tells_what_footers_decide(tree, lithify):
    """Tiers and reasons before and after: what is settled comes true, and pages decide the rest."""
    for number, each in enumerate(TABLES):
        part = each.slice(0, 1000).select(["tenant_id", "time_unix_nano", "id", "kind", "some"])
        if number == 0:
            part = part.set_column(4, "some", part.column("some").cast(pa.int64()))
        if number == 3:
            part = part.drop_columns(["kind"])
        tree.write(part, use_dictionary=["tenant_id", "kind", "some"],
                   column_encoding={"id": "DELTA_BINARY_PACKED"})
    before = trees.tree_hash(tree.root)
    planned = lithify("compact", "--dry-run", "--json").json["partitions"][0]
    assert (planned["tiers"], planned["splices"], planned["recoded"]) == ({}, {}, {})
    plan = planned["tier_plan"]
    settled = {"an input lacks it": 4, "another type": 4}
    assert (plan["row_groups"], plan["recoded"]) == (1, settled)
    assert plan["tiers"] == {"splice": 12, "recode": 8}
    assert {each["column"]: (each["tiers"], each["recoded"]) for each in plan["columns"]} == {
        "tenant_id": ({"splice": 4}, {}), "time_unix_nano": ({"splice": 4}, {}),
        "id": ({"splice": 4}, {}), "kind": ({"recode": 4}, {"an input lacks it": 4}),
        "some": ({"recode": 4}, {"another type": 4})}
    text = lithify("compact", "--dry-run").text
    assert "splice up to 12, recode 8: an input lacks it 4, another type 4" in text
    assert trees.tree_hash(tree.root) == before

    report = lithify("compact", "--json").json["partitions"][0]
    assert report["recoded"] == {**settled, "its pages are small": 4}
    assert report["tiers"] == {"splice": 8, "recode": 12}
    assert sum(report["splices"].values()) == 8
    assert "tier_plan" not in report


def test_a_run_prints_tiers_and_why(tree, lithify):
    for each in TABLES:
        tree.write(each.slice(0, 100).select(["tenant_id", "time_unix_nano"]))
    text = lithify("compact", "--set", "output.splice=false").text
    assert "tiers      recode 8: output.splice is off 8\n" in text


@pytest.mark.parametrize("filters", [True, False], ids=["bloom filters", "no bloom filters"])
def test_files_of_duckdb(tree, lithify, filters):
    """With a dictionary DuckDB writes a bloom filter: the output's has all the values (P19)."""
    for each in TABLES:
        tree.write_duckdb(each, options=f"compression zstd, write_bloom_filter {filters}")
    output, tiers = compact(tree, lithify)
    assert tiers["splice"] >= 0.7 * sum(tiers.values()), tiers
    with duckdb.connect() as db:
        for value in (f"kind{i}" for i in range(40)):
            excluded = db.execute(
                f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{output}', 'kind', ?)",
                [value]).fetchall()
            there = any(value in each.column("kind").to_pylist() for each in TABLES)
            assert not (there and any(excluded[0])), value
            if not filters:
                assert not any(excluded[0]), value


@pytest.mark.parametrize("options", [{}, {"use_pyarrow": False, "row_group_size": 3000}],
                         ids=["default", "row groups"])
def test_files_of_polars(tree, lithify, options):
    write_polars(tree, compression="zstd", **options)
    _, tiers = compact(tree, lithify)
    assert tiers["splice"] > sum(tiers.values()) // 2, tiers


def test_writers_mixed(tree, lithify):
    """Pages of three writers in one column chunk."""
    flat = [each.drop_columns(["counts", "tags", "pair"]) for each in TABLES]
    tree.write(flat[0])
    tree.write_duckdb(flat[1])
    pl.from_arrow(flat[2]).write_parquet(tree.path(), compression="zstd")
    tree.write(flat[3], data_page_version="2.0", use_dictionary=False)
    _, tiers = compact(tree, lithify)
    assert tiers["splice"] > 0, tiers


def test_every_way_of_verifying(tree, lithify):
    """With verify = full everything is read, and the output carries its digest; else not all is,
    and it carries none."""
    outputs = {}
    for number, verify in enumerate(["full", "sample", "counts"]):
        hour = HOUR + datetime.timedelta(hours=number)
        for each in TABLES:
            moved = each.set_column(each.schema.get_field_index("time_unix_nano"),
                                    "time_unix_nano",
                                    pc.add(each.column("time_unix_nano"), number * 3600 * 10**9))
            tree.write(moved, hour=hour, use_dictionary=False)
        lithify("compact", "--verify", verify)
        live = trees.live(tree.partition(hour=hour))
        assert len(live) == 1
        outputs[verify] = pq.ParquetFile(live[0]).metadata.metadata
    assert b"lithify.digest" in outputs["full"]
    assert b"lithify.digest" not in outputs["sample"]
    assert b"lithify.digest" not in outputs["counts"]
    lithify("verify")


def test_statistics_are_those_of_the_rows(tree, lithify):
    """What the footer of a spliced file states is what its values say (P17)."""
    write_pyarrow(tree, use_dictionary=False)
    output, _ = compact(tree, lithify)
    file = pq.ParquetFile(output)
    group = file.metadata.row_group(0)
    rows = file.read_row_group(0)
    stated = {group.column(i).path_in_schema: group.column(i).statistics
              for i in range(group.num_columns)}
    for name in FLAT:
        values, statistics = rows.column(name), stated[name]
        assert statistics.null_count == values.null_count, name
        if name == "nothing":
            assert not statistics.has_min_max
        else:
            ends = pc.min_max(values).as_py()
            assert (statistics.min, statistics.max) == (ends["min"], ends["max"]), name


def test_a_damaged_page_names_file_and_column(tree, lithify):
    write_pyarrow(tree, use_dictionary=False, write_page_checksum=True)
    victim = trees.live(tree.partition())[2]
    chunk = pq.ParquetFile(victim).metadata.row_group(0)
    bodies = next(chunk.column(i) for i in range(chunk.num_columns)
                  if chunk.column(i).path_in_schema == "body")
    at = bodies.data_page_offset + bodies.total_compressed_size // 2
    data = bytearray(victim.read_bytes())
    data[at] ^= 0x10
    victim.write_bytes(data)
    before = trees.contents(tree.partition())
    result = lithify("compact", code=None)
    assert result.code != 0
    assert victim.name in result.text and "column body" in result.text, result.text
    after = trees.contents(tree.partition())
    assert all(after[name] == value for name, value in before.items())


def test_same_inputs_give_the_same_bytes(tree, lithify, tmp_path):
    """R232, whatever the number of threads."""
    write_pyarrow(tree)
    copies = [tree.copy_to(tmp_path / f"copy{i}") for i in range(2)]
    pages = []
    for copy, jobs in zip(copies, ("1", "4")):
        lithify_at(copy, "--jobs", jobs)
        partition = next(iter(trees.partitions(copy)))
        live = trees.live(partition)
        assert len(live) == 1
        data = live[0].read_bytes()
        footer = int.from_bytes(data[-8:-4], "little")
        pages.append(data[:-8 - footer])
    assert pages[0] == pages[1]


def test_an_iceberg_table(lake):
    """By field id, and with the table's metadata made of merged statistics."""
    lake.plain(files=5, rows=ROWS)
    report = lake.rewrite("t")
    assert report["tiers"] == {"splice": 15}
    entry, = lake.data_entries("t")
    file = entry.file
    assert file.record_count == 5 * ROWS
    assert file.value_counts == {1: 5 * ROWS, 2: 5 * ROWS, 3: 5 * ROWS}
    assert file.null_value_counts == {1: 0, 2: 0, 3: ROWS}
    assert file.lower_bounds == {1: (0).to_bytes(8, "little"), 2: b"eu", 3: b"note 0"}
    assert file.upper_bounds == {1: (5 * ROWS - 1).to_bytes(8, "little"), 2: b"us", 3: b"note 6"}
    table = lake.load("t")
    for wanted, count in (("id = 17", 1), ("id < 100", 100), ("region = 'eu'", 15_000),
                          ("note is null", ROWS), ("note = 'note 8'", 0)):
        assert table.scan(row_filter=wanted).to_arrow().num_rows == count, wanted


def lithify_at(root, *args):
    import cli
    return cli.run("compact", root, *args)


assert len(set(itertools.chain(FLAT))) == len(FLAT)
