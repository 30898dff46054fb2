"""The Go implementation: its tables in all their forms are rewritten, and it reads the same rows
before and after; it goes on from what lithify wrote, and lithify from that."""

import itertools

import pytest
from go_lake import AT, EVERY_KIND, PARTITIONED, GoLake, make_rows
from iceberg_lake import duckdb_rows
from iceberg_tables import sorted_rows
from service_script import run_script

FILES, ROWS = 4, 40
DELETED = (3, 4, 50, 51, 52, 90, 159)
DELETED_EQUAL = (5, 53, 100)

# What Go can write: a v1 table has no delete files.
FORMS = [form for form in itertools.product(
    (1, 2, 3), (True, False), ("none", "copy-on-write", "merge-on-read", "equality"))
    if form[0] > 1 or form[2] in ("none", "copy-on-write")]


@pytest.fixture(scope="session")
def program():
    return run_script("go_lake.sh")


@pytest.fixture
def lake(tmp_path, program):
    return GoLake(tmp_path, program)


def fill(lake, version, partitioned, deletes):
    """A table in this form; its rows as dicts."""
    mode = "merge-on-read" if deletes == "merge-on-read" else "copy-on-write"
    lake.go_create("t", version, PARTITIONED if partitioned else None,
                   {"write.delete.mode": mode})
    for number in range(FILES):
        lake.go_append("t", make_rows(number * ROWS, ROWS))
    gone = set()
    if deletes in ("copy-on-write", "merge-on-read"):
        gone |= set(DELETED)
        # In two goes: some files get a second delete, or their vector a second version.
        lake.go_delete("t", DELETED[:4])
        lake.go_delete("t", DELETED[4:])
    if deletes == "equality":
        gone |= set(DELETED_EQUAL)
        lake.go_delete_equal("t", [row for row in make_rows(0, FILES * ROWS) if row["id"] in gone])
    return [row for row in make_rows(0, FILES * ROWS) if row["id"] not in gone]


def judge(lake, rows, deletes=0):
    """All readers that can read it see these rows."""
    expected = sorted_rows(rows)
    assert lake.go_rows("t") == expected
    assert len(lake.delete_entries("t")) == deletes
    if not lake.equality_deletes("t"):
        assert lake.rows("t") == expected
    if deletes == 0:
        assert duckdb_rows(lake, "t") == expected


def rewritten(lake, rows, lineage):
    """All data files are rewritten and all deletes applied; Go reads the old snapshot still, and in
    v3 every row keeps its id and the number of the commit that made it."""
    before = lake.go_rows("t", "-lineage") if lineage else None
    planned = lake.head("t").snapshot_id
    asked = ("--rewrite-all", "--remove-dangling-deletes")
    deletes = lake.delete_entries("t")
    if any(entry.file.file_path.endswith(".puffin") for entry in deletes):
        # Go adds the whole Puffin file's size for each vector in it, lithify and Java take away
        # that of the vector: the totals in the summary, which check_numbers holds, are nobody's.
        result = lake.run("rewrite-data-files", "t", *asked).json
        assert (result["status"], result["delete_files_removed"]) == ("committed", len(deletes))
    else:
        result = lake.rewrite("t", *asked, expected=rows)
    judge(lake, rows)
    assert lake.go_rows("t", "-snapshot", planned) == sorted_rows(rows)
    if lineage:
        assert lake.go_rows("t", "-lineage") == before
    return result


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_life_of_a_table(lake, form):
    version, partitioned, deletes = form
    rows = fill(lake, *form)
    files, delete_files = len(lake.data_entries("t")), len(lake.delete_entries("t"))
    assert (delete_files > 0) == (deletes in ("merge-on-read", "equality"))
    judge(lake, rows, delete_files)
    health = lake.run("table-health", "t").json
    assert (health["live_data_files"], health["delete_files"]) == (files, delete_files)

    result = rewritten(lake, rows, version == 3)
    assert result["files_rewritten"] == files
    removed = {"merge-on-read": len(DELETED), "equality": len(DELETED_EQUAL)}.get(deletes, 0)
    assert result["rows_removed"] == removed

    # Go goes on from what lithify wrote, in the same form.
    rows += make_rows(1000, ROWS)
    lake.go_append("t", make_rows(1000, ROWS))
    if deletes in ("copy-on-write", "merge-on-read"):
        lake.go_delete("t", (10, 11, 1001))
        rows = [row for row in rows if row["id"] not in (10, 11, 1001)]
    if deletes == "equality":
        lake.go_delete_equal("t", [make_rows(10, 1)[0], make_rows(1001, 1)[0]])
        rows = [row for row in rows if row["id"] not in (10, 1001)]
    judge(lake, rows, len(lake.delete_entries("t")))
    rewritten(lake, rows, version == 3)

    # Manifests of both writers become one.
    for start in (2000, 3000):
        lake.go_append("t", make_rows(start, 5))
        rows += make_rows(start, 5)
    merged = lake.run("rewrite-manifests", "t").json
    assert merged["status"] == "committed"
    assert len(lake.manifests("t")) == merged["manifests_added"] == 1
    judge(lake, rows)

    expired = lake.run("expire-snapshots", "t", "--older-than", "now").json
    assert expired["snapshots_removed"] > FILES and expired["failed"] == []
    assert len(lake.load("t").snapshots()) == 1
    judge(lake, rows)
    lake.go_append("t", make_rows(4000, 5))
    judge(lake, rows + make_rows(4000, 5))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partition_values(lake, version):
    """Of every type and transform, nulls and NaN among them; each row is in a partition of its own,
    and Go finds it by what lithify wrote of it."""
    rows = make_rows(0, 12)
    lake.go_create("t", version, EVERY_KIND)
    for _ in range(2):
        lake.go_append("t", rows)
    assert len(lake.data_entries("t")) == 24
    result = rewritten(lake, rows * 2, version == 3)
    assert (result["files_rewritten"], result["files_added"]) == (24, 12)
    lake.go_append("t", rows)
    assert lake.run("rewrite-manifests", "t").json["status"] == "committed"
    judge(lake, rows * 3)
    for row in rows:
        lake.go_delete("t", [row["id"]])
    judge(lake, [])


def test_locations_that_go_decodes(lake):
    """I18: Go names "%3A" and creates ":". lithify does not find those files, and they stay."""
    lake.go_create("t", 2, AT)
    rows = make_rows(0, 5)
    lake.go_append("t", rows)
    assert any("%3A" in entry.file.file_path for entry in lake.data_entries("t"))
    assert lake.go_rows("t") == sorted_rows(rows)
    run = lake.run("rewrite-data-files", "t", "--rewrite-all", code=1)
    assert run.json["error"]["code"] == "not_found" and "%3A" in run.err
    lake.age("t")
    assert lake.run("remove-orphan-files", "t", "--force").json["files"] == []
    assert lake.go_rows("t") == sorted_rows(rows)
