"""The crash matrix (R272, R239, R306): the binary is killed at storage operations, in turn, by a
library that is loaded into it (tests/crash). After each kill a reader that follows the manifest
sees exactly the rows; a re-run converges; what was left goes once it is old.

LITHIFY_CRASH_KILLS sets how many kills are made (default: a fair sample of about 90)."""

import os
import random
import re
import shutil
import signal
import subprocess
import time

import cli
import judge
import pytest
import tree as trees

LIBRARY = os.environ.get("LITHIFY_KILL_LIBRARY",
                         str(cli.REPOSITORY / "build" / "tests" / "kill_at.so"))
KILLS = int(os.environ.get("LITHIFY_CRASH_KILLS", "90"))
WHENS = ("before", "after", "torn")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A partition of six files, another of five; copied for every kill."""
    tree = trees.Tree(tmp_path_factory.mktemp("crash") / "lake")
    tree.fill(files=6, rows=60)
    tree.fill(files=5, rows=40, tenant="globex")
    return tree


class World:
    """A fresh copy of the tree, and what must be true of it."""

    def __init__(self, original, where):
        if where.exists():
            shutil.rmtree(where)
        shutil.copytree(original.root, where)
        self.root = where
        self.partitions = [where / path.relative_to(original.root)
                           for path in trees.partitions(original.root)]
        self.rows = {path: judge.pyarrow_rows(trees.live(path)) for path in self.partitions}

    def check_readers(self, when):
        """One generation, each row once."""
        for partition in self.partitions:
            found = judge.pyarrow_rows(trees.live(partition))
            assert found == self.rows[partition], f"{when}: {partition}: rows differ"

    def converge(self, when):
        """A re-run finishes the work; two collections after the grace leave live files only."""
        cli.run("compact", self.root, "--jobs", "1")
        self.check_readers(f"{when}, after the re-run")
        for partition in self.partitions:
            assert len(trees.live(partition)) == 1, when
        for _ in range(2):  # An orphan is fenced in one pass and may be removed in the next.
            trees.age(self.root, seconds=7200)
            cli.run("gc", self.root)
        for partition in self.partitions:
            left = {path.name for path in partition.iterdir()}
            live = {path.name for path in trees.live(partition)}
            assert left == live | {"manifest.json"}, f"{when}: garbage stays"
        self.check_readers(f"{when}, after the collection")
        cli.run("verify", self.root)
        cli.run("audit", self.root)


def run_killed(world, number, when, log=None):
    """Compacts with a kill at operation `number`; True if it was reached."""
    env = {"LD_PRELOAD": LIBRARY, "KILL_AT_ROOT": str(world.root), "KILL_AT_N": str(number),
           "KILL_AT_WHEN": when}
    if log is not None:
        env["KILL_AT_LOG"] = str(log)
    process = subprocess.run(cli.command_line("compact", world.root, "--jobs", "1"),
                             capture_output=True, text=True, env=cli.environment(env), timeout=120,
                             stdin=subprocess.DEVNULL, check=False)
    if process.returncode == -signal.SIGKILL:
        return True
    assert process.returncode == cli.OK, process.stdout + process.stderr
    return False


def operations(original, where):
    """The log of a run that is not killed: one line per storage operation."""
    world = World(original, where)
    log = where.parent / "operations.log"
    assert not run_killed(world, 0, "before", log)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 20, "the library saw hardly any operation: is it loaded?"
    return lines


@pytest.mark.local_disk("kills at calls of the C library on files")
def test_every_operation_in_turn(original, tmp_path):
    """Kills at operation 1, 2, 3, … before, after and in the middle of each; spread evenly over the
    run when there are more of them than KILLS allows."""
    count = len(operations(original, tmp_path / "count" / "lake"))
    points = [(number, when) for number in range(1, count + 1) for when in WHENS]
    wanted = max(1, KILLS * 3 // 4)
    if len(points) > wanted:
        points = [points[i * len(points) // wanted] for i in range(wanted)]
    killed = 0
    for index, (number, when) in enumerate(points):
        world = World(original, tmp_path / "lake")
        name = f"killed {when} operation {number} of {count}"
        if not run_killed(world, number, when):
            continue
        killed += 1
        world.check_readers(name)
        # The full way back is longer; every third time in the sample, always in the matrix.
        if KILLS >= 500 or index % 3 == 0:
            world.converge(name)
    assert killed >= len(points) * 0.9, f"only {killed} of {len(points)} kills hit"


@pytest.mark.local_disk("kills at calls of the C library on files")
def test_two_crashes_in_a_row(original, tmp_path):
    """The run that repairs is killed too."""
    rng = random.Random(20)
    count = len(operations(original, tmp_path / "count" / "lake"))
    for _ in range(max(3, KILLS // 30)):
        world = World(original, tmp_path / "lake")
        first, second = rng.randint(1, count), rng.randint(1, count)
        name = f"killed at {first}, then at {second}"
        run_killed(world, first, "after")
        run_killed(world, second, "before")
        world.check_readers(name)
        world.converge(name)


def test_random_times(original, tmp_path):
    """SIGKILL from outside, whatever the process does at that moment."""
    rng = random.Random(21)
    started = time.monotonic()
    cli.run("compact", World(original, tmp_path / "lake").root, "--jobs", "1")
    usual = time.monotonic() - started
    for i in range(max(8, KILLS // 4)):
        world = World(original, tmp_path / "lake")
        process = cli.start("compact", world.root, "--jobs", "1")
        time.sleep(rng.uniform(0, usual))
        cli.kill_and_wait(process)
        world.check_readers(f"random kill {i}")
        if KILLS >= 500 or i % 3 == 0:
            world.converge(f"random kill {i}")


@pytest.mark.local_disk("kills at calls of the C library on files")
def test_order_of_durability(original, tmp_path):
    """R218, R238 from the log of a run: an output is synced before it gets its name, its directory
    before the manifest that names it, the manifest before its rename, and no input is removed."""
    lines = operations(original, tmp_path / "lake")
    log = "\n".join(lines)
    calls = []  # (call, source or path, target)
    for line in lines:
        _, call, rest = line.split(" ", 2)
        source, _, target = rest.partition(" -> ")
        calls.append((call, source, target))
    syncs = [(i, path) for i, (call, path, _) in enumerate(calls) if call in ("fsync", "fdatasync")]
    named = [(i, source, target) for i, (call, source, target) in enumerate(calls)
             if call.startswith(("rename", "link"))]
    manifests = [item for item in named if item[2].endswith("/manifest.json")]
    outputs = [item for item in named if re.search(r"/data/.*\.parquet$", item[2])]
    assert len(manifests) == 4 and len(outputs) == 2, log  # Bootstrap and swap, two partitions.
    for at, source, target in manifests + outputs:
        assert any(i < at and path == source for i, path in syncs), f"{target}: not synced\n{log}"
    for at, _, target in outputs:
        folder = os.path.dirname(target)
        swap = min(i for i, _, name in manifests if i > at and os.path.dirname(name) == folder)
        assert any(at < i < swap and path == folder for i, path in syncs), \
            f"{target}: its directory is not synced before the manifest\n{log}"
    for at, _, target in manifests:
        assert any(i > at and path == os.path.dirname(target) for i, path in syncs), log
    inputs = {path.name for path in trees.live_of_tree(original.root)}
    removed = [path for call, path, _ in calls if call.startswith("unlink")
               and os.path.basename(path) in inputs]
    assert removed == []
