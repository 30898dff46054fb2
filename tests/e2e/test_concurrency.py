"""Several compactors, writers and collectors on one tree at once (R276, T23, H1, H4)."""

import datetime
import json
import signal
import socket
import time

import cli
import judge
import pyarrow.dataset
import tree as trees
from tree import HOUR, log_table

TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


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


def claim(holder, seconds):
    """The text of `_compaction.lock` (docs/FORMATS.md), by somebody whose clock is ours."""
    now = datetime.datetime.now(datetime.timezone.utc)
    until = now + datetime.timedelta(seconds=seconds)
    return json.dumps({"holder": holder, "job_id": "j", "claimed_at": now.strftime(TIME),
                       "expires_at": until.strftime(TIME)})


def test_ten_compactors_at_once(tree, lithify, tmp_path):
    """Exactly one commit per generation, and every row exactly once. The claims (Q3) see to it that
    the work is done about once, too."""
    for tenant in ("a", "b", "c"):
        tree.fill(files=12, rows=2000, tenant=tenant)
    originals = tree.copy_to(tmp_path / "before")

    results = finish([cli.start("compact", tree.root, "--jobs", "1", "--json")
                      for _ in range(10)])

    for code, _, stderr in results:
        assert code == cli.OK, stderr
    committed = {}
    rewrites = 0
    for _, stdout, _ in results:
        for key, item in cli.partitions(json.loads(stdout)).items():
            rewrites += item["outcome"] in ("committed", "lost_race")
            if item["outcome"] == "committed":
                committed.setdefault(key, []).append(item["generation"])
    assert rewrites <= 5, "three partitions, and a little for the unexpected"
    intents = [record for record in lithify("audit", "--json").json["records"]
               if record["phase"] == "intent" and record["statement_type"] == "hive_compact"]
    assert 3 <= len(intents) <= 5
    assert not list(tree.root.rglob("_compaction.lock"))
    for tenant in ("a", "b", "c"):
        partition = tree.partition(tenant)
        assert len(trees.live(partition)) == 1
        assert_only_known_files(partition)
        # One winner: everybody else planned on a generation that is gone or found nothing to do.
        assert len(committed[tree.key(partition)]) == 1
        assert committed[tree.key(partition)][0] <= trees.generation(partition)
    judge.assert_same_rows(trees.live_of_tree(originals), trees.live_of_tree(tree.root))
    lithify("verify")


def test_claim_of_another_host(tree, lithify):
    """Q3: a live claim means to skip, and is no failure; readers, status, verify and gc are not
    disturbed by it; an expired one is taken over, and a left one goes with the garbage."""
    tree.fill(files=6, rows=20)
    partition = tree.partition()
    lock = partition / "_compaction.lock"
    lock.write_text(claim("elsewhere-1-00", 600))
    report = lithify("compact", "--json").json
    (item,) = report["partitions"]
    assert (item["outcome"], item["verdict"]) == ("skipped", "claimed")
    assert item["reason"].startswith("claimed by elsewhere-1-00 until 20")
    assert "1 claimed" in lithify("compact").out
    for command in ("status", "verify", "gc"):
        run = lithify(command)
        assert "_compaction" not in run.text
    assert judge.row_count(trees.live(partition)) == 6 * 20
    assert pyarrow.dataset.dataset(partition, format="parquet").count_rows() == 6 * 20
    lithify("compact", "--set", "compaction.claim_ttl=0")
    assert len(trees.live(partition)) == 1 and lock.exists()

    tree.write(log_table("acme", HOUR, 7, seed="late"))
    lock.write_text(claim("elsewhere-1-00", -1))
    lithify("compact")
    assert len(trees.live(partition)) == 1 and not lock.exists()

    lock.write_text(claim("elsewhere-1-00", -1))
    lithify("gc")
    assert lock.exists()
    trees.age(tree.root, seconds=7200)
    assert "_compaction.lock" in lithify("gc", "--dry-run").out
    lithify("gc")
    assert not lock.exists()


def test_claim_of_a_killed_compactor(tree, lithify):
    """The claim of a process of this host that is gone holds nobody up."""
    tree.fill(files=6, rows=20)
    process = cli.start("compact", tree.root / "nothing-there")
    process.communicate(timeout=60)
    lock = tree.partition() / "_compaction.lock"
    lock.write_text(claim(f"{socket.gethostname()}-{process.pid}-0123456789abcdef", 600))
    lithify("compact")
    assert len(trees.live(tree.partition())) == 1
    assert not lock.exists()


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
        audit = tree.root / "_lithify"
        for _ in range(300):
            if any(audit.rglob("*.jsonl")):
                break
            time.sleep(0.1)
        assert any(audit.rglob("*.jsonl")), "the daemon has not swept within 30 s"
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
