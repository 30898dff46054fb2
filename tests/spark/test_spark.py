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
