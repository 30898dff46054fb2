"""A lake of Iceberg tables whose files are in a bucket: pyiceberg goes to the server itself,
lithify to whatever address a test gives it."""

from pyiceberg.catalog.sql import SqlCatalog

import cli
import iceberg_lake
from s3_bucket import KEY, SECRET


def s3_properties(endpoint):
    """Of pyiceberg's catalogs."""
    return {"s3.endpoint": endpoint, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET,
            "s3.region": "us-east-1", "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}


class S3Lake(iceberg_lake.Lake):
    """`bucket`: the S3Tree that the warehouse is in."""

    def __init__(self, directory, bucket, catalog=None, namespace=("sales",)):
        directory.mkdir(exist_ok=True)
        self.db = directory / "catalog.db"
        self.bucket = bucket
        self.endpoint = None
        catalog = catalog or SqlCatalog("lake", uri=self.uri, warehouse=bucket.root,
                                        **s3_properties(bucket.endpoint))
        super().__init__(None, catalog=catalog, namespace=namespace)

    def _arguments(self, name, args):
        return f"lake.sales.{name}", *args, "--catalog-uri", self.uri, "--json"

    def run(self, command, name, *args, code=0, env=None, endpoint=None, **kwargs):
        return cli.run(command, *self._arguments(name, args), code=code,
                       env={**self.bucket.env(endpoint or self.endpoint), **(env or {})}, **kwargs)

    def start(self, command, name, *args):
        return cli.start(command, *self._arguments(name, args), env=self.bucket.env(self.endpoint))

    def keys(self):
        """The locations of everything that is there."""
        return {f"{self.bucket.root}/{key}" for key in self.bucket.keys()}

    def write_bytes(self, location, content):
        with self.bucket.fs.open_output_stream(location.removeprefix("s3://")) as out:
            out.write(content)

    def reached(self, name):
        """As locations."""
        return self.reached_locations(name)
