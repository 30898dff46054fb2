"""A fleet on hosts of its own: coordinators, workers and an object store, each a real process in a
network namespace, with TLS on both sides; the catalog is a file that coordinators alone open."""

import collections
import random
import re
import secrets
import signal
import time

import cli
import hosts
import iceberg_tables as it
import pyarrow.parquet as pq
from certificates import Authority
from fleet_worker import PROGRAM
from iceberg_lake import PLAIN
from pyiceberg.manifest import DataFileContent
from pyiceberg.typedef import Record
from s3_bucket import KEY, SECRET, Faults, S3Tree
from s3_lake import S3Lake
from service_script import run_script

PATIENCE = 300
WEEK = 7 * 86400
PORT = 9140
REGIONS = 6
BATCHES = 3
ROWS = 160  # Of one file.
NOTE_BYTES = 400  # That no codec makes smaller.
RATE = 4  # Mbit/s of a worker's link: a group takes about a second.


class NetworkWorker:
    """A lithify-worker on a host of its own; the same again after a kill."""

    def __init__(self, network, host, *sets, listen=None, tls=True):
        self.network, self.host = network, host
        self.listen = listen or f"{network.hosts.address(host)}:{PORT}"
        self.sets = [part for text in sets for part in ("--set", text)]
        self.log = network.directory / f"{host}.log"
        self.log.write_text("")
        self.config = network.directory / f"{host}.toml"
        secret = network.directory / "fleet.secret"
        lines = ["[worker]", f'listen = "{self.listen}"', f'id = "{host}"',
                 f'secret_file = "{secret}"', "max_inflight_groups = 1", "threads = 1",
                 'memory = "256MiB"', 'drain = "1s"', 'unadopted = "4s"']
        if tls:
            certificate, key = network.authority.issue(host, network.hosts.address(host))
            lines += [f'tls_cert = "{certificate}"', f'tls_key = "{key}"',
                      f'tls_client_ca = "{network.authority.ca}"']
        else:
            lines += ["insecure_loopback = true"]
        # A SQLite catalog lends no keys: the workers have their own.
        lines += ["[worker.s3]", f'endpoint = "{network.endpoint}"', 'region = "us-east-1"',
                  f'access_key_id = "{KEY}"', f'secret_access_key = "{SECRET}"']
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.process = None
        self.start()

    def start(self):
        port_file = self.network.directory / f"{self.host}.port"
        port_file.unlink(missing_ok=True)
        with self.log.open("a") as log:
            self.process = self.network.hosts.start(
                self.host, [PROGRAM, "--config", self.config, *self.sets, "--port-file",
                            port_file], env=cli.environment(), stdout=log, stderr=log)
        wait_until(port_file.exists, f"{self.host} does not serve: {self.log.read_text()}")

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def running(self):
        return self.process.poll() is None

    def begun(self):
        """How many groups it was given so far."""
        return self.log.read_text().count("attempt ")

    def stop(self, how=signal.SIGTERM):
        self.send(signal.SIGCONT)
        self.send(how)
        self.process.wait(timeout=PATIENCE)


def wait_until(holds, what):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Network:
    """`workers`: how many; one more host, `far`, is 20 ms away from the others."""

    def __init__(self, directory, workers=3):
        self.directory = directory
        self.names = [f"w{number}" for number in range(1, workers + 1)] + ["far"]
        self.coordinators = ["coord", "other"]
        self.hosts = hosts.Hosts(
            dict.fromkeys(["store", *self.coordinators, *self.names]), {"far": 20})
        self.endpoint = None
        self.aged = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self):
        self.hosts.join()
        store = self.hosts.run(
            "store", ["env", f"LITHIFY_SEAWEEDFS_IP={self.hosts.address('store')}", "bash",
                      cli.REPOSITORY / "tests" / "services" / "seaweedfs.sh", "start",
                      self.directory / "store"], capture_output=True, text=True)
        self.endpoint = store.stdout.strip()
        self.authority = Authority(self.directory)
        self.certificates = {name: self.authority.issue(name, self.hosts.address(name))
                             for name in self.coordinators}
        secret = self.directory / "fleet.secret"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex(32), encoding="utf-8")
        # All that is there is a week old for whoever comes this way.
        self.aged = Faults(self.directory / "aged", self.endpoint, 1, "", age=WEEK)
        self.aged.__enter__()

    def secret(self):
        return (self.directory / "fleet.secret").read_text(encoding="utf-8")

    def lake(self, name):
        return NetworkLake(self, name)

    def slow_down(self):
        """The links of workers, so that a group takes about a second."""
        for host in self.names:
            self.hosts.limit(host, RATE)

    def heal(self):
        """No link is slow, and none is cut."""
        for host in (*self.names, *self.coordinators):
            self.hosts.partition(host, cut=False)
            self.hosts.limit(host, None)
            for other in ("store", *self.names, *self.coordinators):
                self.hosts.block(host, other, cut=False)
                self.hosts.block(other, host, cut=False)

    def close(self):
        if self.aged is not None and self.aged.endpoint:
            self.aged.__exit__()
        if self.endpoint:
            run_script("seaweedfs.sh", "stop", self.directory / "store")
        self.hosts.close()


class NetworkLake(S3Lake):
    """A table per test in a place of its own; commands run on the coordinators' hosts."""

    def __init__(self, network, name):
        self.network = network
        super().__init__(network.directory / name, S3Tree(network.endpoint, name))

    def order(self, *args, host="coord", workers=(), silence="5s", env=None):
        """The process of a coordinator that rewrites all of table `t` on these workers; it is not
        waited for."""
        certificate, key = self.network.certificates[host]
        sets = ["fleet.distribution=require", f"fleet.secret_file={self.network.directory}/"
                "fleet.secret", f"fleet.tls_ca={self.network.authority.ca}",
                f"fleet.tls_cert={certificate}", f"fleet.tls_key={key}",
                f"fleet.silence={silence}", "fleet.attempt=30s",
                "fleet.workers=" + ",".join(worker.listen for worker in workers)]
        command = cli.command_line("rewrite-data-files", *self._arguments("t", ("--rewrite-all",)),
                                   *(part for text in sets for part in ("--set", text)), *args)
        out = (self.network.directory / f"{self.bucket.prefix}-{host}.txt").open("w+")
        process = self.network.hosts.start(
            host, command, stdout=out, stderr=out,
            env=cli.environment({**self.bucket.env(), **(env or {})}))
        process.out = out
        return process

    def wait(self, process):
        """The exit code, and what it said."""
        try:
            code = process.wait(timeout=PATIENCE)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.out.seek(0)
        return code, process.out.read()

    def job(self, *args, **options):
        """A coordinator to its end; again while workers do not answer, as on a machine that has
        much else to do."""
        for _ in range(10):
            code, said = self.wait(self.order(*args, **{"silence": "30s", **options}))
            if "insufficient_workers" not in said:
                break
        return code, said

    # --- the table, as an independent reader sees it ---------------------------------------------

    def live(self):
        """Its rows, counted: by the metadata as pyiceberg reads it, and the specification's rules
        for deletes."""
        table = self.load("t")
        names = {field.field_id: field.name for field in table.schema().fields}
        entries = self.entries("t")
        positions, equal = collections.defaultdict(list), []
        for entry in entries:
            file = entry.file
            if file.content == DataFileContent.POSITION_DELETES:
                read = self._read(file.file_path)
                for path, row in zip(*(read[name].to_pylist() for name in ("file_path", "pos"))):
                    positions[path].append((row, entry.sequence_number))
            elif file.content == DataFileContent.EQUALITY_DELETES:
                columns = [names[number] for number in file.equality_ids]
                equal.append((entry, columns, {tuple(row[name] for name in columns)
                                               for row in self._read(file.file_path).to_pylist()}))
        counted = collections.Counter()
        for entry in entries:
            if entry.file.content != DataFileContent.DATA:
                continue
            gone = {row for row, number in positions[entry.file.file_path]
                    if number >= entry.sequence_number}
            rules = [(columns, values) for deletes, columns, values in equal
                     if deletes.sequence_number > entry.sequence_number
                     and str(deletes.file.partition) == str(entry.file.partition)]
            for number, row in enumerate(self._read(entry.file.file_path).to_pylist()):
                if number in gone or any(tuple(row[name] for name in columns) in values
                                         for columns, values in rules):
                    continue
                counted[tuple(sorted(row.items(), key=repr))] += 1
        return counted

    def _read(self, location):
        with self.bucket.fs.open_input_file(location.removeprefix("s3://")) as file:
            return pq.ParquetFile(file).read()

    # --- what a test begins with, and ends with --------------------------------------------------

    def fill(self, seed, batches=BATCHES, rows=ROWS, note_bytes=NOTE_BYTES):
        """Groups of `batches` files, some with position deletes, some with equality deletes; all
        rows that are to be there."""
        chance = random.Random(seed)
        table = self.create("t", PLAIN, partition_by=["region"])
        expected = {}
        files = []
        for batch in range(batches):
            new = {}
            for number in range(rows * REGIONS):
                key = batch * 100_000 + number
                new[key] = {"id": key, "region": f"r{number % REGIONS}",
                            "note": chance.randbytes(note_bytes).hex()}
            expected.update(new)
            files += it.partitioned_files(table, new.values())
        it.commit_data(table, files)
        table = self.load("t")
        files = sorted(self.data_entries("t"), key=lambda e: e.file.file_path)
        deletes = []
        # Region 0 has both kinds, 1 positions, 2 equality deletes; the others none.
        for region in range(3):
            mine = [e.file for e in files if e.file.partition[0] == f"r{region}"]
            partition = Record(f"r{region}")
            if region in (0, 1):
                chosen = [(chance.choice(mine).file_path, row)
                          for row in chance.sample(range(rows), 10)]
                deletes.append(it.position_delete_file(table, chosen, partition))
                for path, row in chosen:
                    expected.pop(self._read(path)["id"][row].as_py())
            if region in (0, 2):
                ids = chance.sample([row["id"] for row in expected.values()
                                     if row["region"] == f"r{region}"], 15)
                deletes.append(it.equality_delete_file(table, ["id"], [(n,) for n in ids],
                                                       partition))
                for number in ids:
                    expected.pop(number)
        it.commit_deletes(table, deletes)
        counted = collections.Counter(tuple(sorted(row.items(), key=repr))
                                      for row in expected.values())
        assert self.live() == counted, "the judge reads what was written"
        return counted

    def data(self):
        return {key for key in self.keys() if key.endswith(".parquet")}

    def committed(self):
        """Whether the last snapshot is one of a rewrite."""
        return self.head("t").summary.operation.value == "replace"

    def sweep(self, *args):
        """As time goes by; then there is nothing but what the metadata names."""
        self.run("remove-orphan-files", "t", *args, endpoint=self.network.aged.endpoint)
        # What a liar put outside of the table is nothing that the table's sweep may touch.
        mine = {key for key in self.keys() if "/t.elsewhere/" not in key}
        assert mine == self.reached("t"), sorted(mine ^ self.reached("t"))


def reason(text):
    """Why a command failed: its JSON says so."""
    found = re.search(r'"(?:reason|message)":\s*"((?:[^"\\]|\\.)*)"', text)
    return found.group(1) if found else text


