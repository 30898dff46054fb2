"""Several compactors, writers and collectors on one tree at once (R276, T23, H1, H4)."""

import json
import signal
import time

import cli
import judge
import tree as trees
from tree import HOUR, log_table


def finish(processes):
    """(exit code, stdout, stderr) of each, all awaited."""
    out = []
    for process in processes:
        stdout, stderr = process.communicate(timeout=300)
        out.append((process.returncode, stdout, stderr))
    return out


def assert_only_known_files(partition):
    """Live, retired, or an output of a loser that the next sweeps collect; never a loss."""
    names = {path.name for path in partition.iterdir()}
    manifest = trees.read_manifest(partition)
    assert set(manifest["files"]) <= names
    assert len(set(manifest["files"])) == len(manifest["files"])


def test_ten_compactors_at_once(tree, lithify, tmp_path):
    """Exactly one commit per generation, and every row exactly once."""
    for tenant in ("a", "b", "c"):
        tree.fill(files=12, rows=100, tenant=tenant)
    originals = tree.copy_to(tmp_path / "before")

    results = finish([cli.start("compact", tree.root, "--jobs", "1", "--json")
                      for _ in range(10)])

    for code, _, stderr in results:
        assert code == cli.OK, stderr
    committed = {}
    for _, stdout, _ in results:
        for key, item in cli.partitions(json.loads(stdout)).items():
            if item["outcome"] == "committed":
                committed.setdefault(key, []).append(item["generation"])
    for tenant in ("a", "b", "c"):
        partition = tree.partition(tenant)
        assert len(trees.live(partition)) == 1
        assert_only_known_files(partition)
        # One winner: everybody else planned on a generation that is gone or found nothing to do.
        assert len(committed[tree.key(partition)]) == 1
        assert committed[tree.key(partition)][0] <= trees.generation(partition)
    judge.assert_same_rows(trees.live_of_tree(originals), trees.live_of_tree(tree.root))
    lithify("verify")


def test_compactors_and_collectors(tree, lithify, tmp_path):
    """Collection beside compaction never takes a file that is live or may become so (T23)."""
    tree.fill(files=12, rows=200)
    originals = tree.copy_to(tmp_path / "before")
    trees.age(tree.root, seconds=7200)
    processes = [cli.start(command, tree.root) for command in
                 ("compact", "gc", "compact", "gc", "compact", "gc")]
    for code, _, stderr in finish(processes):
        assert code == cli.OK, stderr
    assert len(trees.live(tree.partition())) == 1
    judge.assert_same_rows(trees.live_of_tree(originals), trees.live_of_tree(tree.root))


def test_late_files_are_adopted(tree, lithify):
    """H1, Q4: a file that lands after compaction becomes visible with the next sweep, is compacted
    with the rest, and is never collected."""
    tree.fill(files=6, rows=50)
    lithify("compact")
    late = tree.write(log_table("acme", HOUR, 7, seed="late"))
    trees.age(tree.root, seconds=7200)
    lithify("gc")
    assert late.exists()
    expected = 6 * 50 + 7
    lithify("compact")
    assert judge.row_count(trees.live(tree.partition())) == expected
    rows = judge.pyarrow_rows(trees.live(tree.partition()), ["row"])
    assert len(rows) == expected and sum(rows.values()) == expected


def test_writer_beside_a_watching_compactor(tree, lithify):
    """A writer commits files while a daemon sweeps: every acknowledged row is there in the end."""
    tree.fill(files=5, rows=20)
    daemon = cli.start("compact", tree.root, "--watch", "--set", "compaction.interval=1s")
    try:
        for i in range(30):
            tree.write(log_table("acme", HOUR, 20, seed=f"w{i}"))
        # Its first line shows that it sweeps, and so that it listens to signals.
        log = tree.root / "_lithify" / "audit.jsonl"
        for _ in range(300):
            if log.exists():
                break
            time.sleep(0.1)
        assert log.exists(), "the daemon has not swept within 30 s"
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.communicate(timeout=60)
    assert daemon.returncode in (cli.OK, cli.INTERRUPTED)
    lithify("compact")
    rows = judge.pyarrow_rows(trees.live(tree.partition()), ["row"])
    assert len(rows) == 35 * 20 and sum(rows.values()) == 35 * 20
    lithify("verify")


def test_young_temporary_of_a_writer_stays(tree, lithify):
    """H2: a file that is being written is not ours to remove until it is old."""
    tree.fill(files=6, rows=20)
    temporary = tree.partition() / f"{trees.uuid7(HOUR)}.parquet.tmp"
    temporary.write_bytes(b"PAR1 half")
    lithify("compact")
    lithify("gc")
    assert temporary.exists()
    trees.age(tree.root, seconds=7200)
    lithify("gc")
    assert not temporary.exists()
