"""The control parts of RPCs as words of scripts (`conversation.py`).

    IHAVE TOPIC [ID …]                  IWANT [ID …]
    GRAFT TOPIC                         PRUNE TOPIC [SECONDSs [PEER …]]
    IDONTWANT [ID …]                    CAN [partial] [test]

Episub's parts:

    GETNODES TOPIC                      NODES TOPIC ttl=6 [PEER …]
    GETTOPICS                           TOPICS [TOPIC …]
    JOIN TOPIC PEER ttl=6 #1            FORWARDJOIN TOPIC PEER ttl=6 #1
    NEIGHBOR TOPIC request|accept|query|reply random|near LINKS/RANDOM [rtt=MS] [PEER …]
    DISCONNECT TOPIC [refused]          LEAVE TOPIC PEER ttl=3 #1
    SHUFFLE TOPIC PEER ttl=6 #1 [PEER …]
    SHUFFLEREPLY TOPIC #1 [PEER …]
    IHAVE tree TOPIC ID@HOPS …          GRAFT tree TOPIC [ID …]
    PRUNE tree TOPIC

`#1` is the sequence number of the peer that started the walk; `LINKS/RANDOM` are numbers of the sender's links.
"""

from __future__ import annotations

from hearsay.core.language.episub_parts import (
    Disconnect,
    EpisubGraft,
    EpisubIHave,
    EpisubJoin,
    EpisubLeave,
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
from hearsay.core.language.rpc import (
    ControlPart,
    Features,
    Graft,
    IDontWant,
    IHave,
    IWant,
    PeerInfo,
    Prune,
)

PARTS: dict[type, tuple[str, str]] = {
    GetNodes: ("GETNODES", "topic"),
    Nodes: ("NODES", "topic ttl= peers*"),
    GetTopics: ("GETTOPICS", ""),
    Topics: ("TOPICS", "topics*"),
    EpisubJoin: ("JOIN", "topic peer ttl= sequence#"),
    ForwardJoin: ("FORWARDJOIN", "topic peer ttl= sequence#"),
    EpisubLeave: ("LEAVE", "topic source ttl= sequence#"),
    Shuffle: ("SHUFFLE", "topic peer ttl= sequence# peers*"),
    ShuffleReply: ("SHUFFLEREPLY", "topic sequence# peers*"),
    EpisubGraft: ("GRAFT tree", "topic ids*"),
    EpisubPrune: ("PRUNE tree", "topic"),
    IHave: ("IHAVE", "topic ids*"),
    IWant: ("IWANT", "ids*"),
    Graft: ("GRAFT", "topic"),
    IDontWant: ("IDONTWANT", "ids*"),
}
"""Name and fields of each part: `*` marks all remaining words, `=` a word with the field's name, `#` a number. Parts
that are not here have their own formats in `shown` and `parsed`."""


def shown(part: ControlPart) -> str:
    match part:
        case Prune():
            backoff = [] if part.backoff_s is None else [f"{part.backoff_s}s"]
            words = ["PRUNE", part.topic, *backoff, *(known.peer for known in part.peers)]
        case Features():
            words = ["CAN", *["partial"] * part.partial_messages, *["test"] * part.test_extension]
        case Neighbor():
            rtt = [f"rtt={part.rtt_us // 1000}"] if part.rtt_us else []
            link = "random" if part.random else "near"
            start = ["NEIGHBOR", part.topic, part.role.name.lower(), link, f"{part.links}/{part.random_links}"]
            words = [*start, *rtt, *part.peers]
        case Disconnect():
            words = ["DISCONNECT", part.topic, *(["refused"] if part.refused else [])]
        case EpisubIHave():
            summaries = [f"{known}@{hops}" for known, hops in zip(part.ids, part.hops, strict=True)]
            words = ["IHAVE tree", part.topic, *summaries]
        case _:
            name, fields = PARTS[type(part)]
            words = [name]
            for field in fields.split():
                value = getattr(part, field.rstrip("=#*"))
                words += (
                    value
                    if field.endswith("*")
                    else [{"=": f"{field}{value}", "#": f"#{value}"}.get(field[-1], value)]
                )
    return " ".join(map(str, words))


def parsed(words: list[str]) -> ControlPart | None:
    """Return the control part with these words; None if they are no control part."""
    match words:
        case ["PRUNE", topic, *more] if topic != "tree":
            backoff_s = int(more[0].removesuffix("s")) if more else None
            return Prune(topic, backoff_s, tuple(map(PeerInfo, more[1:])))
        case ["CAN", *names]:
            return Features("partial" in names, "test" in names)
        case ["NEIGHBOR", topic, role, link, counts, *rest]:
            links, random_links = map(int, counts.split("/"))
            rtt_us = sum(_number(word) * 1000 for word in rest if word.startswith("rtt="))
            peers = tuple(word for word in rest if not word.startswith("rtt="))
            return Neighbor(topic, Role[role.upper()], link == "random", links, random_links, rtt_us, peers)
        case ["DISCONNECT", topic, *refused]:
            return Disconnect(topic, bool(refused))
        case ["IHAVE", "tree", topic, *summaries]:
            pairs = [summary.split("@") for summary in summaries]
            return EpisubIHave(topic, tuple(known for known, _ in pairs), tuple(int(hops) for _, hops in pairs))
        case _:
            for kind, (name, fields) in PARTS.items():
                start = name.split()
                if words[: len(start)] == start:
                    return kind(**_values(fields.split(), words[len(start) :]))
            return None


def _values(fields: list[str], words: list[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    if fields and fields[-1].endswith("*"):
        last = fields.pop()
        values[last.rstrip("*")] = tuple(words[len(fields) :])
        words = words[: len(fields)]
    for field, word in zip(fields, words, strict=True):
        values[field.rstrip("=#")] = _number(word) if field[-1] in "=#" else word
    return values


def _number(word: str) -> int:
    return int(word.removeprefix("#").rpartition("=")[2])
