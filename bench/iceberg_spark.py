"""The part of bench/iceberg.py that runs in a process of its own with Spark: `make` writes a table,
`rewrite` measures Spark's own procedure on it. Prints one JSON document."""

import json
import os
import pathlib
import resource
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SPARK = pathlib.Path(os.environ["LITHIFY_SPARK"])
sys.path[:0] = [str(SPARK / "python"), str(ROOT / "tests" / "spark"), str(ROOT / "tests" / "e2e")]

REGIONS = 4
NAME = "bench"
# Every column, written alike by Spark and DuckDB; 32 bits of a hash for each row, summed up.
ROW = ("concat_ws('|', id, {micros}, region, customer, state, quantity, "
       "cast(price * 100 AS bigint), cast(ratio * 8 AS bigint), token, note, {join}(tags, ','), "
       "cast(valid AS int))")
SPARK_SUM = ("SELECT count(*), sum(cast(conv(substr(md5(" +
             ROW.format(micros="unix_micros(at)", join="array_join") +
             "), 1, 8), 16, 10) AS bigint))")
DUCKDB_SUM = ("SELECT count(*), sum(('0x' || substr(md5(" +
              ROW.format(micros='epoch_us("at")', join="array_to_string") +
              "), 1, 8))::bigint)")

# 5 % of the rows: each for itself, or one run of them in each file.
SCATTERED = "pmod(xxhash64(id, 11), 20) = 0"
CLUSTERED = ("pmod(id, {rows}) - pmod(xxhash64(id div {rows}, 12), {rest}) BETWEEN 0 AND {run} - 1")
# As Spark writes them: format version, kind of deletes, deleted rows.
SHAPES = {"binpack": (2, None, None), "positions_scattered": (2, "positions", SCATTERED),
          "positions_clustered": (2, "positions", CLUSTERED),
          "positions_clustered_large": (2, "positions", CLUSTERED),
          "vectors_scattered": (3, "positions", SCATTERED),
          "vectors_clustered": (3, "positions", CLUSTERED),
          "equality": (2, "equality", SCATTERED)}


def make_data(lake, files, rows, version):
    lake.sql(f"""CREATE TABLE lake.sales.{NAME} (
        id bigint, at timestamp, region string, customer string, state string, quantity int,
        price decimal(12, 2), ratio double, token string, note string, tags array<string>,
        valid boolean) USING iceberg PARTITIONED BY (region) TBLPROPERTIES (
        'format-version'='{version}', 'write.delete.mode'='merge-on-read',
        'write.delete.granularity'='partition', 'write.distribution-mode'='none',
        'write.parquet.compression-codec'='zstd', 'write.parquet.compression-level'='3')""")
    # One task, and so one file, for each part of the range; none is of two regions.
    spark = lake.spark
    spark.range(0, files * rows, 1, files).createOrReplaceTempView("numbers")
    lake.sql(f"""INSERT INTO lake.sales.{NAME} SELECT id,
        timestamp_micros(1772000000000000 + id * 1000 + pmod(xxhash64(id, 1), 1000)),
        concat('region-', cast(id div {files * rows // REGIONS} AS string)),
        concat('customer ', cast(pmod(xxhash64(id, 2), 5000) AS string)),
        element_at(array('open', 'paid', 'sent', 'closed'),
                   cast(pmod(xxhash64(id, 3), 4) AS int) + 1),
        cast(pmod(xxhash64(id, 4), 100) AS int),
        cast(pmod(xxhash64(id, 5), 1000000) / 100 AS decimal(12, 2)),
        pmod(xxhash64(id, 6), 8000) / 8D,
        hex(xxhash64(id, 7)),
        if(id % 5 = 0, NULL, concat('took ', cast(pmod(xxhash64(id, 8), 5000) AS string),
           ' ms in zone ', cast(pmod(xxhash64(id, 9), 40) AS string))),
        slice(array('new', 'gift', 'bulk'), 1, cast(id % 4 AS int)),
        xxhash64(id, 10) > 0 FROM numbers""")


def delete_equal(lake, condition):
    """One equality delete file for each partition: written by pyarrow, since a bridge to Java that
    is crossed for each row takes minutes, and committed by Iceberg's Java core."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    jvm = lake.spark._jvm
    gateway = lake.spark.sparkContext._gateway
    table = lake.java_table(NAME)
    ids = gateway.new_array(gateway.jvm.int, 1)
    ids[0] = table.schema().findField("id").fieldId()
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(ids[0])})])
    delta = table.newRowDelta()
    for (region,) in lake.sql(f"SELECT DISTINCT region FROM lake.sales.{NAME}"):
        deleted = [row[0] for row in lake.sql(f"SELECT id FROM lake.sales.{NAME} WHERE region = "
                                              f"'{region}' AND {condition} ORDER BY id")]
        path = lake.root / "warehouse" / "sales" / NAME / "data" / f"deletes-{region}.parquet"
        pq.write_table(pa.table([deleted], schema=schema), path, compression="zstd")
        delta.addDeletes(
            jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
            .ofEqualityDeletes(ids).withPath(f"file://{path}")
            .withFormat(jvm.org.apache.iceberg.FileFormat.PARQUET)
            .withFileSizeInBytes(path.stat().st_size).withRecordCount(len(deleted))
            .withPartition(jvm.org.apache.iceberg.DataFiles.data(table.spec(), f"region={region}"))
            .build())
    delta.commit()


def make(root, shape, files, rows):
    from lake import Lake
    version, deletes, condition = SHAPES[shape]
    if condition:
        condition = condition.format(rows=rows, run=rows // 20, rest=rows - rows // 20)
    lake = Lake(root, SPARK)
    make_data(lake, files, rows, version)
    if deletes == "positions":
        lake.sql(f"DELETE FROM lake.sales.{NAME} WHERE {condition}")
    elif deletes:
        delete_equal(lake, condition)
    count, checksum = lake.sql(f"{SPARK_SUM} FROM lake.sales.{NAME}")[0]
    found = {"rows": count, "sum": checksum, "files": lake.count(NAME, "data_files"),
             "bytes": lake.sql("SELECT sum(file_size_in_bytes) FROM "
                               f"lake.sales.{NAME}.data_files")[0][0],
             "deletes": lake.deletes(NAME)}
    lake.stop()
    return found


class Jvm:
    """What Spark's own process has used so far, with its start."""

    def __init__(self, lake):
        self.process = lake.spark.sparkContext._gateway.proc
        self.begin = time.perf_counter()

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        # utime, stime, and those of children that have ended: the launcher.
        return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")

    def peak(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) * 1024
        return 0

    def end(self):
        """Waits until it has gone; all the CPU time that it took."""
        self.process.stdin.close()
        self.process.wait()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def call(lake, jvm, target, name):
    """(wall, CPU seconds, the procedure's result row)."""
    cpu, begin = jvm.cpu(), time.perf_counter()
    row = lake.sql(f"CALL lake.system.rewrite_data_files(table => 'sales.{name}', options => "
                   f"map('target-file-size-bytes', '{target}', 'rewrite-all', 'true'))")[0]
    return time.perf_counter() - begin, jvm.cpu() - cpu, list(row)


def rewrite(root, target, name=NAME):
    """Twice in one session: the first call with everything before it is what a job costs that is
    started for it; the second, on the same snapshot, what it costs a session that is warm."""
    begin = time.perf_counter()
    from lake import Lake
    lake = Lake(root, SPARK)
    jvm = Jvm(lake)
    old = lake.snapshot(name)[0]
    first = call(lake, jvm, target, name)
    cold = {"wall": time.perf_counter() - begin, "cpu": jvm.cpu(), "peak": jvm.peak()}
    lake.sql(f"CALL lake.system.rollback_to_snapshot('sales.{name}', {old})")
    wall, cpu, result = call(lake, jvm, target, name)
    if result != first[2]:
        sys.exit(f"Spark did not do the same twice: {first[2]}, {result}")
    warm = {"wall": wall, "cpu": cpu, "peak": jvm.peak()}
    begin, before = time.perf_counter(), jvm.cpu()
    lake.stop()
    cold["cpu"] += jvm.end() - before
    cold["wall"] += time.perf_counter() - begin
    return {"cold": cold, "warm": warm, "result": result}


if __name__ == "__main__":
    if sys.argv[1] == "make":
        print(json.dumps(make(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    else:
        print(json.dumps(rewrite(sys.argv[2], int(sys.argv[3]))))
