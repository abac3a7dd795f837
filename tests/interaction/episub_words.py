"""How scripts write what episub's peers say to each other.

    GETNODES TOPIC                      NODES TOPIC ttl=6 [PEER …]
    GETTOPICS                           TOPICS [TOPIC …]
    JOIN TOPIC PEER ttl=6 #1            FORWARDJOIN TOPIC PEER ttl=6 #1
    NEIGHBOR TOPIC request|accept|query|reply random|near LINKS/RANDOM [rtt=MS] [PEER …]
    DISCONNECT TOPIC [refused]          LEAVE TOPIC PEER ttl=3 #1
    SHUFFLE TOPIC PEER ttl=6 #1 [PEER …]
    SHUFFLEREPLY TOPIC #1 [PEER …]
    IHAVE tree TOPIC ID@HOPS …          GRAFT tree TOPIC [ID …]
    PRUNE tree TOPIC

`#1` is the sequence number of the peer that started the walk; `LINKS/RANDOM` counts the speaker's links.
"""

from __future__ import annotations

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


def shown(part: EpisubPart) -> str:
    return " ".join(map(str, _words(part)))


def _words(part: EpisubPart) -> list[object]:
    name = type(part).__name__.upper().removeprefix("EPISUB")
    match part:
        case GetNodes():
            return [name, part.topic]
        case GetTopics():
            return [name]
        case Topics():
            return [name, *part.topics]
        case Nodes():
            return [name, part.topic, f"ttl={part.ttl}", *part.peers]
        case EpisubJoin() | ForwardJoin():
            return [name, part.topic, part.peer, f"ttl={part.ttl}", f"#{part.sequence}"]
        case Neighbor():
            rtt = [f"rtt={part.rtt_us // 1000}"] if part.rtt_us else []
            counts = f"{part.links}/{part.random_links}"
            link = "random" if part.random else "near"
            return [name, part.topic, part.role.name.lower(), link, counts, *rtt, *part.peers]
        case Disconnect():
            return [name, part.topic, *(["refused"] if part.refused else [])]
        case EpisubLeave():
            return [name, part.topic, part.source, f"ttl={part.ttl}", f"#{part.sequence}"]
        case Shuffle():
            return [name, part.topic, part.peer, f"ttl={part.ttl}", f"#{part.sequence}", *part.peers]
        case ShuffleReply():
            return [name, part.topic, f"#{part.sequence}", *part.peers]
        case EpisubIHave():
            summaries = [f"{known}@{hops}" for known, hops in zip(part.ids, part.hops, strict=True)]
            return [name, "tree", part.topic, *summaries]
        case EpisubGraft():
            return [name, "tree", part.topic, *part.ids]
        case EpisubPrune():
            return [name, "tree", part.topic]


def parsed(words: list[str]) -> EpisubPart | None:
    """The part that these words say; None if they are not episub's."""
    match words:
        case ["GETNODES", topic]:
            return GetNodes(topic)
        case ["GETTOPICS"]:
            return GetTopics()
        case ["TOPICS", *topics]:
            return Topics(tuple(topics))
        case ["NODES", topic, ttl, *peers]:
            return Nodes(topic, tuple(peers), _number(ttl))
        case ["JOIN", topic, peer, ttl, sequence]:
            return EpisubJoin(topic, peer, _number(ttl), _number(sequence))
        case ["FORWARDJOIN", topic, peer, ttl, sequence]:
            return ForwardJoin(topic, peer, _number(ttl), _number(sequence))
        case ["NEIGHBOR", topic, role, link, counts, *rest]:
            links, random_links = map(int, counts.split("/"))
            rtt_us = sum(_number(word) * 1000 for word in rest if word.startswith("rtt="))
            peers = tuple(word for word in rest if not word.startswith("rtt="))
            return Neighbor(topic, Role[role.upper()], link == "random", links, random_links, rtt_us, peers)
        case ["DISCONNECT", topic, *refused]:
            return Disconnect(topic, bool(refused))
        case ["LEAVE", topic, source, ttl, sequence]:
            return EpisubLeave(topic, source, _number(ttl), _number(sequence))
        case ["SHUFFLE", topic, peer, ttl, sequence, *peers]:
            return Shuffle(topic, peer, tuple(peers), _number(ttl), _number(sequence))
        case ["SHUFFLEREPLY", topic, sequence, *peers]:
            return ShuffleReply(topic, tuple(peers), _number(sequence))
        case ["IHAVE", "tree", topic, *summaries]:
            pairs = [summary.split("@") for summary in summaries]
            return EpisubIHave(topic, tuple(known for known, _ in pairs), tuple(int(hops) for _, hops in pairs))
        case ["GRAFT", "tree", topic, *ids]:
            return EpisubGraft(topic, tuple(ids))
        case ["PRUNE", "tree", topic]:
            return EpisubPrune(topic)
        case _:
            return None


def _number(word: str) -> int:
    return int(word.removeprefix("#").rpartition("=")[2])
