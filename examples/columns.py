"""A column of eight cells, of which each node has some. A node gets each missing cell once, from one other node.

    python examples/columns.py --has 0-4
    python examples/columns.py --has 3-7 --connect /ip4/127.0.0.1/tcp/4001/p2p/12D3…

The number of a column determines its cells, so wrong cells are detected. Cells are parts of a partial message of
gossipsub 1.3. Each part is requested from one peer that has it. A node serves other nodes until its input ends
(Ctrl-D).
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from hearsay import Node, NodeConfig, SignaturePolicy, Topic
from hearsay.partial import Asking, Bitlists, PartsExchange, counted, counted_parts, group_named

CELLS = 8
TOPIC = "columns"


def cells(text: str) -> range:
    """Return the numbers of cells in a text such as `2-5` or `3`."""
    first, _, last = text.partition("-")
    if not first.isdecimal() or not (last or first).isdecimal() or not int(first) <= int(last or first) < CELLS:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST within 0-{CELLS - 1}")
    return range(int(first), int(last or first) + 1)


def number(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 to 2⁶⁴ − 1")
    return int(text)


def address(text: str) -> str:
    try:
        NodeConfig(bootstrap=(text,))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


async def show(columns: Topic) -> None:
    async for message in columns:
        print(f"column {int.from_bytes(message.data[-8:], 'big')} is whole: {len(message.data)} bytes", flush=True)


async def offer(node: Node, columns: Topic, parts: PartsExchange, column: int, has: range) -> None:
    await node.wait_for_peers(TOPIC)
    columns.follow(parts.add(TOPIC, group_named(column), counted(group_named(column), has)))


async def exchange(column: int, has: range, connect: list[str]) -> None:
    config = NodeConfig(
        preset="go",
        parameters={"partial_messages": True},
        signatures=SignaturePolicy.STRICT_NO_SIGN,
        bootstrap=tuple(connect),
    )
    parts = PartsExchange(counted_parts(CELLS, claims=Bitlists()), asks=Asking.ONE)
    async with Node(config) as node:
        print("others join with --connect", node.addresses[0], flush=True)
        columns = await node.join(TOPIC, partial=parts)
        tasks = [asyncio.create_task(show(columns)), asyncio.create_task(offer(node, columns, parts, column, has))]
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A column of eight cells, exchanged cell by cell.")
    parser.add_argument("--column", type=number, default=7, help="number of the column [default: 7]")
    parser.add_argument(
        "--has", type=cells, required=True, metavar="FIRST-LAST", help="cells that this node has, such as 0-4"
    )
    parser.add_argument("--connect", type=address, action="append", default=[], metavar="MULTIADDR")
    arguments = parser.parse_args()
    try:
        asyncio.run(exchange(arguments.column, arguments.has, arguments.connect))
    except KeyboardInterrupt:
        sys.exit(130)
