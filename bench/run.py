"""The benchmarks: lithify against DuckDB, Polars, pyarrow, the Rust crate's tools and Spark on the
same files, in interleaved rounds, and against the limits: copying the same bytes, and the codec
alone. Run it with ./dev bench on a quiet machine; it writes bench/RESULTS.md.

bench/shapes.py says what the files are, bench/peers.py how each contestant is run and what of it
is measured, bench/codec_speed.py what the codec's limit is, bench/report.py how the goals are
computed. Who takes more than SLOW seconds runs in the first round only, lithify excepted (not where
it is told to decode all); Spark runs in no other.

What was measured is kept for each shape in the scratch directory, so that shapes can be measured
one after the other: RESULTS.md has all that are there of the same scale, each with its date and the
hash of the lithify that ran.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

import measure
import peers
import report
import shapes

MIB = measure.MIB
DEFAULT = ("d2", "logs512", "runs", "strings", "mixed.pyarrow.zstd", "mixed.pyarrow.snappy",
           "mixed.duckdb.zstd", "mixed.rust.zstd", "mixed.spark.zstd", "flat.pyarrow.zstd",
           "flat.duckdb.snappy", "tiny.pyarrow.zstd", "wide.pyarrow.zstd", "wide.polars.snappy",
           "codes.pyarrow.zstd")
SPARK = ("d2", "mixed.pyarrow.zstd", "mixed.spark.zstd", "flat.pyarrow.zstd", "tiny.pyarrow.zstd",
         "wide.pyarrow.zstd")
SLOW = 10  # Seconds.
FULL_SCANS, SELECTIVE_SCANS = 5, 11
ADDED = {"cold": ", started for it", "warm": ", the call alone, warm"}


def run_one(contest, name, run):
    """{name: sample}"""
    for file in contest.files:  # Warm for everybody.
        file.read_bytes()
    os.sync()
    found = run()
    found = {name: found} if "wall" in found else {name + ADDED[key]: used
                                                   for key, used in found.items()}
    for who, sample in found.items():
        if sample["rows"] != contest.rows:
            sys.exit(f"{contest.shape.name}: {who}: {sample['rows']} rows of {contest.rows}")
        print(f"{contest.shape.name}: {who}: {sample['wall']:.2f} s, cpu {sample['cpu']:.2f} s, "
              f"peak {sample['peak'] / MIB:.0f} MiB, out {sample['size'] / MIB:.1f} MiB in "
              f"{sample['groups']} row groups", flush=True)
    return found


def race(contest, runs, rounds):
    """Interleaved rounds, so that a slow minute hits everybody: A B C … A B C …"""
    results, failed, done = {}, {}, set()
    for _ in range(rounds):
        for name, run in runs.items():
            if name in done:
                continue
            begin = time.perf_counter()
            try:
                found = run_one(contest, name, run)
            except measure.Failed as error:
                if name.startswith("lithify"):
                    sys.exit(f"{contest.shape.name}: {error}")
                failed[name] = " ".join(str(error).split())[-300:]
                print(f"{contest.shape.name}: {name} could not: {failed[name]}", flush=True)
                done.add(name)
                continue
            for who, sample in found.items():
                results.setdefault(who, []).append(sample)
            slow = time.perf_counter() - begin > SLOW and not name.startswith("lithify, ")
            if slow or name.startswith("Spark"):
                done.add(name)
    return results, failed


def queries(contest):
    """Of one output: every value is hashed, so that the answers also prove that the rows are the
    same; and one with a condition, which statistics, dictionaries and bloom filters may serve."""
    import pyarrow.parquet as pq
    columns = pq.read_schema(contest.files[0]).names
    sums = ", ".join(f'sum(hash("{name}") >> 32)' for name in columns)
    counts = ", ".join(f'count("{name}")' for name in columns[:4])
    return {"full": f"SELECT count(*), {sums} FROM {{}}",
            "selective": f"SELECT count(*), {counts} FROM {{}} WHERE {contest.shape.kind.where}"}


def scan(contest, results):
    """{contestant: {query: median seconds}}, with DuckDB on all cores, interleaved."""
    import duckdb
    sides = {"the inputs": [str(file) for file in contest.files]}
    sides |= {who: samples[-1]["files"] for who, samples in results.items()
              if samples[-1]["files"] and not who.startswith("cp") and not who.endswith("1 thread")
              and not who.endswith("started for it")}
    asked, answers = {}, {}

    def ask(db, key, text, who):
        listed = ", ".join(f"'{file}'" for file in sides[who])
        start = time.perf_counter()
        answer = db.execute(text.format(
            f"read_parquet([{listed}], hive_partitioning = false)")).fetchone()
        asked.setdefault(who, {}).setdefault(key, []).append(time.perf_counter() - start)
        answers.setdefault(key, {})[who] = answer

    # Each begins a round in its turn, and the inputs come after all others: what a query of
    # thousands of files leaves behind would slow down whoever is next.
    outputs = [who for who in sides if who != "the inputs"]
    with duckdb.connect() as db:
        for key, text in queries(contest).items():
            begin = time.perf_counter()
            for number in range(FULL_SCANS if key == "full" else SELECTIVE_SCANS):
                turn = number % len(outputs)
                for who in outputs[turn:] + outputs[:turn]:
                    ask(db, key, text, who)
                if time.perf_counter() - begin > 3 * SLOW:
                    break
        for key, text in queries(contest).items():
            for _ in range(3):
                ask(db, key, text, "the inputs")
    found = {}
    for who, times in asked.items():
        differs = any(answers[key][who] != answers[key]["the inputs"] for key in times)
        if differs and who.startswith("lithify"):
            sys.exit(f"{contest.shape.name}: {who}: rows are not those of the inputs")
        found[who] = {key: statistics.median(taken) for key, taken in times.items()}
        found[who]["differs"] = differs
        print(f"{contest.shape.name}: DuckDB reads {who}: all {1000 * found[who]['full']:.0f} ms, "
              f"selective {1000 * found[who]['selective']:.1f} ms", flush=True)
    return found


def measure_shape(shape, folder, args, recode):
    import pyarrow.parquet as pq
    work = pathlib.Path(args.scratch) / "work"
    contest = peers.Contest(shape, folder, work, args.memory)
    wanted = shape.name in SPARK if args.spark == "some" else args.spark == "all"
    runs = peers.contestants(contest, os.cpu_count(), recode,
                             wanted and bool(os.environ.get("LITHIFY_SPARK")))
    results, failed = race(contest, runs, args.rounds)
    scans = scan(contest, results)
    for sample in (sample for samples in results.values() for sample in samples):
        sample["files"] = len(sample["files"])  # They are removed now.
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(folder.parent / "lake", ignore_errors=True)
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"facts": {
        "files": len(contest.files), "bytes": contest.bytes_in, "rows": contest.rows,
        "columns": len(pq.read_schema(contest.files[0])), "groups": contest.groups,
        "writer": shape.writer, "codec": shape.codec, "where": shape.kind.where,
        "date": f"{now:%Y-%m-%d %H:%M} UTC", "binary": binary_hash()},
        "results": results, "failed": failed, "scans": scans}


def binary_hash():
    return hashlib.sha256(pathlib.Path(measure.BINARY).read_bytes()).hexdigest()[:10]


def stored_results(scratch, scale):
    """What was measured at this scale, in the order of DEFAULT, then by name."""
    found = {path.stem: path for path in (scratch / "results" / f"{scale:g}").glob("*.json")}
    order = [name for name in DEFAULT if name in found]
    order += sorted(set(found) - set(order))
    return {name: json.loads(found[name].read_text(encoding="utf-8")) for name in order}


def head_lines(args, quiet, missing):
    lines = [
        "# Benchmark results", "",
        "Written by `./dev bench`: bench/run.py says what is measured, bench/shapes.py what the "
        "shapes are, bench/peers.py how each contestant is run. Medians of interleaved rounds; "
        f"scale {args.scale:g} (1 is the full size).", "",
        quiet.text(),
        f"lithify ran with {'`--memory ' + args.memory + '`' if args.memory else 'its defaults'} "
        "and the codec of the inputs; its numbers hold process start, fsync and verification, "
        "those of DuckDB, Polars and pyarrow hold the operation alone. Spark has a heap of 2 GiB.",
        "Everybody writes zstd of level 3, or snappy. parquet-concat keeps the row groups as they "
        "are: it decodes nothing, but it merges nothing either.", ""]
    return lines + [f"Not measured: {text}\n" for text in missing]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--scale", type=float, default=1.0,
                        help="fraction of each shape's files, or of their rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shapes", default=",".join(DEFAULT),
                        help="KIND or KIND.WRITER.CODEC of bench/shapes.py, separated by commas; "
                             "empty: only write the report of what was measured before")
    parser.add_argument("--spark", choices=("none", "some", "all"), default="some",
                        help="shapes that Spark takes part in")
    parser.add_argument("--minutes", type=int, default=120, help="no shape is begun after so long")
    parser.add_argument("--memory", help="lithify's bound, unless it is the default")
    parser.add_argument("--scratch", default=str(measure.ROOT / "build" / "bench"),
                        help="files and results stay there for the next run")
    parser.add_argument("--make-only", action="store_true", help="make the files, measure nothing")
    parser.add_argument("--fresh", action="store_true", help="forget results of earlier runs")
    parser.add_argument("--out", default=str(measure.ROOT / "bench" / "RESULTS.md"))
    return parser.parse_args()


def main():
    args = arguments()
    scratch = pathlib.Path(args.scratch).resolve()
    args.scratch = str(scratch)
    kept = scratch / "results" / f"{args.scale:g}"
    if args.fresh:
        shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True, exist_ok=True)
    wanted = [shapes.Shape(name) for name in args.shapes.split(",") if name]
    folders = {shape: shapes.make(shape, scratch, args.scale) for shape in wanted}
    if args.make_only:
        return
    quiet, recode = measure.Quiet(), peers.can_recode()
    missing = [f"{shape.name}, since the writer's tools are not there."
               for shape, folder in folders.items() if folder is None]
    begin = time.monotonic()
    for shape, folder in folders.items():
        if time.monotonic() - begin > 60 * args.minutes:
            missing.append(f"{shape.name}, since {args.minutes} minutes were over.")
        elif folder is not None:
            found = measure_shape(shape, folder, args, recode)
            (kept / f"{shape.name}.json").write_text(json.dumps(found), encoding="utf-8")
    report.write(pathlib.Path(args.out), stored_results(scratch, args.scale),
                 head_lines(args, quiet, missing), scratch / "deletes.json")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
