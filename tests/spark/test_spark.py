"""Tables of Spark, rewritten by lithify, judged by Spark: equal rows before, after, and after
expiry and orphan removal; nothing deleted comes back."""

import pytest

COLUMNS = ("id bigint, region string, amount decimal(9,2), tags array<string>, "
           "attributes map<string, int>, place struct<lat: double, lon: double>, at timestamp, "
           "day date, note string")


def make(lake, name, version, partitioned=True, mode="merge-on-read", properties=""):
    by = "PARTITIONED BY (region)" if partitioned else ""
    lake.sql(f"CREATE TABLE lake.sales.{name} ({COLUMNS}) USING iceberg {by} TBLPROPERTIES ("
             f"'format-version'='{version}', 'write.delete.mode'='{mode}', "
             f"'write.update.mode'='{mode}', 'write.merge.mode'='{mode}' {properties})")


def fill(lake, name, files=6, rows=40, start=0):
    for k in range(files):
        lake.sql(f"""INSERT INTO lake.sales.{name}
            SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'eu', 'us'), cast(id / 4 AS decimal(9, 2)),
              if(id % 5 = 0, NULL, array(cast(id AS string), NULL, 'x')),
              map('a', cast(id AS int), 'b', NULL),
              if(id % 7 = 0, NULL, named_struct('lat', id / 3, 'lon', double('NaN'))),
              timestamp_seconds(id * 1000), date_add(DATE '2026-01-01', cast(id AS int)),
              if(id % 3 = 0, NULL, repeat('note ', cast(id % 4 AS int)))
            FROM range({start + k * rows}, {start + (k + 1) * rows})""")


def cleaned(lake, name, rows, lineage):
    """Expiry and orphan removal leave the rows as they are, and nothing of the old snapshots."""
    expired = lake.lithify("expire-snapshots", name, "--older-than", "now", "--retain-last", "1")
    assert expired["snapshots_removed"] > 0
    assert expired["failed"] == []
    assert lake.count(name, "snapshots") == 1
    assert lake.rows(name, lineage) == rows
    lake.lithify("remove-orphan-files", name, "--dry-run")
    assert lake.rows(name, lineage) == rows


@pytest.mark.parametrize("version", [2, 3])
def test_merge_on_read_table(lake, version):
    name = f"mor{version}"
    lineage = version == 3
    make(lake, name, version)
    fill(lake, name)
    lake.sql(f"DELETE FROM lake.sales.{name} WHERE id IN (3, 4, 50, 51, 52)")
    lake.sql(f"UPDATE lake.sales.{name} SET amount = 0.01 WHERE id % 10 = 7")
    lake.sql(f"DELETE FROM lake.sales.{name} WHERE id BETWEEN 90 AND 95")
    before = lake.rows(name, lineage)
    old = lake.snapshot(name)[0]
    assert lake.deletes(name) > 0

    result = lake.lithify("rewrite-data-files", name, "--rewrite-all")
    assert result["status"] == "committed"
    assert lake.rows(name, lineage) == before
    # A predicate on each column uses the statistics and bounds that lithify wrote.
    for where in ("WHERE id < 60", "WHERE amount > 20", "WHERE day > DATE '2026-03-01'",
                  "WHERE note IS NULL", "WHERE region = 'eu'", "WHERE at > '1970-01-02'",
                  "WHERE place.lat > 30"):
        expected = [row for row in lake.rows(name, lineage, where, f"VERSION AS OF {old}")]
        assert lake.rows(name, lineage, where) == expected, where
    assert lake.deletes(name) == 0
    assert lake.count(name, "files") == 2
    _, operation, summary = lake.snapshot(name)
    assert operation == "replace"
    assert summary["lithify.job-id"] == result["job_id"]
    assert summary["total-delete-files"] == "0"
    assert int(summary["total-records"]) == len(before)

    # Spark goes on from what lithify wrote.
    fill(lake, name, files=2, start=1000)
    lake.sql(f"DELETE FROM lake.sales.{name} WHERE id IN (10, 1001)")
    before = lake.rows(name, lineage)
    assert lake.lithify("rewrite-data-files", name, "--rewrite-all")["status"] == "committed"
    assert lake.rows(name, lineage) == before
    # I27: nothing is left to do.
    assert lake.lithify("rewrite-data-files", name)["status"] == "skipped"
    cleaned(lake, name, before, lineage)


def test_equality_deletes_of_the_java_core(lake):
    name = "equality"
    make(lake, name, 2)
    fill(lake, name)
    lake.delete_equal(name, ["note"], [("note ",), ("note note ",)], "region=us")
    lake.delete_equal(name, ["region", "note"], [("eu", None)], "region=eu")  # I23.
    fill(lake, name, files=1, start=500)  # Newer than the deletes: untouched by them.
    before = lake.rows(name)
    result = lake.lithify("rewrite-data-files", name, "--rewrite-all")
    assert result["status"] == "committed"
    assert result["rows_removed"] > 0
    assert lake.rows(name) == before
    assert lake.deletes(name) == 0
    cleaned(lake, name, before, False)


def test_evolved_schema(lake):
    """I24: by field id; a column dropped and added again is another column."""
    name = "evolved"
    make(lake, name, 2)
    fill(lake, name, files=3)
    lake.sql(f"ALTER TABLE lake.sales.{name} RENAME COLUMN note TO remark")
    lake.sql(f"ALTER TABLE lake.sales.{name} ALTER COLUMN amount TYPE decimal(18, 2)")
    lake.sql(f"ALTER TABLE lake.sales.{name} DROP COLUMN day")
    lake.sql(f"ALTER TABLE lake.sales.{name} ADD COLUMN day date")
    lake.sql(f"ALTER TABLE lake.sales.{name} ADD COLUMN place.alt double")
    lake.sql(f"INSERT INTO lake.sales.{name} VALUES (1000, 'eu', 1.5, array('q'), map(), "
             "named_struct('lat', 1.0D, 'lon', 2.0D, 'alt', 3.0D), now(), 'r', DATE '2026-02-02')")
    before = lake.rows(name)
    assert lake.lithify("rewrite-data-files", name, "--rewrite-all")["status"] == "committed"
    assert lake.rows(name) == before


def test_evolved_partition_spec(lake):
    """Q18: files keep the spec that they were written with."""
    name = "specs"
    make(lake, name, 2)
    fill(lake, name, files=3)
    lake.sql(f"ALTER TABLE lake.sales.{name} ADD PARTITION FIELD bucket(4, id)")
    fill(lake, name, files=3, start=300)
    lake.sql(f"DELETE FROM lake.sales.{name} WHERE id % 9 = 0")
    before = lake.rows(name)
    assert lake.lithify("rewrite-data-files", name, "--rewrite-all")["status"] == "committed"
    assert lake.rows(name) == before
    specs = {row[0] for row in lake.sql(f"SELECT DISTINCT spec_id FROM lake.sales.{name}.files")}
    assert specs == {0, 1}


def test_concurrent_delete_wins(lake):
    """I4: rows that Spark deletes while files are being rewritten stay deleted. Here: after."""
    name = "concurrent"
    make(lake, name, 2)
    fill(lake, name)
    assert lake.lithify("rewrite-data-files", name, "--rewrite-all")["status"] == "committed"
    lake.sql(f"DELETE FROM lake.sales.{name} WHERE id = 11")
    before = lake.rows(name)
    assert not any("id=11," in row for row in before)
    assert lake.lithify("rewrite-data-files", name, "--rewrite-all")["status"] == "committed"
    assert lake.rows(name) == before


SPLICED = """SELECT /*+ COALESCE(1) */ id,
      concat('unique ', sha2(cast(id AS string), 256)) AS all_unique,
      if(id % 3 = 0, NULL, concat('some ', sha2(cast(id AS string), 224))) AS some_unique,
      concat('kind ', id % 50) AS few, if(id % 5 = 0, NULL, id % 7) AS few_numbers,
      if({k} % 2 = 0, concat('one ', id % 9), concat('or other ', sha2(cast(id AS string), 256)))
        AS either,
      if({k} < 3, concat('one ', id % 9), concat('or other ', sha2(cast(id AS string), 256)))
        AS late,
      if({k} % 3 = 1, NULL, concat('at times ', id % 13)) AS at_times,
      if(id % 4 = 0, NULL, array(concat('tag ', id % 11), NULL, concat('tag ', id))) AS tags,
      cast(hash(id) AS double) AS number, cast(id * 1000003 AS decimal(20, 3)) AS amount
    FROM range({start}, {end})"""


def test_spliced_pages(lake):
    """Pages that were moved as they are: of merged dictionaries, of dictionaries that became plain
    pages (version 1 and 2), and of both in one column chunk, for every reader that Spark has."""
    name = "spliced"
    for k in range(6):
        rows = SPLICED.format(k=k, start=k * 20_000, end=(k + 1) * 20_000)
        if k == 0:
            lake.sql(f"CREATE TABLE lake.sales.{name} USING iceberg TBLPROPERTIES "
                     f"('write.parquet.compression-codec'='zstd') AS {rows}")
        else:
            lake.sql(f"INSERT INTO lake.sales.{name} {rows}")
    columns = [row[0] for row in lake.sql(f"DESCRIBE lake.sales.{name}") if row[0] and
               not row[0].startswith("#")]
    wheres = ("TRUE", "id BETWEEN 39990 AND 40010", "all_unique < 'unique 3'",
              "some_unique IS NULL", "some_unique > 'some f0'", "few = 'kind 17'",
              "few_numbers IN (3, 5)", "either = 'one 4'", "either > 'or other e'",
              "late = 'one 4'", "late > 'or other e'", "at_times = 'at times 12'",
              "array_contains(tags, 'tag 10')", "number < -1000000000", "amount > 100000000000")

    def summary(source):
        """Per predicate: how many rows, and a hash over all columns, whatever their order."""
        return [tuple(lake.sql(f"SELECT count(*), sum(cast(xxhash64({', '.join(columns)}) AS "
                               f"decimal(20))) FROM {source} WHERE {where}")[0])
                for where in wheres]

    before = summary(f"lake.sales.{name}")
    assert before[0][0] == 120_000
    assert all(0 < count < 120_000 for count, _ in before[1:])
    result = lake.lithify("rewrite-data-files", name, "--rewrite-all")
    assert result["status"] == "committed"
    assert result["tiers"]["splice"] > result["tiers"].get("recode", 0)
    for vectorized in ("true", "false"):
        lake.sql(f"ALTER TABLE lake.sales.{name} SET TBLPROPERTIES "
                 f"('read.parquet.vectorization.enabled'='{vectorized}')")
        assert summary(f"lake.sales.{name}") == before
    # Spark's own Parquet reader, both of its ways.
    file, = (row[0] for row in lake.sql(f"SELECT file_path FROM lake.sales.{name}.files"))
    try:
        for vectorized in ("true", "false"):
            lake.spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
            assert summary(f"parquet.`{file}`") == before
    finally:
        lake.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
