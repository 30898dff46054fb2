"""Plain Parquet trees, compacted by lithify and read by Spark's own readers through the files that
the manifest names: vectorized and not, with conditions on every column. Files of Spark
(parquet-java, data pages of both versions) and of others."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tree as trees
import writers

import cli

ROWS = 12_000
FILES = 5


@pytest.fixture
def tree(tmp_path):
    return trees.Tree(tmp_path / "lake")


# What repeats, what is unique, what is null at each level, what is empty.
SOURCE = """SELECT /*+ COALESCE(1) */ id, 'acme' AS tenant_id,
      1741064400000000000 + id AS time_unix_nano,
      cast(id % 120 AS tinyint) AS tiny, cast(hash(id) AS int) AS number,
      if(id % 6 = 1, NULL, xxhash64(id)) AS big, if(id % 3 = 0, NULL, id % 20) AS few,
      if(id % 9 = 2, NULL, id * 3) AS rising,
      cast(if(id % 50 = 7, -0.0D, hash(id) / 7) AS float) AS real,
      if(id % 4 = 1, NULL, hash(id) / 3) AS ratio, if(id % 5 = 0, NULL, id % 2 = 0) AS flag,
      date_add(DATE '2024-01-01', cast(id % 400 AS int)) AS day,
      if(id % 7 = 3, NULL, timestamp_micros(1741064400000000 + id * 1000)) AS at,
      cast(hash(id) % 1000000 AS decimal(9, 2)) AS price,
      cast(id * 1000003 AS decimal(20, 3)) AS amount,
      if(id % 8 = 5, NULL, concat('name ', lpad(cast(id AS string), 8, '0'))) AS name,
      sha2(cast(id AS string), 256) AS unique, concat('kind ', id % (3 + {k})) AS kind,
      if({k} % 2 = 0, concat('one ', id % 9), sha2(cast(id AS string), 224)) AS either,
      concat(repeat('x', 80), id % 1000) AS long, if(id % 2 = 0, '', NULL) AS empty,
      unhex(sha2(cast(id AS string), 256)) AS raw, 'always' AS constant,
      cast(NULL AS int) AS nothing, if({k} = 1, NULL, id % 100) AS sometimes,
      if(id % 10 = 0, NULL, slice(array(concat('tag ', id % 11), NULL, concat('tag ', id)), 1,
         cast(id % 4 AS int))) AS tags,
      if(id % 11 = 0, NULL, map(concat('key ', id % 5), if(id % 4 = 0, NULL, id))) AS counts,
      if(id % 9 = 0, NULL, named_struct('a', if(id % 5 = 0, NULL, id), 'b', concat('b', id % 6)))
        AS pair,
      if(id % 13 = 0, NULL, array(named_struct('x', id, 'tags', array('a', NULL)), NULL)) AS items
    FROM range({start}, {end})"""

FORMS = {
    "version 1": {"parquet.writer.version": "v1"},
    "version 2": {"parquet.writer.version": "v2"},
    "small pages": {"parquet.page.size": "65536", "parquet.page.row.count.limit": "3000"},
    "no dictionaries": {"parquet.enable.dictionary": "false"},
    "no dictionaries, version 2": {"parquet.enable.dictionary": "false",
                                   "parquet.writer.version": "v2"},
    "small dictionaries": {"parquet.dictionary.page.size": "20000"},
    "bloom filters": {"parquet.bloom.filter.enabled#kind": "true",
                      "parquet.bloom.filter.enabled#unique": "true",
                      "parquet.bloom.filter.expected.ndv#unique": "20000"},
    "old times": {"parquet.writer.version": "v1", "times": "INT96"},
}
CODECS = ("zstd", "snappy", "uncompressed", "gzip", "lz4_raw")


def write_spark(lake, tree, tmp_path, form, codec):
    options = dict(FORMS[form])
    lake.spark.conf.set("spark.sql.parquet.outputTimestampType",
                        options.pop("times", "TIMESTAMP_MICROS"))
    for k in range(FILES):
        rows = SOURCE.format(k=k, start=k * ROWS, end=(k + 1) * ROWS)
        target = tmp_path / f"spark{k}"
        lake.spark.sql(rows).write.options(**options, compression=codec).parquet(str(target))
        part, = target.glob("part-*.parquet")
        part.rename(tree.path())


def manifest_files(tree):
    """As any reader of the format takes them: from the manifest, whatever else lies there."""
    partition = tree.partition()
    manifest = json.loads((partition / "manifest.json").read_text())
    return [partition / name for name in manifest["files"]]


CONDITIONS = ("{c} IS NULL", "{c} IS NOT NULL", "{c} = {low}", "{c} < {middle}", "{c} > {middle}",
              "{c} IN ({low}, {high})", "{c} > {high}", "{c} = {high}")
NESTED = {"tags": ("array_contains(tags, 'tag 7')", "size(tags) = 3"),
          "counts": ("counts['key 3'] > 100", "size(counts) = 1"),
          "pair": ("pair.a = 17", "pair.b > 'b3'", "pair.a IS NULL"),
          "items": ("get(items, 0).x > 30", "size(items) = 2")}


class Questions:
    """Conditions on every column of the files, and the answers: how many rows each leaves, and for
    all rows a hash of them. Of a flat column two conditions are taken, others for each `turn`."""

    def __init__(self, lake, paths, turn):
        self.lake = lake
        self.turn = turn
        self.frame(paths).createOrReplaceTempView("asked")
        names = [(row[0], row[1]) for row in lake.sql("DESCRIBE asked")]
        # Maps have no hash.
        self.hashed = ", ".join(f"map_entries({name})" if kind.startswith("map") else name
                                for name, kind in names)
        self.conditions = []
        for name, kind in names:
            if kind.startswith(("array", "map", "struct")):
                self.conditions += [f"{name} IS NULL", *NESTED.get(name, ())]
                continue
            self.conditions += self._of_flat(name, kind)

    def frame(self, paths):
        return self.lake.spark.read.parquet(*(f"file://{path}" for path in paths))

    def _of_flat(self, name, kind):
        if kind == "boolean":
            return [f"{name} IS NULL", f"{name} = true", f"{name} IN (false)"]
        low, high, middle = self.lake.sql(
            f"SELECT min({name}), max({name}), min(CASE WHEN id % 7 = 5 THEN {name} END) "
            "FROM asked")[0]
        if low is None:
            return [f"{name} IS NULL", f"{name} IS NOT NULL"]
        middle = low if middle is None else middle
        values = {word: self._literal(value, kind) for word, value in
                  (("low", low), ("middle", middle), ("high", high))}
        self.turn += 3
        chosen = (CONDITIONS[(self.turn + i) % len(CONDITIONS)] for i in (0, 3))
        return [text.format(c=name, **values) for text in chosen]

    @staticmethod
    def _literal(value, kind):
        if kind == "binary":
            return f"X'{value.hex()}'"
        if kind.startswith("timestamp"):
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        return f"CAST('{value}' AS {kind})"

    def answers(self, paths):
        self.frame(paths).createOrReplaceTempView("asked")
        found = {"rows": tuple(self.lake.sql(
            f"SELECT count(*), sum(cast(xxhash64({self.hashed}) AS decimal(20))) FROM asked")[0])}
        parts = [f"SELECT {i} AS number, count(*) AS rows FROM asked WHERE {condition}"
                 for i, condition in enumerate(self.conditions)]
        for first in range(0, len(parts), 40):
            for row in self.lake.sql(" UNION ALL ".join(parts[first:first + 40])):
                found[self.conditions[row[0]]] = row[1]
        return found


def compact_and_compare(lake, tree, codec, turn):
    """The same answers before and after, from both of Spark's readers; returns the tiers."""
    before = trees.live(tree.partition())
    report = cli.run("compact", tree.root, "--json", "--set", f"output.codec={codec}").json
    after = manifest_files(tree)
    assert after and not set(after) & set(before), report
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in before)
    conf = lake.spark.conf
    expected = None
    try:
        for vectorized in ("true", "false"):
            conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
            if expected is None:
                questions = Questions(lake, before, turn)
                expected = questions.answers(before)
                assert expected["rows"][0] == rows
                assert sum(expected[asked] not in (0, rows) for asked in questions.conditions) > 20
            assert questions.answers(after) == expected
    finally:
        conf.unset("spark.sql.parquet.enableVectorizedReader")
        conf.unset("spark.sql.parquet.outputTimestampType")
    return report["partitions"][0]["tiers"]


@pytest.mark.parametrize("form", FORMS)
def test_files_of_spark(lake, tree, tmp_path, form):
    turn = list(FORMS).index(form)
    codec = CODECS[turn % len(CODECS)]
    write_spark(lake, tree, tmp_path, form, codec)
    kept = "none" if codec == "uncompressed" else codec
    tiers = compact_and_compare(lake, tree, kept, turn)
    assert tiers["splice"] > sum(tiers.values()) // 3, tiers


@pytest.mark.parametrize("writer", writers.WRITERS)
def test_files_of_others(lake, tree, writer):
    """Spark reads what was spliced from pages of other writers."""
    rng = np.random.default_rng(7)
    # Types that Spark has not. With wide columns DuckDB writes version 1: of version 2, Spark's
    # vectorized reader does not know BYTE_STREAM_SPLIT.
    lacks = {*writers.LACKS[writer], "clock", "huge", "exact", "fixed", "odd"}
    columns = [name for name in writers.COLUMNS if name not in lacks]
    for number in range(4):
        table = writers.make_table(rng, number * 6000, 6000, columns)
        writers.WRITERS[writer](rng, table, tree.path(), "zstd",
                                {"version": "2.6", "row_group_size": None, "store_schema": True})
    tiers = compact_and_compare(lake, tree, "zstd", len(writer))
    assert tiers["splice"] > 0, tiers
