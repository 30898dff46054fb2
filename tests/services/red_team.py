"""What somebody with all of the serving half's inputs sends to a server in order to act as the
principal of maintenance, or to see what it knows: statements, tokens, headers, cookies, names,
passwords, and messages of Flight that no client makes."""

import contextlib
import os
import subprocess
import sys

import adbc_driver_manager
import cli
import pyarrow as pa
import pyarrow.flight as flight
import pytest

sys.path.insert(0, str(cli.REPOSITORY / "tests" / "e2e"))

from flight_sql import command, text  # noqa: E402

VARIABLE = "SQE_MAINTENANCE_CLIENT_SECRET"
ODD = ["", "x", "null", "undefined", "eyJhbGciOiJub25lIn0.e30.", "Bearer", "\"", "a.b.c", "%00",
       f"${{{VARIABLE}}}", "A" * 4000]
USERS = ("maintainer", "service-account-maintainer", "the maintainer", "",
         "alice&grant_type=client_credentials&client_id=maintainer")
PASSWORDS = ("x", "", f"${{{VARIABLE}}}", "wonderland&grant_type=client_credentials")
# The last is how sessions of jobs are named, of which the server must know none.
HEADERS = {"x-lithify-principal": "the maintainer", "x-forwarded-user": "maintainer",
           "x-iceberg-principal": "the maintainer", "x-original-authorization": "Bearer x",
           "x-job-id": "{job}", "cookie": "maintenance-authority=1; principal=maintainer"}
SESSION = "arrow_flight_session_id=maintenance-job-{job}"

# [auth], by name. The last two have the secret, as an operator may give it to both.
AUTH = {
    "bearer": 'providers = ["bearer"]\nclient_id = "people"',
    # [auth] at the principal's endpoint, under the principal's own client id.
    "the same client": 'providers = ["bearer", "oidc_password"]\nclient_id = "maintainer"\n'
                       'token_endpoint = "{endpoint}"',
    "the same client, guessed": 'providers = ["token_exchange"]\n'
                                'client_id = "maintainer"\nclient_secret = "guessed"\n'
                                'token_endpoint = "{endpoint}"',
}
WITH_SECRET = {
    "its secret, and passwords": 'providers = ["bearer", "oidc_password"]\n'
                                 'client_id = "maintainer"\n'
                                 f'client_secret = "${{{VARIABLE}}}"\n'
                                 'token_endpoint = "{endpoint}"\n'
                                 'scope = "openid&grant_type=client_credentials"',
    "its secret, and exchange": 'providers = ["token_exchange"]\nclient_id = "maintainer"\n'
                                f'client_secret = "${{{VARIABLE}}}"\n'
                                'token_endpoint = "{endpoint}"',
}


def both_halves(lake, auth, endpoint="", **more):
    """One configuration, with an identity for each half; `auth`: lines of [auth]."""
    lake.configure(section=f"""
[server]
local_files = true
[auth]
issuer = "{lake.identities.issuer}"
audience = "lake"
{auth.replace("{endpoint}", endpoint)}
""", **more)
    return lake.config.read_text()


def takes_tokens(auth):
    return "bearer" in auth.partition("\n")[0]


class RedTeam:
    """As `token`, whose owner may read. `job`: the id of one of the principal's own jobs.
    `said`: all that it got to hear."""

    def __init__(self, server, lake, token, name="t", job="0"):
        self.server, self.lake, self.token = server, lake, token
        self.name = ".".join([*lake.namespace, name])
        self.job = job
        self.said = []

    def statements(self):
        name = self.name
        views = ("tables", "snapshots", "table_health", "maintenance_plan", "jobs")
        return [
            f"CALL system.run_maintenance(table => '{name}')",
            "CALL system.run_maintenance(dry_run => true)",
            f"EXPLAIN CALL system.run_maintenance(table => '{name}')",
            f"CALL system.rewrite_data_files(table => '{name}')",
            f"CALL system.expire_snapshots(table => '{name}', older_than => now())",
            f"CALL system.remove_orphan_files(table => '{name}', older_than => '1d')",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('sqe.maintenance.enabled' = 'false')",
            *(f"SELECT * FROM system.{view}" for view in views),
            "SHOW JOBS", "SHOW TABLES", "SHOW NAMESPACES", f"SHOW TBLPROPERTIES {name}",
            f"SHOW SNAPSHOTS {name}", f"DESCRIBE {name}", f"SELECT * FROM {name}",
            f"CANCEL JOB '{self.job}'", f"CANCEL JOB 'maintenance-job-{self.job}'",
            "SET maintenance.principal = 'x'", "SHOW maintenance.principal",
            f"SELECT getenv('{VARIABLE}')", "SELECT * FROM duckdb_secrets()",
            "SELECT * FROM duckdb_settings()",
            "SELECT * FROM read_text('/proc/self/environ')",
            "SELECT * FROM read_blob('/proc/self/mem')",
            f"SELECT * FROM read_text('{self.lake.config}')",
            f"SELECT * FROM '{self.lake.config}'",
            "SELECT current_setting('maintenance.principal.client_secret')"]

    def everything(self, known=True):
        """`known`: whether the server takes the token. -> exit codes of the statements."""
        codes = self.say_statements()
        self.say_tokens()
        self.say_logins()
        self.say_headers(known)
        self.say_messages()
        return codes

    def _run(self, statement, token):
        parts, environment = self.server.command(statement, token=token)
        done = subprocess.run(parts, capture_output=True, text=True, env=environment, timeout=120,
                              check=False)
        self.said.append(done.stdout + done.stderr)
        return done.returncode

    def say_statements(self):
        return {statement.partition("(")[0].split("'")[0].strip():
                self._run(statement, self.token) for statement in self.statements()}

    def say_tokens(self):
        for token in ODD:
            assert self._run("SHOW TABLES", token or None) != 0, token

    def say_logins(self):
        for user in USERS:
            for password in PASSWORDS:
                with (pytest.raises(adbc_driver_manager.Error) as caught,
                      self.server.connect(username=user, password=password) as connection,
                      connection.cursor() as cursor):
                    cursor.execute("SHOW TABLES")
                self.said.append(str(caught.value))

    def say_headers(self, known):
        for name, value in HEADERS.items():
            options = {f"adbc.flight.sql.rpc.call_header.{name}": value.format(job=self.job)}
            with (contextlib.nullcontext() if known else pytest.raises(adbc_driver_manager.Error),
                  self.server.connect(token=self.token, **options) as connection,
                  connection.cursor() as cursor):
                cursor.execute("SHOW TABLES")
                self.said.append(str(cursor.fetchall()))

    def say_messages(self):
        """By Flight itself, in the session of a job of the principal's, and in none."""
        session = SESSION.format(job=self.job).encode()
        for more in ([], [(b"cookie", session)]):
            headers = [(b"authorization", f"Bearer {self.token}".encode()), *more]
            options = flight.FlightCallOptions(headers=headers, timeout=60)
            with flight.connect(self.server.url) as client:
                self._say_calls(client, options)

    def _say_calls(self, client, options):
        query = command("CommandStatementQuery", text(1, f"SELECT * FROM {self.name}"))
        things = (b"", b"\xff" * 100, self.job.encode(), command("CommandStatementIngest"), query)
        actions = ("Nonsense", "RunMaintenance", "CreatePreparedStatement", "SetSessionOptions",
                   "CloseSession", "GetSessionOptions", "CancelFlightInfo", "CancelQuery")
        calls = [lambda: list(client.list_actions(options)),
                 lambda: list(client.list_flights(b"", options))]
        for thing in things:
            at = flight.FlightDescriptor.for_command(thing)
            calls += [lambda at=at: client.get_flight_info(at, options).serialize(),
                      lambda at=at: client.get_schema(at, options).schema,
                      lambda thing=thing: client.do_get(
                          flight.Ticket(thing), options).read_all().num_rows,
                      lambda at=at: client.do_put(at, pa.schema([]), options)[0].close()]
            calls += [lambda kind=kind, thing=thing: [
                one.body.to_pybytes() for one in client.do_action(
                    flight.Action(kind, thing), options)] for kind in actions]
        for call in calls:
            try:
                self.said.append(str(call()))
            except (flight.FlightError, pa.ArrowException, OSError) as refused:
                self.said.append(str(refused))

    # --- what it must not have heard -------------------------------------------------------------

    def check_said(self, *more):
        """None of it has the principal's secret or any of its tokens, nor what identifies one."""
        keys = keys_of(self.lake)
        assert len(keys) > 1 and len(self.said) > 100
        for words in (*self.said, *more):
            for key in keys:
                assert key not in words, words


def keys_of(lake):
    """The principal's secret and the signatures of all of its tokens that the gateway has seen."""
    assert VARIABLE not in os.environ
    tokens = {one.headers["Authorization"].removeprefix("Bearer ")
              for one in lake.seen.calls if one.who == "maintainer"}
    return {lake.secret} | {token.rpartition(".")[2] for token in tokens}
