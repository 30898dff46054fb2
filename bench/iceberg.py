"""The benchmarks of Iceberg tables: rewrite_data_files of lithify against Spark's, on the same
table, in interleaved rounds; and what planning costs on tables of many files. Run it with
./dev bench iceberg on a quiet machine; it writes bench/ICEBERG.md.

Shapes, each a table of 512 files of about 0.75 MiB in four partitions, mixed columns, by Spark:
  binpack    nothing is deleted
  positions  7 % of the rows are, by position delete files that each cover a partition
  vectors    likewise, by deletion vectors (format version 3)
  equality   likewise, by equality delete files
What is measured: lithify as the whole process, from start to exit, with its fsyncs and its default
verification. Spark twice in one process: the JVM from its start to its exit with one call of the
procedure, and the same call again, on the same snapshot, in the session that is now warm. Spark's
numbers hold no fsync, and of its Python side no CPU time. Both write zstd of level 3, have the same
two cores and the same target size. The table lies at the same place each time, as new.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import run

CORES = 2
TARGET = 512 * run.MIB
SHAPES = ("binpack", "positions", "vectors", "equality")
FILES = 512
ROWS = 28_000  # Of a file: 0.75 MiB.
PLANNED = (100_000, 1_000_000)
WORKER = pathlib.Path(__file__).with_name("iceberg_spark.py")


def spark(*args):
    """Runs the worker; what it found."""
    _, _, _, out = run.spawn([sys.executable, str(WORKER), *map(str, args)])
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])


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

    def outputs(self):
        """(bytes, files) of the table's data files, whose rows must be those from before. The hash
        of every row was summed up by Spark then, and is by DuckDB now."""
        import duckdb
        import iceberg_spark
        files = live_files(self.root, iceberg_spark.NAME)
        listed = ", ".join(f"'{file}'" for file in files)
        with duckdb.connect() as db:
            db.execute("SET TimeZone = 'UTC'")
            found = db.execute(f"{iceberg_spark.DUCKDB_SUM} FROM read_parquet([{listed}], "
                               "hive_partitioning = false)").fetchone()
        if found != (self.facts["rows"], self.facts["sum"]):
            sys.exit(f"{self.shape}: rows and sum are {found}, not {self.facts}")
        return sum(os.path.getsize(file) for file in files), len(files)


def live_files(root, name):
    """Paths of the live data files, from the manifests."""
    import iceberg_tables
    from pyiceberg.manifest import DataFileContent
    table = iceberg_tables.Warehouse(root / "warehouse", root / "catalog.db").load(name)
    # Spark writes file:/path as well as file:///path.
    return ["/" + entry.data_file.file_path.removeprefix("file:").lstrip("/")
            for manifest in table.current_snapshot().manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            if entry.data_file.content == DataFileContent.DATA]


def run_lithify(lake, jobs, memory):
    lake.restore()
    wall, cpu, peak, out = run.spawn([
        run.BINARY, "rewrite-data-files", "lake.sales.bench", "--catalog-uri",
        f"sqlite:///{lake.root}/catalog.db", "--target-file-size-bytes", str(TARGET),
        "--jobs", str(jobs), "--memory", memory, "--json", "--no-progress",
        "--set", "limits.low_priority=false"])
    if json.loads(out)["status"] != "committed":
        sys.exit(f"{lake.shape}: {out}")
    return {"wall": wall, "cpu": cpu, "peak": peak}


def race(lake, rounds, memory):
    """Interleaved rounds: {contestant: [(cpu, wall, peak, bytes, files)]}."""
    results = {}

    def note(name, used, outputs):
        results.setdefault(name, []).append(
            (used["cpu"], used["wall"], used["peak"], *outputs))
        print(f"{lake.shape}: {name}: cpu {used['cpu']:.2f} s, {used['wall']:.2f} s, "
              f"peak {used['peak'] / run.MIB:.0f} MiB, out {outputs[0] / run.MIB:.1f} MiB in "
              f"{outputs[1]} files", flush=True)

    for _ in range(rounds):
        for jobs in (1, CORES):
            used = run_lithify(lake, jobs, memory)
            note(f"lithify, {jobs} thread{'s' * (jobs > 1)}", used, lake.outputs())
        lake.restore()
        measured = spark("rewrite", lake.root, TARGET)
        outputs = lake.outputs()
        note("Spark, started for it", measured["cold"], outputs)
        note("Spark, the call alone, warm", measured["warm"], outputs)
    return results


def report(lake, results):
    facts = lake.facts
    lines = [f"## {lake.shape}: {facts['files']} files, {facts['bytes'] / run.MIB:.1f} MiB, "
             f"{facts['rows']:,} live rows, {facts['deletes']} delete files", "",
             "| | CPU s | wall s | peak MiB | output MiB | files | CPU, lithify = 1 | "
             "wall, lithify = 1 |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    own = f"lithify, {CORES} threads"
    base = run.medians(results[own])
    for name, samples in results.items():
        cpu, wall, peak, size, files = run.medians(samples)
        lines.append(f"| {name} | {cpu:.2f} | {wall:.2f} | {peak / run.MIB:.0f} | "
                     f"{size / run.MIB:.1f} | {files:.0f} | {cpu / base[0]:.1f} | "
                     f"{wall / base[1]:.1f} |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0,
                        help="fraction of the files of each shape and of the planned tables")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--shapes", default=",".join((*SHAPES, "planning")),
                        help="of " + ",".join((*SHAPES, "planning")))
    parser.add_argument("--memory", default="1GiB", help="lithify's bound")
    parser.add_argument("--scratch", default=str(run.ROOT / "build" / "bench-iceberg"),
                        help="tables that were made stay there for the next run")
    parser.add_argument("--out", default=str(run.ROOT / "bench" / "ICEBERG.md"))
    args = parser.parse_args()
    shapes = args.shapes.split(",")
    if unknown := set(shapes) - {*SHAPES, "planning"}:
        parser.error(f"no such shapes: {', '.join(sorted(unknown))}")

    # The same cores for everybody, whatever the machine has.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    scratch = pathlib.Path(args.scratch).resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(run.ROOT / "tests" / "e2e"))
    files = max(32, round(FILES * args.scale / 4) * 4)  # A quarter for each partition.
    lakes = [Lake(scratch, shape, files, ROWS) for shape in shapes if shape != "planning"]

    load, (ticks, stolen) = os.getloadavg(), run.cpu_ticks()
    body = []
    for lake in lakes:
        body += report(lake, race(lake, args.rounds, args.memory))
    if "planning" in shapes:
        import iceberg_planning
        body += iceberg_planning.report(
            scratch, [max(1000, round(count * args.scale)) for count in PLANNED], args.rounds + 2)
    shutil.rmtree(scratch / "lake", ignore_errors=True)
    now_ticks, now_stolen = run.cpu_ticks()
    steal = 100 * (now_stolen - stolen) / max(1, now_ticks - ticks)
    head = ["# Benchmark results: Iceberg tables", "",
            "Written by `./dev bench iceberg` (bench/iceberg.py says what is measured and how). "
            f"Medians of {args.rounds} interleaved round(s); scale {args.scale:g} (1 is the full "
            "size).", "",
            f"Machine: {run.machine()}. Load average at the start {load[0]:.2f}, at the end "
            f"{os.getloadavg()[0]:.2f}; {steal:.1f} % of the CPU time was stolen by the host.",
            f"lithify ran with `--memory {args.memory}` and its default verification; Spark with "
            "a heap of 2 GiB.", ""]
    pathlib.Path(args.out).write_text("\n".join(head + body), encoding="utf-8")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
