"""Write a table of the slow messages of runs, with the router of each run: a job for `spark-submit`.

    spark-submit --master spark://host:7077 --py-files hearsay.zip slow_messages.py RUN... --over-ms 500 --out slow

`hearsay.zip` is the renamed wheel of Hearsay, which tasks import. The output is Parquet, with a folder for each run.
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from hearsay.pipeline import Tables, read


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument(
        "--over-ms", type=int, default=500, help="a message is slow if the 99th percentile of its latency is greater"
    )
    parser.add_argument("--out", required=True)
    options = parser.parse_args()

    spark = SparkSession.builder.appName("slow messages").getOrCreate()
    tables = Tables(read(spark, options.runs))
    tables.compute(["messages", "headline"])
    slow = tables["messages"].where(f"p99_us > {options.over_ms * 1000}")
    routers = tables["headline"].select("run", "topic", "topic_name", "router")
    slow.join(routers, ["run", "topic"]).write.mode("overwrite").partitionBy("run").parquet(options.out)
    spark.stop()


if __name__ == "__main__":
    main()
