"""As test_maintain_grants.py, with the files in a bucket of a real S3 server (SeaweedFS): reached
by keys of the configuration, or by keys that the catalog's gateway lends to the principal alone.
What the bucket refuses is told as the bucket's refusal, and as no missing grant."""

import json
import signal
import time

import cli
import pytest
import s3_lake
from maintaining import Gateway, Maintained, Service, asked, numbers, until  # noqa: F401
from proxy import HOP_BY_HOP, Answer, Proxy
from s3_bucket import KEY, SECRET, Faults, S3Tree
from service_script import run_script
from test_maintain_grants import STEPS, after_a_kill, jobs_of, kill_here

READER = ("reader", "reads only")
WRITER = (KEY, SECRET)
WEEK = 7 * 86400
REFUSAL = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"


class BucketGateway(Proxy):
    """Before the S3 server. `fault`: of (gateway, call), instead of what the server says."""

    own_headers = HOP_BY_HOP - {"host"}  # Which is signed.

    def __init__(self, upstream):
        super().__init__(upstream)
        self.fault = None

    def answer(self, call):
        return self.fault(self, call) if self.fault else self.ask(call)

    def keys_of(self, since=0):
        """Whose keys signed what came."""
        return {one.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
                for one in self.calls[since:]}

    def changes(self, path):
        return [one for one in self.calls
                if path in one.path and one.method in ("PUT", "POST", "DELETE")]


class LendingGateway(Gateway):
    """Lends `loan` with every table to whom asks for that, as a catalog does that vends."""

    own_headers = HOP_BY_HOP | {"accept-encoding"}  # It reads what it passes on.
    loan = None  # Key and secret.

    def ask(self, call):
        answer = super().ask(call)
        asks = call.headers.get("X-Iceberg-Access-Delegation") == "vended-credentials"
        if self.loan and asks and answer.status == 200 and b'"metadata"' in answer.body:
            said = json.loads(answer.body)
            said.setdefault("config", {}).update({
                "s3.access-key-id": self.loan[0], "s3.secret-access-key": self.loan[1],
                "s3.session-token-expires-at-ms": str(2**45)})
            answer.body = json.dumps(said).encode()
        return answer


@pytest.fixture(scope="module")
def judged_in_s3(tmp_path_factory, s3_service):
    directory = tmp_path_factory.mktemp("judged-s3")
    service = Service(directory, "s3://lake/granted", f"""
[storage.properties]
"s3.endpoint" = "{s3_service}"
"s3.region" = "us-east-1"
"s3.path-style-access" = "true"
"s3.access-key-id" = "{KEY}"
"s3.secret-access-key" = "{SECRET}"
""")
    yield service
    run_script("rustberg.sh", "stop", directory)


class InBucket(Maintained):
    """`bucket`: its gateway. `keys`: of the principal, for [s3]; None: what the catalog lends."""

    def __init__(self, identities, service, seen, asked_, bucket, endpoint, *more):
        self.bucket, self.keys = bucket, WRITER
        self.tree_of_all = S3Tree(endpoint, "granted")
        self.reads_files = s3_lake.s3_properties(endpoint)
        self.owner_section = self.section_of(endpoint, WRITER)
        super().__init__(identities, service, seen, asked_, *more)

    @staticmethod
    def section_of(endpoint, keys):
        lines = f'[s3]\nendpoint = "{endpoint}"\nregion = "us-east-1"\naddressing = "path"\n'
        if keys:
            lines += f'access_key_id = "{keys[0]}"\nsecret_access_key = "{keys[1]}"\n'
        return lines

    def configure(self, **more):
        super().configure(**{"section": self.section_of(self.bucket.uri, self.keys), **more})

    def use(self, how, keys=WRITER):
        """Files are reached by these keys, of the configuration or lent by the catalog."""
        self.keys, self.seen.loan = (keys, None) if how == "configured" else (None, keys)
        self.configure()

    def environment(self, home="state", env=None):
        return {**super().environment(home, env), "AWS_EC2_METADATA_DISABLED": "true"}

    def path(self, name="t"):
        """Of a table in requests to the bucket."""
        return "/" + self.load(name).location().removeprefix("s3://") + "/"

    def tree(self, name):
        prefix = self.load(name).location() + "/"
        return {key for key in (f"{self.tree_of_all.root}/{key}" for key in
                                self.tree_of_all.keys()) if key.startswith(prefix)}

    def reached(self, name):
        return self.reached_locations(name)

    def sweep(self, name="t"):
        with Faults(self.home / "later", self.tree_of_all.endpoint, 1, "", age=WEEK) as later:
            self.owner_file.write_text(self.owner_file.read_text().replace(
                self.tree_of_all.endpoint, later.endpoint))
            try:
                return cli.run("remove-orphan-files", self.named(name), "--config",
                               str(self.owner_file), "--json", "--force",
                               env={"XDG_STATE_HOME": str(self.home / "owner")})
            finally:
                self.owner_file.write_text(self.owner_file.read_text().replace(
                    later.endpoint, self.tree_of_all.endpoint))


@pytest.fixture
def bucket(s3_service):
    with BucketGateway(s3_service) as gateway:
        yield gateway


@pytest.fixture
def seen(judged_in_s3, identities):
    with LendingGateway(judged_in_s3, identities) as gateway:
        yield gateway


@pytest.fixture
def make(judged_in_s3, identities, seen, asked, bucket, s3_service, tmp_path):  # noqa: F811
    def one(space="sales"):
        number = next(numbers)
        directory = tmp_path / f"m{number}"
        directory.mkdir()
        return InBucket(identities, judged_in_s3, seen, asked, bucket, s3_service, directory,
                        number, space)

    yield one
    judged_in_s3.decide()


@pytest.fixture
def lake(make):
    lake = make()
    lake.plain("t", files=6)
    lake.opt_in()
    return lake


HOW = ["configured", "lent"]


@pytest.mark.parametrize("how", HOW)
def test_whose_owner_opts_in_and_whose_does_not(lake, how):
    lake.plain("u", files=6)
    lake.use(how)
    rows, other = lake.rows("t"), lake.state("u")
    report = lake.report()
    assert jobs_of(report) == [(lake.key_of(), "rewrite_data_files", "success")]
    assert (report["loud"], report["warnings"]) == ([], [])
    assert lake.rows("t") == rows and len(lake.data_entries("t")) == 1
    assert lake.leftovers("t") == set()
    # As the principal at the catalog, by the keys that it was given in the bucket, and at the
    # other table not at all.
    assert lake.bearers() == {"maintainer"} and lake.bucket.keys_of() == {KEY}
    assert lake.bucket.changes(lake.path("t"))
    assert not [one for one in lake.bucket.calls if lake.path("u") in one.path]
    assert lake.state("u") == other
    asks = [one for one in lake.seen.calls if "X-Iceberg-Access-Delegation" in one.headers]
    assert {one.who for one in asks} == {"maintainer"}
    assert [row["status"] for row in lake.log_rows()] == ["success"]
    lake.verify_audit()
    written = json.dumps(report) + lake.audit_file().read_text() + json.dumps(
        lake.log_rows(), default=str)
    assert SECRET not in written


@pytest.mark.parametrize("how", HOW)
def test_without_the_grant_it_is_loud_and_reads_no_data(make, how):
    lent = make("lent")
    lent.plain("t", files=6)
    lent.opt_in()
    lent.use(how)
    before, rows = lent.state(), lent.rows("t")
    report = lent.report(code=1)
    (loud,) = report["loud"]
    assert (loud["what"], loud["where"]) == ("no_grant", lent.key_of())
    assert "Not permitted to update table" in loud["why"] and "TABLE_WRITE_DATA" in loud["next"]
    assert lent.state() == before and lent.rows("t") == rows
    assert lent.bucket.changes(lent.path()) == []
    assert not [one for one in lent.bucket.calls if one.path.endswith(".parquet") and
                lent.path() in one.path]
    assert [row["status"] for row in lent.log_rows()] == ["failed"]
    lent.verify_audit()


def is_told(lake, report, *words, action):
    """The one loud line, and its trace in the audit log, the metric and the job's row."""
    (loud,) = report["loud"]
    assert (loud["what"], loud["where"]) == ("no_storage_access", lake.key_of()), loud
    for word in (f"the storage refuses to {action}", "s3://lake/granted/", *words):
        assert word in loud["why"], loud
    assert "TABLE_" not in loud["next"] and "let " in loud["next"], loud
    assert {one["attributes"]["lithify.reason"]: one["value"] for one in report["metrics"]
            if one["name"] == "lithify.maintenance.refused"} == {"no_storage_access": 1}
    told = [event["error"] for event in lake.audited() if event["status"] == "failure"]
    assert [one for one in told if one.startswith("no_storage_access: ")], told
    assert not [one for one in told if "no_grant" in one]
    return loud


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("keys", [READER, (KEY, "wrong"), ("nobody", "x")])
def test_keys_that_do_not_suffice(lake, how, keys):
    """The server's own refusals: of a key that only reads, a wrong secret, an unknown key."""
    lake.use(how, keys)
    before, rows = lake.state(), lake.rows("t")
    report = lake.report(code=1)
    loud = is_told(lake, report, "403", action="write" if keys == READER else "read")
    assert ("the keys of [s3]" if how == "configured" else "that the catalog lends") in loud["next"]
    assert keys[1] not in json.dumps(report) or keys[1] == "x"
    assert lake.state() == before and lake.rows("t") == rows
    assert [job["status"] for job in report["jobs"]] == ["failed"]
    # The catalog has no part in it, and would have let it.
    assert not [one for one in lake.seen.sent_commits if one.path.endswith("/tables/t")
                and one.status != 200 and b"add-snapshot" in one.body]
    # With the right ones the next tick works.
    lake.use(how)
    end = 30
    while len(lake.data_entries("t")) > 1 and end:
        report, end = lake.report(code=None), end - 1
    assert report["loud"] == [] and lake.rows("t") == rows and len(lake.data_entries("t")) == 1
    lake.verify_audit()


def denies(lake, method, part):
    """The bucket refuses such requests of table t."""
    path = lake.path()

    def fault(gateway, call):
        if call.method == method and part in call.path and path in call.path:
            return Answer(403, [("Content-Type", "application/xml")], REFUSAL)
        return gateway.ask(call)

    return fault


@pytest.mark.parametrize("method, part, action", [
    ("GET", ".avro", "read"), ("GET", ".parquet", "read"), ("PUT", ".parquet", "write"),
    ("PUT", ".avro", "write")])
def test_a_policy_of_the_bucket(lake, method, part, action):
    """Of manifests and data, to read and to write: the table is as it was, nothing is left."""
    before, rows = lake.state(), lake.rows("t")
    lake.bucket.fault = denies(lake, method, part)
    is_told(lake, lake.report(code=1), "403 AccessDenied", action=action)
    lake.bucket.fault = None
    assert lake.state() == before and lake.rows("t") == rows and lake.leftovers("t") == set()
    (row,) = lake.log_rows()
    assert row["status"] == "failed" and "the storage refuses" in row["error"]
    lake.verify_audit()


def test_files_that_may_not_be_removed(lake):
    """An expiry that leaves its files behind is not all well."""
    lake.opt_in(**{"sqe.maintenance.expire-snapshots.enabled": "true",
                   "sqe.maintenance.expire-snapshots.older-than": "1s",
                   "sqe.maintenance.expire-snapshots.retain-last": "1"})
    rows = lake.rows("t")
    lake.report()
    until_old(lake)
    lake.append("t", *([{"id": n, "region": "eu", "note": None}] for n in range(100, 106)))
    rows = lake.rows("t")
    lake.bucket.fault = lambda gateway, call: (
        Answer(403, [("Content-Type", "application/xml")], REFUSAL)
        if call.method == "DELETE" or (call.method == "POST" and "delete" in call.path)
        else gateway.ask(call))
    report = lake.report(code=1)
    assert (lake.key_of(), "expire_snapshots", "partial") in jobs_of(report), report["jobs"]
    is_told(lake, report, "403", action="remove")
    assert lake.rows("t") == rows


def until_old(lake):
    """Until every snapshot is older than a second."""
    newest = max(one.timestamp_ms for one in lake.load("t").snapshots())
    until(lambda: time.time() * 1000 > newest + 1100)


@pytest.mark.parametrize("lease", ["catalog", "none"])
def test_two_at_once(lake, lease):
    """Each table is rewritten once, whatever the two do; nothing is lost or left."""
    names = ["t", "t1", "t2"]
    for name in names[1:]:
        lake.plain(name, files=6)
        lake.opt_in(name)
    rows = {name: lake.rows(name) for name in names}
    snapshots = {name: len(lake.load(name).snapshots()) for name in names}
    lake.configure(scheduler=f'lease = "{lease}"\nsingle_scheduler_acknowledged = true\n'
                             'max_concurrent_jobs = 2')
    running = [lake.start("run-once", "--json", home=home) for home in ("a", "b")]
    reports = [lake.ended(process, code=None) for process in running]
    for name in names:
        assert lake.rows(name) == rows[name] and len(lake.data_entries(name)) == 1
        assert len(lake.load(name).snapshots()) == snapshots[name] + 1
    done = [job["table"] for report in reports for job in report["jobs"]
            if job["status"] == "success"]
    assert sorted(done) == [lake.key_of(name) for name in names]
    for home in ("a", "b"):
        lake.verify_audit(home)
    for name in names:
        lake.sweep(name)
        assert lake.leftovers(name) == set() and lake.rows(name) == rows[name]


# --- killed --------------------------------------------------------------------------------------

# What the process dies at, instead of getting an answer: of requests to the bucket.
AT_THE_BUCKET = {
    "manifest read": ("GET", ".avro"),
    "data read": ("GET", ".parquet"),
    "data written": ("PUT", ".parquet"),
    "manifest written": ("PUT", "-m"),
    "manifest list written": ("PUT", "snap-"),
}


def short_lease(lake):
    lake.configure()
    lake.config.write_text(lake.config.read_text().replace("lease_ttl_secs = 60",
                                                           "lease_ttl_secs = 2"))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", AT_THE_BUCKET)
def test_killed_at_a_request_to_the_bucket(lake, step, when):
    short_lease(lake)
    rows, path = lake.rows("t"), lake.path()
    method, part = AT_THE_BUCKET[step]
    started, killed = [], []

    def fault(gateway, call):
        if killed or call.method != method or path not in call.path or part not in call.path:
            return gateway.ask(call)
        if when == "after":
            gateway.ask(call)
        killed.append(call.path)
        until(lambda: started)
        started[0].kill()
        return None

    lake.bucket.fault = fault
    started.append(lake.start("run-once", "--json"))
    started[0].communicate(timeout=120)
    assert started[0].returncode == -signal.SIGKILL and killed
    lake.bucket.fault = None
    assert len(lake.data_entries("t")) == 6  # It had not come to the commit.
    after_a_kill(lake, rows)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_the_commit(lake, when):
    short_lease(lake)
    rows = lake.rows("t")
    lake.when = when
    kill_here(lake, STEPS["commit"](lake))
    started = []
    lake.process = lambda: started[0]
    started.append(lake.start("run-once", "--json"))
    started[0].communicate(timeout=120)
    assert started[0].returncode == -signal.SIGKILL and lake.killed
    lake.seen.reads, lake.seen.commits = [], []
    assert (len(lake.data_entries("t")) == 1) == (when == "after")
    after_a_kill(lake, rows)
