"""Copies an output in a store to a folder after several analyses: a killed one, one that Spark writes, three at once.

After the killed analysis, the tables must be unchanged; the tables that Spark writes must be those that were read.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from hearsay.pipeline.output.folders import is_for_a_report
from hearsay.pipeline.output.hadoop_folder import HadoopFolder
from hearsay.pipeline.output.table_store import TableStore
from hearsay.pipeline.output.tables import METRICS_FOLDER, TABLES, read_table
from hearsay.pipeline.spark.session import spark_session
from hearsay.pipeline.spark.settings import Where


def main(uri: str, target: Path, conf: list[str]) -> None:
    settings = [(name, value) for name, _, value in (each.partition("=") for each in conf if each != "--conf")]
    with spark_session(Where(conf=tuple(settings)), 1, print) as spark, TemporaryDirectory() as work:
        folder = HadoopFolder(spark, uri, Path(work, "one"))
        folder.refresh(is_for_a_report)
        tables = {table: read_table(folder.path, table) for table in TABLES}
        (run,) = {*tables["headline"].column("run").to_pylist()}

        killed = TableStore({run: folder})
        for table, rows in tables.items():
            killed.write(table, rows.slice(1))
        for name in folder.files(f"{folder.work}/{METRICS_FOLDER}"):
            folder.move_from(folder, name, name.removeprefix(f"{folder.work}/"))
        later = HadoopFolder(spark, uri, Path(work, "later"))
        later.refresh(is_for_a_report)
        assert all(read_table(later.path, table) == rows for table, rows in tables.items())

        store = TableStore({run: folder})
        for table, rows in tables.items():
            store.write_with_spark(table, spark.createDataFrame(rows, TABLES[table].ddl).coalesce(1))
        store.publish()
        assert len(folder.files(METRICS_FOLDER)) == len(tables) + 1
        assert not folder.files(folder.work)

        def analyze(name: str) -> None:
            store = TableStore({run: HadoopFolder(spark, uri, Path(work, name))})
            for table, rows in tables.items():
                store.write(table, rows)
            store.publish()

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(analyze, ("two", "three", "four")))
        HadoopFolder(spark, uri, target).refresh(is_for_a_report)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
