"""One Spark session with an Iceberg catalog `lake` in a SQLite file; the lithify binary on it."""

import os
import pathlib

import cli


class Lake:
    """Tables are lake.sales.NAME; every call reads the newest state."""

    def __init__(self, root, spark_home):
        from pyspark.sql import SparkSession
        self.root = pathlib.Path(root)
        self.db = self.root / "catalog.db"
        jars = ",".join(str(jar) for jar in sorted((spark_home / "jars").glob("*.jar")))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        catalog = "spark.sql.catalog.lake"
        self.spark = (
            SparkSession.builder.master("local[2]").appName("lithify-tests")
            .config("spark.jars", jars)
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(self.root / "unused"))
            .config("spark.sql.extensions",
                    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
            .config(f"{catalog}.catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog")
            .config(f"{catalog}.uri", f"jdbc:sqlite:{self.db}")
            .config(f"{catalog}.jdbc.schema-version", "V1")
            .config(f"{catalog}.warehouse", f"file://{self.root}/warehouse")
            .config(f"{catalog}.cache-enabled", "false")
            .getOrCreate())
        self.spark.sparkContext.setLogLevel("ERROR")
        self.sql("CREATE NAMESPACE IF NOT EXISTS lake.sales")

    def stop(self):
        self.spark.stop()

    def sql(self, text):
        return self.spark.sql(text).collect()

    def rows(self, name, lineage=False, where="", version=""):
        """All rows, as sorted texts; with `lineage` the two hidden columns of version 3 as well."""
        hidden = "_row_id, _last_updated_sequence_number, " if lineage else ""
        return sorted(repr(row) for row in
                      self.sql(f"SELECT {hidden}* FROM lake.sales.{name} {version} {where}"))

    def count(self, name, metadata_table):
        return self.sql(f"SELECT count(*) FROM lake.sales.{name}.{metadata_table}")[0][0]

    def deletes(self, name):
        return self.count(name, "delete_files")

    def snapshot(self, name):
        """The current snapshot: id, operation, summary."""
        row = self.sql(f"SELECT snapshot_id, operation, summary FROM lake.sales.{name}.snapshots "
                       "ORDER BY committed_at DESC LIMIT 1")[0]
        return row[0], row[1], dict(row[2])

    def java_table(self, name):
        util = self.spark._jvm.org.apache.iceberg.spark.Spark3Util
        return util.loadIcebergTable(self.spark._jsparkSession, f"lake.sales.{name}")

    def delete_equal(self, name, columns, rows, partition=None):
        """An equality delete as Iceberg's Java core writes it; `partition`: e.g. "region=eu". Texts
        only: the bridge to the JVM makes every small number an int, which no long column takes.
        """
        jvm = self.spark._jvm
        gateway = self.spark.sparkContext._gateway
        table = self.java_table(name)
        names = jvm.java.util.ArrayList()
        for column in columns:
            names.add(column)
        schema = table.schema().select(names)
        ids = gateway.new_array(gateway.jvm.int, len(columns))
        for i, column in enumerate(columns):
            ids[i] = table.schema().findField(column).fieldId()
        factory = jvm.org.apache.iceberg.data.GenericAppenderFactory(
            table.schema(), table.spec(), ids, schema, None)
        files = jvm.org.apache.iceberg.io.OutputFileFactory.builderFor(table, 1, 1).format(
            jvm.org.apache.iceberg.FileFormat.PARQUET).build()
        key = None
        if partition:
            key = jvm.org.apache.iceberg.DataFiles.data(table.spec(), partition)
            output = files.newOutputFile(table.spec(), key)
        else:
            output = files.newOutputFile()
        writer = factory.newEqDeleteWriter(output, jvm.org.apache.iceberg.FileFormat.PARQUET, key)
        for row in rows:
            record = jvm.org.apache.iceberg.data.GenericRecord.create(schema)
            for column, value in zip(columns, row):
                record.setField(column, value)
            writer.write(record)
        writer.close()
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()

    def lithify(self, command, name, *args, code=0):
        """Runs `lithify COMMAND lake.sales.NAME …` and returns its JSON."""
        result = cli.run(command, f"lake.sales.{name}", "--catalog-uri", f"sqlite:///{self.db}",
                         "--json", "--no-progress", *args, code=code)
        return result.json
