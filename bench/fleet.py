"""The gate of the fleet: one table rewritten by the coordinator alone, and by workers on other
hosts, where the network is the limit. Run it with ./dev bench fleet, as root, on a quiet machine;
it writes bench/FLEET.md, and the rates that it measured to bench/fleet_rates.json.

Hosts are network namespaces of this machine, each behind a link of a stated rate in both
directions: the coordinator, the workers, and an object store (SeaweedFS) whose link has the sum of
the workers' rates. The table has at least 30 million rows in files of about 1.5 MiB, a part of
whose rows is deleted by position delete files, in a bucket of that store; its catalog is a SQLite
file, which only the coordinator reads. Contestants take turns on the same snapshot: each round ends
with a rollback to it. Bytes are those that the links counted.

What this cannot show is how CPU-bound work scales: all hosts share the two cores of one machine.
For that there is the model (./dev bench fleet-model), on the placement code itself, with the rates
measured here: of one worker that has all groups, of requests, orders and the checks of results.
What it makes of them for this run is printed beside what was measured.
"""

import argparse
import json
import os
import pathlib
import secrets
import shutil
import statistics
import subprocess
import sys
import time

import measure

sys.path[:0] = [str(measure.ROOT / "tests" / "e2e"), str(measure.ROOT / "tests" / "services")]

import hosts  # noqa: E402
from certificates import Authority  # noqa: E402
from s3_bucket import KEY, SECRET  # noqa: E402

MIB = measure.MIB
SERVICES = measure.ROOT / "tests" / "services"
BIN = pathlib.Path(measure.BINARY).parent
TABLE, TINY = "lake.sales.events", "lake.sales.tiny"
MODEL = measure.ROOT / "build" / "bench" / "fleet_model"
WORKER = {"cap": 2, "threads": 1}
RECEIVED, SENT = 0, 1
GOAL, GOAL_THROUGH = 3.6, 0.001


def make(endpoint, db, rows, files, deleted):
    """Run on a host without a limit: writes the table, prints what there is."""
    import iceberg_tables as it
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import (DoubleType, IntegerType, LongType, NestedField, StringType,
                                 TimestampType)
    from s3_lake import s3_properties

    size = 0

    def write(table, arrow, name, **options):
        nonlocal size
        path = f"{table.location()}/data/{secrets.token_hex(16)}-{name}.parquet"
        with table.io.new_output(path).create() as out:
            pq.write_table(arrow, out, **options)
        length = len(table.io.new_input(path))
        size += length
        return path, length

    it.write_parquet = write
    catalog = SqlCatalog("lake", uri=f"sqlite:///{db}", warehouse="s3://lake/warehouse",
                         **s3_properties(endpoint))
    lake = it.Warehouse(None, db=db, catalog=catalog)
    schema = Schema(NestedField(1, "part", IntegerType()), NestedField(2, "id", LongType()),
                    NestedField(3, "at", TimestampType()), NestedField(4, "kind", StringType()),
                    NestedField(5, "value", DoubleType()), NestedField(6, "amount", IntegerType()))
    table = lake.create("events", schema, partition_by=["part"])
    fields = it.with_ids(table.schema(), [
        pa.field("part", pa.int32()), pa.field("id", pa.int64()),
        pa.field("at", pa.timestamp("us")), pa.field("kind", pa.string()),
        pa.field("value", pa.float64()), pa.field("amount", pa.int32())])
    random = np.random.default_rng(7)
    kinds = np.array([f"kind-{n:02}" for n in range(40)])
    each, data, gone = rows // files, [], {}
    for number in range(files):
        part = number % 4
        first = number * each
        arrow = pa.table(
            [np.full(each, part, np.int32), np.arange(first, first + each),
             (np.arange(first, first + each) * 1000 + 1_790_000_000_000_000)
             .astype("datetime64[us]"),
             kinds[random.integers(0, 40, each)],
             random.integers(0, 1000, each) / 8,
             random.integers(0, 5000, each).astype(np.int32)], schema=fields)
        data.append(it.foreign_data_file(table, arrow, Record(part), compression="zstd",
                                         compression_level=3))
        chosen = random.choice(each, int(each * deleted), replace=False)
        gone.setdefault(part, []).extend((data[-1].file_path, int(row)) for row in chosen)
    it.commit_data(table, data)
    size_of_data = size
    table = lake.load("events")
    it.commit_deletes(table, [it.position_delete_file(table, positions, Record(part))
                              for part, positions in sorted(gone.items())])
    table = lake.load("events")
    tiny = lake.create("tiny", schema, partition_by=["part"])
    it.commit_data(tiny, [it.foreign_data_file(tiny, arrow.slice(0, 10), Record(part))
                          for _ in range(2)])
    print(json.dumps({"tiny": lake.load("tiny").metadata.current_snapshot_id,
                      "rows": each * files, "files": files, "bytes": size_of_data,
                      "deleted": sum(map(len, gone.values())),
                      "snapshot": table.metadata.current_snapshot_id}))


class Fleet:
    def __init__(self, scratch, rate, workers, congestion):
        self.scratch = scratch
        self.workers = [f"w{n}" for n in range(1, workers + 1)]
        self.hosts = hosts.Hosts({"store": rate * workers, "coord": rate, "load": None,
                                  **{name: rate for name in self.workers}}, congestion)
        self.secret = secrets.token_hex(32)
        self.environment = {**os.environ, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                            "AWS_REGION": "us-east-1", "FLEET_SECRET": self.secret}
        store = self.hosts.run(
            "store", ["env", f"LITHIFY_SEAWEEDFS_IP={self.hosts.address('store')}", "bash",
                      SERVICES / "seaweedfs.sh", "start", scratch / "store"],
            stdout=subprocess.PIPE, text=True)
        self.endpoint = store.stdout.strip()
        self.environment["AWS_ENDPOINT_URL_S3"] = self.endpoint
        self.db = scratch / "catalog.db"
        # No secret crosses a link in clear.
        self.authority = Authority(scratch)

    def make(self, rows, files, deleted):
        done = self.hosts.run("load", [sys.executable, __file__, "--make", self.endpoint, self.db,
                                       rows, files, deleted], stdout=subprocess.PIPE, text=True,
                              env=self.environment)
        return json.loads(done.stdout.splitlines()[-1])

    def start_workers(self):
        addresses, self.processes = [], {}
        for name in self.workers:
            certificate, key = self.authority.issue(name, self.hosts.address(name))
            config = self.scratch / f"{name}.toml"
            config.write_text(
                f'[worker]\nlisten = "{self.hosts.address(name)}:9140"\n'
                f'secret = "${{FLEET_SECRET}}"\n'
                f'tls_cert = "{certificate}"\ntls_key = "{key}"\n'
                f'max_inflight_groups = {WORKER["cap"]}\nthreads = {WORKER["threads"]}\n'
                f'memory = "1GiB"\n'
                f'[worker.s3]\nendpoint = "{self.endpoint}"\nregion = "us-east-1"\n'
                f'access_key_id = "{KEY}"\nsecret_access_key = "{SECRET}"\n', encoding="utf-8")
            port_file = self.scratch / f"{name}.port"
            log = open(self.scratch / f"{name}.log", "wb")
            self.processes[name] = self.hosts.start(
                name, [BIN / "lithify-worker", "--config", config, "--port-file", port_file],
                env=self.environment, stdout=log, stderr=log)
            for _ in range(200):
                if port_file.exists():
                    break
                time.sleep(0.1)
            else:
                raise measure.Failed((self.scratch / f"{name}.log").read_text())
            addresses.append(port_file.read_text(encoding="utf-8").strip())
        self.first = addresses[0]
        self.config = self.scratch / "coordinator.toml"
        self.config.write_text(
            f'[fleet]\ndistribution = "require"\nmin_workers = {len(self.workers)}\n'
            f"workers = {json.dumps(addresses)}\n"
            f'secret = "${{FLEET_SECRET}}"\ntls_ca = "{self.scratch}/ca.pem"\n', encoding="utf-8")

    def lithify(self, command, *args, table=TABLE):
        done = self.hosts.run(
            "coord", [measure.BINARY, command, table, *args, "--catalog-uri",
                      f"sqlite:///{self.db}", "--config", self.config, "--json"],
            env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise measure.Failed(f"{command}: exit {done.returncode}\n{done.stderr[-3000:]}")
        return json.loads(done.stdout)

    def cpu(self):
        """Seconds that the workers' processes have used."""
        ticks = 0
        for process in self.processes.values():
            stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def latency(self, asked=50):
        """Seconds of a request of the coordinator to the store, of no more than a few bytes."""
        code = ("import http.client, sys, time\n"
                "def ask():\n"
                "    begin = time.perf_counter()\n"
                "    connection.request('HEAD', '/')\n"
                "    connection.getresponse().read()\n"
                "    return time.perf_counter() - begin\n"
                "connection = http.client.HTTPConnection(sys.argv[1].removeprefix('http://'),\n"
                "                                        timeout=30)\n"
                f"print(sorted(ask() for _ in range({asked}))[{asked // 2}])\n")
        done = self.hosts.run("coord", [sys.executable, "-c", code, self.endpoint],
                              stdout=subprocess.PIPE, text=True)
        return float(done.stdout)

    def order(self, facts, times=5):
        """Seconds of a group with next to nothing in it: its order, the metadata, footers."""
        seconds = []
        for _ in range(times):
            result = self.lithify("rewrite-data-files", "--rewrite-all", table=TINY)
            seconds += [group["seconds"] for group in result["fleet"]["groups"]]
            self.lithify("rollback-to-snapshot", str(facts["tiny"]), table=TINY)
        return statistics.median(seconds)

    def round(self, who, facts, group):
        """One rewrite: (seconds, bytes through the coordinator, of workers, the result)."""
        distribution = "local" if who == "local" else "require"
        only = ["--set", f"fleet.workers={self.first}", "--set", "fleet.min_workers=1"]
        before = {name: self.hosts.traffic(name) for name in ("coord", *self.workers)}
        cpu = self.cpu()
        begin = time.perf_counter()
        result = self.lithify(
            "rewrite-data-files", "--set", f"fleet.distribution={distribution}",
            *(only if who == "one" else []),
            "--target-file-size-bytes", str(group), "--max-file-group-size-bytes",
            str(group + group // 8), "--delete-file-threshold", "1", "--rewrite-job-order",
            "bytes-desc")
        wall = time.perf_counter() - begin
        cpu = self.cpu() - cpu
        ways = {name: [now - then for now, then in zip(self.hosts.traffic(name), count)]
                for name, count in before.items()}
        moved = {name: sum(counts) for name, counts in ways.items()}
        expected = facts["rows"] - facts["deleted"]
        if result["rows_out"] != expected or result["distributed"] != (distribution == "require"):
            raise measure.Failed(f"{distribution}: {result}")
        self.lithify("rollback-to-snapshot", str(facts["snapshot"]))
        sample = {"wall": wall, "coordinator": moved["coord"],
                  "workers": sum(moved[name] for name in self.workers),
                  "bytes_in": result["bytes_in"], "bytes_out": result["bytes_out"],
                  "groups": result["groups"]}
        if fleet := result["fleet"]:
            took = sorted(group["seconds"] for group in fleet["groups"])
            sample |= {"fleet": fleet["seconds"], "cpu": cpu,
                       "check": fleet["check_seconds"] / result["groups"],
                       "p50": took[(len(took) - 1) // 2], "p99": took[(len(took) - 1) * 99 // 100],
                       "sent": sum(ways[name][SENT] for name in self.workers),
                       "received": sum(ways[name][RECEIVED] for name in self.workers)}
            self.sizes = [group["bytes_in"] / MIB for group in fleet["groups"]]
        return sample

    def rates(self, facts, results, rate):
        """What the model is calibrated with (bench/fleet_model.cc reads it)."""
        middle = medians(results)
        alone, one, fleet = (middle[who] for who in ("local", "one", "require"))
        mib = one["bytes_in"] / MIB
        return {
            "what": f"{time.strftime('%Y-%m-%d', time.gmtime())}, {measure.machine()}, load "
                    f"{os.getloadavg()[0]:.1f}; {facts['rows']:,} rows in {facts['files']} files, "
                    f"links of {rate} Mbit/s",
            "workers": len(self.workers), "cap": WORKER["cap"], "link_mib_s": rate * 1e6 / 8 / MIB,
            "worker_mib_s": mib / one["fleet"],
            "read_mib_s": one["received"] / MIB / one["fleet"],
            "write_mib_s": one["sent"] / MIB / one["fleet"],
            "cpu_s_per_mib": one["cpu"] / mib,
            "latency_s": self.latency(), "order_s": self.order(facts), "check_s": fleet["check"],
            "overhead_s": fleet["wall"] - fleet["fleet"],
            "alone_s": alone["wall"], "one_s": one["wall"], "fleet_s": fleet["wall"],
            "group_p50_s": fleet["p50"], "group_p99_s": fleet["p99"], "group_mib": self.sizes}

    def close(self):
        if hasattr(self, "endpoint"):
            self.hosts.run("store", ["bash", SERVICES / "seaweedfs.sh", "stop",
                                     self.scratch / "store"], check=False)
        self.hosts.close()


def medians(results):
    return {who: {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
            for who, samples in results.items()}


def model(rates_file, *args):
    return subprocess.run([MODEL, "--rates", rates_file, *args], check=True, text=True,
                          stdout=subprocess.PIPE, timeout=600).stdout


def report(facts, results, rate, workers, congestion):
    middle = medians(results)
    alone, fleet = middle["local"], middle["require"]
    ratios = [a["wall"] / b["wall"] for a, b in zip(results["local"], results["require"])]
    data = fleet["bytes_in"] + fleet["bytes_out"]
    through = fleet["coordinator"] / data
    link = rate * 1e6 / 8
    lines = [
        "# The fleet against the coordinator alone", "",
        f"{facts['rows']:,} rows in {facts['files']} files, {facts['bytes'] / MIB:.0f} MiB, of "
        f"which {facts['deleted']:,} are deleted by position; {fleet['groups']:.0f} groups. Links "
        f"of {rate} Mbit/s in each direction ({link / 1e6:.1f} MB/s), the store's of "
        f"{rate * workers}, TCP with {congestion}; {workers} workers; all on {os.cpu_count()} "
        f"cores of one machine; "
        f"{len(ratios)} interleaved rounds, medians.", "",
        "| | wall s | MB/s in + out | of the links | bytes through the coordinator |",
        "|---|---|---|---|---|"]
    for who, name, links in (("local", "coordinator alone", 1), ("one", "one worker", 1),
                             ("require", "workers", workers)):
        row = middle[who]
        # Both directions of a link carry at most its rate each: reading bounds, writing overlaps.
        bound = max(row["bytes_in"], row["bytes_out"]) / (link * links)
        lines.append(f"| {name} | {row['wall']:.2f} | "
                     f"{(row['bytes_in'] + row['bytes_out']) / row['wall'] / 1e6:.1f} | "
                     f"{bound / row['wall']:.2f} | {row['coordinator'] / MIB:.2f} MiB |")
    lines += ["", f"Ratio: {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
              f"{max(ratios):.2f}); "
              f"the goal is {GOAL}: {'met' if statistics.median(ratios) >= GOAL else 'missed'}. "
              f"Through the coordinator went {through:.4%} of the data read and written; the goal "
              f"is {GOAL_THROUGH:.1%}: {'met' if through <= GOAL_THROUGH else 'missed'}."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=30_000_000)
    parser.add_argument("--files", type=int, default=240)
    parser.add_argument("--deleted", type=float, default=0.01, help="share of the rows")
    parser.add_argument("--rate", type=int, default=200, help="Mbit/s of a link")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--congestion", default=pathlib.Path(
        "/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii").strip(),
        help="of TCP: cubic, bbr; the machine's own by default")
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=pathlib.Path, default=measure.ROOT / "build" / "fleet")
    parser.add_argument("--out", type=pathlib.Path, default=measure.ROOT / "bench" / "FLEET.md")
    parser.add_argument("--rates", type=pathlib.Path,
                        default=measure.ROOT / "bench" / "fleet_rates.json")
    options = parser.parse_args()
    if options.make:
        endpoint, db, rows, files, deleted = options.make
        make(endpoint, pathlib.Path(db), int(rows), int(files), float(deleted))
        return
    if why := hosts.available():
        sys.exit(f"fleet: no network namespaces here: {why}")
    shutil.rmtree(options.scratch, ignore_errors=True)
    options.scratch.mkdir(parents=True)
    fleet = Fleet(options.scratch, options.rate, options.workers, options.congestion)
    try:
        print("writing the table", flush=True)
        facts = fleet.make(options.rows, options.files, options.deleted)
        print(facts, flush=True)
        fleet.start_workers()
        results = {}
        group = facts["bytes"] // options.groups
        for number in range(options.rounds):
            for who in ("local", "require", "one"):
                sample = fleet.round(who, facts, group)
                results.setdefault(who, []).append(sample)
                print(f"{number + 1}/{options.rounds} {who}: {sample}", flush=True)
        options.rates.write_text(
            json.dumps(fleet.rates(facts, results, options.rate), indent=1) + "\n",
            encoding="utf-8")
        text = report(facts, results, options.rate, options.workers, options.congestion)
        text += "\n## More workers, by the model\n\n" + model(options.rates)
        print(text)
        options.out.write_text(text, encoding="utf-8")
    finally:
        fleet.close()
        shutil.rmtree(options.scratch / "store", ignore_errors=True)


if __name__ == "__main__":
    main()
