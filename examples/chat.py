"""A chat room: each line that you type goes to all members of the room.

    python examples/chat.py
    python examples/chat.py --name Ada --connect /ip4/127.0.0.1/tcp/4001/p2p/12D3…

A message contains the author's name, which is not verified. The text in brackets is the end of the author's peer id,
which is verified by the signature.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from hearsay import Message, Node, NodeConfig, Topic

MAX_LINE = 2000
WAIT_S = 30
"""Seconds for which a line from a pipe or a file waits for a member of the room. A line from a terminal waits for
ever."""


def address(text: str) -> str:
    try:
        NodeConfig(bootstrap=(text,))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def is_a_line_of_chat(message: Message) -> bool:
    """Return whether a message is one line without control characters. Others are neither shown nor forwarded."""
    try:
        said = json.loads(message.data)
    except ValueError:
        return False
    return (
        isinstance(said, dict)
        and isinstance(said.get("name"), str)
        and isinstance(said.get("text"), str)
        and (said["name"] + said["text"]).isprintable()
        and len(message.data) <= MAX_LINE
    )


async def show(room: Topic) -> None:
    async for message in room:
        if message.received_from is not None:
            said = json.loads(message.data)
            print(f"{said['name']} [{(message.author_text or '')[-6:]}]: {said['text']}", flush=True)


async def chat(room_name: str, name: str, connect: list[str]) -> None:
    async with Node(NodeConfig(bootstrap=tuple(connect))) as node:
        print("others join with --connect", node.addresses[0], flush=True)
        node.add_validator(room_name, is_a_line_of_chat)
        room = await node.join(room_name)
        showing = asyncio.create_task(show(room))
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip():
                said = json.dumps({"name": name, "text": " ".join(line.split())[: MAX_LINE // 2]})
                if not await node.wait_for_peers(room_name, None if sys.stdin.isatty() else WAIT_S):
                    sys.exit(f"no member was in the room within {WAIT_S} s; not sent: {line.strip()}")
                await node.make_room(within_s=5)
                await room.publish(said.encode())
        await node.flush()
        showing.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A chat room on gossipsub.")
    parser.add_argument("--room", default="chat")
    parser.add_argument("--name", default="anonymous")
    parser.add_argument("--connect", type=address, action="append", default=[], metavar="MULTIADDR")
    arguments = parser.parse_args()
    try:
        asyncio.run(chat(arguments.room, arguments.name, arguments.connect))
    except KeyboardInterrupt:
        sys.exit(130)
