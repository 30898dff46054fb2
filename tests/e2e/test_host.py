"""A good neighbour on a shared host: the bounds on rate, priority and memory hold."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import cli
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tree as trees
from tree import HOUR, minimal_table

MIB = 1024 * 1024

# Runs its arguments and prints its exit code and peak memory. A process of its own, since a child
# starts with the peak of whoever forked it, and this test's process is large.
MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                       file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(child, 0)
print("\\nMEASURED", os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
"""


def peak_bytes(command, *args):
    """Runs to a successful end and returns the peak resident memory."""
    done = subprocess.run([sys.executable, "-S", "-E", "-c", MEASURE,
                           *cli.command_line(command, *args)], capture_output=True, text=True,
                          env=cli.environment(), timeout=300, check=True,
                          stdin=subprocess.DEVNULL)
    _, code, peak = done.stdout.splitlines()[-1].split()
    assert int(code) == cli.OK, done.stdout
    return int(peak)


def test_peak_is_measured(tree):
    """The measure itself: more than nothing, and far less than what the tests allow."""
    assert 4 * MIB < peak_bytes("status", tree.root) < 128 * MIB


def test_io_limit_holds(tree):
    """--io-limit bounds what is read and written together. Never faster than that; and not much
    slower, for which one of three tries must do, since machines are shared."""
    limit = 4 * MIB
    rates = []
    while len(rates) < 3 and not (rates and rates[-1] >= limit / 1.3):
        hour = HOUR + datetime.timedelta(hours=len(rates))
        paths = tree.fill(files=8, rows=1000, hour=hour, body_bytes=1000, row_group_size=1000)
        moved = sum(path.stat().st_size for path in paths)
        assert 7 * MIB < moved < 9 * MIB
        begin = time.monotonic()
        cli.run("compact", tree.root, "--io-limit", "4MiB", "--verify", "counts")
        took = time.monotonic() - begin
        live = trees.live(tree.partition(hour=hour))
        assert len(live) == 1
        rates.append((moved + live[0].stat().st_size) / took)
        assert rates[-1] <= limit * 1.3
    assert rates[-1] >= limit / 1.3, rates


def nice_values(process):
    """Nice value of each of our threads (field 19 of stat). Not of the allocator's own, which
    starts before main does and only returns free pages."""
    values = []
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        try:
            head, _, tail = (task / "stat").read_text(encoding="utf-8").rpartition(")")
        except OSError:
            continue  # It ended meanwhile.
        if not head.endswith("(jemalloc_bg_thd"):
            values.append(int(tail.split()[16]))
    return values


@pytest.mark.local_disk("looks for the temporary files of those at work")
@pytest.mark.parametrize("low_priority", [True, False])
def test_priority(tree, low_priority):
    """Every thread gives way to the host's own work, unless that is turned off."""
    for hour in range(4):
        tree.fill(files=6, rows=300, hour=HOUR + datetime.timedelta(hours=hour), body_bytes=1000)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    process = cli.start("compact", tree.root, "--jobs", "4", "--io-limit", "1MiB",
                        "--set", f"limits.low_priority={str(low_priority).lower()}")
    try:
        deadline = time.monotonic() + 30
        while not tree.files("*.tmp"):  # Until workers are writing.
            assert process.poll() is None, "it ended before it could be looked at"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        values = nice_values(process)
        assert len(values) >= 2
        assert set(values) == {max(own, 10) if low_priority else own}
    finally:
        cli.kill_and_wait(process)


def test_memory_with_tiny_files_of_many_rows(tree):
    """20 kB on disk, over a million rows each: memory goes by what is decoded, not by file size."""
    count = 1_400_000
    start = int(HOUR.timestamp()) * 10**9
    table = pa.table({"tenant_id": pa.repeat("acme", count).dictionary_encode(),
                      "time_unix_nano": pa.repeat(pa.scalar(start, pa.int64()), count),
                      "text": pa.repeat("the same text in every row", count).dictionary_encode(),
                      "number": pa.array(range(count), pa.int64()),
                      "nothing": pa.nulls(count, pa.string())})
    for _ in range(10):
        path = tree.write(table, row_group_size=count, use_dictionary=["tenant_id", "text"],
                          column_encoding={"time_unix_nano": "DELTA_BINARY_PACKED",
                                           "number": "DELTA_BINARY_PACKED"})
        assert path.stat().st_size < 32 * 1024
    peak = peak_bytes("compact", tree.root, "--memory", "1GiB", "--jobs", "2")
    live = trees.live(tree.partition())
    assert len(live) == 1
    assert pq.ParquetFile(live[0]).metadata.num_rows == 10 * count
    assert peak < 1024 * MIB, peak


def test_memory_with_long_strings(tree):
    """240 MiB of megabyte strings that compress to nothing: still within the smallest bound."""
    for i in range(6):
        texts = [chr(97 + (i * 40 + j) % 26) * MIB for j in range(40)]
        path = tree.write(minimal_table("acme", HOUR, text=pa.array(texts)))
        assert path.stat().st_size < MIB
    peak = peak_bytes("compact", tree.root, "--memory", "256MiB", "--jobs", "2")
    live = trees.live(tree.partition())
    assert len(live) == 1
    assert pq.ParquetFile(live[0]).metadata.num_rows == 240
    assert peak < 256 * MIB, peak


def test_what_does_not_fit_is_refused(tree):
    """One value of 200 MiB under a bound of 256 MiB: an error that says so, and nothing changed."""
    for i in range(2):
        tree.write(minimal_table("acme", HOUR, text=pa.array([f"{i}" + "x" * (200 * MIB)])))
    before = trees.contents(tree.root)
    result = cli.run("compact", tree.root, "--memory", "256MiB", "--json",
                     "--set", "compaction.min_files=2", code=cli.PARTITION_FAILED)
    item = cli.partitions(json.loads(result.out))[tree.key(tree.partition())]
    assert item["outcome"] == "failed" and "--memory" in result.text
    assert {name: digest for name, digest in trees.contents(tree.root).items()
            if name.endswith(".parquet")} == before
