"""The same job in a bucket: lithify, pyarrow and DuckDB make one file of many in a real S3 server
on this machine, in interleaved rounds, against the limit: reading all objects and writing the same
bytes into one, with a standard client. Run it with ./dev bench s3 on a quiet machine; it writes
bench/S3.md. Requests are counted in a run of their own, by a proxy before the server.

The server takes CPU time of the same cores: wall times are those of client and server together.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import measure
import s3_peers
import shapes

MIB = measure.MIB
SERVICES = measure.ROOT / "tests" / "services"
SHAPES = (("d2", 1.0), ("logs512", 1.0), ("mixed.duckdb.zstd", 0.5), ("tiny.pyarrow.zstd", 0.2))
CONTESTANTS = ("lithify", "raw", "pyarrow", "duckdb")
BUCKET = "lake"


def script(name, *args):
    done = subprocess.run(["bash", SERVICES / name, *map(str, args)], check=True, text=True,
                          stdout=subprocess.PIPE)
    return done.stdout.strip()


def server_cpu(pid):
    """Seconds of CPU time that the server has had."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        self.endpoint = script("seaweedfs.sh", "start", scratch / "server")
        self.pid = int((scratch / "server" / "pid").read_text(encoding="utf-8"))
        self.fs = s3_peers.filesystem(self.endpoint)

    def upload(self, name, folder):
        """The files as one partition; how many there are, and their bytes."""
        import pyarrow.fs
        partition = shapes.OURIOS if shapes.Shape(name).kind.columns else shapes.EVENTS
        pyarrow.fs.copy_files(str(folder), f"{BUCKET}/{name}/{partition}",
                              source_filesystem=pyarrow.fs.LocalFileSystem(),
                              destination_filesystem=self.fs)
        files = list(folder.rglob("*.parquet"))
        return len(files), sum(path.stat().st_size for path in files)

    def keys(self, name):
        import pyarrow.fs
        found = self.fs.get_file_info(pyarrow.fs.FileSelector(
            f"{BUCKET}/{name}", recursive=True, allow_not_found=True))
        return {info.path for info in found if info.is_file}

    def run(self, contestant, name, endpoint=None):
        """(wall, cpu, peak, the server's cpu), with the tree as it was before."""
        endpoint = endpoint or self.endpoint
        before = self.keys(name)
        served = server_cpu(self.pid)
        if contestant == "lithify":
            config = self.scratch / "lithify.toml"
            config.write_text("" if shapes.Shape(name).kind.columns else shapes.EVENTS_TOML,
                              encoding="utf-8")
            env = {**os.environ, "AWS_ACCESS_KEY_ID": s3_peers.KEY,
                   "AWS_SECRET_ACCESS_KEY": s3_peers.SECRET, "AWS_ENDPOINT_URL_S3": endpoint}
            wall, cpu, peak, _ = measure.spawn(
                [measure.BINARY, "compact", f"s3://{BUCKET}/{name}", "--config", str(config),
                 "--no-progress", "--set", "limits.low_priority=false"], env=env)
        else:
            wall, cpu, peak, _ = measure.spawn(
                [sys.executable, str(pathlib.Path(__file__).with_name("s3_peers.py")), contestant,
                 endpoint, f"{BUCKET}/{name}", f"{BUCKET}/out"])
        served = server_cpu(self.pid) - served
        made = [key for key in self.keys(name) | self.keys("out") if key not in before]
        if contestant == "lithify" and not any(key.endswith("manifest.json") for key in made):
            raise measure.Failed(f"lithify compacted nothing of {name}")
        for key in made:
            self.fs.delete_file(key)
        return wall, cpu, peak, served

    def requests(self, contestant, name):
        proxy = script("s3_faults.sh", "start", self.scratch / "proxy", self.endpoint, 1, "")
        try:
            self.run(contestant, name, proxy)
        finally:
            counted = json.loads(script("s3_faults.sh", "stop", self.scratch / "proxy"))
        return counted["requests"]

    def stop(self):
        script("seaweedfs.sh", "stop", self.scratch / "server")


def table(name, files, size, samples, requests):
    limit = statistics.median(sample[0] for sample in samples["raw"])
    lines = [f"## {name}: {files} files, {size / MIB:.1f} MiB", "",
             "| | wall s | MiB/s | of the limit | CPU s | server's CPU s | peak MiB | requests | "
             "per MiB |", "|---|---|---|---|---|---|---|---|---|"]
    for contestant in CONTESTANTS:
        if contestant not in samples:
            lines.append(f"| {contestant} | failed | | | | | | | |")
            continue
        wall, cpu, peak, served = measure.medians(samples[contestant])
        count = requests.get(contestant)
        told = "- | -" if count is None else f"{count} | {count / (size / MIB):.1f}"
        lines.append(f"| {contestant} | {wall:.2f} | {size / MIB / wall:.0f} "
                     f"| {limit / wall:.2f} | {cpu:.2f} | {served:.2f} | {peak / MIB:.0f} "
                     f"| {told} |")
    return lines + [""]


def measured(name, scale, scratch, rounds):
    """The lines of one shape. It has a server of its own: one takes its time to be rid of what was
    deleted, and its volumes fill up."""
    folder = shapes.make(shapes.Shape(name), scratch, scale)
    bench = Bench(scratch / "servers" / name)
    try:
        files, size = bench.upload(name, pathlib.Path(folder))
        samples, failed = {}, set()
        for number in range(rounds):
            for contestant in CONTESTANTS:
                if contestant in failed:
                    continue
                try:
                    result = bench.run(contestant, name)
                except measure.Failed as error:
                    print(f"{name}: {error}", flush=True)
                    failed.add(contestant)
                    samples.pop(contestant, None)
                    continue
                samples.setdefault(contestant, []).append(result)
                print(f"{name} {number + 1}/{rounds} {contestant}: "
                      + " ".join(f"{value:.2f}" for value in result), flush=True)
        requests = {who: bench.requests(who, name) for who in CONTESTANTS if who in samples}
        return table(name, files, size, samples, requests)
    finally:
        bench.stop()
        shutil.rmtree(bench.scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the files")
    parser.add_argument("--shapes", nargs="*", default=[name for name, _ in SHAPES])
    parser.add_argument("--scratch", default=str(measure.ROOT / "build" / "bench-s3"))
    parser.add_argument("--out", default=str(measure.ROOT / "bench" / "S3.md"))
    args = parser.parse_args()
    scratch = pathlib.Path(args.scratch)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    quiet = measure.Quiet()
    lines = ["# In a bucket", "",
             "Written by `./dev bench s3`: SeaweedFS on loopback, on the same machine; medians of "
             f"{args.rounds} interleaved rounds. *raw* is the limit: pyarrow's client (Amazon's "
             f"SDK) reads all objects, {s3_peers.THREADS} at once, and writes their bytes into one "
             "object in parts. DuckDB goes through the same client. Requests are counted in a run "
             "of their own.", ""]
    for name, share in SHAPES:
        if name in args.shapes:
            lines += measured(name, share * args.scale, scratch, args.rounds)
    lines.append(quiet.text())
    pathlib.Path(args.out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
