"""The Flight SQL server under many clients: calls a second, how long they take, and memory over a
long run; and the same SELECT by DuckDB itself on the same files, one after the other.

./dev bench server [--clients 200] [--calls 4000] [--soak 0] [--scratch DIR] [--json FILE]

The clients run on the same machine, so that half of the processors' time is theirs; what is given
beside each figure is the server's own processor time. Leave the machine alone while it runs."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests" / "e2e"))

import duckdb  # noqa: E402
import iceberg_lake  # noqa: E402
import server as servers  # noqa: E402

LOAD = REPOSITORY / "build" / "bench" / "flight_load"
STATEMENTS = {
    "table_health": "CALL system.table_health(table => 'sales.t')",
    "select": "SELECT region, count(*) AS n, max(id) AS top FROM sales.t GROUP BY region",
    "select_1": "SELECT 1",
    "show_tables": "SHOW TABLES IN sales",
}


def status(pid):
    """Resident KiB, and seconds of processor time so far."""
    fields = dict(line.split(":", 1) for line in
                  pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    times = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields["VmRSS"].split()[0]), (int(times[11]) + int(times[12])) / ticks


def load(server, statement, clients, calls):
    memory, cpu = status(server.process.pid)
    done = subprocess.run([LOAD, server.url, str(clients), str(calls), statement],
                          capture_output=True, text=True, check=True)
    after, cpu_after = status(server.process.pid)
    result = json.loads(done.stdout)
    result["calls_per_second"] = round(result["calls"] / result["seconds"], 1)
    result["server_cpu_ms_per_call"] = round((cpu_after - cpu) * 1000 / result["calls"], 3)
    result["rss_mib"] = [round(memory / 1024, 1), round(after / 1024, 1)]
    return result


def plain_duckdb(lake, calls):
    """The same SELECT by DuckDB on the table's files, in one process, ms of each."""
    files = [entry.file.file_path.removeprefix("file://") for entry in lake.entries("t")]
    query = f"SELECT region, count(*) AS n, max(id) AS top FROM read_parquet({files!r}) GROUP BY 1"
    begin = time.perf_counter()
    for _ in range(calls):
        connection = duckdb.connect(config={"threads": 1})
        connection.sql(query).fetchall()
        connection.close()
    fresh = (time.perf_counter() - begin) * 1000 / calls
    connection = duckdb.connect(config={"threads": 1})
    begin = time.perf_counter()
    for _ in range(calls):
        connection.sql(query).fetchall()
    return {"new_connection_ms": round(fresh, 3),
            "kept_connection_ms": round((time.perf_counter() - begin) * 1000 / calls, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--soak", type=int, default=0, help="So many calls more, memory watched")
    parser.add_argument("--scratch", help="Directory (default: a temporary one)")
    parser.add_argument("--json", help="Write the results there, too")
    options = parser.parse_args()
    results = {"clients": options.clients}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        scratch = pathlib.Path(scratch)
        lake = iceberg_lake.Lake(scratch / "warehouse")
        lake.plain(files=10, rows=1000)
        server = servers.Server(scratch / "server", servers.lake_config(lake), "--set",
                                "server.statements_per_user_max=256")
        try:
            for name, statement in STATEMENTS.items():
                results[name] = load(server, statement, options.clients, options.calls)
                print(name, json.dumps(results[name]), flush=True)
            if options.soak:
                memory = []
                for _ in range(10):
                    results["soak"] = load(server, STATEMENTS["table_health"], options.clients,
                                           options.soak // 10)
                    memory.append(results["soak"]["rss_mib"][1])
                    print("soak", memory[-1], "MiB", flush=True)
                results["soak_rss_mib"] = memory
        finally:
            server.stop()
        results["duckdb"] = plain_duckdb(lake, 100)
        print("duckdb alone", json.dumps(results["duckdb"]))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
