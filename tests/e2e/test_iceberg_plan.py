"""What a rewrite takes and leaves: filters, thresholds, fixed point (I27), dry run, order,
branches, and the same numbers from table-health (R079)."""

import hashlib
import statistics

import cli
import iceberg_tables as it
import pytest
from iceberg_lake import plain_rows
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

PLAIN_LARGE = Schema(NestedField(1, "id", LongType(), required=False),
                     NestedField(2, "text", StringType(), required=False))


def hash_text(number):
    return hashlib.sha256(str(number).encode()).hexdigest()


def sizes(lake, name="t"):
    return [e.file.file_size_in_bytes for e in lake.data_entries(name)]


def test_filter_chooses_files_never_rows(lake):
    """I3: files with ids 0–9, 10–19, …; id < 25 takes three of them, whole."""
    lake.plain()
    result = lake.rewrite("t", "--where", "id < 25", "--rewrite-all")
    assert (result["files_rewritten"], result["rows_in"], result["rows_out"]) == (3, 30, 30)


@pytest.mark.parametrize("where, files", [
    ("region = 'eu'", 5), ("region IN ('eu', 'us') AND id >= 20", 6),
    ("NOT region = 'eu'", 5), ("region IS NULL", 0), ("id BETWEEN 10 AND 19", 2),
    ("note LIKE 'note%'", 10), ("id < 10 OR id >= 40", 4)])
def test_filters(lake, where, files):
    lake.plain(files=5, partition_by=["region"])
    if not files:
        assert lake.skipped("t", "--where", where) == "no file may match the filter"
        return
    plan = lake.run("rewrite-data-files", "t", "--where", where, "--rewrite-all", "--dry-run").json
    assert sum(len(group["files"]) for group in plan["plan"]["groups"]) == files
    lake.rewrite("t", "--where", where, "--rewrite-all")


@pytest.mark.parametrize("where", ["id <", "nosuch = 1", "id = 'x'", "id = 1; DROP TABLE t"])
def test_bad_filters(lake, where):
    lake.plain()
    before = lake.metadata_location("t"), lake.tree("t")
    failed = lake.run("rewrite-data-files", "t", "--where", where, code=cli.USAGE).json
    assert failed["error"]["code"] == "invalid"
    assert (lake.metadata_location("t"), lake.tree("t")) == before


def test_dry_run_changes_nothing(lake):
    lake.plain(partition_by=["region"])
    before = lake.metadata_location("t"), lake.tree("t")
    report = lake.run("rewrite-data-files", "t", "--dry-run").json
    assert (report["status"], report["snapshot_id"]) == ("planned", None)
    plan = {group["partition"]: group for group in report["plan"]["groups"]}
    for region in ("eu", "us"):
        entries = [e.file for e in lake.data_entries("t") if e.file.partition == Record(region)]
        group = plan[f"region={region}"]
        assert set(group["files"]) == {f.file_path for f in entries}
        assert group["bytes"] == sum(f.file_size_in_bytes for f in entries)
        assert group["records"] == group["live_records"] == 30
        assert group["outputs"] == 1
        assert group["reason"].startswith("6 files below 384.0 MiB")
    assert {p["state"] for p in report["plan"]["partitions"]} == {"candidate"}
    assert (lake.metadata_location("t"), lake.tree("t")) == before
    assert not lake.db.with_name("catalog.db.audit.jsonl").exists()

    # The plan is what happens.
    result = lake.rewrite("t")
    assert result["files_rewritten"] == sum(len(g["files"]) for g in plan.values())
    assert result["files_added"] == 2
    text = cli.run("rewrite-data-files", "lake.sales.t", "--catalog-uri", lake.uri, "--dry-run")
    assert "skipped" in text.out


def test_dry_run_tells_what_footers_decide(lake):
    """The tiers of each group, and why; the rewrite counts the same."""
    lake.plain(files=3, partition_by=["region"])
    with lake.load("t").update_schema() as update:
        update.add_column("extra", LongType())
    lake.append("t", *([{**row, "extra": row["id"]} for row in plain_rows(100 + number * 10, 10)]
                       for number in range(2)))
    report = lake.run("rewrite-data-files", "t", "--dry-run").json
    plans = {group["partition"]: group["tier_plan"] for group in report["plan"]["groups"]}
    for region in ("eu", "us"):
        plan = plans[f"region={region}"]
        assert plan["row_groups"] == 1
        assert plan["tiers"] == {"splice": 15, "recode": 5}
        assert plan["recoded"] == {"an input lacks it": 5}
        assert [each["column"] for each in plan["columns"]] == ["id", "region", "note", "extra"]
        assert plan["columns"][3]["recoded"] == {"an input lacks it": 5}
    assert (report["tiers"], report["recoded"]) == ({}, {})
    arguments = ("rewrite-data-files", "lake.sales.t", "--catalog-uri", lake.uri)
    text = cli.run(*arguments, "--dry-run").out
    assert "splice up to 15, recode 5: an input lacks it 5" in text
    assert "column chunks by tier: splice up to 30, recode 10: an input lacks it 10\n" in text

    result = lake.rewrite("t")
    assert result["tiers"] == {"splice": 30, "recode": 10}
    assert result["recoded"] == {"an input lacks it": 10}
    text = cli.run(*arguments, "--rewrite-all").out
    assert "column chunks by tier: splice 8\n" in text


def test_dry_run_does_not_tell_tiers_of_rows_that_move(lake):
    lake.plain()
    lake.partition("t", ["region"])
    report = lake.run("rewrite-data-files", "t", "--dry-run", "--output-spec-id", "1").json
    assert [group["tier_plan"] for group in report["plan"]["groups"]] == [None]
    assert report["notes"] == ["tiers are not explained where rows move to another partition spec: "
                               "they depend on rows"]


def test_min_input_files(lake):
    lake.plain(files=4)
    assert lake.skipped("t") == "below min_input_files"
    lake.append("t", plain_rows(40, 10))
    assert lake.skipped("t", "--min-input-files", "6") == "below min_input_files"
    lake.rewrite("t", "--min-input-files", "5")


def test_partitions_with_too_few_files(lake):
    lake.plain(files=3, partition_by=["region"])
    assert lake.skipped("t") == "no eligible groups"  # R085: six files, but three in each.
    lake.append("t", *(plain_rows(100 + n * 10, 10, "eu") for n in range(2)))
    result = lake.rewrite("t")
    assert (result["files_rewritten"], result["groups"]) == (5, 1)


@pytest.mark.parametrize("target", [0.45, 0.9, 1.1, 1.34, 2.2, 5.5, 7])
def test_fixed_point(lake, target):
    """I27: whatever the target is, a second run finds nothing to do."""
    lake.create("t", PLAIN_LARGE)
    lake.append("t", *([{"id": n * 500 + i, "text": hash_text(n * 500 + i)}
                        for i in range(500)] for n in range(6)))
    size = int(statistics.mean(sizes(lake)) * target)
    options = ("--target-file-size-bytes", str(size), "--min-input-files", "2")
    first = lake.run("rewrite-data-files", "t", *options).json
    if first["status"] == "committed":
        assert first["files_added"] < first["files_rewritten"]
    else:
        assert first["reason"] in ("no eligible groups", "below min_input_files")
    assert (first["status"] == "committed") == (target > 1.34 - 0.01), (first, sizes(lake))
    assert lake.skipped("t", *options)
    health = lake.run("table-health", "t", *options).json
    assert (health["eligible_groups"], health["est_rewrite_bytes"]) == (0, 0)


def test_rewrite_all_is_never_satisfied(lake):
    """R088: it takes single files of good size, too."""
    lake.plain(files=1)
    for _ in range(2):
        assert lake.rewrite("t", "--rewrite-all")["files_rewritten"] == 1


def test_groups_are_bounded(lake):
    lake.plain(files=8)
    most = sum(sorted(sizes(lake))[-4:])
    options = ("--max-file-group-size-bytes", str(most), "--target-file-size-bytes", str(most),
               "--rewrite-all")
    report = lake.run("rewrite-data-files", "t", *options, "--dry-run").json
    groups = report["plan"]["groups"]
    assert len(groups) >= 2
    assert all(group["bytes"] <= most for group in groups)
    assert lake.rewrite("t", *options)["groups"] == len(groups)


@pytest.mark.parametrize("order, key, reverse", [
    ("bytes-asc", "bytes", False), ("bytes-desc", "bytes", True),
    ("files-asc", "files", False), ("files-desc", "files", True)])
def test_job_order(lake, order, key, reverse):
    lake.plain(files=0, partition_by=["region"])
    lake.append("t", *(plain_rows(0, 50 * (n + 1), region)
                       for n, region in enumerate("abc") for _ in range(5 - n)))
    report = lake.run("rewrite-data-files", "t", "--dry-run", "--rewrite-all",
                      "--rewrite-job-order", order).json
    found = [len(g[key]) if key == "files" else g[key] for g in report["plan"]["groups"]]
    assert found == sorted(found, reverse=reverse)
    assert len(set(found)) == 3


def test_partial_progress(lake):
    """R121: several commits, each with its own groups; together as one."""
    lake.plain(files=0, partition_by=["region"])
    lake.append("t", *(plain_rows(n * 10, 10, region) for region in "abcd" for n in range(5)))
    before = lake.rows("t")
    result = lake.run("rewrite-data-files", "t", "--partial-progress",
                      "--partial-progress-max-commits", "2").json
    assert (result["status"], result["files_rewritten"], result["files_added"]) == (
        "committed", 20, 4)
    assert lake.rows("t") == before
    mine = [s.summary.additional_properties for s in lake.load("t").metadata.snapshots
            if s.summary.operation.value == "replace"]
    assert [int(s["deleted-data-files"]) for s in mine] == [10, 10]
    assert {s["lithify.job-id"] for s in mine} == {result["job_id"]}


def test_branch(lake):
    """Only the branch moves; main keeps its snapshot and its files."""
    lake.plain()
    table = lake.load("t")
    main = table.current_snapshot()
    table.manage_snapshots().create_branch(main.snapshot_id, "audit").commit()
    result = lake.run("rewrite-data-files", "t", "--branch", "audit").json
    table = lake.load("t")
    assert table.current_snapshot().snapshot_id == main.snapshot_id
    assert table.metadata.refs["audit"].snapshot_id == result["snapshot_id"]
    assert lake.rows("t", result["snapshot_id"]) == lake.rows("t")
    assert len(lake.data_entries("t")) == 6
    failed = lake.run("rewrite-data-files", "t", "--branch", "nosuch", code=1).json
    assert failed["error"]["code"] == "not_found"


# --- table-health -------------------------------------------------------------------------------


def test_health(lake):
    """R073: six columns first; R074, R081: values as defined, computed here."""
    lake.plain(files=6, partition_by=["region"],
               properties={"lithify.maintenance.enabled": "true"})
    table = lake.load("t")
    eu = [e.file for e in lake.data_entries("t") if e.file.partition == Record("eu")]
    it.commit_deletes(table, [it.position_delete_file(
        table, [(eu[0].file_path, n) for n in range(3)], Record("eu"))])
    it.commit_deletes(lake.load("t"), [it.equality_delete_file(
        lake.load("t"), ["id"], [(10**6 + n,) for n in range(9)], Record("us"))])
    report = lake.run("table-health", "t").json
    all_sizes = sorted(sizes(lake))
    assert list(report)[:6] == ["table", "small_files", "avg_file_mb", "delete_ratio",
                                "eligible_groups", "opted_in"]
    plan = lake.run("rewrite-data-files", "t", "--dry-run").json["plan"]
    expected = {
        "small_files": 12, "avg_file_mb": round(statistics.mean(all_sizes) / 2**20, 1),
        "delete_ratio": 12 / 60, "eligible_groups": len(plan["groups"]), "opted_in": True,
        "live_data_files": 12, "avg_file_bytes": sum(all_sizes) // 12,
        "p50_file_bytes": all_sizes[6], "total_bytes": sum(all_sizes), "total_records": 60,
        "delete_files": 2, "delete_heavy_files": 1, "dangling_delete_files": 0,
        "est_rewrite_bytes": sum(group["bytes"] for group in plan["groups"]),
        "last_compaction_snapshot_ms": None, "snapshot_id": lake.head("t").snapshot_id,
    }
    assert {key: report[key] for key in expected} == expected
    assert set(report) == set(expected) | {"table"}
    assert len(plan["groups"]) == 2


def test_health_knows_the_last_compaction(lake):
    """R078: the newest snapshot that a compaction stamped."""
    lake.plain()
    lake.rewrite("t")
    compacted = lake.head("t").timestamp_ms
    lake.append("t", plain_rows(0, 3))
    assert lake.run("table-health", "t").json["last_compaction_snapshot_ms"] == compacted
    lake.run("rewrite-manifests", "t")
    assert lake.run("table-health", "t").json["last_compaction_snapshot_ms"] == compacted


@pytest.mark.parametrize("options", [
    (), ("--min-input-files", "7"), ("--target-file-size-bytes", "3KiB"),
    ("--delete-file-threshold", "1"), ("--delete-ratio-threshold", "0.05"),
    ("--min-file-size-bytes", "1KiB", "--max-file-size-bytes", "1GiB")])
def test_health_equals_the_plan(lake, options):
    """R079, T11: the same options, the same groups and bytes."""
    lake.plain()
    table = lake.load("t")
    path = lake.data_entries("t")[0].file.file_path
    it.commit_deletes(table, [it.position_delete_file(table, [(path, 1)])])
    health = lake.run("table-health", "t", *options).json
    result = lake.run("rewrite-data-files", "t", "--dry-run", *options).json
    groups = result.get("plan", {"groups": []})["groups"]
    assert health["eligible_groups"] == len(groups)
    assert health["est_rewrite_bytes"] == sum(group["bytes"] for group in groups)
