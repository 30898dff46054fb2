"""The benchmarks: lithify against DuckDB, Polars and pyarrow on the same files, in interleaved
rounds, and against the limit (copying the same bytes). Run it with ./dev bench on a quiet machine;
it writes bench/RESULTS.md.

Shapes (docs/COMPACTION.md says why these):
  d2       32 files, 485 MiB: 4,800 rows each with bodies of 4,096 random letters (R279)
  logs512  512 small files of typical log lines
  runs     10 files of about 20 kB that hold 1.4 million rows each (I32)
  strings  8 files of 32 texts of 1 MiB each
What is measured: lithify as the whole process, from start to exit, with its fsyncs and its default
verification; the others as the operation alone, without starting Python and loading libraries, and
without fsync. So the comparison leans towards the others. Memory is the peak of the process.
"""

import argparse
import base64
import json
import os
import pathlib
import platform
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = os.environ.get("LITHIFY_BIN", str(ROOT / "build" / "bin" / "lithify"))
START = 1741064400  # 2025-03-04T05:00:00Z
PARTITION = "data/tenant_id=acme/year=2025/month=03/day=04/hour=05"
MIB = 1024 * 1024


# --- shapes ------------------------------------------------------------------------------------

def log_columns(rng, count, bodies):
    import pyarrow as pa
    return {"tenant_id": pa.array(["acme"] * count),
            "time_unix_nano": pa.array([START * 10**9 + rng.randrange(3600 * 10**9)
                                        for _ in range(count)], pa.int64()),
            "template_id": pa.array([f"template-{rng.randrange(200)}" for _ in range(count)]),
            "trace_id": pa.array([rng.randbytes(16) for _ in range(count)], pa.binary(16)),
            "span_id": pa.array([rng.randbytes(8) for _ in range(count)], pa.binary(8)),
            "service": pa.array([rng.choice(["cart", "pay", "ship", "web"])
                                 for _ in range(count)]),
            "body": pa.array(bodies, pa.binary())}


def d2_file(rng, _, scale):
    count = max(1, round(4800 * scale))
    # 85 letters at random are 6.4 bits in each byte, which gives the 485 MiB of R279.
    return log_columns(rng, count, [base64.b85encode(rng.randbytes(3280))[:4096]
                                    for _ in range(count)])


def logs_file(rng, _, scale):
    count = max(1, round(2000 * scale))
    return log_columns(rng, count, [
        f"{rng.choice(['GET', 'POST', 'PUT'])} /api/v{rng.randrange(3)}/item/{rng.randrange(10**6)}"
        f" took {rng.randrange(5000)} ms, status {rng.choice([200, 200, 200, 404, 500])},"
        f" user {rng.randrange(10**5)}".encode() for _ in range(count)])


def runs_file(_, number, scale):
    import pyarrow as pa
    count = max(1, round(1_400_000 * scale))
    return {"tenant_id": pa.array(["acme"] * count),
            "time_unix_nano": pa.array([(START + number) * 10**9] * count, pa.int64()),
            "template_id": pa.array(["template-1"] * count),
            "body": pa.array(["the same line again and again"] * count)}


def strings_file(rng, _, scale):
    import pyarrow as pa
    count = max(1, round(32 * scale))
    return {"tenant_id": pa.array(["acme"] * count),
            "time_unix_nano": pa.array([START * 10**9 + i for i in range(count)], pa.int64()),
            "body": pa.array([rng.randbytes(MIB // 2).hex() for _ in range(count)])}


# name -> (files, one file's columns, dictionary-encoded columns)
SHAPES = {
    "d2": (32, d2_file, ["tenant_id", "template_id", "service"]),
    "logs512": (512, logs_file, ["tenant_id", "template_id", "service"]),
    "runs": (10, runs_file, True),
    "strings": (8, strings_file, ["tenant_id"]),
}


def make_shape(name, where, scale):
    """Writes the shape's files with pyarrow and returns them."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    files, columns, dictionary = SHAPES[name]
    folder = where / name / PARTITION
    folder.mkdir(parents=True)
    rng = random.Random(name)
    out = []
    for i in range(files):
        path = folder / f"01955f86-{i:04x}-7000-8000-000000000000.parquet"
        pq.write_table(pa.table(columns(rng, i, scale)), path, compression="zstd",
                       compression_level=3, use_dictionary=dictionary)
        out.append(str(path))
    return out


# --- contestants -------------------------------------------------------------------------------
# Each runs in a process of its own: `run.py --worker NAME THREADS OUT FILES…` prints its numbers.

def worker_duckdb(threads, out, files):
    import duckdb
    db = duckdb.connect(config={"threads": threads})
    listed = ", ".join(f"'{file}'" for file in files)
    return lambda: db.execute(
        f"COPY (FROM read_parquet([{listed}], hive_partitioning = false)) TO '{out}' "
        "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)")


def worker_polars(_, out, files):
    import polars as pl  # Its threads come from POLARS_MAX_THREADS.
    return lambda: pl.scan_parquet(files, hive_partitioning=False).sink_parquet(
        out, compression="zstd", compression_level=3)


def worker_pyarrow(threads, out, files):
    import pyarrow as pa
    import pyarrow.parquet as pq
    pa.set_cpu_count(threads)

    def work():
        with pq.ParquetWriter(out, pq.read_schema(files[0]), compression="zstd",
                              compression_level=3) as writer:
            for file in files:
                for batch in pq.ParquetFile(file).iter_batches(batch_size=16384,
                                                               use_threads=threads > 1):
                    writer.write_batch(batch)
    return work


WORKERS = {"duckdb": worker_duckdb, "polars": worker_polars, "pyarrow": worker_pyarrow}


def work(name, threads, out, files):
    run = WORKERS[name](threads, out, files)
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    run()
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"wall": wall, "cpu": after.ru_utime + after.ru_stime
                                           - before.ru_utime - before.ru_stime}))


def measure(command):
    """Runs `command` and prints its wall time, CPU time, peak and output as JSON. It does so in a
    small process of its own: a process inherits the peak of the one that it is forked from."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    print(json.dumps({"wall": time.perf_counter() - begin, "cpu": usage.ru_utime + usage.ru_stime,
                      "peak": usage.ru_maxrss * 1024, "out": out, "code": process.returncode}))


def spawn(command, env=None):
    """Runs a process to its end; (wall, cpu, peak bytes, output)."""
    done = subprocess.run([sys.executable, "-S", __file__, "--measure", *command], env=env,
                          capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if found["code"] != 0:
        sys.exit(f"{' '.join(command[:4])} …: exit {found['code']}\n{found['out']}")
    return found["wall"], found["cpu"], found["peak"], found["out"]


class Contest:
    """One shape: its files, and what every contestant makes of them."""

    def __init__(self, name, files, scratch, memory):
        self.name = name
        self.files = files
        self.scratch = scratch
        self.memory = memory
        self.bytes_in = sum(os.path.getsize(file) for file in files)
        self.outputs = []  # Of the last lithify run: (path, bytes).

    def lithify(self, jobs):
        root = self.scratch / "tree"
        folder = root / PARTITION
        folder.mkdir(parents=True)
        for file in self.files:
            os.link(file, folder / os.path.basename(file))
        wall, cpu, peak, _ = spawn([BINARY, "compact", str(root), "--jobs", str(jobs), "--quiet",
                                    "--memory", self.memory, "--set",
                                    "limits.low_priority=false"])
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.outputs = [(folder / name, (folder / name).stat().st_size)
                        for name in manifest["files"]]
        rows = count_rows([path for path, _ in self.outputs])
        return wall, cpu, peak, sum(size for _, size in self.outputs), rows

    def other(self, name, threads):
        out = str(self.scratch / "out.parquet")
        env = dict(os.environ, POLARS_MAX_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        _, _, peak, printed = spawn([sys.executable, __file__, "--worker", name, str(threads), out,
                                     *self.files], env)
        numbers = json.loads(printed)
        return numbers["wall"], numbers["cpu"], peak, os.path.getsize(out), count_rows([out])

    def copy(self, durable):
        folder = self.scratch / "copy"
        folder.mkdir()
        wall, cpu, peak, _ = spawn(["cp", *self.files, str(folder)])
        if durable:
            begin = time.perf_counter()
            for path in folder.iterdir():
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
            wall += time.perf_counter() - begin
        return wall, cpu, peak, self.bytes_in, count_rows(self.files)


def count_rows(files):
    import pyarrow.parquet as pq
    return sum(pq.ParquetFile(file).metadata.num_rows for file in files)


def contestants(contest, cores):
    return {
        "lithify, 1 thread": lambda: contest.lithify(1),
        f"lithify, {cores} threads": lambda: contest.lithify(cores),
        "DuckDB COPY, 1 thread": lambda: contest.other("duckdb", 1),
        f"DuckDB COPY, {cores} threads": lambda: contest.other("duckdb", cores),
        f"Polars sink, {cores} threads": lambda: contest.other("polars", cores),
        f"pyarrow loop, {cores} threads": lambda: contest.other("pyarrow", cores),
        "cp": lambda: contest.copy(durable=False),
        "cp and fsync": lambda: contest.copy(durable=True),
    }


# --- the machine's state -----------------------------------------------------------------------

def cpu_ticks():
    with open("/proc/stat", encoding="utf-8") as file:
        ticks = [int(value) for value in file.readline().split()[1:9]]
    return sum(ticks), ticks[7]


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{model}, {os.cpu_count()} cores, {pages / 2**30:.0f} GiB, Linux {platform.release()}"


# --- runs --------------------------------------------------------------------------------------

def race(contest, rounds, scratch):
    """Interleaved rounds, so that a slow minute hits everybody: A B C … A B C …"""
    results = {}
    expected = count_rows(contest.files)
    for number in range(rounds):
        for name, run in contestants(contest, os.cpu_count()).items():
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            for file in contest.files:  # Warm for everybody.
                pathlib.Path(file).read_bytes()
            os.sync()
            wall, cpu, peak, size, rows = run()
            if rows != expected:
                sys.exit(f"{contest.name}: {name} wrote {rows} rows of {expected}")
            results.setdefault(name, []).append((wall, cpu, peak, size))
            print(f"{contest.name} round {number + 1}/{rounds}: {name}: {wall:.2f} s, "
                  f"cpu {cpu:.2f} s, peak {peak / MIB:.0f} MiB, out {size / MIB:.1f} MiB",
                  flush=True)
    return results


def medians(samples):
    return [statistics.median(values) for values in zip(*samples)]


def report_race(contest, results):
    total = contest.bytes_in / MIB
    rows = count_rows(contest.files)
    lines = [f"## {contest.name}: {len(contest.files)} files, {total:.2f} MiB, {rows:,} rows", "",
             "| | wall s | MiB/s of input | million rows/s | CPU s | peak MiB | output MiB | "
             "wall, lithify on all cores = 1 |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    base = medians(results[f"lithify, {os.cpu_count()} threads"])[0]
    for name, samples in results.items():
        wall, cpu, peak, size = medians(samples)
        lines.append(f"| {name} | {wall:.2f} | {total / wall:.1f} | {rows / wall / 1e6:.2f} | "
                     f"{cpu:.2f} | {peak / MIB:.0f} | {size / MIB:.2f} | {wall / base:.2f} |")
    return lines + [""]


def query_before_and_after(contest):
    """B2: a selective query through DuckDB over the small files and over what became of them."""
    import duckdb
    times = {}
    sides = {"before": contest.files, "after": [str(path) for path, _ in contest.outputs]}
    answers = set()
    with duckdb.connect() as db:
        for _ in range(21):
            for side, files in sides.items():
                listed = ", ".join(f"'{file}'" for file in files)
                begin = time.perf_counter()
                answer = db.execute(
                    f"SELECT count(*), min(time_unix_nano) FROM read_parquet([{listed}], "
                    "hive_partitioning = false) WHERE template_id = 'template-7'").fetchone()
                times.setdefault(side, []).append(time.perf_counter() - begin)
                answers.add(answer)
    if len(answers) != 1:
        sys.exit(f"B2: the query gives different answers: {answers}")
    before, after = (statistics.median(times[side]) * 1000 for side in ("before", "after"))
    return [f"| {contest.name} | {len(contest.files)} -> {len(contest.outputs)} | {before:.2f} | "
            f"{after:.2f} | {before / after:.1f} |"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of each file's rows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default=",".join(SHAPES), help="of " + ",".join(SHAPES))
    parser.add_argument("--memory", default="1GiB", help="lithify's bound")
    parser.add_argument("--scratch", default=str(ROOT / "build" / "bench"))
    parser.add_argument("--out", default=str(ROOT / "bench" / "RESULTS.md"))
    args = parser.parse_args()

    scratch = pathlib.Path(args.scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    load, (ticks, stolen) = os.getloadavg(), cpu_ticks()
    body, queries, sizes = [], [], []
    for name in args.shapes.split(","):
        print(f"{name}: writing the files", flush=True)
        contest = Contest(name, make_shape(name, scratch / "shapes", args.scale),
                          scratch / "work", args.memory)
        body += report_race(contest, race(contest, args.rounds, scratch / "work"))
        # What lithify makes with the defaults, once more, for looking at it.
        shutil.rmtree(scratch / "work", ignore_errors=True)
        contest.lithify(os.cpu_count())
        if name in ("d2", "logs512"):
            queries += query_before_and_after(contest)
        listed = ", ".join(f"{size / MIB:.1f}" for _, size in contest.outputs)
        sizes.append(f"| {name} | {len(contest.files)} | {listed} | "
                     f"{sum(size < 128 * MIB for _, size in contest.outputs)} |")
        shutil.rmtree(scratch / "shapes" / name)
    now_ticks, now_stolen = cpu_ticks()
    steal = 100 * (now_stolen - stolen) / max(1, now_ticks - ticks)
    head = ["# Benchmark results", "",
            "Written by `./dev bench` (bench/run.py says what is measured and how). Medians of "
            f"{args.rounds} interleaved rounds; scale {args.scale:g} (1 is the full size).", "",
            f"Machine: {machine()}. Load average at the start {load[0]:.2f}, at the end "
            f"{os.getloadavg()[0]:.2f}; {steal:.1f} % of the CPU time was stolen by the host.",
            f"lithify ran with `--memory {args.memory}` and its default verification; its numbers "
            "hold process start, fsync and verification, those of the others do not.", ""]
    tail = ["## B2: a selective query through DuckDB", "",
            "| shape | files | before ms | after ms | times faster |", "|---|---|---:|---:|---:|",
            *queries, "", "## D3: sizes of the outputs", "",
            "The band is 256 MiB to 2 GiB; a partition that holds less becomes one file.",
            "", "| shape | files before | files after, MiB | below 128 MiB |",
            "|---|---:|---|---:|",
            *sizes, ""]
    pathlib.Path(args.out).write_text("\n".join(head + body + tail), encoding="utf-8")
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        work(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    elif len(sys.argv) > 1 and sys.argv[1] == "--measure":
        measure(sys.argv[2:])
    else:
        main()
