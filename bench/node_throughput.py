"""Messages per second and CPU per message between two processes on loopback, ours and other implementations.

Each pair is a sender and a receiver of one implementation, with its full router and delivery to the application;
the sender is kept a bounded number of messages ahead. All are measured in turn in the same run, `--rounds` times,
and medians are shown, because machines drift. CPU is user and system time of the whole process, per message that
the receiver delivered. Toolchains that are missing are named and left out.

    python bench/node_throughput.py [--rounds 3] [--seconds 2] [--only ours,py] [--sizes 100,1024,65536]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))

from foreign_peers import FOREIGN, Missing, PeerProcess, command_of

TICKS = os.sysconf("SC_CLK_TCK")
STEP = 100
AHEAD_BYTES = 16 << 20
NAMES = {
    "ours": "hearsay",
    "ours-on-py": "hearsay on py-libp2p's host",
    "go": "go-libp2p-pubsub",
    "rust": "rust-libp2p",
    "js": "js-libp2p",
    "py": "py-libp2p",
}


class Measured(NamedTuple):
    rate: float
    receiver_us: float
    sender_us: float


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def measure(language: str, size: int, signed: bool, seconds: float) -> Measured:
    flags = ("--topics", "bench", "--count", *(() if signed else ("--unsigned",)))
    async with (
        asyncio.timeout(60),
        PeerProcess(language, *flags) as receiver,
        PeerProcess(language, *flags, "--connect", receiver.address) as sender,
    ):
        await sender.until(lambda: sender.topics.get("bench") == 1)
        await receiver.until(lambda: receiver.topics.get("bench") == 1)
        while not receiver.count:  # until the mesh is there; not every implementation tells
            sender.order(f"publish bench {size} {STEP}")
            await asyncio.sleep(0.3)
        await asyncio.sleep(0.5)
        ahead = max(STEP, min(2000, AHEAD_BYTES // size // STEP * STEP))
        begin = receiver.count
        for _ in range(ahead // STEP):
            sender.order(f"publish bench {size} {STEP}")
        sent = ahead
        await receiver.until(lambda: receiver.count >= begin + STEP)
        start, first = monotonic(), receiver.count
        cpu = cpu_seconds(receiver.pid), cpu_seconds(sender.pid)
        while monotonic() - start < seconds:
            while sent + STEP - (receiver.count - begin) <= ahead:
                sender.order(f"publish bench {size} {STEP}")
                sent += STEP
            before = receiver.count
            await receiver.until(lambda before=before: receiver.count > before)
        passed, count = monotonic() - start, receiver.count - first
        receiving, sending = cpu_seconds(receiver.pid) - cpu[0], cpu_seconds(sender.pid) - cpu[1]
    return Measured(count / passed, 1e6 * receiving / count, 1e6 * sending / count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="ours,go,rust,js,py")
    parser.add_argument("--sizes", default="100,1024,65536")
    flags = parser.parse_args()
    languages: list[str] = []
    for language in flags.only.split(","):
        assert language in ("ours", "ours-on-py", *FOREIGN), language
        try:
            command_of(language)
            languages.append(language)
        except Missing as missing:
            print(f"NOT MEASURED: {missing}", file=sys.stderr)
    print(
        "| messages | | messages/s | CPU at the receiver, µs | CPU at the sender, µs | our CPU at the receiver is |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for signed in (True, False):
        for size in map(int, flags.sizes.split(",")):
            found: dict[str, list[Measured]] = {language: [] for language in languages}
            for _ in range(flags.rounds):
                for language in languages:
                    found[language].append(asyncio.run(measure(language, size, signed, flags.seconds)))
            for language in languages:
                rate, receiver, sender = (median(column) for column in zip(*found[language], strict=True))
                ratio = "" if language == "ours" or "ours" not in found else relation(found["ours"], found[language])
                what = f"{size:,} B, {'signed' if signed else 'unsigned'}"
                print(
                    f"| {what} | {NAMES[language]} | {rate:,.0f} | {receiver:,.0f} | {sender:,.0f} | {ratio} |",
                    flush=True,
                )


def relation(ours: list[Measured], theirs: list[Measured]) -> str:
    """The median over the rounds of theirs / ours."""
    ratio = median(other.receiver_us / own.receiver_us for own, other in zip(ours, theirs, strict=True))
    return f"{ratio:.1f} times less" if ratio >= 1 else f"{1 / ratio:.1f} times more"


if __name__ == "__main__":
    main()
