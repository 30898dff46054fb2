"""The suites of tests/e2e, which are written for the disk, run on buckets instead, with faults on
the way: a plugin of pytest.

    PYTHONPATH=tests/services pytest -p over_s3 tests/e2e

A real S3 server (versitygw) keeps its objects as files, and here as those that the tests write and
judge: the bucket is the directory of pytest's temporary ones. lithify gets s3:// instead of paths,
and the address of s3_fault_proxy.py. So every test holds as it stands: no row is lost or doubled,
nothing live is removed, and a command that is asked to succeed does so through all of it.

Listings from before are not among the faults: a command that does not see what was written just
now cannot do what the tests ask of it. What is about the disk is marked in the tests and skipped.

LITHIFY_S3_PLAN sets the faults, LITHIFY_S3_SEED their seed. At the end it is told how many of each
kind there were; that there were none of a kind is a failure, unless there were few requests."""

import os
import pathlib
import re
import sys

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))

import cli  # noqa: E402
from s3_bucket import KEY, SECRET, Faults, give_etags
from service_script import run_script

# One request in eleven.
PLAN = os.environ.get("LITHIFY_S3_PLAN", (
    "latency=0.01,reset_before=0.01,reset_after=0.01,reset_body=0.01,truncated=0.01,"
    "shortened=0.005,internal_error=0.005,internal_error_after=0.01,bad_gateway_after=0.005,"
    "slow_down=0.005,conflict=0.01,doubled=0.01"))
SEED = int(os.environ.get("LITHIFY_S3_SEED", "1"))
SKEW = 90  # Seconds that the server's clock is ahead.
MANY = 3000  # Requests, of which each kind of fault must meet some.
OF_TREES = {"compact", "status", "verify", "gc", "audit", "files"}


class Bucket:
    """A directory that is a bucket: see cli.Disk."""

    unfinished = ".parquet"  # Nothing is seen of one: this is one that is not committed yet.

    def __init__(self, directory, endpoint):
        self.directory = directory
        self.root = f"s3://{directory.name}"
        self.env = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                    "AWS_ENDPOINT_URL_S3": endpoint, "AWS_EC2_METADATA_DISABLED": "true"}
        self.catalog_properties = {"py-io-impl": "over_s3.FilesOfTheBucket"}
        self.test = None  # The directory of the test that is running.

    def arguments(self, command, args):
        give_etags(self.test)
        if command not in OF_TREES:
            return args
        at = 1 if args[:1] == ["--root"] else 0
        if args[at:] and args[at].startswith(f"{self.directory}/"):
            args = [*args[:at], self.location(args[at]), *args[at + 1:]]
        return args

    def text(self, command, text):
        if command not in OF_TREES:
            return text
        return text.replace(self.root + "/", f"{self.directory}/")

    def location(self, path):
        return f"{self.root}/{pathlib.Path(path).relative_to(self.directory)}"

    def path(self, location):
        return str(self.directory / location.removeprefix(self.root + "/"))


class FilesOfTheBucket(PyArrowFileIO):
    """pyiceberg's way to them: straight, as the tests'."""

    @staticmethod
    def parse_location(location, properties=None):
        if location.startswith("s3:"):
            location = cli.place.path(location)
        return PyArrowFileIO.parse_location(location, properties or {})


class Suites:
    """The plugin, while it is at work."""

    def __init__(self):
        self.done = None  # What the proxy did, in the end.

    @pytest.fixture(scope="session", autouse=True)
    def over_s3(self, tmp_path_factory):
        bucket = tmp_path_factory.getbasetemp()
        server = tmp_path_factory.mktemp("server")
        # Requests of each test meet faults of their own, whichever tests run beside it.
        apart = rf"/{re.escape(bucket.name)}(?:/|\?.*prefix=)([^/&%]+)"
        endpoint = run_script("versitygw.sh", "start", server, bucket.parent)
        try:
            with Faults(server / "faults", endpoint, SEED, PLAN, "--apart", apart, "--in-a-row", 3,
                        skew=SKEW) as faults:
                cli.place = Bucket(bucket, faults.endpoint)
                yield
        finally:
            run_script("versitygw.sh", "stop", server)
        self.done = faults.done

    @pytest.fixture(autouse=True)
    def in_the_bucket(self, tmp_path):
        cli.place.test = tmp_path

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        mark = item.get_closest_marker("local_disk")
        if mark:
            pytest.skip(mark.args[0])

    def missing(self):
        """Kinds of faults that should have come, and did not."""
        few = self.done["requests"] < MANY and any(self.done[kind] for kind in self.kinds())
        return [] if few else [kind for kind in self.kinds() if self.done[kind] == 0]

    def kinds(self):
        return [kind for kind in self.done if kind != "requests"]

    def pytest_sessionfinish(self, session, exitstatus):
        if self.done is not None and self.missing() and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.done is None:
            return
        terminalreporter.section("faults")
        for kind, count in self.done.items():
            terminalreporter.write_line(f"{count:8} {kind}")
        for kind in self.missing():
            terminalreporter.write_line(f"FAILED: no {kind} in {self.done['requests']} requests",
                                        red=True)


def pytest_configure(config):
    config.pluginmanager.register(Suites(), "suites-over-s3")
