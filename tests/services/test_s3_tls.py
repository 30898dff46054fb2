"""Buckets over TLS with roots of one's own, and addressed by the name of the host, on a real S3
server, versitygw. libcurl takes names below localhost to loopback by itself. The trees are on disk:
the server keeps objects as files."""

import itertools
import subprocess
import urllib.parse

import cli
import judge
import pytest
import tree as trees
from s3_bucket import BUCKET, KEY, SECRET, give_etags
from service_script import run_script

DOMAIN = "s3.localhost"  # A bucket is a name below it.
OTHER_NAME = "gateway.localhost"  # No bucket is below that.
VIRTUAL = {"LITHIFY_S3__ADDRESSING": "virtual"}
BY_PATH = {"LITHIFY_S3__ADDRESSING": "path"}


numbers = itertools.count()


class Authority:
    """A root, and a certificate for all below DOMAIN, but not for that itself, and OTHER_NAME."""

    def __init__(self, directory):
        directory.mkdir()
        self.root, self.key, self.certificate = (
            directory / name for name in ("root.pem", "key.pem", "certificate.pem"))
        self._openssl("req", "-x509", *self._new_key(directory / "root-key.pem"), "-days", "2",
                      "-subj", "/CN=a root of tests", "-out", self.root)
        request, extensions = directory / "request.pem", directory / "extensions"
        self._openssl("req", *self._new_key(self.key), "-subj", "/CN=a server", "-out", request)
        extensions.write_text(f"subjectAltName = DNS:*.{DOMAIN}, DNS:{OTHER_NAME}\n",
                              encoding="utf-8")
        self._openssl("x509", "-req", "-in", request, "-CA", self.root, "-CAkey",
                      directory / "root-key.pem", "-CAcreateserial", "-days", "2", "-extfile",
                      extensions, "-out", self.certificate)

    @staticmethod
    def _new_key(path):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                path)

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True,
                       stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority") / "ours")


class Served:
    """A server, `log`: the requests that it answered."""

    def __init__(self, directory, *options):
        self.directory = directory
        self.log = directory / "access.log"
        self.data = directory / "data"
        (self.data / BUCKET).mkdir(parents=True)
        self.options = ("--virtual-domain", DOMAIN, "--access-log", self.log, *options)

    def __enter__(self):
        endpoint = urllib.parse.urlsplit(
            run_script("versitygw.sh", "start", self.directory, self.data, *self.options))
        self.scheme, self.port = endpoint.scheme, endpoint.port
        return self

    def __exit__(self, *_):
        run_script("versitygw.sh", "stop", self.directory)

    def tree(self, name):
        """Two partitions of several files."""
        tree = trees.Tree(self.data / BUCKET / name)
        tree.fill(files=6, rows=30)
        tree.fill(files=5, rows=20, tenant="globex")
        return tree

    def run(self, tree, command, *args, host=DOMAIN, env=None, code=0):
        give_etags(tree.root)
        return cli.run(command, f"s3://{BUCKET}/{tree.root.name}", *args, code=code, env={
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL_S3": f"{self.scheme}://{host}:{self.port}", **(env or {})})

    def every_command(self, tree, **how):
        before = tree.copy_to(self.directory / f"{tree.root.name}-before")
        self.run(tree, "compact", **how)
        status = self.run(tree, "status", "--json", **how).json
        assert {item["live_files"] for item in status["partitions"]} == {1}
        trees.age(tree.root, seconds=7200)
        self.run(tree, "gc", **how)
        self.run(tree, "verify", **how)
        live = trees.live_of_tree(tree.root)
        judge.assert_same_rows(trees.live_of_tree(before), live, polars=False)
        assert sorted(tree.root.glob("data/**/*.parquet")) == live
        return self.requests(tree)

    def requests(self, tree):
        """(bucket, path, protocol) of those that were for objects in the tree: the log's fields."""
        found = []
        for line in self.log.read_text(encoding="utf-8").splitlines():
            fields = line.split()
            # What goes wrong may be told on several lines.
            if len(fields) > 12 and f"/{tree.root.name}/" in fields[9]:
                found.append((fields[1], fields[9], fields[-3]))
        assert len(found) > 50
        return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("plain")) as served:
        yield served


@pytest.fixture(scope="module")
def tls(tmp_path_factory, authority):
    with Served(tmp_path_factory.mktemp("tls"), "--cert", authority.certificate, "--key",
                authority.key) as served:
        yield served


def test_addressed_by_host(plain):
    for bucket, path, _ in plain.every_command(plain.tree("t"), env=VIRTUAL):
        assert bucket == BUCKET and path.startswith("/t/")


@pytest.mark.parametrize("told_by", ["AWS_CA_BUNDLE", "LITHIFY_S3__CA_FILE"])
@pytest.mark.parametrize("addressing", [VIRTUAL, BY_PATH], ids=["by host", "by path"])
def test_a_root_of_our_own(tls, authority, addressing, told_by):
    """R183."""
    by_path = addressing is BY_PATH
    name = f"t{next(numbers)}"
    requests = tls.every_command(tls.tree(name), host=OTHER_NAME if by_path else DOMAIN,
                                 env={told_by: str(authority.root), **addressing})
    start = f"/{BUCKET}/{name}/" if by_path else f"/{name}/"
    for bucket, path, protocol in requests:
        assert bucket == BUCKET and path.startswith(start) and protocol == "TLSv1.3"


def refused(served, tree, env, host=DOMAIN):
    """Nothing is written, and it is said why."""
    before = trees.tree_hash(tree.root)
    for command in ("compact", "gc", "status"):
        run = served.run(tree, command, host=host, env=env, code=None)
        assert run.code == cli.UNREADABLE, (run.code, run.text)
        assert "certificate" in run.text
        assert SECRET not in run.text
    assert trees.tree_hash(tree.root) == before


def test_a_root_that_nobody_knows(tls, tmp_path):
    tree = tls.tree("unknown")
    refused(tls, tree, VIRTUAL)
    other = Authority(tmp_path / "other")
    refused(tls, tree, {"AWS_CA_BUNDLE": str(other.root), **VIRTUAL})


def test_a_certificate_for_another_host(tls, authority):
    tree = tls.tree("elsewhere")
    trusted = {"AWS_CA_BUNDLE": str(authority.root)}
    refused(tls, tree, {**trusted, **VIRTUAL}, host="s4.localhost")
    refused(tls, tree, {**trusted, **BY_PATH})
    refused(tls, tree, trusted, host="127.0.0.1")
