"""The conversion of episub's parts to objects of the core from the 64-bit words that kernels note for witnesses."""

from __future__ import annotations

from collections.abc import Sequence

from hearsay.core.language.episub_parts import (
    Disconnect,
    EpisubGraft,
    EpisubIHave,
    EpisubJoin,
    EpisubLeave,
    EpisubPart,
    EpisubPrune,
    ForwardJoin,
    GetNodes,
    GetTopics,
    Neighbor,
    Nodes,
    Role,
    Shuffle,
    ShuffleReply,
    Topics,
)
from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.machine.compiling import in_python
from hearsay.sim.array.world import payload

_announced_message = in_python(payload.announced_message)
_hops_in_word = in_python(payload.hops_in_word)
_WORD = (1 << 64) - 1
"""A mask that makes a word unsigned: entries of sketches are unsigned, words of kernels are signed."""
_numbers_in = in_python(payload.numbers_in)


def episub_part(kind: int, topic: str, words: list[int], topics: Sequence[str]) -> EpisubPart:
    """Return the part that these words describe; `topics` are those of the run, sorted by name."""
    match kind:
        case PartKind.IHAVE:
            return EpisubIHave(topic, tuple(map(_announced_message, words)), tuple(map(_hops_in_word, words)))
        case PartKind.GRAFT:
            return EpisubGraft(topic, tuple(words))
        case PartKind.PRUNE:
            return EpisubPrune(topic)
        case PartKind.GETTOPICS:
            return GetTopics()
        case PartKind.TOPICS:
            return Topics(tuple(topics[place] for place in words[2:]))
        case _:
            return _part_about_membership(kind, topic, words)


def _part_about_membership(kind: int, topic: str, words: list[int]) -> EpisubPart:
    """Return a part about membership. Its words are a length, the number of peers, the numeric fields of the part,
    the peers, and a sketch."""
    first = 2 + _numbers_in(kind)
    numbers = words[2:first]
    peers = tuple(words[first : first + words[1]])
    sketch = tuple(word & _WORD for word in words[first + words[1] :])
    match kind:
        case PartKind.GETNODES:
            return GetNodes(topic)
        case PartKind.NODES:
            return Nodes(topic, peers, numbers[0])
        case PartKind.JOIN:
            return EpisubJoin(topic, peers[0], *numbers)
        case PartKind.FORWARDJOIN:
            return ForwardJoin(topic, peers[0], *numbers)
        case PartKind.NEIGHBOR:
            role, random, links, random_links, rtt_us = numbers
            return Neighbor(topic, Role(role), random == 1, links, random_links, rtt_us, peers)
        case PartKind.DISCONNECT:
            return Disconnect(topic, numbers[0] == 1)
        case PartKind.LEAVE:
            return EpisubLeave(topic, peers[0], *numbers)
        case PartKind.SHUFFLE:
            return Shuffle(topic, peers[0], peers[1:], numbers[0], numbers[1], sketch)
        case PartKind.SHUFFLEREPLY:
            return ShuffleReply(topic, peers, numbers[0], sketch)
        case _:
            raise ValueError(f"unknown kind of part in a note: {kind}")
