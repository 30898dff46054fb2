"""What others do with the files below a prefix of a bucket, one process each, for bench/s3.py:
`s3_peers.py CONTESTANT ENDPOINT SOURCE TARGET`. SOURCE and TARGET are "bucket/prefix"."""

import concurrent.futures
import sys
import urllib.parse

KEY, SECRET = "lithify", "not a secret"
THREADS = 8  # Requests at once, where one may choose.
ROW_GROUP = 327_680


def filesystem(endpoint):
    import pyarrow.fs
    url = urllib.parse.urlsplit(endpoint)
    return pyarrow.fs.S3FileSystem(access_key=KEY, secret_key=SECRET, region="us-east-1",
                                   scheme=url.scheme, endpoint_override=url.netloc)


def keys(fs, source):
    import pyarrow.fs
    found = fs.get_file_info(pyarrow.fs.FileSelector(source, recursive=True))
    return sorted(info.path for info in found if info.path.endswith(".parquet"))


def raw(fs, source, target):
    """The limit: every object is read whole, and all bytes go into one, uploaded in parts."""
    def read(key):
        with fs.open_input_stream(key) as file:
            return file.read()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool, \
            fs.open_output_stream(f"{target}/raw.bin") as out:
        waiting = []
        for key in keys(fs, source):
            waiting.append(pool.submit(read, key))
            if len(waiting) == 2 * THREADS:
                out.write(waiting.pop(0).result())
        for future in waiting:
            out.write(future.result())


def pyarrow(fs, source, target):
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    data = ds.dataset(keys(fs, source), filesystem=fs, format="parquet")
    with pq.ParquetWriter(f"{target}/pyarrow.parquet", data.schema, filesystem=fs,
                          compression="zstd", compression_level=3) as writer:
        rows, held = 0, []
        import pyarrow as pa
        for batch in data.scanner(batch_size=65_536).to_batches():
            held.append(batch)
            rows += batch.num_rows
            if rows >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(held, data.schema), ROW_GROUP)
                rows, held = 0, []
        writer.write_table(pa.Table.from_batches(held, data.schema), ROW_GROUP)


def duckdb(fs, source, target):
    """Through pyarrow's client: its own comes as an extension that is no package."""
    import duckdb as engine
    from fsspec.implementations.arrow import ArrowFSWrapper

    class S3(ArrowFSWrapper):
        protocol = "lake"
        root_marker = ""

        @classmethod
        def _strip_protocol(cls, path):
            return path.removeprefix("lake://")

    with engine.connect() as db:
        db.execute("SET threads = 2")
        db.register_filesystem(S3(fs))
        names = [f"lake://{key}" for key in keys(fs, source)]
        db.execute(f"COPY (SELECT * FROM read_parquet({names!r}, hive_partitioning=false)) TO "
                   f"'lake://{target}/duckdb.parquet' (FORMAT parquet, COMPRESSION zstd, "
                   "COMPRESSION_LEVEL 3)")


if __name__ == "__main__":
    contestant, endpoint, *places = sys.argv[1:]
    {"raw": raw, "pyarrow": pyarrow, "duckdb": duckdb}[contestant](filesystem(endpoint), *places)
