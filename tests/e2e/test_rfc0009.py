"""The acceptance criteria of plain-Parquet compaction, RFC0009.1 to RFC0009.7 (R269-R275), on the
real binary. Thresholds are scaled down a thousand times where sizes matter (cli.SCALED)."""

import datetime
import random
import signal
import threading
import time

import cli
import duckdb
import judge
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tree as trees
from tree import HOUR, log_table

KIB = 1024
HOURS = [HOUR + datetime.timedelta(hours=i) for i in range(4)]


def test_rfc0009_1_small_file_count(tree, lithify, tmp_path):
    """Many small files become files in the size band; in the steady state under 5 % of a tenant's
    files are small (of partitions that hold enough bytes: T19)."""
    for hour in HOURS:
        tree.fill(files=30, rows=64, hour=hour, body_bytes=512)
    originals = tree.copy_to(tmp_path / "before")
    sizes = [path.stat().st_size for path in trees.live_of_tree(tree.root)]
    assert len(sizes) == 120 and max(sizes) < 128 * KIB

    lithify("compact", *cli.SCALED)

    live = trees.live_of_tree(tree.root)
    planned = -(-sum(sizes) // len(HOURS) // (512 * KIB))  # Of one hour (H7).
    assert planned == 3
    for hour in HOURS:
        # Fewer than planned if that comes closer to the target: the outputs are smaller.
        assert planned - 1 <= len(trees.live(tree.partition(hour=hour))) <= planned
    for path in live:
        assert 256 * KIB <= path.stat().st_size <= 2048 * KIB, path
    small = [path for path in live if path.stat().st_size < 128 * KIB]
    assert len(small) < 0.05 * len(live)
    judge.assert_same_rows(trees.live_of_tree(originals), live)


def test_rfc0009_1_second_sweep_plans_nothing(tree, lithify):
    """Fixed point (R206, T19): nothing is a candidate after a sweep, not even small remainders."""
    tree.fill(files=9, rows=20)
    tree.fill(files=1, rows=20, hour=HOURS[1])
    lithify("compact")
    before = trees.contents(tree.root / "data")
    second = lithify("compact", "--json").json
    assert trees.contents(tree.root / "data") == before
    verdicts = {key: item["verdict"] for key, item in cli.partitions(second).items()}
    assert verdicts[tree.key(tree.partition(hour=HOURS[1]))] == "irreducible"
    assert "candidate" not in verdicts.values()


def test_rfc0009_1_small_single_file_is_left_alone(tree, lithify):
    path = tree.fill(files=1, rows=20)[0]
    lithify("compact")
    assert trees.live(path.parent) == [path]
    assert not (path.parent / "manifest.json").exists()


@pytest.mark.parametrize("seed", range(6))
def test_rfc0009_2_row_conservation(tree, lithify, tmp_path, seed):
    """Arbitrary numbers of files, rows, row groups and writers: the multiset of rows stays."""
    rng = random.Random(seed)
    for i in range(rng.randint(5, 12)):
        table = log_table("acme", HOUR, rng.choice([1, 2, 17, 300]), seed=f"{seed}.{i}",
                          body_bytes=rng.choice([0, 3, 200]))
        if rng.random() < 0.3:
            tree.write_duckdb(table)
        else:
            tree.write(table, compression=rng.choice(["zstd", "snappy", "gzip", "none"]),
                       use_dictionary=rng.random() < 0.5,
                       row_group_size=rng.choice([1, 7, 1000]),
                       data_page_version=rng.choice(["1.0", "2.0"]))
    originals = tree.copy_to(tmp_path / "before")
    before = trees.live_of_tree(originals)

    lithify("compact", "--verify", "full")

    after = trees.live(tree.partition())
    assert len(after) == 1 < len(before)
    judge.assert_same_rows(before, after)


def test_rfc0009_2_counts_per_template_and_bodies(tree, lithify, tmp_path):
    """Counts per template_id are unchanged and raw bodies are identical, byte by byte."""
    tree.fill(files=8, rows=200)
    originals = tree.copy_to(tmp_path / "before")
    lithify("compact")
    query = ("SELECT template_id, count(*), md5(string_agg(md5(body), '' ORDER BY row)) FROM {} "
             "GROUP BY 1 ORDER BY 1")
    with duckdb.connect() as db:
        before, after = (
            db.execute(query.format(judge.duckdb_scan(trees.live_of_tree(root)))).fetchall()
            for root in (originals, tree.root))
    assert len(before) == 20
    assert after == before


def test_rfc0009_3_query_atomicity(tree, lithify):
    """Readers that run all the time see each row exactly once, in one generation or the next."""
    tree.fill(files=40, rows=50)
    partition = tree.partition()
    expected = judge.row_count(trees.live(partition))
    stop = threading.Event()
    seen, problems = set(), []

    def read():
        while not stop.is_set():
            number = trees.generation(partition)
            files = trees.live(partition)
            try:
                rows = judge.pyarrow_rows(files, ["row"])
            except (OSError, pa.ArrowException) as error:
                problems.append(f"generation {number}: {error}")
                return
            if sum(rows.values()) != expected or len(rows) != expected:
                problems.append(f"generation {number}: {sum(rows.values())} rows, "
                                f"{len(rows)} distinct")
            seen.add(len(files))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        while not seen:
            time.sleep(0.01)
        lithify("compact", "--jobs", "1")
        seen_before_end = set(seen)
        deadline = time.monotonic() + 30
        while 1 not in seen and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert problems == []
    assert 40 in seen_before_end and 1 in seen and seen <= {40, 1}


def test_rfc0009_3_open_reader_survives_the_swap(tree, lithify):
    """H3, T24: who planned on the old generation still finds its files after the commit, and a
    collection within the grace does not take them away."""
    tree.fill(files=8, rows=50)
    planned = trees.live(tree.partition())
    expected = judge.pyarrow_rows(planned, ["row"])
    lithify("compact")
    lithify("gc")
    assert trees.live(tree.partition()) != planned
    assert judge.pyarrow_rows(planned, ["row"]) == expected


@pytest.mark.parametrize("after_ms", [0, 5, 10, 20, 40, 80])
def test_rfc0009_4_crash_safety(tree, lithify, after_ms):
    """SIGKILL at any time: readers see the old or the new generation, a re-run converges, and the
    leftovers go once they are old. tests/e2e/test_crash.py kills at every operation in turn."""
    tree.fill(files=20, rows=300)
    partition = tree.partition()
    expected = judge.pyarrow_rows(trees.live(partition))

    process = cli.start("compact", tree.root, "--jobs", "1")
    time.sleep(after_ms / 1000)
    cli.kill_and_wait(process, signal.SIGKILL)
    assert judge.pyarrow_rows(trees.live(partition)) == expected

    lithify("compact")
    assert len(trees.live(partition)) == 1
    assert judge.pyarrow_rows(trees.live(partition)) == expected

    trees.age(tree.root, seconds=2 * 3600)
    lithify("compact")
    lithify("gc")
    trees.age(tree.root, seconds=2 * 3600)  # An orphan is fenced first and may go one pass later.
    lithify("gc")
    assert sorted(path.name for path in partition.iterdir()) == sorted(
        ["manifest.json", trees.live(partition)[0].name])
    assert judge.pyarrow_rows(trees.live(partition)) == expected


def test_rfc0009_5_tenant_and_partition_isolation(tree, lithify, tmp_path):
    """Nothing is merged over tenants or hours: every output holds rows of its own path only."""
    tenants = ["acme", "globex", "a/b=c%", "naïve"]
    for tenant in tenants:
        for hour in HOURS[:2]:
            tree.fill(files=6, rows=30, tenant=tenant, hour=hour)
    originals = tree.copy_to(tmp_path / "before")
    lithify("compact")
    assert len(trees.partitions(tree.root)) == 8
    for tenant in tenants:
        for hour in HOURS[:2]:
            partition = tree.partition(tenant, hour)
            files = trees.live(partition)
            assert len(files) == 1
            start = int(hour.timestamp()) * 10**9
            for owner, when in judge.pyarrow_rows(files, ["tenant_id", "time_unix_nano"]):
                assert owner == tenant
                assert start <= when < start + 3600 * 10**9
            judge.assert_same_rows(trees.live(originals / partition.relative_to(tree.root)), files)


@pytest.mark.parametrize("what", ["tenant", "hour"])
def test_rfc0009_5_misplaced_row_aborts(tree, lithify, what):
    """R307: one row of another tenant or hour, and the partition stays exactly as it was, with the
    file and the row named; other partitions go on."""
    tree.fill(files=5, rows=30)
    tree.fill(files=6, rows=30, hour=HOURS[1])
    wrong = log_table("globex", HOUR, 1) if what == "tenant" else log_table("acme", HOURS[2], 1)
    path = tree.write(wrong)
    before = trees.contents(tree.partition())

    result = lithify("compact", code=cli.PARTITION_FAILED)

    after = trees.contents(tree.partition())
    after.pop("manifest.json", None)  # A bootstrap manifest names the same files.
    assert after == before
    assert set(trees.live(tree.partition())) == {tree.partition() / name for name in before}
    assert path.name in result.text
    assert ("tenant_id" if what == "tenant" else "time_unix_nano") in result.text
    assert len(trees.live(tree.partition(hour=HOURS[1]))) == 1


def test_rfc0009_6_forward_compatible_merge(tree, lithify, tmp_path):
    """Files from before and after a schema amendment, and columns that nobody told lithify about,
    merge into the union of their columns (R221, R225, T21)."""
    def added(count, rng):
        return {"new_optional": pa.array([rng.choice([None, rng.random()]) for _ in range(count)],
                                         pa.float64()),
                "tags": pa.array([rng.choice([None, [], ["a", None]]) for _ in range(count)],
                                 pa.list_(pa.string()))}

    for i in range(4):
        tree.write(log_table("acme", HOUR, 40, seed=i))
    for i in range(4, 8):
        tree.write(log_table("acme", HOUR, 40, seed=i, extra=added))
    originals = tree.copy_to(tmp_path / "before")
    lithify("compact")
    after = trees.live(tree.partition())
    assert len(after) == 1
    judge.assert_same_rows(trees.live_of_tree(originals), after)
    rows = judge.pyarrow_rows(after, ["new_optional", "tags", "row"])
    old = [row for row in rows if int(row[2].split("/")[2]) < 4]
    assert len(old) == 160 and all(row[:2] == (None, None) for row in old)


def test_rfc0009_7_file_count_grows_with_bytes_not_with_files(tree, lithify):
    """The files that a query has to open do not grow with the number of files written: 8, 32 and
    128 files of the same total size all become one, with one row group to look at."""
    tenants = {"t8": (8, 160), "t32": (32, 40), "t128": (128, 10)}
    for tenant, (files, rows) in tenants.items():
        tree.fill(files=files, rows=rows, tenant=tenant, body_bytes=16)
    lithify("compact")
    for tenant in tenants:
        live = trees.live(tree.partition(tenant))
        assert len(live) == 1
        metadata = pq.ParquetFile(live[0]).metadata
        assert (metadata.num_rows, metadata.num_row_groups) == (1280, 1)


def test_rfc0009_7_file_count_is_bytes_over_target(tree, lithify):
    """H7: a large partition becomes ceil(bytes / target) files, not one and not many."""
    counts = {}
    for tenant, files in {"x1": 10, "x2": 20, "x4": 40}.items():
        paths = tree.fill(files=files, rows=100, tenant=tenant, body_bytes=1000)
        counts[tenant] = sum(path.stat().st_size for path in paths)
    lithify("compact", *cli.SCALED)
    for tenant, total in counts.items():
        live = trees.live(tree.partition(tenant))
        assert len(live) <= -(-total // (512 * KIB))
        assert len(live) >= total // (2048 * KIB)


def test_rfc0009_7_a_target_below_the_row_group_size(tree, lithify):
    """H7: the configured row groups are far larger than a target file. They are cut, so that there
    are several files, no more than planned, and each within the band."""
    paths = tree.fill(files=40, rows=100, body_bytes=1000)
    total = sum(path.stat().st_size for path in paths)
    before = judge.pyarrow_rows(paths)
    planned = -(-total // (512 * KIB))
    assert planned == 9
    lithify("compact", "--set", "compaction.small_file_bytes=256KiB",
            "--set", "compaction.target_file_bytes=512KiB",
            "--set", "compaction.file_bytes_min=256KiB", "--set", "compaction.file_bytes_max=1MiB",
            "--set", "output.row_group_bytes=128MiB", "--set", "output.page_bytes=32KiB")
    live = trees.live(tree.partition())
    assert planned - 1 <= len(live) <= planned
    for path in live:
        assert 256 * KIB <= path.stat().st_size <= 1024 * KIB, path
    assert judge.pyarrow_rows(live) == before
