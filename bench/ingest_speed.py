"""Measure the import of protobuf traces, next to Go's tracestat on the same trace, in events per second of CPU time.

    python bench/ingest_speed.py [--events 1000000] [--tracestat PATH]

The trace is a recorded trace of the tests, repeated with new message ids each time. Go's tracestat reads only gzip,
so the import of gzip is measured, too. CPU time is used because other programs may run on the machine. The first
import, which compiles kernels, is not counted. Each program uses one core.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from hearsay.ingest.import_traces import import_traces
from hearsay.ingest.sources import Unit, decode_unit, recognise
from hearsay.trace.folder.arrow import read_table
from hearsay.trace.folder.run_folder import RunFolder

RECORDED = Path(__file__).parents[1] / "tests/ingest/data/go-0.16.pb.gz"


def write_trace(path: Path, events: int, recorded_events: int, messages: list[bytes]) -> int:
    """Write the recorded trace many times into a file; return the number of events."""
    data = gzip.decompress(RECORDED.read_bytes())
    copies = max(events // recorded_events, 1)
    with path.open("wb") as file:
        for copy in range(copies):
            changed = data
            for message in messages:
                changed = changed.replace(message, message[:-4] + copy.to_bytes(4, "big"))
            file.write(changed)
    return copies * recorded_events


def cpu_seconds(work: Callable[[], object], who: int = resource.RUSAGE_SELF) -> float:
    before = resource.getrusage(who)
    work()
    after = resource.getrusage(who)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--tracestat", type=Path, help="the binary of go-libp2p-pubsub-tracer's tracestat")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), given.events, given.tracestat)


def measure(folder: Path, wanted: int, tracestat: Path | None) -> None:
    warm = import_traces([RECORDED], RunFolder.create(folder / "warm"))
    messages = [bytes.fromhex(each) for each in read_table(folder / "warm/dictionary/messages.parquet")["id"]]
    plain, packed = folder / "trace.pb", folder / "trace.pb.gz"
    events = write_trace(plain, wanted, warm.record.files[0].events, messages)
    packed.write_bytes(gzip.compress(plain.read_bytes(), 6))
    print(f"{events:,} events, {plain.stat().st_size / events:.0f} bytes each; {os.cpu_count()} cores")

    def report(what: str, seconds: float) -> None:
        print(f"{what:<44} {seconds:7.2f} s   {events / seconds / 1e6:5.2f} M events/s")

    unit = Unit(recognise(plain))
    started = time.perf_counter()
    report("decode, protobuf", cpu_seconds(lambda: deque(decode_unit(unit), 0)))
    report("  by the clock", time.perf_counter() - started)
    zipped = Unit(recognise(packed))
    report("decode, gzip", cpu_seconds(lambda: deque(decode_unit(zipped), 0)))
    report("whole import, protobuf", cpu_seconds(lambda: import_traces([plain], RunFolder.create(folder / "run"))))
    report("whole import, gzip", cpu_seconds(lambda: import_traces([packed], RunFolder.create(folder / "run2"))))
    if tracestat is not None:
        command = [str(tracestat), "-cdf", str(packed)]
        environment = {**os.environ, "GOMAXPROCS": "1"}
        report(
            "tracestat -cdf, gzip",
            cpu_seconds(
                lambda: subprocess.run(command, check=True, capture_output=True, env=environment),
                resource.RUSAGE_CHILDREN,
            ),
        )


if __name__ == "__main__":
    main()
