"""Random histories of a table (appends, deletes of both kinds, evolution of schema and spec, and
all procedures in between) against a model that only knows which rows live.

LITHIFY_ICEBERG_SEEDS sets how many histories (default: 6), LITHIFY_ICEBERG_SEED the first one."""

import os
import random

import iceberg_tables as it
import pyarrow.parquet as pq
import pytest
from iceberg_lake import Lake
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

FIRST = int(os.environ.get("LITHIFY_ICEBERG_SEED", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("LITHIFY_ICEBERG_SEEDS", "6")))
REGIONS = ("eu", "us", None, "a/b c%")

SCHEMA = Schema(NestedField(1, "uid", LongType(), required=True),
                NestedField(2, "region", StringType(), required=False),
                NestedField(3, "key", IntegerType(), required=False),
                NestedField(4, "note", StringType(), required=False))


class World:
    """A table and the model: uid -> (row, spec that it was written with)."""

    def __init__(self, root, seed):
        self.rng = random.Random(seed)
        self.lake = Lake(root)
        self.alive = {}
        self.next_uid = 0
        self.note = "note"  # Its name changes.
        self.extra = False
        self.partitioned = self.rng.random() < 0.4
        self.lake.create("t", SCHEMA, partition_by=["region"] if self.partitioned else None)
        self.log = []

    def append(self):
        batches = []
        spec = self.lake.load("t").spec().spec_id
        for _ in range(self.rng.randint(1, 4)):
            rows = []
            for _ in range(self.rng.randint(1, 12)):
                row = {"uid": self.next_uid, "region": self.rng.choice(REGIONS),
                       "key": self.rng.choice((None, 1, 2, 3, 4, 5)),
                       self.note: self.rng.choice((None, "", "a", "b"))}
                if self.extra:
                    row["extra"] = self.rng.choice((None, 1, 2))
                rows.append(row)
                self.alive[self.next_uid] = (row, spec)
                self.next_uid += 1
            batches.append(rows)
        self.lake.append("t", *batches)

    def position_deletes(self):
        """Of files of one partition, also of rows that are gone, in one or two files."""
        entries = self.lake.data_entries("t")
        if not entries:
            return
        first = self.rng.choice(entries)
        same = [e for e in entries if (e.spec_id, str(e.file.partition)) ==
                (first.spec_id, str(first.file.partition))]
        chosen = self.rng.sample(same, self.rng.randint(1, min(3, len(same))))
        positions = []
        for entry in chosen:
            uids = pq.read_table(it.local(entry.file.file_path), columns=["uid"])["uid"].to_pylist()
            for n in self.rng.sample(range(len(uids)), self.rng.randint(1, len(uids))):
                positions.append((entry.file.file_path, n))
                self.alive.pop(uids[n], None)
        table = self.lake.load("t")
        half = len(positions) // 2
        parts = [p for p in (positions[:half], positions[half:]) if p] \
            if self.rng.random() < 0.3 else [positions]
        it.commit_deletes(table, [it.position_delete_file(
            table, part, first.file.partition, bounds=self.rng.random() < 0.5,
            spec_id=first.spec_id) for part in parts])

    def equality_deletes(self):
        names = self.rng.sample(["key", self.note] + (["extra"] if self.extra else []),
                                self.rng.randint(1, 2))
        values = {"key": (None, 1, 2, 3, 9), self.note: (None, "", "a", "x"), "extra": (None, 1)}
        gone = {tuple(self.rng.choice(values[n]) for n in names)
                for _ in range(self.rng.randint(1, 2))}
        table = self.lake.load("t")
        region = self.rng.choice(REGIONS)
        spec = table.spec().spec_id if self.partitioned else 0
        everywhere = not self.partitioned or (self.rng.random() < 0.3 and 0 in table.specs())
        if everywhere and not table.specs()[0].is_unpartitioned():
            everywhere = False
        it.commit_deletes(table, [it.equality_delete_file(
            table, names, sorted(gone, key=repr), None if everywhere else Record(region),
            spec_id=0 if everywhere else spec)])
        for uid, (row, row_spec) in list(self.alive.items()):
            reached = everywhere or (row["region"] == region and row_spec == spec)
            if reached and tuple(row.get(n) for n in names) in gone:
                del self.alive[uid]

    def evolve(self):
        if self.rng.random() < 0.5 and not self.partitioned:
            self.lake.partition("t", ["region"])
            self.partitioned = True
        elif self.rng.random() < 0.5:
            old, self.note = self.note, f"note{self.rng.randint(0, 10**6)}"
            with self.lake.load("t").update_schema() as update:
                update.rename_column(old, self.note)
                if self.rng.random() < 0.5:
                    update.update_column("key", LongType())
            for row, _ in self.alive.values():
                row[self.note] = row.pop(old)
        elif not self.extra:
            self.extra = True
            with self.lake.load("t").update_schema() as update:
                update.add_column("extra", IntegerType())

    def rewrite(self, *options):
        if not options:
            options = self.rng.choice((
                (), ("--rewrite-all",), ("--min-input-files", "2"),
                ("--rewrite-all", "--where", f"uid < {self.rng.randint(1, self.next_uid + 1)}"),
                ("--delete-file-threshold", "1"), ("--rewrite-all", "--where", "region = 'eu'"),
                ("--rewrite-all", "--partial-progress"), ("--remove-dangling-deletes",),
                ("--rewrite-all", "--target-file-size-bytes", "2KiB"),
                ("--rewrite-all", "--jobs", "1", "--verify", "full")))
        if self.lake.head("t") is None:
            return
        report = self.lake.run("rewrite-data-files", "t", *options).json
        assert report["status"] in ("committed", "skipped"), report
        assert report["rows_in"] - report["rows_removed"] == report["rows_out"]

    def manifests(self):
        self.lake.run("rewrite-manifests", "t")

    def expire(self):
        self.lake.run("expire-snapshots", "t", "--older-than", "now", "--retain-last",
                      self.rng.randint(1, 3))
        assert self.lake.reached("t") <= set(self.lake.tree("t")) if self.lake.head("t") else True

    def sweep(self):
        self.lake.age("t")
        self.lake.run("remove-orphan-files", "t", "--force")

    def check(self):
        if self.lake.head("t") is None or self.lake.equality_deletes("t"):
            return
        names = self.lake.load("t").schema().column_names
        expected = [{n: row.get(n) for n in names} for row, _ in self.alive.values()]
        assert self.lake.rows("t") == it.sorted_rows(expected), self.log


@pytest.mark.parametrize("seed", SEEDS)
def test_history(tmp_path, seed):
    world = World(tmp_path / "warehouse", seed)
    steps = [world.append, world.append, world.position_deletes, world.equality_deletes,
             world.evolve, world.rewrite, world.rewrite, world.manifests, world.expire, world.sweep]
    world.append()
    for _ in range(14):
        step = world.rng.choice(steps)
        world.log.append(step.__name__)
        step()
        world.check()
    world.rewrite("--rewrite-all", "--remove-dangling-deletes")
    assert not world.lake.delete_entries("t"), world.log
    world.check()
    world.expire()
    world.sweep()
    world.check()
