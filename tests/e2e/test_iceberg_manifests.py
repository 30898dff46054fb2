"""rewrite-manifests and rollback-to-snapshot: the same rows, the same sequence numbers (I10), and
what the metadata of a table says afterwards."""

import cli
import iceberg_tables as it
import pytest
from iceberg_lake import PLAIN, plain_rows
from pyiceberg.manifest import ManifestContent
from pyiceberg.transforms import BucketTransform
from pyiceberg.typedef import Record


def numbers(lake):
    """What must not change: of each file its sequence number, snapshot, spec, metrics."""
    return {e.file.file_path: (e.sequence_number, e.snapshot_id, e.spec_id, e.file.record_count,
                               e.file.lower_bounds or {}, e.file.upper_bounds or {},
                               e.file.null_value_counts or {}, str(e.file.partition))
            for e in lake.entries("t")}


def merged(lake):
    """Merges and judges."""
    before, rows = numbers(lake), None
    if not lake.equality_deletes("t"):
        rows = lake.rows("t")
    totals = {key: value for key, value in lake.head("t").summary.additional_properties.items()
              if key.startswith("total-")}
    result = lake.run("rewrite-manifests", "t").json
    assert result["status"] == "committed"
    assert numbers(lake) == before
    head = lake.head("t")
    assert head.snapshot_id == result["snapshot_id"]
    assert head.summary.operation.value == "replace"
    summary = head.summary.additional_properties
    assert {key: summary.get(key) for key in totals} == totals
    assert summary["manifests-replaced"] == str(result["manifests_rewritten"])
    assert summary["manifests-created"] == str(result["manifests_added"])
    assert summary["lithify.job-id"] == result["job_id"]
    if rows is not None:
        assert lake.rows("t") == rows
    again = lake.run("rewrite-manifests", "t").json
    assert (again["status"], again["snapshot_id"]) == ("skipped", None)
    assert lake.head("t").snapshot_id == result["snapshot_id"]
    return result


def test_small_manifests_become_one(lake):
    lake.plain(partition_by=["region"])
    result = merged(lake)
    assert (result["manifests_rewritten"], result["manifests_added"]) == (6, 1)
    assert len(lake.manifests("t")) == 1
    # Sorted by partition, so that readers may skip.
    partitions = [str(e.file.partition) for e in lake.data_entries("t")]
    assert partitions == sorted(partitions)


def test_version_1(lake):
    lake.plain(version=1)
    assert merged(lake)["manifests_added"] == 1


def test_manifests_of_specs_and_contents_stay_apart(lake):
    """One manifest for each spec and content."""
    lake.plain(files=3)
    lake.partition("t", ["region"])
    lake.append("t", *(plain_rows(100 + n * 10, 10) for n in range(3)))
    for entry in lake.data_entries("t")[:2]:
        table = lake.load("t")
        it.commit_deletes(table, [it.position_delete_file(
            table, [(entry.file.file_path, 1)], entry.file.partition)])
    merged(lake)
    assert sorted(m.partition_spec_id for m in lake.manifests("t")) == [0, 1]
    assert len(lake.manifests("t", ManifestContent.DELETES)) == 1


def test_deletes_apply_to_what_they_applied_to(lake):
    """I10: an equality delete between appends; judged by rewriting the data afterwards."""
    lake.plain()
    table = lake.load("t")
    it.commit_deletes(table, [it.equality_delete_file(table, ["id"], [(1,), (25,), (None,)])])
    lake.append("t", *(plain_rows(n * 10, 10) for n in range(3)))
    table = lake.load("t")
    it.commit_deletes(table, [it.equality_delete_file(table, ["id"], [(2,)])])
    lake.append("t", plain_rows(0, 5))
    merged(lake)
    old = [r for r in plain_rows(0, 60) if r["id"] not in (1, 2, 25)]
    young = [r for r in plain_rows(0, 30) if r["id"] != 2]
    lake.rewrite("t", "--rewrite-all", expected=old + young + plain_rows(0, 5))


def test_merging_after_a_rewrite(lake):
    """The explicit sequence number of outputs survives; a delete of before the plan stays out."""
    lake.plain(files=10)
    lake.rewrite("t", "--where", "id < 50")
    lake.append("t", plain_rows(200, 5))
    merged(lake)
    lake.rewrite("t", "--rewrite-all")


def test_empty_table(lake):
    lake.plain(files=0)
    before = lake.metadata_location("t")
    assert lake.run("rewrite-manifests", "t").json["status"] == "skipped"
    assert lake.metadata_location("t") == before


# --- rollback-to-snapshot -----------------------------------------------------------------------


def test_rollback_undoes_a_rewrite(lake):
    """R063: compaction is reversible; the abandoned snapshot can be gone back to no more."""
    lake.plain()
    table = lake.load("t")
    path = lake.data_entries("t")[0].file.file_path
    it.commit_deletes(table, [it.position_delete_file(table, [(path, 1)])])
    before, files = lake.head("t").snapshot_id, numbers(lake)
    rows = lake.rows("t")
    compacted = lake.rewrite("t")["snapshot_id"]
    result = lake.run("rollback-to-snapshot", "t", before).json
    assert result == {"procedure": "rollback_to_snapshot", "table": "sales.t",
                      "status": "committed", "previous_snapshot_id": compacted,
                      "current_snapshot_id": before}
    assert lake.head("t").snapshot_id == before
    assert numbers(lake) == files and lake.rows("t") == rows
    log = [entry.snapshot_id for entry in lake.load("t").metadata.snapshot_log]
    assert log[-2:] == [compacted, before]

    location = lake.metadata_location("t")
    failed = lake.run("rollback-to-snapshot", "t", compacted, code=cli.USAGE).json
    assert failed["error"]["code"] == "invalid" and "ancestor" in failed["reason"]
    assert lake.metadata_location("t") == location
    # And forward again, by another rewrite.
    lake.rewrite("t")


@pytest.mark.parametrize("snapshot, code", [("12345", cli.USAGE), ("-1", cli.USAGE),
                                            ("x", cli.USAGE)])
def test_rollback_to_what_is_not_there(lake, snapshot, code):
    lake.plain(files=2)
    location = lake.metadata_location("t")
    cli.run("rollback-to-snapshot", "lake.sales.t", "--catalog-uri", lake.uri, "--", snapshot,
            code=code)
    assert lake.metadata_location("t") == location


def test_rollback_to_a_snapshot_of_another_branch(lake):
    lake.plain(files=2)
    table = lake.load("t")
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "other").commit()
    lake.run("rewrite-data-files", "t", "--branch", "other", "--rewrite-all")
    other = lake.load("t").metadata.refs["other"].snapshot_id
    location = lake.metadata_location("t")
    lake.run("rollback-to-snapshot", "t", other, code=cli.USAGE)
    assert lake.metadata_location("t") == location


def test_procedures_in_the_order_of_the_manual(lake):
    """R072: rewrite, manifests, expire, orphans, again and again: the rows stay, the files do not
    grow in number."""
    lake.create("t", PLAIN, partition_by=["region", ("id", BucketTransform(2))])
    counts = []
    for turn in range(3):
        for number in range(5):
            table = lake.load("t")
            rows = plain_rows(turn * 100 + number * 20, 20)
            it.commit_data(table, it.partitioned_files(table, rows))
        table = lake.load("t")
        victim = lake.data_entries("t")[-1].file
        it.commit_deletes(table, [it.position_delete_file(
            table, [(victim.file_path, 0)], Record(*victim.partition))])
        rows = lake.rows("t")
        lake.run("rewrite-data-files", "t")
        lake.run("rewrite-manifests", "t")
        lake.run("expire-snapshots", "t", "--older-than", "now")
        lake.age("t")
        lake.run("remove-orphan-files", "t", "--force")
        assert lake.rows("t") == rows
        assert lake.reached("t") <= set(lake.tree("t"))
        counts.append(len([p for p in lake.tree("t") if p.suffix != ".json"]))
    assert len(lake.rows("t")) == 297
    assert max(counts) <= counts[0] + 12, counts
