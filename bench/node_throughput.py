"""Measure messages per second and CPU time per message between two processes of an implementation on loopback.

Implementations are Hearsay and others. Sender and receiver have the full router and deliver to the application. The
sender is a limited number of messages ahead of the receiver. All implementations are measured in turn `--rounds`
times, and medians are printed, because the speed of a machine changes with time. CPU time is user and system time of
the whole process, per message that the receiver delivered. Implementations without toolchain are named and omitted.
`ours-scored` keeps scores of its peers in each topic, with the preset `hardening`. `earlier` is Hearsay's node of the
checkout that `--earlier` names. A column has the receiver's CPU time relative to each of `ours` and `earlier`.

    python bench/node_throughput.py [--rounds 3] [--seconds 2] [--only ours,py] [--sizes 100,1024,65536] [--signed]
    python bench/node_throughput.py --earlier ../hearsay-0.1 --only earlier,ours,ours-scored,go --signed
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from statistics import median
from time import monotonic
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "interop"))

from foreign_peers import CHECKOUT, FOREIGN, Missing, PeerProcess, command_of

from process_tree import process_cpu_seconds

STEP = 100
AHEAD_BYTES = 16 << 20
NAMES = {
    "ours": "hearsay",
    "ours-scored": "hearsay with scores",
    "earlier": "hearsay, earlier",
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


def start_peer(name: str, earlier: Path, *flags: str) -> PeerProcess:
    match name:
        case "ours-scored":
            return PeerProcess("ours", *flags, "--preset", "hardening")
        case "earlier":
            return PeerProcess("ours", *flags, checkout=earlier)
    return PeerProcess(name, *flags)


async def measure(name: str, earlier: Path, size: int, signed: bool, seconds: float) -> Measured:
    flags = ("--topics", "bench", "--count", *(() if signed else ("--unsigned",)))
    async with (
        asyncio.timeout(60),
        start_peer(name, earlier, *flags) as receiver,
        start_peer(name, earlier, *flags, "--connect", receiver.address) as sender,
    ):
        await sender.until(lambda: sender.topics.get("bench") == 1)
        await receiver.until(lambda: receiver.topics.get("bench") == 1)
        while not receiver.count:  # until a message goes through the mesh, which some implementations do not report
            sender.send_command(f"publish bench {size} {STEP}")
            await asyncio.sleep(0.3)
        await asyncio.sleep(0.5)
        ahead = max(STEP, min(2000, AHEAD_BYTES // size // STEP * STEP))
        begin = receiver.count
        for _ in range(ahead // STEP):
            sender.send_command(f"publish bench {size} {STEP}")
        sent = ahead
        await receiver.until(lambda: receiver.count >= begin + STEP)
        start, first = monotonic(), receiver.count
        cpu = process_cpu_seconds(receiver.pid), process_cpu_seconds(sender.pid)
        while monotonic() - start < seconds:
            while sent + STEP - (receiver.count - begin) <= ahead:
                sender.send_command(f"publish bench {size} {STEP}")
                sent += STEP
            before = receiver.count
            await receiver.until(lambda before=before: receiver.count > before)
        passed, count = monotonic() - start, receiver.count - first
        receiving, sending = process_cpu_seconds(receiver.pid) - cpu[0], process_cpu_seconds(sender.pid) - cpu[1]
    return Measured(count / passed, 1e6 * receiving / count, 1e6 * sending / count)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="ours,go,rust,js,py")
    parser.add_argument("--sizes", default="100,1024,65536")
    parser.add_argument("--earlier", type=Path, default=CHECKOUT)
    parser.add_argument("--signed", action="store_true", help="measure only signed messages")
    flags = parser.parse_args()
    names: list[str] = []
    for name in flags.only.split(","):
        if name not in NAMES:
            parser.error(f"--only {name}: not one of {', '.join(NAMES)}")
        try:
            if name in FOREIGN:
                command_of(name)
            names.append(name)
        except Missing as missing:
            print(f"NOT MEASURED: {missing}", file=sys.stderr)
    own_versions = [name for name in ("ours", "earlier") if name in names]
    print(
        "| messages | | messages/s | CPU of the receiver, µs | CPU of the sender, µs |"
        + "".join(f" the receiver's CPU to that of {NAMES[name]} |" for name in own_versions)
    )
    print("| --- | --- | ---: | ---: | ---: |" + " ---: |" * len(own_versions))
    for signed in (True,) if flags.signed else (True, False):
        for size in map(int, flags.sizes.split(",")):
            found: dict[str, list[Measured]] = {name: [] for name in names}
            for _ in range(flags.rounds):
                for name in names:
                    found[name].append(asyncio.run(measure(name, flags.earlier, size, signed, flags.seconds)))
            for name in names:
                rate, receiver, sender = (median(column) for column in zip(*found[name], strict=True))
                ratios = "".join(f" {median_ratio(found[name], found[other])} |" for other in own_versions)
                what = f"{size:,} B, {'signed' if signed else 'unsigned'}"
                print(
                    f"| {what} | {NAMES[name]} | {rate:,.0f} | {receiver:,.0f} | {sender:,.0f} |{ratios}", flush=True
                )


def median_ratio(these: list[Measured], those: list[Measured]) -> str:
    """Return the median ratio of the receivers' CPU times over the rounds, or no text for the same measurements."""
    ratios = [this.receiver_us / that.receiver_us for this, that in zip(these, those, strict=True)]
    return "" if these is those else f"{median(ratios):.2f}"


if __name__ == "__main__":
    main()
