"""A bucket of a real S3 server as the tests see it, through pyarrow's client, which shares nothing
with lithify's."""

import collections
import hashlib
import json
import os
import pathlib
import subprocess
import urllib.parse
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

import cli
from service_script import run_script

KEY, SECRET, BUCKET = "lithify", "not a secret", "lake"
ETAG = "user.etag"  # Where versitygw keeps it, beside the file.


def give_etags(directory):
    """To files that were written or changed below a directory that versitygw serves, and not by way
    of it: it tells versions by them, and whether there is an object at all where it must not be."""
    for path in pathlib.Path(directory).rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            _give_etag(path)
        except FileNotFoundError:
            pass  # A command that runs meanwhile has removed it.


def _give_etag(path):
    with open(path, "rb") as file:
        try:
            known = os.getxattr(file.fileno(), ETAG).decode()
        except OSError:
            known = ""
        # One with a dash is of an upload in parts.
        if "-" not in known:
            right = hashlib.md5(file.read()).hexdigest()
            if known != right:
                os.setxattr(file.fileno(), ETAG, right.encode())


class Faults:
    """s3_faults.sh before an endpoint, while it lasts; `done`: what it did, afterwards. `more`:
    options of s3_fault_proxy.py."""

    def __init__(self, directory, endpoint, seed, plan, *more, skew=0, age=0):
        self.directory = directory
        self.start = (directory, endpoint, seed, plan, "--skew", skew, "--age", age, *more)
        self.endpoint = None
        self.done = None

    def __enter__(self):
        self.endpoint = run_script("s3_faults.sh", "start", *self.start)
        return self

    def __exit__(self, *_):
        self.done = json.loads(run_script("s3_faults.sh", "stop", self.directory))


class S3Tree:
    """A tree below a prefix of the bucket, with what the tests ask of it."""

    def __init__(self, endpoint, prefix):
        self.endpoint = endpoint
        self.prefix = prefix
        self.root = f"s3://{BUCKET}/{prefix}"
        self.fs = pyarrow.fs.S3FileSystem(
            access_key=KEY, secret_key=SECRET, region="us-east-1", scheme="http",
            endpoint_override=urllib.parse.urlsplit(endpoint).netloc)

    def env(self, endpoint=None, **more):
        """The environment of lithify; `endpoint`: by way of that one."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_ENDPOINT_URL_S3": endpoint or self.endpoint, **more}

    def run(self, command, *args, code=0, endpoint=None, env=None, **kwargs):
        return cli.run(command, self.root, *args, code=code,
                       env=self.env(endpoint, **(env or {})), **kwargs)

    def start(self, command, *args, endpoint=None):
        return cli.start(command, self.root, *args, env=self.env(endpoint))

    def upload(self, tree):
        """All of a tree on disk."""
        pyarrow.fs.copy_files(str(tree.root), f"{BUCKET}/{self.prefix}",
                              source_filesystem=pyarrow.fs.LocalFileSystem(),
                              destination_filesystem=self.fs)

    def download(self, where):
        """All of it, onto disk."""
        pyarrow.fs.copy_files(f"{BUCKET}/{self.prefix}", str(where), source_filesystem=self.fs,
                              destination_filesystem=pyarrow.fs.LocalFileSystem())
        return where

    def write(self, key, table):
        pq.write_table(table, f"{BUCKET}/{self.prefix}/{key}", filesystem=self.fs)

    def read(self, key):
        with self.fs.open_input_file(f"{BUCKET}/{self.prefix}/{key}") as file:
            return file.read()

    def _curl(self, method, target):
        """An answer to a signed request of which pyarrow knows nothing."""
        done = subprocess.run(
            ["curl", "-s", "--fail", "--max-time", "20", "--noproxy", "*", "-X", method,
             "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{KEY}:{SECRET}",
             "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", f"{self.endpoint}/{BUCKET}{target}"],
            stdout=subprocess.PIPE, check=True, stdin=subprocess.DEVNULL)
        return done.stdout.decode()

    def begin_upload(self, key):
        """An upload in parts that nobody completes."""
        self._curl("POST", "/" + urllib.parse.quote(f"{self.prefix}/{key}") + "?uploads=")

    def uploads(self):
        """The keys of those that are under way, sorted."""
        root = ElementTree.fromstring(self._curl("GET", "?uploads="))
        keys = [element.text for element in root.iter() if element.tag.endswith("}Key")]
        prefix = self.prefix + "/"
        return sorted(key.removeprefix(prefix) for key in keys if key.startswith(prefix))

    def keys(self, below=""):
        """Everything below, sorted."""
        found = self.fs.get_file_info(pyarrow.fs.FileSelector(
            f"{BUCKET}/{self.prefix}/{below}".rstrip("/"), recursive=True, allow_not_found=True))
        prefix = f"{BUCKET}/{self.prefix}/"
        return sorted(info.path.removeprefix(prefix) for info in found if info.is_file)

    def live(self, partition):
        """The keys of the live files of a partition: listed first, then its manifest looked for."""
        keys = self.keys(partition)
        if f"{partition}/manifest.json" in keys:
            names = json.loads(self.read(f"{partition}/manifest.json"))["files"]
            assert len(names) == len(set(names))
            return [f"{partition}/{name}" for name in names]
        return [key for key in keys if key.endswith(".parquet")]

    def rows(self, partition, column="row"):
        """The values of a column in the live files, counted."""
        counted = collections.Counter()
        for key in self.live(partition):
            table = pq.read_table(pa.BufferReader(self.read(key)), columns=[column])
            counted.update(table.column(column).to_pylist())
        return counted
