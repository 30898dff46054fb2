"""Planning of large tables: a synthetic table of many data files, and what reading its metadata
costs. No data file exists: planning reads none (R082)."""

import concurrent.futures
import datetime
import json
import os
import pathlib
import random
import shutil
import struct
import sys

import measure

sys.path.insert(0, str(measure.ROOT / "tests" / "e2e"))

ENTRIES = 10_000  # Of a manifest.
PARTITIONS = 10_000
TENANTS = 100
DAY_ONE = 20_000  # Days since 1970.
TABLE = "lake.sales.planned"
# Written in columns 1 to 10; the statistics of each data file have all of them.
COLUMNS = ("id", "ts", "tenant", "amount", "quantity", "ratio", "state", "note", "session", "flag")


def table_schema():
    from pyiceberg.schema import Schema
    from pyiceberg.types import (BooleanType, DecimalType, DoubleType, IntegerType, LongType,
                                 NestedField, StringType, TimestamptzType)
    types = (LongType(), TimestamptzType(), StringType(), DecimalType(12, 2), IntegerType(),
             DoubleType(), StringType(), StringType(), StringType(), BooleanType())
    return Schema(*(NestedField(i + 1, name, kind, required=False)
                    for i, (name, kind) in enumerate(zip(COLUMNS, types))))


def bounds(rng, number, tenant, day):
    """(lower, upper) of each column, in Iceberg's binary form."""
    begin = day * 86_400_000_000
    low_note, high_note = sorted(rng.randbytes(8).hex().encode() for _ in range(2))
    low_session, high_session = sorted(rng.randbytes(8).hex().encode() for _ in range(2))
    amount = rng.randrange(1, 100_000)
    return (
        (struct.pack("<q", number * 5000), struct.pack("<q", number * 5000 + 4999)),
        (struct.pack("<q", begin + rng.randrange(10**9)),
         struct.pack("<q", begin + 86_399_000_000 - rng.randrange(10**9))),
        (tenant, tenant),
        (amount.to_bytes(3, "big", signed=True), (amount * 50).to_bytes(4, "big", signed=True)),
        (struct.pack("<i", 1), struct.pack("<i", rng.randrange(2, 1000))),
        (struct.pack("<d", rng.random()), struct.pack("<d", 1 + rng.random())),
        (b"closed", b"shipped"), (low_note, high_note), (low_session, high_session),
        (b"\0", b"\1"))


def records(manifest, entries, location, snapshot_id, partitions):
    """The entries of one manifest: neighbours are of different partitions, as an engine leaves them
    that writes all partitions at once."""
    rng = random.Random(manifest)
    for i in range(entries):
        number = manifest * ENTRIES + i
        partition = number % partitions
        tenant, day = f"tenant-{partition % TENANTS:05}", DAY_ONE + partition // TENANTS
        low_high = list(enumerate(bounds(rng, number, tenant.encode(), day), 1))
        rows = 5000 + rng.randrange(100)
        folder = f"tenant={tenant}/ts_day={datetime.date.fromordinal(719_163 + day)}"
        name = f"{number % 200:05}-{number}-{rng.randbytes(16).hex()}-00001.parquet"
        yield {"status": 1, "snapshot_id": snapshot_id, "sequence_number": None,
               "file_sequence_number": None, "data_file": {
                   "content": 0, "file_path": f"{location}/data/{folder}/{name}",
                   "file_format": "PARQUET",
                   "partition": {"tenant": tenant, "ts_day": day}, "record_count": rows,
                   "file_size_in_bytes": rng.randrange(1 << 20, 40 << 20),
                   "column_sizes": [{"key": c, "value": rng.randrange(1 << 22)}
                                    for c, _ in low_high],
                   "value_counts": [{"key": c, "value": rows} for c, _ in low_high],
                   "null_value_counts": [{"key": c, "value": 0} for c, _ in low_high],
                   "nan_value_counts": [{"key": 6, "value": 0}],
                   "lower_bounds": [{"key": c, "value": low} for c, (low, _) in low_high],
                   "upper_bounds": [{"key": c, "value": high} for c, (_, high) in low_high],
                   "key_metadata": None, "split_offsets": [4], "equality_ids": None,
                   "sort_order_id": 0}}


def write_manifest(path, header, schema, arguments):
    import fastavro
    with open(path, "wb") as file:
        fastavro.writer(file, schema, records(*arguments), codec="deflate", metadata=header,
                        sync_interval=64_000)
    return os.path.getsize(path)


def sample_manifest(table, path, snapshot_id):
    """The header and the schema that pyiceberg gives a manifest of this table."""
    import fastavro
    from pyiceberg.manifest import (DataFile, DataFileContent, FileFormat, ManifestEntry,
                                    ManifestEntryStatus, ManifestWriterV2)
    from pyiceberg.typedef import Record
    file = DataFile.from_args(
        content=DataFileContent.DATA, file_path="x", file_format=FileFormat.PARQUET,
        partition=Record("x", 0), record_count=1, file_size_in_bytes=1)
    with ManifestWriterV2(table.spec(), table.schema(), table.io.new_output(f"file://{path}"),
                          snapshot_id, "deflate") as writer:
        writer.add_entry(ManifestEntry.from_args(  # It refuses to write an empty one.
            status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file))
    with open(path, "rb") as file:
        reader = fastavro.reader(file)
        header = {key: value for key, value in reader.metadata.items()
                  if not key.startswith("avro.")}
        schema = json.loads(reader.metadata["avro.schema"])
    os.unlink(path)
    return header, schema


def commit_manifests(table, manifests, snapshot_id):
    from pyiceberg.manifest import write_manifest_list
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import (AddSnapshotUpdate, AssertRefSnapshotId,
                                        SetSnapshotRefUpdate)
    location = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    with write_manifest_list(2, table.io.new_output(location), snapshot_id, None, 1,
                             "deflate") as writer:
        writer.add_manifests(manifests)
    snapshot = Snapshot(snapshot_id=snapshot_id, parent_snapshot_id=None, sequence_number=1,
                        manifest_list=location, summary=Summary(Operation.APPEND),
                        schema_id=table.metadata.current_schema_id)
    table.catalog.commit_table(
        table, (AssertRefSnapshotId(ref="main", snapshot_id=None),),
        (AddSnapshotUpdate(snapshot=snapshot),
         SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id)))


def make_table(where, files):
    """A table of `files` data files in its own warehouse, once: it stays for the next run."""
    import iceberg_tables
    from pyiceberg.manifest import ManifestContent, ManifestFile
    from pyiceberg.transforms import DayTransform, IdentityTransform
    root = pathlib.Path(where) / f"planned-{files}"
    if (root / "complete").exists():
        return root / "catalog.db"
    shutil.rmtree(root, ignore_errors=True)
    print(f"writing the metadata of {files:,} data files", flush=True)
    warehouse = iceberg_tables.Warehouse(root)
    table = warehouse.create("planned", table_schema(), partition_by=[
        ("tenant", IdentityTransform(), "tenant"), ("ts", DayTransform(), "ts_day")])
    snapshot_id, folder = 4_611_686_018_427, iceberg_tables.local(table.location()) + "/metadata"
    header, schema = sample_manifest(table, f"{folder}/sample.avro", snapshot_id)
    manifests = []
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number in range((files + ENTRIES - 1) // ENTRIES):
            count = min(ENTRIES, files - number * ENTRIES)
            path = f"{folder}/manifest-{number}.avro"
            manifests.append((path, count, pool.submit(
                write_manifest, path, header, schema,
                (number, count, table.location(), snapshot_id, min(PARTITIONS, files)))))
    commit_manifests(table, [ManifestFile.from_args(
        manifest_path=f"file://{path}", manifest_length=size.result(),
        partition_spec_id=table.spec().spec_id, content=ManifestContent.DATA, sequence_number=1,
        min_sequence_number=1, added_snapshot_id=snapshot_id, added_files_count=count,
        existing_files_count=0, deleted_files_count=0, added_rows_count=count * 5050,
        existing_rows_count=0, deleted_rows_count=0, partitions=None, key_metadata=None)
        for path, count, size in manifests], snapshot_id)
    (root / "complete").touch()
    return root / "catalog.db"


def health(database, jobs, files):
    """(wall, cpu, peak) of one `lithify table-health`."""
    wall, cpu, peak, out = measure.spawn([
        measure.BINARY, "table-health", TABLE, "--catalog-uri", f"sqlite:///{database}", "--json",
        "--set", f"limits.jobs={jobs}", "--set", "limits.low_priority=false"])
    if json.loads(out)["live_data_files"] != files:
        sys.exit(f"table-health of {files:,} files: {out[:400]}")
    return wall, cpu, peak


def measure_health(where, files, rounds, jobs=(1, 2)):
    """Lines of a Markdown table, one for each number of threads."""
    database = make_table(where, files)
    size = sum(path.stat().st_size for path in database.parent.rglob("*.avro"))
    samples = {count: [] for count in jobs}
    health(database, jobs[0], files)  # Warm.
    for _ in range(rounds):
        for count in jobs:
            samples[count].append(health(database, count, files))
    lines = []
    for count, found in samples.items():
        wall, cpu, peak = measure.medians(found)
        print(f"table-health, {files:,} files, {count} threads: {wall:.2f} s, cpu {cpu:.2f} s, "
              f"peak {peak / measure.MIB:.0f} MiB", flush=True)
        lines.append(f"| {files:,} | {size / measure.MIB:.0f} | {count} | {wall:.2f} | {cpu:.2f} | "
                     f"{peak / measure.MIB:.0f} | {cpu / files * 1e6:.2f} |")
    return lines


def report(where, tables, rounds):
    lines = [f"## Planning: `table-health`, {PARTITIONS:,} partitions, {len(COLUMNS)} columns with "
             "bounds", "",
             f"Manifests of {ENTRIES:,} entries, deflate; neighbours in them are of different "
             "partitions.", "",
             "| data files | manifests MiB | threads | wall s | CPU s | peak MiB | "
             "CPU us per file |",
             "|---:|---:|---:|---:|---:|---:|---:|"]
    for files in tables:
        lines += measure_health(where, files, rounds)
    return lines + [""]
