"""Policies of a catalog that keeps them as Polaris does, in front of Iceberg's own REST catalog:
the proxy answers GET …/applicable-policies in Polaris' words and passes on everything else."""

import json
import pathlib
import subprocess
import urllib.parse

import cli
import pytest
from proxy import Answer, Proxy, error, page
from rest_lake import RestLake

PROGRAM = pathlib.Path(cli.BINARY).parent / "lithify-maintain"
ENDPOINT = "GET polaris/v1/{prefix}/applicable-policies"
CONFIG = """
[catalogs.lake]
uri = "{uri}"
[maintenance]
mode = "active"
namespaces = ["{namespace}"]
[maintenance.principal]
token_endpoint = "{uri}/v1/oauth/tokens"
client_id = "maintenance"
client_secret = "of-maintenance"
[maintenance.scheduler]
jitter_secs = 0
lease = "none"
single_scheduler_acknowledged = true
[maintenance.budget]
gain_percent_min = 0
[maintenance.polaris]
policies = {policies}
"""


def policy(content, name="nightly", inherited=True):
    """An entry of Polaris' answer: `content` is JSON in a string."""
    return {"policy-type": "system.data-compaction", "inheritable": True, "name": name,
            "description": "", "version": 0, "inherited": inherited, "namespace": ["governance"],
            "content": content if isinstance(content, str) else json.dumps(content)}


class Polaris(Proxy):
    """`policies`: what applies to every table, or a fault; `offered`: whether it says so."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.policies = []
        self.offered = True

    @property
    def asked(self):
        """The queries about policies."""
        return [dict(urllib.parse.parse_qsl(call.path.partition("?")[2])) for call in self.calls
                if "/applicable-policies" in call.path]

    def answer(self, call):
        path = call.path.partition("?")[0]
        if path.endswith("/v1/oauth/tokens"):
            words = {"access_token": "tok-0123456789", "token_type": "bearer", "expires_in": 3600}
            return self.json(words)
        if path == "/polaris/v1/applicable-policies":
            if callable(self.policies):
                return self.policies(self, call)
            return self.json({"next-page-token": None, "applicable-policies": self.policies})
        answer = super().answer(call)
        if path == "/v1/config" and self.offered:
            config = json.loads(answer.body)
            if "endpoints" in config:
                config["endpoints"].append(ENDPOINT)
            return self.json(config)
        return answer

    @staticmethod
    def json(value):
        return Answer(200, [("Content-Type", "application/json")], json.dumps(value).encode())


class Maintained(RestLake):
    def __init__(self, catalog, proxy, namespace, path):
        super().__init__(catalog, proxy.uri, namespace, {"XDG_STATE_HOME": str(path / "state")})
        self.polaris = proxy
        self.config = path / "maintain.toml"
        self.configure()
        self.plain("t", files=6)
        self.set("t", **{"sqe.maintenance.enabled": "true"})

    def configure(self, policies="true"):
        self.config.write_text(CONFIG.format(uri=self.polaris.uri, namespace=self.namespace[0],
                                             policies=policies))

    def set(self, name, **properties):
        with self.load(name).transaction() as change:
            change.set_properties(properties)

    def report(self, *args):
        done = subprocess.run([PROGRAM, *args, "--json", "--config", self.config],
                              capture_output=True, text=True, timeout=120, check=False,
                              env={**cli.environment(), **self.env})
        assert done.returncode in (0, 1), (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def run_once(self):
        """Of the table: the status of its job (None: it had none), its report, the data files."""
        report = self.report("run-once")
        (seen,) = [t for t in report["tables"] if t["table"].endswith(".t")]
        jobs = [job["status"] for job in report["jobs"] if job["table"] == seen["table"]]
        assert len(jobs) <= 1, jobs
        return (jobs or [None])[0], seen, len(self.data_entries("t"))


@pytest.fixture
def lake(service, catalog, tmp_path, request):
    with Polaris(service) as proxy:
        yield Maintained(catalog, proxy, (f"policies_{abs(hash(request.node.name))}",), tmp_path)


def test_a_policy_is_the_default_below_the_tables_own(lake):
    lake.polaris.policies = [policy({"version": "2025-02-03", "enable": True,
                                     "config": {"min_input_files": 7}})]
    status, seen, files = lake.run_once()
    assert (status, files) == ("skipped", 6), seen
    lake.set("t", **{"sqe.maintenance.compaction.min-input-files": "5"})
    status, seen, files = lake.run_once()
    assert (status, files) == ("success", 1), seen
    assert len(lake.rows("t")) == 60


def test_it_is_asked_once_and_only_of_tables_that_would_be_run(lake):
    lake.plain("others", files=6)
    assert lake.run_once()[0] == "success"
    assert lake.polaris.asked == [{"namespace": lake.namespace[0], "target-name": "t",
                                   "policyType": "system.data-compaction", "pageSize": "1000"}]
    lake.polaris.calls.clear()
    lake.report("run-once", "--scheduled")  # Nothing is due.
    lake.configure(policies="false")
    lake.run_once()
    assert lake.polaris.asked == []


@pytest.mark.parametrize("content", [{"enable": False}, "no JSON", {"enable": "yes"}], ids=str)
def test_a_policy_keeps_a_table_out(lake, content):
    lake.polaris.policies = [policy(content)]
    before = lake.head("t").snapshot_id
    status, seen, files = lake.run_once()
    assert (status, files, lake.head("t").snapshot_id) == (None, 6, before)
    assert seen["gate"] == "not_opted_in"
    assert "nightly" in seen["gate_reason"]


def test_a_policy_opts_no_table_in(lake):
    lake.set("t", **{"sqe.maintenance.enabled": "false"})
    lake.polaris.policies = [policy({"enable": True}, inherited=False)]
    assert lake.run_once()[0] is None
    assert lake.polaris.asked == []


@pytest.mark.parametrize("status", [403, 404, 501])
def test_where_there_is_none_to_be_read_the_configuration_holds(lake, status):
    lake.polaris.policies = error(status, "SomeException", "not here")
    done, seen, files = lake.run_once()
    assert (done, files) == ("success", 1)
    assert "not here" in " ".join(seen["warnings"])


def test_what_is_not_offered_is_not_asked_for(lake):
    lake.polaris.offered = False  # Iceberg's own servlet lists its endpoints.
    done, seen, files = lake.run_once()
    assert (done, files) == ("success", 1)
    assert lake.polaris.asked == []
    assert "does not offer" in " ".join(seen["warnings"])


@pytest.mark.parametrize("fault", [error(500, "ServerError", "away"), page(200)],
                         ids=["away", "no JSON"])
def test_without_an_answer_the_table_waits(lake, fault):
    lake.polaris.policies = fault
    status, seen, files = lake.run_once()
    assert (status, files) == (None, 6)
    assert "not known" in seen["reason"]
    # Nothing is recorded: with an answer it is run at once.
    lake.polaris.policies = []
    assert lake.run_once()[0] == "success"
