"""What a writer loses when it hosts its own compactor: the program of examples/ingest_and_compact,
built as a user would, writes small files with and without lithify in the same process. Run it with
./dev bench ingest on a quiet machine; it writes bench/INGEST.md.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess

import measure
import shapes

LOADS = (  # name, shape of the files, files, files per second (0: as fast as it can)
    ("log files, at 100 a second", "logs512", 1200, 100),
    ("log files, as fast as it can", "logs512", 2000, 0),
    ("15 MiB files, at 4 a second", "d2", 80, 4),
    ("15 MiB files, as fast as it can", "d2", 200, 0),
)
LINE = re.compile(r"writer (alone|and compactor):\s+([\d.]+) files/s\s+([\d.]+) MiB/s")
MERGED = re.compile(r"compacted meanwhile:\s+(\d+) files into (\d+)")


def build(scratch):
    """The example against the installed package."""
    prefix, where = scratch / "sdk", scratch / "example"
    for command in (["cmake", "--install", measure.ROOT / "build", "--component", "sdk",
                     "--prefix", prefix],
                    ["cmake", "-S", measure.ROOT / "examples" / "ingest_and_compact", "-B",
                     where, f"-DCMAKE_PREFIX_PATH={prefix}"],
                    ["cmake", "--build", where]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return where / "ingest_and_compact"


def once(program, sources, root, files, pace):
    shutil.rmtree(root, ignore_errors=True)
    os.sync()
    text = subprocess.run([program, sources, root, str(files), str(pace)], check=True,
                          capture_output=True, text=True).stdout
    rates = {who: (float(per_second), float(mib)) for who, per_second, mib in LINE.findall(text)}
    return rates["alone"], rates["and compactor"], tuple(map(int, MERGED.search(text).groups()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the files")
    parser.add_argument("--scratch", default=str(measure.ROOT / "build" / "bench-ingest"))
    parser.add_argument("--out", default=str(measure.ROOT / "bench" / "INGEST.md"))
    args = parser.parse_args()
    scratch = pathlib.Path(args.scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    program = build(scratch)
    quiet = measure.Quiet()
    samples = {}
    sources = {shape: shapes.make(shapes.Shape(shape), scratch, 1.0)
               for shape in {entry[1] for entry in LOADS}}
    for number in range(args.rounds):
        for name, shape, files, pace in LOADS:
            result = once(program, sources[shape], scratch / "tree",
                          max(40, round(files * args.scale)), pace)
            print(f"round {number + 1}/{args.rounds}: {name}: {result}", flush=True)
            samples.setdefault(name, []).append(result)
    rows = []
    for name, results in samples.items():
        alone, beside = (tuple(statistics.median(r[i][k] for r in results) for k in (0, 1))
                         for i in (0, 1))
        kept = statistics.median(r[1][0] / r[0][0] for r in results)
        merged = "; ".join(f"{a} into {b}" for _, _, (a, b) in results)
        rows.append(f"| {name} | {alone[0]:.1f} ({alone[1]:.1f}) | {beside[0]:.1f} "
                    f"({beside[1]:.1f}) | {100 * kept:.0f} % | {merged} |")
    pathlib.Path(args.out).write_text("\n".join([
        "# A writer with and without its own compactor", "",
        "Written by `./dev bench ingest`: examples/ingest_and_compact, which syncs every file, "
        f"writes alone and then with lithify compacting in the same process. Medians of "
        f"{args.rounds} rounds.", "",
        quiet.text(), "",
        "| load | alone, files/s (MiB/s) | with the compactor | kept | compacted, each round |",
        "|---|---:|---:|---:|---|", *rows, ""]), encoding="utf-8")
    shutil.rmtree(scratch, ignore_errors=True)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
