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
from test_foreign_peers import LIMITS, built, connected, meshed, run, until

from hearsay.core.language.rpc import MESHSUB_11, Rpc
from hearsay.libp2p.frames import frame
from hearsay.libp2p.names.errors import EncodingError
from hearsay.libp2p.names.peer_id import to_text
from hearsay.libp2p.names.protobuf import DELIMITED, walk
from hearsay.node.conduct import ConductLimits
from hearsay.node.node import Node
from hearsay.wire.signing import SignaturePolicy

ASKED = ("go", "rust", "js")
CASES = corpus()
SIGNED, UNSIGNED = ([case for case in CASES if case.unsigned is unsigned] for unsigned in (False, True))
PATIENT = replace(LIMITS, conduct=ConductLimits(slow_at=1e9, out_at=1e9))
Came: TypeAlias = Callable[[str], bool]
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

    def send(self, rpc: bytes) -> None:
        self._stream.write(frame(rpc))


def named(message: bytes) -> tuple[str, str]:
    """Return the digest of the data in an encoded message, and the author's peer id as text."""
    fields = {1: b"", 2: b""}
    with suppress(EncodingError):
        fields |= {
            number: message[start:stop]
            for number, kind, start, stop in walk(message, 0, len(message))
            if kind == DELIMITED
        }
    return sha256(fields[2]).hexdigest(), to_text(fields[1]) if fields[1] else ""


async def push(
    stack: AsyncExitStack, address: str, cases: list[Case], came: Came, *, unsigned: bool = False
) -> set[str]:
    """Send each message to a peer, followed by a valid message; return the names of messages that ended the stream.

    `came` takes a digest of data, and returns whether a message with this data has arrived at the observed node. The
    next message is sent when the valid message has arrived or the stream has ended.
    """
    policy = SignaturePolicy.STRICT_NO_SIGN if unsigned else SignaturePolicy.STRICT_SIGN
    ended: set[str] = set()
    attacker = await stack.enter_async_context(RawPeer(address, MESHSUB_11))
    for number, case in enumerate(cases):
        follower = b"after %d" % number
        attacker.send(case.rpc)
        attacker.say(Rpc(messages=(attacker.message(follower, policy),)))
        await until(lambda attacker=attacker, follower=follower: attacker.ended or came(sha256(follower).hexdigest()))
        if attacker.ended:
            ended.add(case.name)
            attacker = await stack.enter_async_context(RawPeer(address, MESHSUB_11))
    return ended


def received_by(peer: PeerProcess) -> Came:
    return lambda digest: any(message["sha256"] == digest for message in peer.messages[-8:])


def taken_by(peer: PeerProcess, cases: list[Case]) -> set[str]:
    received = {(message["sha256"], message["from"] if message["size"] == 0 else "") for message in peer.messages}
    named_cases = [(case.name, *named(case.message)) for case in cases]
    return {name for name, digest, author in named_cases if (digest, author if digest == NO_DATA else "") in received}


async def verdicts(language: str, cases: list[Case], *flags: str) -> dict[str, str]:
    async with PeerProcess(language, "--topics", "news", *flags) as peer, AsyncExitStack() as stack:
        ended = await push(stack, peer.address, cases, received_by(peer), unsigned="--unsigned" in flags)
        taken = taken_by(peer, cases)
        return {
            case.name: UNREADABLE if case.name in ended else ACCEPTED if case.name in taken else REFUSED
            for case in cases
        }


@pytest.mark.parametrize("language", ASKED)
def test_the_verdicts_are_those_that_are_kept(language):
    built(language)

    async def work():
        found = await verdicts(language, SIGNED)
        found |= await verdicts(language, UNSIGNED, "--unsigned")
        kept = read_verdicts()
        if os.environ.get("RENEW"):
            write_verdicts(CASES, {**kept, language: found})
        else:
            assert {name: now for name, now in found.items() if kept[language].get(name) != now} == {}

    run(work(), 120)


@pytest.mark.parametrize("cases", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize("language", ASKED)
def test_who_relays_what_its_implementation_takes_keeps_its_score(language, cases):
    """An attacker sends all messages to a peer of another implementation, which relays them to our node."""
    built(language)
    unsigned = cases is UNSIGNED

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(deployed(score=SCORE, unsigned=unsigned)))
            flags = ("--unsigned",) if unsigned else ()
            [topic], relay = await connected(stack, language, node, *flags, topics=("news",))
            await meshed(node, relay, ("news",))
            came: set[str] = set()

            async def read():
                while True:
                    came.add(sha256((await topic.next()).data).hexdigest())

            reading = asyncio.ensure_future(read())
            try:
                await push(stack, relay.address, cases, came.__contains__, unsigned=unsigned)
            finally:
                reading.cancel()
            [peer] = node.peers
            assert not node.statistics.offences
            assert node.scores.all[peer].score == 0
            assert peer in node.mesh("news")

    run(work(), 120)


@pytest.mark.parametrize("cases", [SIGNED, UNSIGNED], ids=["signed", "unsigned"])
@pytest.mark.parametrize("language", ASKED)
def test_what_we_relay_is_taken_by_others(language, cases):
    """An attacker sends all messages to our node, which relays them to a peer of another implementation."""
    built(language)
    unsigned = cases is UNSIGNED

    async def work():
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(Node(replace(deployed(unsigned=unsigned), limits=PATIENT)))
            flags = (*(("--unsigned",) if unsigned else ()), *(("--scored",) if language == "go" else ()))
            [topic], judge = await connected(stack, language, node, *flags, topics=("news",))
            await meshed(node, judge, ("news",))
            relayed: list[str] = []

            async def read():
                while True:
                    relayed.append(sha256((await topic.next()).data).hexdigest())

            reading = asyncio.ensure_future(read())
            try:
                await push(stack, node.addresses[0], cases, received_by(judge), unsigned=unsigned)
            finally:
                reading.cancel()
            assert Counter(message["sha256"] for message in judge.messages) == Counter(relayed)
            if language == "go":
                await judge.until(lambda: to_text(node.peer) in judge.scores)
                assert judge.scores[to_text(node.peer)] == 0

    run(work(), 120)
