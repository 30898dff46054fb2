"""A lithify-serve or lithifyd process and its clients: the command line, and ADBC."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import adbc_driver_flightsql.dbapi as adbc
import cli

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-serve"
DAEMON = pathlib.Path(cli.BINARY).parent / "lithifyd"
CLIENT = pathlib.Path(cli.BINARY).parent / "lithify-sql"


class Server:
    """Listens on a free port until stop()."""

    def __init__(self, directory, config, *args, env=None, program=PROGRAM, page=False):
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.errors = directory / "stderr.txt"
        self.config = directory / "lithify.toml"
        self.config.write_text(config)
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [program, "--config", str(self.config), "--set", "server.listen=127.0.0.1:0",
                 "--set", f"server.page_listen={'127.0.0.1:0' if page else ''}", *args],
                stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, "XDG_STATE_HOME": str(directory / "state"), **(env or {})})
        line = self.process.stdout.readline()
        assert line.startswith("lithify serves Flight SQL at "), self.errors.read_text()
        self.url = line.split(" at ", 1)[1].split(",", 1)[0]

    def probes_url(self):
        """Of one with server.health_listen, once."""
        line = self.process.stdout.readline()
        assert line.startswith("lithify answers probes at http://"), line
        return line.split(" at ", 1)[1].strip()

    def page_url(self):
        """Of one with a page, after probes_url() if it has that."""
        for line in self.process.stdout:
            if line.startswith("lithify shows its status at "):
                return line.split(" at ", 1)[1].strip()
        raise AssertionError(self.errors.read_text())

    def stop(self, how=signal.SIGTERM, code=0):
        if self.process.poll() is None:
            self.process.send_signal(how)
        ended = self.process.wait(timeout=60)
        self.process.stdout.close()
        assert code is None or ended == code, self.errors.read_text()
        return self.errors.read_text()

    @property
    def audit_log(self):
        return self.directory / "state" / "lithify" / "server.audit.jsonl"

    def audited(self):
        """The audit log's lines, once the server has stopped."""
        return [json.loads(line) for line in self.audit_log.read_text().splitlines()]

    # --- the command line ------------------------------------------------------------------------

    def command(self, *statements, token=None, args=(), format_="json"):
        parts = [CLIENT, "--url", self.url, "--format", format_, *args]
        for statement in statements:
            parts += ["-e", statement]
        env = {**os.environ, "LITHIFY_TOKEN": token} if token else None
        return parts, env

    def run(self, *statements, code=0, **options):
        parts, env = self.command(*statements, **options)
        done = subprocess.run(parts, capture_output=True, text=True, env=env, timeout=120,
                              check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def rows(self, statement, **options):
        """Of one statement, as dictionaries."""
        return [json.loads(line) for line in self.run(statement, **options).stdout.splitlines()]

    def row(self, statement, **options):
        (row,) = self.rows(statement, **options)
        return row

    def error(self, statement, **options):
        return self.run(statement, code=1, **options).stderr

    def start(self, statement, **options):
        parts, env = self.command(statement, **options)
        return subprocess.Popen(parts, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=env)

    # --- ADBC ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def connect(self, token=None, **options):
        options = {**options, "adbc.flight.sql.rpc.with_cookie_middleware": "true"}
        if token:
            options["adbc.flight.sql.authorization_header"] = f"Bearer {token}"
        connection = adbc.connect(self.url, db_kwargs=options, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()


def occurrences(pid, needle):
    """In the memory of a process."""
    found = 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            span, rights = line.split()[:2]
            begin, end = (int(part, 16) for part in span.split("-"))
            if not rights.startswith("r"):
                continue
            try:
                memory.seek(begin)
                found += memory.read(end - begin).count(needle)
            except OSError:
                pass  # Mapped, and not there.
    return found


def lake_config(lake, more=""):
    """Of a server of a SQLite catalog, for everybody."""
    return f"""
[server]
local_files = true
[auth]
providers = ["anonymous"]
[catalogs.lake]
uri = "{lake.uri}"
{more}
"""
