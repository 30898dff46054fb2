"""What spliced files state of themselves, against what pyarrow's writer states of the same rows
written in one go, and against the rows and pages themselves. The files are taken apart by
parquet_meta.py, which shares no code with either.

Permitted differences, and no others:
  - a statistic, size or index that ours lacks, except where EXPECTED says that it must be there;
  - bounds that enclose theirs, where an input's writer cut its bounds short;
  - no distinct counts, and none of the deprecated bounds;
  - an exactness flag that is absent; if true, the bound is theirs;
  - where pages end, and their encodings: those of the inputs; so encoding_stats and the indexes
    differ, and are held against the pages and rows that they describe;
  - boundary_order: "unordered" always, an order only if it holds;
  - created_by, and the key-value pairs "lithify.*".
"""

import struct

import numpy as np
import parquet_meta as meta
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tree as trees
import writers

FILES, ROWS = 4, 5000
INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = 1, 2, 4, 5, 6, 7
DECIMAL, UNSIGNED = 5, (11, 12, 13, 14)  # Converted types.


# --- values in a column's order ------------------------------------------------------------------

def leaves(file):
    """(type, converted type) of each leaf, by dotted path."""
    found, path = {}, []
    rest = iter(file.schema)

    def walk(element, prefix):
        name = element[4].decode()
        here = [*prefix, name]
        if 5 not in element:
            found[".".join(here)] = (element[1], element.get(6))
        for _ in range(element.get(5, 0)):
            walk(next(rest), here)

    for _ in range(next(rest)[5]):
        walk(next(rest), path)
    return found


def order(leaf):
    """From the bytes of a bound to something that compares as the column does."""
    kind, converted = leaf
    if kind in (INT32, INT64):
        return lambda data: int.from_bytes(data, "little", signed=converted not in UNSIGNED)
    if kind in (FLOAT, DOUBLE):
        return lambda data: struct.unpack("<f" if kind == FLOAT else "<d", data)[0]
    if converted == DECIMAL:
        return lambda data: int.from_bytes(data, "big", signed=True)
    return bytes


def keys_of(column):
    """The values, as order() has them; without nulls and NaN."""
    values = column.drop_null()
    kind = values.type
    if pa.types.is_floating(kind):
        return values.filter(pc.invert(pc.is_nan(values))).to_pylist()
    if pa.types.is_decimal(kind):
        return [int(value.scaleb(kind.scale)) for value in values.to_pylist()]
    if pa.types.is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if pa.types.is_boolean(kind):
        return [bytes([value]) for value in values.to_pylist()]
    return [value.encode() if isinstance(value, str) else value for value in values.to_pylist()]


# --- one file against its own pages and rows -----------------------------------------------------

def check_chunk(chunk):
    """Sizes, counts and encodings are those of the pages. Returns its data pages."""
    pages = chunk.pages()
    data = [page for page in pages if page.is_data]
    assert all(page.checksum_holds for page in pages), chunk.path
    assert sum(page.stored_bytes for page in pages) == chunk.stored_bytes
    assert sum(page.unpacked_bytes for page in pages) == chunk.unpacked_bytes
    assert sum(page.values for page in data) == chunk.values
    assert [page.kind for page in pages].count(meta.DICTIONARY) <= 1
    assert (pages[0].kind == meta.DICTIONARY) == (chunk.dictionary_at is not None)
    if chunk.dictionary_at is not None:
        assert chunk.dictionary_at == pages[0].offset
    assert chunk.data_at == data[0].offset
    assert all(page.values > 0 for page in data)
    stats = {}
    for page in pages:
        # Arrow counts data pages of both versions as of the first.
        entry = (meta.DATA if page.is_data else page.kind, page.encoding)
        stats[entry] = stats.get(entry, 0) + 1
    assert chunk.encoding_stats in (stats, {}), chunk.path
    assert {page.encoding for page in pages} <= chunk.encodings
    assert chunk.encodings - {page.encoding for page in pages} <= {meta.RLE}, chunk.path
    if chunk.encoding_stats:
        # As readers take it: all data pages have a dictionary, or not all.
        assert (chunk.dictionary_at is None) == all(
            page.encoding not in (meta.RLE_DICTIONARY, meta.PLAIN_DICTIONARY) for page in data)
    return data


def check_bounds(key, low, high, values, exact, where):
    """The bounds enclose the values; with `exact` they are among them."""
    assert key(low) <= min(values) and key(high) >= max(values), where
    if exact:
        assert (key(low), key(high)) == (min(values), max(values)), where


def check_indexes(chunk, data, column, leaf, exact):
    """`column`: the rows of a flat column; None of a nested one."""
    offsets, bounds = chunk.offset_index(), chunk.column_index()
    assert bounds is None or offsets is not None, chunk.path
    if offsets is None:
        return
    locations = offsets[1]
    assert [(place[1], place[2]) for place in locations] == \
        [(page.offset, page.stored_bytes) for page in data], chunk.path
    firsts = [place[3] for place in locations]
    assert firsts[0] == 0 and firsts == sorted(firsts)
    if 2 in offsets and chunk.byte_array_bytes is not None:
        assert sum(offsets[2]) == chunk.byte_array_bytes
    if column is None or bounds is None:
        return
    key = order(leaf)
    assert firsts == [sum(page.values for page in data[:i]) for i in range(len(data))]
    assert len(bounds[1]) == len(bounds[2]) == len(bounds[3]) == len(data)
    lows, highs = [], []
    for number, page in enumerate(data):
        rows = column.slice(firsts[number], page.values)
        where = f"{chunk.path}, page {number}"
        if 5 in bounds:
            assert bounds[5][number] == rows.null_count, where
        assert bounds[1][number] == (rows.null_count == len(rows)), where
        if bounds[1][number]:
            continue
        values = keys_of(rows)
        check_bounds(key, bounds[2][number], bounds[3][number], values, exact, where)
        lows.append(key(bounds[2][number]))
        highs.append(key(bounds[3][number]))
    if bounds[4] == meta.ASCENDING:
        assert lows == sorted(lows) and highs == sorted(highs), chunk.path
    if bounds[4] == meta.DESCENDING:
        assert lows == sorted(lows, reverse=True) and highs == sorted(highs, reverse=True)


def check_file(path, exact):
    """Returns it and its rows."""
    file = meta.File(path)
    rows = pq.ParquetFile(path).read()
    assert len(file.groups) == 1 and file.footer[3] == file.groups[0][3] == rows.num_rows
    chunks, known = file.chunks(0), leaves(file)
    assert list(chunks) == list(known)
    group = file.groups[0]
    assert group[2] == sum(chunk.unpacked_bytes for chunk in chunks.values())
    if 6 in group:
        assert group[6] == sum(chunk.stored_bytes for chunk in chunks.values())
    for name, chunk in chunks.items():
        assert chunk.type == known[name][0]
        data = check_chunk(chunk)
        column = rows.column(name).combine_chunks() if name in rows.column_names else None
        check_indexes(chunk, data, column, known[name], exact)
        if column is not None and chunk.min is not None:
            check_bounds(order(known[name]), chunk.min, chunk.max, keys_of(column), exact, name)
    return file, rows


# --- ours against theirs -------------------------------------------------------------------------

def equal_or_absent(ours, theirs, where):
    assert ours is None or ours == theirs, f"{where}: {ours} is not {theirs}"


def compare_chunks(ours, theirs, leaf, exact):
    assert (ours.path, ours.type, ours.codec, ours.values) == \
        (theirs.path, theirs.type, theirs.codec, theirs.values)
    where = ours.path
    equal_or_absent(ours.null_count, theirs.null_count, where)
    assert ours.distinct_count is None
    key = order(leaf)
    assert (ours.min is None) == (ours.max is None)
    if ours.min is not None:
        assert theirs.min is not None, f"{where}: bounds of nothing"
        assert key(ours.min) <= key(theirs.min) and key(ours.max) >= key(theirs.max), where
        if exact or ours.min_exact:
            assert key(ours.min) == key(theirs.min), where
        if exact or ours.max_exact:
            assert key(ours.max) == key(theirs.max), where
    # In the order of signed bytes, which is another one for texts: as theirs, or not at all.
    if ours.old_min is not None:
        assert theirs.old_min is not None and key(ours.old_min) <= key(theirs.old_min), where
        assert key(ours.old_max) >= key(theirs.old_max), where
    equal_or_absent(ours.byte_array_bytes, theirs.byte_array_bytes, where)
    equal_or_absent(ours.definition_histogram, theirs.definition_histogram, where)
    equal_or_absent(ours.repetition_histogram, theirs.repetition_histogram, where)


def one_go(rows, path, codec, **options):
    pq.write_table(rows, path, compression=codec, row_group_size=1 << 30, write_page_index=True,
                   write_page_checksum=True, **options)
    return meta.File(path)


def shape(element):
    """Of a schema element: its name, type, length, repetition, children."""
    return tuple(element.get(number) for number in (4, 1, 2, 3, 5))


def differ(tree, lithify, tmp_path, codec="zstd", exact=True, annotated=True, **options):
    """Compacts what is there and compares. `annotated`: the inputs are pyarrow's, so the schema is
    its own, annotations too. Returns our file and the share of chunks that were spliced."""
    before = trees.live(tree.partition())
    report = lithify("compact", "--json", "--set", f"output.codec={codec}").json
    path, = trees.live(tree.partition())
    assert path not in before
    ours, rows = check_file(path, exact)
    theirs = one_go(rows, tmp_path / "theirs.parquet", codec, **options)
    assert ours.created_by.startswith("lithify ")
    assert [shape(element) for element in ours.schema[1:]] == \
        [shape(element) for element in theirs.schema[1:]]
    if annotated:
        assert ours.schema[1:] == theirs.schema[1:]
        assert ours.footer[7] == theirs.footer[7]
    assert {name for name in ours.pairs if not name.startswith("lithify.")} <= \
        set(theirs.pairs), ours.pairs.keys()
    known = leaves(ours)
    mine, other = ours.chunks(0), theirs.chunks(0)
    assert list(mine) == list(other)
    for name in mine:
        compare_chunks(mine[name], other[name], known[name], exact)
    tiers = report["partitions"][0]["tiers"]
    return ours, tiers.get("splice", 0) / sum(tiers.values())


def tables(seed, lacks=(), rows=ROWS):
    rng = np.random.default_rng(seed)
    columns = [name for name in writers.COLUMNS if name not in lacks]
    return [writers.make_table(rng, i * rows, rows, columns) for i in range(FILES)]


INDEXED = {"write_page_index": True, "data_page_size": 16 << 10, "write_batch_size": 500}
PYARROW = {
    "default": {},
    "plain": {"use_dictionary": False},
    "indexed": {**INDEXED, "write_page_checksum": True},
    "plain, indexed, version 2": {**INDEXED, "use_dictionary": False, "data_page_version": "2.0"},
    "dictionaries given up": {**INDEXED, "dictionary_pagesize_limit": 20_000},
    "delta": {"use_dictionary": ["kind", "few"], "column_encoding": {
        "id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY", "raw": "DELTA_LENGTH_BYTE_ARRAY",
        "ratio": "BYTE_STREAM_SPLIT", "flag": "RLE", "day": "DELTA_BINARY_PACKED"}},
    "old version": {"version": "1.0", "data_page_version": "2.0"},
}


@pytest.mark.parametrize("number", range(len(PYARROW)), ids=list(PYARROW))
def test_files_of_pyarrow(tree, lithify, tmp_path, number):
    options = list(PYARROW.values())[number]
    codec = ("zstd", "snappy", "none")[number % 3]
    for each in tables(number):
        tree.write(each, compression=codec, **options)
    same = {"version": options["version"]} if "version" in options else {}
    ours, spliced = differ(tree, lithify, tmp_path, codec, **same)
    assert spliced > 0.7
    # EXPECTED: what all inputs state and nothing forbids.
    for name, chunk in ours.chunks(0).items():
        assert chunk.null_count is not None, name
        assert chunk.definition_histogram is not None, name
        assert chunk.min is not None or name in ("nothing", "sometimes"), name
        assert chunk.offset_index() is not None, name
    bounded = [name for name, chunk in ours.chunks(0).items() if chunk.column_index() is not None]
    assert len(bounded) > 20, bounded


def test_files_without_statistics(tree, lithify, tmp_path):
    """Nothing is made up: where an input says nothing of a column that is not read, ours says
    nothing either."""
    for number, each in enumerate(tables(20)):
        tree.write(each, write_statistics=number != 1, use_dictionary=False)
    ours, spliced = differ(tree, lithify, tmp_path)
    assert spliced > 0.7
    lacking = [name for name, chunk in ours.chunks(0).items()
               if chunk.min is None and chunk.column_index() is None]
    assert len(lacking) > 20


def test_files_of_duckdb(tree, lithify, tmp_path):
    lacks = writers.LACKS["mixed"]
    for number, each in enumerate(tables(21, lacks)):
        tree.write_duckdb(each, options=f"compression zstd, write_bloom_filter {number % 2 == 0}")
    _, spliced = differ(tree, lithify, tmp_path, exact=False, annotated=False,
                        store_decimal_as_integer=True)
    assert spliced > 0.3


def test_files_of_polars(tree, lithify, tmp_path):
    lacks = writers.LACKS["mixed"]
    for number, each in enumerate(tables(22, lacks)):
        pl.from_arrow(each).write_parquet(tree.path(), compression="zstd",
                                          statistics="full" if number % 2 else True)
    _, spliced = differ(tree, lithify, tmp_path, exact=False, annotated=False,
                        store_decimal_as_integer=True)
    assert spliced > 0.3


def test_files_of_all(tree, lithify, tmp_path):
    lacks = (*writers.LACKS["mixed"], *writers.WIDE)
    for number, each in enumerate(tables(23, lacks)):
        if number == 0:
            tree.write(each, store_decimal_as_integer=True, **INDEXED)
        elif number == 1:
            pl.from_arrow(each).write_parquet(tree.path(), compression="zstd")
        else:
            tree.write_duckdb(each)
    differ(tree, lithify, tmp_path, exact=False, annotated=False, store_decimal_as_integer=True)


@pytest.mark.parametrize("sorted_files", [True, False], ids=["in order", "not in order"])
def test_sorting_columns(tree, lithify, sorted_files):
    """P13: declared only if it is true of the whole row group."""
    made = [each.select(["id", "kind", "tenant_id", "time_unix_nano"]) for each in tables(24)]
    for each in made if sorted_files else reversed(made):
        tree.write(each, sorting_columns=[pq.SortingColumn(0)])
    lithify("compact")
    path, = trees.live(tree.partition())
    file = meta.File(path)
    numbers = pq.ParquetFile(path).read(["id"]).column("id").to_pylist()
    declared = file.groups[0].get(4, [])
    if declared:
        assert [entry[1] for entry in declared] == [0] and not declared[0][2]
        assert numbers == sorted(numbers)
    assert sorted_files or numbers != sorted(numbers)
