"""Verdicts of go, rust and js on the messages of `tests/wire/message_corpus.py`, and scores of peers that relay them.

`tests/wire/message_verdicts.txt` has the verdicts; `RENEW=1` writes it again.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

import pytest
from foreign_peers import PeerProcess
from message_corpus import Case, corpus
from message_verdicts import ACCEPTED, REFUSED, UNREADABLE, read_verdicts, write_verdicts
from scripted_peer import ScriptedPeer
from test_deployed_gossipsub import SCORE, deployed
from test_foreign_peers import LIMITS, build_or_skip, connect_peer, run, wait_for_mesh, wait_until

from hearsay.core.language.rpc import MESHSUB_11, Rpc
from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import to_text
from hearsay.libp2p.names.protobuf import DELIMITED, walk
from hearsay.node.conduct import ConductLimits
from hearsay.node.node import Node
from hearsay.wire.signing import SignaturePolicy

LANGUAGES = ("go", "rust", "js")
CASES = corpus()
SIGNED, UNSIGNED = ([case for case in CASES if case.unsigned is unsigned] for unsigned in (False, True))
PATIENT = replace(LIMITS, conduct=ConductLimits(slow_at=1e9, out_at=1e9))
HasArrived: TypeAlias = Callable[[str], bool]
NO_DATA = sha256(b"").hexdigest()


class RawPeer(ScriptedPeer):
    """A scripted peer that sends any bytes as an RPC, and notes if the other side ends its stream."""

    async def __aenter__(self) -> RawPeer:
        await super().__aenter__()
        self.ended = False
        self._stream.receive_with(lambda data: None, self._end)
        return self

    def _end(self, reset: bool) -> None:
        self.ended = True

    def send_bytes(self, rpc: bytes) -> None:
        self._stream.write(frame(rpc))


def digest_and_author(message: bytes) -> tuple[str, str]:
    """Return the digest of the data in an encoded message, and the author's peer id as text."""
    fields = {1: b"", 2: b""}
    with suppress(EncodingError):
        fields |= {
            number: message[start:stop]
            for number, kind, start, stop in walk(message, 0, len(message))
            if kind == DELIMITED
        }
    return sha256(fields[2]).hexdigest(), to_text(fields[1]) if fields[1] else ""


async def send_cases(
    stack: AsyncExitStack, address: str, cases: list[Case], has_arrived: HasArrived, *, unsigned: bool = False
) -> set[str]:
    """Send each message to a peer, followed by a valid message; return the names of messages that ended the stream.

    `has_arrived` takes a digest of data, and returns whether a message with this data has arrived at the observed
    node. The next message is sent when the valid message has arrived or the stream has ended.
    """
    policy = SignaturePolicy.STRICT_NO_SIGN if unsigned else SignaturePolicy.STRICT_SIGN
    ended: set[str] = set()
    attacker = await stack.enter_async_context(RawPeer(address, MESHSUB_11))
    for number, case in enumerate(cases):
        follower = b"after %d" % number
        attacker.send_bytes(case.rpc)
        attacker.send(Rpc(messages=(attacker.message(follower, policy),)))
        await wait_until(
            lambda attacker=attacker, follower=follower: attacker.ended or has_arrived(sha256(follower).hexdigest())
        )
        if attacker.ended:
            ended.add(case.name)
            attacker = await stack.enter_async_context(RawPeer(address, MESHSUB_11))
    return ended


def arrival_at(peer: PeerProcess) -> HasArrived:
    return lambda digest: any(message["sha256"] == digest for message in peer.messages[-8:])


def accepted_cases(peer: PeerProcess, cases: list[Case]) -> set[str]:
    received = {(message["sha256"], message["from"] if message["size"] == 0 else "") for message in peer.messages}
    named_cases = [(case.name, *digest_and_author(case.message)) for case in cases]
    return {name for name, digest, author in named_cases if (digest, author if digest == NO_DATA else "") in received}


async def ask_verdicts(language: str, cases: list[Case], *flags: str) -> dict[str, str]:
    async with PeerProcess(language, "--topics", "news", *flags) as peer, AsyncExitStack() as stack:
        ended = await send_cases(stack, peer.address, cases, arrival_at(peer), unsigned="--unsigned" in flags)
        taken = accepted_cases(peer, cases)
        return {
            case.name: UNREADABLE if case.name in ended else ACCEPTED if case.name in taken else REFUSED
            for case in cases
        }


@pytest.mark.parametrize("language", LANGUAGES)
def test_verdicts_equal_the_recorded_ones(language):
    build_or_skip(language)

    async def work():
        found = await ask_verdicts(language, SIGNED)
        found |= await ask_verdicts(language, UNSIGNED, "--unsigned")
        kept = read_verdicts()
        if os.environ.get("RENEW"):
            write_verdicts(CASES, {**kept, language: found})
        else:
            assert {name: now for name, now in found.items() if kept[language].get(name) != now} == {}

    run(work(), 120)


@pytest.mark.parametrize("cases", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_peer_that_relays_what_its_implementation_accepts_keeps_its_score(language, cases):
    """An attacker sends all messages to a peer of another implementation, which relays them to our node."""
    build_or_skip(language)
    unsigned = cases is UNSIGNED

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(score=SCORE, unsigned=unsigned)))
            flags = ("--unsigned",) if unsigned else ()
            [topic], relay = await connect_peer(stack, language, node, *flags, topics=("news",))
            await wait_for_mesh(node, relay, ("news",))
            came: set[str] = set()

            async def read():
                while True:
                    came.add(sha256((await topic.next()).data).hexdigest())

            reading = asyncio.ensure_future(read())
            try:
                await send_cases(stack, relay.address, cases, came.__contains__, unsigned=unsigned)
            finally:
                reading.cancel()
            [peer] = node.peers
            assert not node.statistics.offences
            assert node.scores.all[peer].score == 0
            assert peer in node.mesh("news")

    run(work(), 120)


@pytest.mark.parametrize("cases", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_other_implementations_accept_what_we_relay(language, cases):
    """An attacker sends all messages to our node, which relays them to a peer of another implementation."""
    build_or_skip(language)
    unsigned = cases is UNSIGNED

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(replace(deployed(unsigned=unsigned), limits=PATIENT)))
            flags = (*(("--unsigned",) if unsigned else ()), *(("--scored",) if language == "go" else ()))
            [topic], observer = await connect_peer(stack, language, node, *flags, topics=("news",))
            await wait_for_mesh(node, observer, ("news",))
            relayed: list[str] = []

            async def read():
                while True:
                    relayed.append(sha256((await topic.next()).data).hexdigest())

            reading = asyncio.ensure_future(read())
            try:
                await send_cases(stack, node.addresses[0], cases, arrival_at(observer), unsigned=unsigned)
            finally:
                reading.cancel()
            assert Counter(message["sha256"] for message in observer.messages) == Counter(relayed)
            if language == "go":
                await observer.until(lambda: to_text(node.peer) in observer.scores)
                assert observer.scores[to_text(node.peer)] == 0

    run(work(), 120)
