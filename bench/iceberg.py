"""The benchmarks of Iceberg tables: rewrite_data_files of lithify against Spark's and others, on
the same table, in interleaved rounds; and what planning costs on tables of many files. Run it with
./dev bench iceberg on a quiet machine; it writes bench/ICEBERG.md, and the goals about deletes for
bench/RESULTS.md.

Shapes, each a table of 512 files of about 0.75 MiB, unless said otherwise, in four partitions,
mixed columns, by Spark (parquet-java, zstd of level 3):
  binpack              nothing is deleted
  positions_scattered  5 % of the rows are, one here and one there, by position delete files that
                       each cover a partition
  positions_clustered  likewise, but one run of rows in each data file
  vectors_scattered, vectors_clustered  likewise, by deletion vectors (format version 3)
  positions_clustered_large  likewise, but in 32 files of 12 MiB: they have many pages, most of
                       which one run of rows leaves as they are
  equality             5 % of the rows, by equality delete files
What is measured: lithify as the whole process, from start to exit, with its fsyncs and its default
verification. Spark twice in one process: the JVM from its start to its exit with one call of the
procedure, and the same call again, on the same snapshot, in the session that is now warm. Spark's
numbers hold no fsync, and of its Python side no CPU time. bench/iceberg_peers.py says what the
others do, and that only the operation is measured; DuckDB, Polars and pyarrow write plain files and
commit nothing. All write zstd of level 3, except iceberg-compaction, which writes snappy whatever
the table says and so does not count for the goals. All have the same two cores and, where they have
one, the same target size. The table lies at the same place each time, as new.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import measure

sys.path[:0] = [str(measure.ROOT / "tests" / "e2e"), str(measure.ROOT / "tests" / "services")]

import iceberg_peers  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402

CORES = 2
TARGET = 512 * measure.MIB
SHAPES = ("binpack", "positions_scattered", "positions_clustered", "vectors_scattered",
          "vectors_clustered", "positions_clustered_large", "equality")
FILES = 512
ROWS = 28_000  # Of a file: 0.75 MiB.
LARGE = 16  # Times as many in the files of a shape that is named so.
PLANNED = (100_000, 1_000_000)
WORKER = pathlib.Path(__file__).with_name("iceberg_spark.py")
PEERS = pathlib.Path(__file__).with_name("iceberg_peers.py")
GOALS = {"scattered": 2, "clustered": 5}


def spark(*args):
    """Runs the worker; what it found."""
    _, _, _, out = measure.spawn([sys.executable, str(WORKER), *map(str, args)])
    return peers.json_of(out)


class Lake:
    """The directory that tables are measured in, and one shape's table beside it as it was made.
    Metadata holds absolute paths, so that a table can only be used where it was made."""

    def __init__(self, scratch, shape, files, rows):
        self.root = scratch / "lake"
        self.shape = shape
        self.pristine = scratch / f"{shape}-{files}-{rows}"
        facts = self.pristine / "facts.json"
        if not facts.exists():
            shutil.rmtree(self.root, ignore_errors=True)
            shutil.rmtree(self.pristine, ignore_errors=True)
            self.root.mkdir(parents=True)
            print(f"{shape}: writing the table", flush=True)
            made = spark("make", self.root, shape, files, rows)
            self.root.rename(self.pristine)
            facts.write_text(json.dumps(made), encoding="utf-8")
        self.facts = json.loads(facts.read_text(encoding="utf-8"))
        if self.facts["files"] != files:
            sys.exit(f"{shape}: {self.facts['files']} files were made instead of {files}")

    def restore(self):
        """A copy of all bytes, which are then in memory for everybody."""
        shutil.rmtree(self.root, ignore_errors=True)
        subprocess.run(["cp", "-a", str(self.pristine), str(self.root)], check=True)
        os.sync()

    def checked(self, files):
        """What the files are, whose rows must be those of the table. The hash of every row was
        summed up by Spark before, and is by DuckDB now."""
        import duckdb
        import iceberg_spark
        import pyarrow.parquet as pq
        listed = ", ".join(f"'{file}'" for file in files)
        with duckdb.connect() as db:
            db.execute("SET TimeZone = 'UTC'")
            found = db.execute(f"{iceberg_spark.DUCKDB_SUM} FROM read_parquet([{listed}], "
                               "hive_partitioning = false)").fetchone()
        if found != (self.facts["rows"], self.facts["sum"]):
            raise measure.Failed(f"rows and sum are {found}, not {self.facts}")
        first = pq.read_metadata(files[0]).row_group(0).column(0)
        return {"size": sum(os.path.getsize(file) for file in files), "files": len(files),
                "groups": peers.footers(files)[1], "codec": first.compression.lower()}


def live_files(root, name):
    """Paths of the live data files, from the manifests."""
    import iceberg_tables
    return files_of(iceberg_tables.Warehouse(root / "warehouse", root / "catalog.db").load(name))


def files_of(table):
    from pyiceberg.manifest import DataFileContent
    return [iceberg_peers.local(entry.data_file.file_path)
            for manifest in table.current_snapshot().manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            if entry.data_file.content == DataFileContent.DATA]


# Each contestant: (lake) -> {what is added to its name: used}

def run_lithify(lake, jobs, memory):
    lake.restore()
    wall, cpu, peak, out = measure.spawn([
        measure.BINARY, "rewrite-data-files", "lake.sales.bench", "--catalog-uri",
        f"sqlite:///{lake.root}/catalog.db", "--target-file-size-bytes", str(TARGET),
        "--jobs", str(jobs), *(["--memory", memory] if memory else []), "--json", "--no-progress",
        "--set", "limits.low_priority=false"])
    if peers.json_of(out)["status"] != "committed":
        sys.exit(f"{lake.shape}: {out}")
    return {"": {"wall": wall, "cpu": cpu, "peak": peak,
                 **lake.checked(live_files(lake.root, "bench"))}}


def run_spark(lake):
    lake.restore()
    measured = spark("rewrite", lake.root, TARGET)
    outputs = lake.checked(live_files(lake.root, "bench"))
    return {", started for it": measured["cold"] | outputs,
            ", the call alone, warm": measured["warm"] | outputs}


def run_peer(lake, name):
    lake.restore()
    out = lake.root.with_name("out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    _, _, peak, printed = measure.spawn(
        [sys.executable, str(PEERS), name, str(CORES), str(lake.root), str(out)],
        dict(os.environ, POLARS_MAX_THREADS=str(CORES), OMP_NUM_THREADS=str(CORES)))
    used = {**peers.json_of(printed), "peak": peak, **lake.checked(sorted(out.iterdir()))}
    shutil.rmtree(out)
    return {"": used}


def run_rust(lake):
    """The table is registered in a REST catalog that is started for this run."""
    from pyiceberg.catalog.rest import RestCatalog
    from service_script import run_script
    lake.restore()
    server = lake.root.with_name("rest")
    shutil.rmtree(server, ignore_errors=True)
    uri = run_script("iceberg_rest.sh", "start", server)
    try:
        catalog = RestCatalog("lake", uri=uri)
        catalog.create_namespace(("sales",))
        catalog.register_table(("sales", "bench"), iceberg_peers.load(lake.root).metadata_location)
        _, _, peak, printed = measure.spawn(
            [sys.executable, str(PEERS), "rust", str(CORES), "-", uri],
            dict(os.environ, PYTHONPATH=os.environ["LITHIFY_ICEBERG_COMPACTION"],
                 TOKIO_WORKER_THREADS=str(CORES)))
        files = files_of(catalog.load_table(("sales", "bench")))
        return {"": {**peers.json_of(printed), "peak": peak, **lake.checked(files)}}
    finally:
        run_script("iceberg_rest.sh", "stop", server)


def contestants(lake, memory):
    found = {"lithify, 1 thread": lambda: run_lithify(lake, 1, memory),
             f"lithify, {CORES} threads": lambda: run_lithify(lake, CORES, memory),
             "Spark": lambda: run_spark(lake)}
    if lake.shape != "equality":  # Neither pyiceberg's plans nor these know such deletes.
        found |= {"DuckDB COPY, anti join": lambda: run_peer(lake, "duckdb"),
                  "Polars sink, anti join": lambda: run_peer(lake, "polars"),
                  "pyarrow loop, masks": lambda: run_peer(lake, "pyarrow")}
    if os.environ.get("LITHIFY_ICEBERG_COMPACTION"):
        found["Rust iceberg-compaction"] = lambda: run_rust(lake)
    return found


def race(lake, rounds, memory):
    """Interleaved rounds: ({contestant: [used]}, {contestant: why it could not}). Spark takes part
    in the first only."""
    results, failed = {}, {}
    for number in range(rounds):
        for name, run in contestants(lake, memory).items():
            if name in failed or number and name == "Spark":
                continue
            try:
                found = run()
            except measure.Failed as error:
                if name.startswith("lithify"):
                    sys.exit(f"{lake.shape}: {error}")
                failed[name] = " ".join(str(error).split())[-300:]
                print(f"{lake.shape}: {name} could not: {failed[name]}", flush=True)
                continue
            for added, used in found.items():
                results.setdefault(name + added, []).append(used)
                print(f"{lake.shape}: {name}{added}: cpu {used['cpu']:.2f} s, {used['wall']:.2f} "
                      f"s, peak {used['peak'] / measure.MIB:.0f} MiB, out "
                      f"{used['size'] / measure.MIB:.1f} MiB in {used['files']} files, "
                      f"{used['groups']} row groups", flush=True)
    return results, failed


def middle(results, who, key):
    return statistics.median(used[key] for used in results[who])


def report_shape(lake, results, failed):
    facts, own = lake.facts, f"lithify, {CORES} threads"
    lines = [f"## {lake.shape}: {facts['files']} files, {facts['bytes'] / measure.MIB:.1f} MiB, "
             f"{facts['rows']:,} live rows, {facts['deletes']} delete files", "",
             "| | rounds | CPU s | wall s | peak MiB | output MiB | files | row groups | "
             "codec | CPU, lithify = 1 | wall, lithify = 1 |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|"]
    for who, samples in results.items():
        cpu, wall, peak, size, files, groups = (
            middle(results, who, key)
            for key in ("cpu", "wall", "peak", "size", "files", "groups"))
        lines.append(f"| {who} | {len(samples)} | {cpu:.2f} | {wall:.2f} | "
                     f"{peak / measure.MIB:.0f} | {size / measure.MIB:.1f} | {files:.0f} | "
                     f"{groups:.0f} | {samples[-1]['codec']} | "
                     f"{cpu / middle(results, own, 'cpu'):.1f} | "
                     f"{wall / middle(results, own, 'wall'):.1f} |")
    lines.append("")
    for who, why in failed.items():
        lines += [f"{who} could not: {why}", ""]
    return lines


def delete_goals(shape, results):
    """Of issue 5: how much faster than the fastest that applies deletes and writes the same
    codec."""
    wanted = GOALS.get((shape.split("_") + [""])[1])
    if not wanted:
        return []
    own = f"lithify, {CORES} threads"
    others = [who for who in results if not who.startswith("lithify") and
              results[who][-1]["codec"] == results[own][-1]["codec"]]
    wall, fast = min((middle(results, who, "wall"), who) for who in others)
    cpu, lean = min((middle(results, who, "cpu"), who) for who in others)
    wall /= middle(results, own, "wall")
    cpu /= min(middle(results, who, "cpu") for who in results if who.startswith("lithify"))
    peak = max(middle(results, who, "peak") for who in results if who.startswith("lithify"))
    name = shape.replace("_", ", ")
    return [report.goal(name, "5 % of the rows deleted: faster than the fastest peer",
                        f"{wanted} times", f"wall {wall:.1f} ({fast}), CPU {cpu:.1f} ({lean})",
                        min(wall, cpu) >= wanted),
            report.goal(name, "peak memory", "512 MiB", f"{peak / measure.MIB:.0f} MiB",
                        peak <= report.MEMORY_GOAL)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0,
                        help="fraction of the files of each shape and of the planned tables")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--shapes", default=",".join((*SHAPES, "planning")),
                        help="of " + ",".join((*SHAPES, "planning")))
    parser.add_argument("--memory", help="lithify's bound, unless it is the default")
    parser.add_argument("--scratch", default=str(measure.ROOT / "build" / "bench-iceberg"),
                        help="tables that were made stay there for the next run")
    parser.add_argument("--make-only", action="store_true", help="make tables, measure nothing")
    parser.add_argument("--goals", default=str(measure.ROOT / "build" / "bench" / "deletes.json"),
                        help="where bench/run.py finds the goals about deletes")
    parser.add_argument("--out", default=str(measure.ROOT / "bench" / "ICEBERG.md"))
    args = parser.parse_args()
    shapes = args.shapes.split(",")
    if unknown := set(shapes) - {*SHAPES, "planning"}:
        parser.error(f"no such shapes: {', '.join(sorted(unknown))}")

    # The same cores for everybody, whatever the machine has.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    scratch = pathlib.Path(args.scratch).resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    files = max(32, round(FILES * args.scale / 4) * 4)  # A quarter for each partition.
    lakes = [Lake(scratch, shape, max(4, files // LARGE), ROWS * LARGE)
             if shape.endswith("_large") else Lake(scratch, shape, files, ROWS)
             for shape in shapes if shape != "planning"]
    if args.make_only:
        return

    quiet, body, goals = measure.Quiet(), [], []
    for lake in lakes:
        results, failed = race(lake, args.rounds, args.memory)
        body += report_shape(lake, results, failed)
        goals += delete_goals(lake.shape, results)
    if "planning" in shapes:
        import iceberg_planning
        body += iceberg_planning.report(
            scratch, [max(1000, round(count * args.scale)) for count in PLANNED], args.rounds + 2)
    for name in ("lake", "rest"):
        shutil.rmtree(scratch / name, ignore_errors=True)
    head = ["# Benchmark results: Iceberg tables", "",
            "Written by `./dev bench iceberg` (bench/iceberg.py says what is measured and how). "
            f"Medians of {args.rounds} interleaved round(s), Spark of one; scale {args.scale:g} (1 "
            "is the full size).", "", quiet.text(),
            f"lithify ran with {f'`--memory {args.memory}`' if args.memory else 'its defaults'}"
            " and its default verification; Spark with a heap of 2 GiB.", ""]
    tail = report.goal_lines(goals, "Of issue 5, about deletes.") if goals else []
    pathlib.Path(args.out).write_text("\n".join(head + body + tail), encoding="utf-8")
    if goals:
        keep_goals(pathlib.Path(args.goals), goals)
    print(f"wrote {args.out}")


def keep_goals(path, goals):
    """For bench/RESULTS.md. Those of other shapes that are there stay."""
    path.parent.mkdir(parents=True, exist_ok=True)
    old = json.loads(path.read_text(encoding="utf-8"))["goals"] if path.exists() else []
    fresh = {item["shape"] for item in goals}
    now = datetime.datetime.now(datetime.timezone.utc)
    path.write_text(json.dumps({
        "date": f"{now:%Y-%m-%d}",
        "goals": [item for item in old if item["shape"] not in fresh] + goals}), encoding="utf-8")


if __name__ == "__main__":
    main()
