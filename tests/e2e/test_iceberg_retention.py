"""expire-snapshots and remove-orphan-files: what has to stay, what goes, and nothing else."""

import datetime
import os
import pathlib
import time

import cli
import iceberg_tables as it
import pytest
from iceberg_lake import PLAIN, plain_rows
from pyiceberg.table.statistics import StatisticsFile


def age(path, days):
    past = time.time() - days * 86400
    os.utime(path, (past, past))


def stray(lake, name, days):
    """A file that nothing refers to, so old."""
    path = lake.directory("t") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"stray")
    age(path, days)
    return path


def located(paths):
    return {pathlib.Path(it.local(path)) for path in paths}


# --- expire-snapshots ---------------------------------------------------------------------------


def test_expired_files_go_and_no_other(lake):
    """Files of expired snapshots only are gone from the disk; exactly what is reachable is left
    (but metadata.json files, which the catalog keeps)."""
    lake.plain()
    table = lake.load("t")
    first = lake.data_entries("t")[0].file.file_path
    it.commit_deletes(table, [it.position_delete_file(table, [(first, 1)])])
    lake.rewrite("t")
    lake.append("t", plain_rows(60, 5))
    rows = lake.rows("t")
    old = set(lake.tree("t"))
    preview = lake.run("expire-snapshots", "t", "--older-than", "now", "--dry-run").json
    assert preview["dry_run"] and set(lake.tree("t")) == old
    result = lake.run("expire-snapshots", "t", "--older-than", "now").json
    assert result["status"] == "snapshots_removed=8"
    assert result["snapshots_removed"] == 8
    assert result["files_by_kind"]["data"] == 6
    assert result["files_by_kind"]["position_deletes"] == 1
    assert result["files_by_kind"]["manifest_list"] == 8
    assert result["files_removed"] == len(result["files"]) == sum(
        result["files_by_kind"].values())
    assert sorted(result["files"]) == sorted(preview["files"])
    assert preview["files_by_kind"] == result["files_by_kind"]
    left = set(lake.tree("t"))
    assert old - left == {p.relative_to(lake.directory("t")) for p in located(result["files"])}
    assert lake.reached("t") <= left
    assert {p.suffix for p in left - lake.reached("t")} <= {".json"}
    assert lake.rows("t") == rows
    assert len(lake.load("t").metadata.snapshots) == 1
    assert lake.run("expire-snapshots", "t", "--older-than", "now").json["snapshots_removed"] == 0


def test_replaced_files_go_with_the_last_snapshot_that_reads_them(lake):
    """As Java does it: the rewrite's own snapshot, which only says that it replaced them, is no
    reason to keep the files."""
    lake.plain()
    lake.rewrite("t")
    result = lake.run("expire-snapshots", "t", "--older-than", "now").json
    assert result["files_by_kind"].get("data") == 6
    assert sum(path.suffix == ".parquet" for path in lake.tree("t")) == 1


def test_tags_and_branches_keep_their_snapshots(lake):
    """I14: tag on the first, branch on the second, main at the sixth."""
    lake.plain()
    table = lake.load("t")
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_tag(ids[0], "first").commit()
    lake.load("t").manage_snapshots().create_branch(ids[1], "second").commit()
    lake.rewrite("t")
    rows = {i: lake.rows("t", i) for i in ids[:2]}
    result = lake.run("expire-snapshots", "t", "--older-than", "now", "--retain-last", "1").json
    assert result["refs_removed"] == []
    table = lake.load("t")
    assert {s.snapshot_id for s in table.metadata.snapshots} == {
        ids[0], ids[1], table.current_snapshot().snapshot_id}
    assert set(table.metadata.refs) == {"main", "first", "second"}
    assert {i: lake.rows("t", i) for i in ids[:2]} == rows
    assert lake.reached("t") <= set(lake.tree("t"))


def test_retention_of_refs(lake):
    """A ref whose head is older than its max-ref-age goes; main never."""
    lake.plain(files=3)
    table = lake.load("t")
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(first, "old", max_ref_age_ms=1).commit()
    time.sleep(0.01)
    result = lake.run("expire-snapshots", "t", "--older-than", "now").json
    assert result["refs_removed"] == ["old"]
    assert result["snapshots_removed"] == 2
    assert set(lake.load("t").metadata.refs) == {"main"}


def test_defaults_and_bounds(lake):
    """R060, R187: 5 days by default; the table's properties; retain_last counts."""
    lake.plain()
    assert lake.run("expire-snapshots", "t").json["snapshots_removed"] == 0
    kept = lake.run("expire-snapshots", "t", "--older-than", "now", "--retain-last", "4").json
    assert kept["snapshots_removed"] == 2
    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": "1",
                                    "history.expire.min-snapshots-to-keep": "3"})
    assert lake.run("expire-snapshots", "t").json["snapshots_removed"] == 1
    assert len(lake.load("t").metadata.snapshots) == 3
    assert len(lake.rows("t")) == 60
    before = lake.metadata_location("t")
    for options in (("--retain-last", "0"), ("--older-than", "yesterday"),
                    ("--snapshot-id", lake.head("t").snapshot_id)):
        lake.run("expire-snapshots", "t", *options, code=cli.USAGE)
    gone = lake.run("expire-snapshots", "t", "--snapshot-id", "12345").json
    assert gone["notes"] == ["snapshot 12345 is not in the table"]
    assert lake.metadata_location("t") == before


def test_chosen_snapshots(lake):
    lake.plain(files=4)
    ids = [s.snapshot_id for s in lake.load("t").metadata.snapshots]
    result = lake.run("expire-snapshots", "t", "--snapshot-id", ids[1], "--snapshot-id", ids[2])
    assert result.json["snapshots_removed"] == 2
    assert [s.snapshot_id for s in lake.load("t").metadata.snapshots] == [ids[0], ids[3]]
    assert len(lake.rows("t", ids[0])) == 10
    assert len(lake.rows("t")) == 40


def test_expiry_after_a_rollback(lake):
    """I15: the chain that is current now survives, the abandoned one goes."""
    lake.plain()
    ids = [s.snapshot_id for s in lake.load("t").metadata.snapshots]
    lake.run("rollback-to-snapshot", "t", ids[2])
    lake.append("t", plain_rows(500, 10))
    rows = lake.rows("t")
    lake.run("expire-snapshots", "t", "--older-than", "now")
    assert lake.rows("t") == rows
    assert len(rows) == 40
    assert lake.reached("t") <= set(lake.tree("t"))


@pytest.mark.parametrize("value", ["false", "FALSE", "no"])
@pytest.mark.parametrize("command", ["expire-snapshots", "remove-orphan-files"])
def test_gc_disabled(lake, command, value):
    """R187: the files may be another table's."""
    lake.plain(properties={"gc.enabled": value})
    path = stray(lake, "data/stray.parquet", days=10)
    before = lake.metadata_location("t"), lake.tree("t")
    failed = lake.run(command, "t", "--older-than", "2d", code=1).json
    assert failed["error"]["code"] == "denied"
    assert "gc.enabled" in failed["reason"]
    assert (lake.metadata_location("t"), lake.tree("t")) == before and path.exists()


# --- remove-orphan-files ------------------------------------------------------------------------


def test_old_orphans_go_young_ones_stay(lake):
    """I18, I19: and so do version-hint, statistics, previous metadata and directories' other
    snapshots."""
    lake.plain()
    lake.rewrite("t")
    statistics = stray(lake, "metadata/stats.puffin", days=30)
    with lake.load("t").update_statistics() as update:
        update.set_statistics(StatisticsFile(
            snapshot_id=lake.head("t").snapshot_id,
            statistics_path=cli.place.location(statistics), file_size_in_bytes=5,
            file_footer_size_in_bytes=1, blob_metadata=[]))
    lake.age("t")
    hint = stray(lake, "metadata/version-hint.text", days=30)
    old = {stray(lake, f"data/{name}", days=4) for name in ("a.parquet", "deep/er/b.parquet")}
    old.add(stray(lake, "metadata/lost-m0.avro", days=4))
    young = {stray(lake, "data/young.parquet", days=2.9), stray(lake, "data/now.parquet", days=0)}
    listed = set(lake.tree("t"))
    rows = lake.rows("t")

    preview = lake.run("remove-orphan-files", "t", "--dry-run").json
    assert located(preview["files"]) == old
    assert set(lake.tree("t")) == listed
    result = lake.run("remove-orphan-files", "t").json
    assert located(result["files"]) == old
    assert (result["status"], result["files_removed"], result["bytes"]) == ("deleted=3", 3, 15)
    assert (result["listed"], result["young"]) == (len(listed), 2)
    assert listed - set(lake.tree("t")) == {p.relative_to(lake.directory("t")) for p in old}
    assert hint.exists() and statistics.exists() and all(p.exists() for p in young)
    assert lake.rows("t") == rows
    for snapshot in lake.load("t").metadata.snapshots:
        lake.rows("t", snapshot.snapshot_id)


def test_bounds_of_older_than(lake):
    """I19: under the floor of a day, in the future, nonsense: exit 2 and nothing is removed."""
    lake.plain()
    path = stray(lake, "data/stray.parquet", days=10)
    for bound in ("23h", "0s", "now", "2099-01-01", "-3d", "soon"):
        lake.run("remove-orphan-files", "t", f"--older-than={bound}", code=cli.USAGE)
    assert path.exists()
    kept = lake.run("remove-orphan-files", "t", "--older-than", "11d").json
    assert kept["files_removed"] == 0 and path.exists()
    lake.run("remove-orphan-files", "t", "--older-than", "25h")
    assert not path.exists()


def test_unknown_age_is_kept(lake):
    """I19: the epoch is what stores say that know no time."""
    lake.plain()
    path = stray(lake, "data/epoch.parquet", days=0)
    os.utime(path, (0, 0))
    result = lake.run("remove-orphan-files", "t").json
    assert (result["unknown_age"], result["files_removed"]) == (1, 0)
    assert path.exists()


def test_too_many_orphans(lake):
    """R185: a wrong prefix looks like this; --force, --max-deletes."""
    lake.plain(files=1)
    strays = [stray(lake, f"data/s{n}.parquet", days=10) for n in range(30)]
    failed = lake.run("remove-orphan-files", "t", code=1).json
    assert failed["error"]["code"] == "denied" and all(p.exists() for p in strays)
    some = lake.run("remove-orphan-files", "t", "--force", "--max-deletes", "7").json
    assert (some["files_removed"], some["over_limit"]) == (7, 23)
    assert sum(p.exists() for p in strays) == 23
    lake.run("remove-orphan-files", "t", "--force")
    assert not any(p.exists() for p in strays)


def test_table_below_another_one(lake):
    """I18, R188: refused for the outer table, whether its neighbour is in the catalog or not."""
    lake.plain()
    inner = f"{lake.load('t').location()}/inner"
    lake.create("inner", PLAIN, location=inner)
    lake.append("inner", plain_rows(0, 5))
    lake.age("t")
    before = lake.tree("t")
    failed = lake.run("remove-orphan-files", "t", code=1).json
    assert failed["error"]["code"] == "denied" and "inner" in failed["reason"]
    lake.catalog.drop_table("sales.inner")
    failed = lake.run("remove-orphan-files", "t", code=1).json
    assert failed["error"]["code"] == "denied" and "inner" in failed["reason"]
    assert lake.tree("t") == before


def test_files_of_a_writer_that_decodes_locations(lake):
    """I18: iceberg-go names "%3A" and creates ":". Such a file is not found, and it stays."""
    lake.create("t", PLAIN)
    data = lake.load("t").location() + "/data"
    with lake.load("t").transaction() as transaction:
        transaction.set_properties({"write.data.path": f"{data}/at=12%3A00 50%25 %zz%4"})
    lake.append("t", plain_rows(0, 10))
    named = pathlib.Path(it.local(data)) / "at=12%3A00 50%25 %zz%4"
    created = named.with_name("at=12:00 50% %zz%4")
    named.rename(created)
    old = {stray(lake, f"data/{name}/x.parquet", days=30) for name in (named.name, created.name)}
    lake.age("t")
    result = lake.run("remove-orphan-files", "t", "--force").json
    assert located(result["files"]) == old
    run = lake.run("rewrite-data-files", "t", "--rewrite-all", code=1)
    assert run.json["error"]["code"] == "not_found" and "at=12%3A00" in run.err
    if named.exists():
        named.rmdir()
    created.rename(named)
    assert lake.rows("t") == it.sorted_rows(plain_rows(0, 10))


def test_files_of_a_dropped_snapshot_become_orphans(lake):
    """A rewrite, then expiry that cannot remove a file, then the sweep: nothing is left over."""
    lake.plain()
    lake.rewrite("t")
    lake.load("t").maintenance.expire_snapshots().older_than(
        datetime.datetime.now()).commit()
    rows = lake.rows("t")
    lake.age("t")
    result = lake.run("remove-orphan-files", "t", "--force").json
    assert result["files_removed"] > 0
    assert set(lake.tree("t")) == lake.reached("t")
    assert lake.rows("t") == rows


@pytest.mark.local_disk("a symbolic link")
def test_links_are_left_alone(lake):
    lake.plain()
    outside = lake.root / "outside.parquet"
    outside.write_bytes(b"precious")
    age(outside, 10)
    link = lake.directory("t") / "data" / "link.parquet"
    link.symlink_to(outside)
    directory = lake.directory("t") / "data" / "up"
    directory.symlink_to(lake.root)
    result = lake.run("remove-orphan-files", "t").json
    assert outside.exists() and link.is_symlink() and directory.is_symlink()
    assert result["files_removed"] == 0
