"""A topic for a file: peers announce the pieces that they have, request missing pieces, and send requested pieces.

    python examples/file_sharing.py share BOOK
    python examples/file_sharing.py --connect /ip4/127.0.0.1/tcp/4001/p2p/12D3… fetch ROOT COPY

The first command prints ROOT, the hash of the hashes of all pieces, which is also in the name of the topic. Lists are
verified by ROOT, and pieces by the list, before they are used, so peers need not be trusted. A node serves the pieces
that it has fetched.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from hashlib import sha256
from pathlib import Path

from hearsay import Message, Node, NodeConfig, Received

PIECE_BYTES = 16 * 1024
ASK_FOR = 16
ASK_EVERY_S = 1.0
LIST, HAVE, WANT, PIECE = b"l", b"h", b"w", b"p"


class File:
    """A file of which the hashes of all pieces may be unknown, and some pieces may be missing."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.hashes: list[bytes] = []
        self.pieces: dict[int, bytes] = {}

    @classmethod
    def of(cls, content: bytes) -> File:
        pieces = [content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES)]
        hashes = [sha256(piece).digest() for piece in pieces]
        whole = cls(sha256(b"".join(hashes)).digest())
        whole.hashes, whole.pieces = hashes, dict(enumerate(pieces))
        return whole

    @property
    def complete(self) -> bool:
        return bool(self.hashes) and len(self.pieces) == len(self.hashes)

    @property
    def missing(self) -> list[int]:
        return [number for number in range(len(self.hashes)) if number not in self.pieces]

    def fits(self, message: Message) -> bool:
        """Return whether a message is valid: a list must match the root, and a piece the list, if that is known."""
        kind, body = message.data[:1], message.data[1:]
        if kind == LIST:
            return sha256(body).digest() == self.root
        if kind in (HAVE, WANT):
            return len(body) % 4 == 0
        if kind != PIECE or len(body) < 4:
            return False
        number = int.from_bytes(body[:4], "big")
        return not self.hashes or (number < len(self.hashes) and sha256(body[4:]).digest() == self.hashes[number])

    def answers(self, message: Received) -> list[bytes]:
        """Store the hashes or the piece of a message, and return the messages to publish as answers."""
        kind, body = message.data[:1], message.data[1:]
        if kind == LIST:
            known, self.hashes = self.hashes, [body[start : start + 32] for start in range(0, len(body), 32)]
            return [] if known else [self.question()]
        elif kind == PIECE and self.hashes:
            self.pieces[int.from_bytes(body[:4], "big")] = body[4:]
            return [self.question()] if len(self.pieces) % ASK_FOR == 0 else []
        elif kind == WANT and not body and self.hashes:
            return [LIST + b"".join(self.hashes)]
        elif kind == WANT:
            wanted = [number for number in numbers(body) if number in self.pieces]
            return [PIECE + number.to_bytes(4, "big") + self.pieces[number] for number in wanted[:ASK_FOR]]
        elif kind == HAVE:
            useful = [number for number in numbers(body) if number < len(self.hashes) and number not in self.pieces]
            return [WANT + packed(useful[:ASK_FOR])] if useful else []
        return []

    def question(self) -> bytes:
        """Return the message to publish when none comes: HAVE for a complete file, else WANT for missing pieces."""
        return HAVE + packed(sorted(self.pieces)) if self.complete else WANT + packed(self.missing[:ASK_FOR])


def packed(pieces: list[int]) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in pieces)


def numbers(body: bytes) -> list[int]:
    return [int.from_bytes(body[start : start + 4], "big") for start in range(0, len(body), 4)]


async def share(file: File, connect: list[str], output: Path | None) -> None:
    name = f"files/{file.root.hex()}"
    async with Node(NodeConfig(bootstrap=tuple(connect))) as node:
        print("root", file.root.hex(), flush=True)
        print("others join with --connect", node.addresses[0], flush=True)
        node.add_validator(name, file.fits)
        topic = await node.join(name)
        while output is None or not file.complete:
            try:
                async with asyncio.timeout(ASK_EVERY_S):
                    message = await topic.next()
            except TimeoutError:
                await topic.publish(file.question(), wait_for_peers=True)
                continue
            if message.received_from is not None:
                for answer in file.answers(message):
                    await topic.publish(answer)
        output.write_bytes(b"".join(file.pieces[number] for number in range(len(file.hashes))))
        print("fetched", len(file.hashes), "pieces", flush=True)
        await node.flush()


def address(text: str) -> str:
    try:
        NodeConfig(bootstrap=(text,))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def root(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != sha256().digest_size:
        raise argparse.ArgumentTypeError(f"{text!r} is not the root of a file: 64 hexadecimal digits")
    return found


def new_file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: a file cannot be written there")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Files over gossipsub.")
    parser.add_argument("--connect", type=address, action="append", default=[], metavar="MULTIADDR")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("share").add_argument("file", type=Path)
    fetch = verbs.add_parser("fetch")
    fetch.add_argument("root", type=root)
    fetch.add_argument("output", type=new_file)
    arguments = parser.parse_args()
    try:
        shared = File.of(arguments.file.read_bytes()) if arguments.verb == "share" else File(arguments.root)
    except OSError as error:
        parser.error(f"{arguments.file}: {error.strerror}")
    target = None if arguments.verb == "share" else arguments.output
    try:
        asyncio.run(share(shared, arguments.connect, target))
    except KeyboardInterrupt:
        sys.exit(130)
