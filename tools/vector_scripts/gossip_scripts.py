"""Vectors of gossip: what is announced, asked for and answered, and what need not be sent (v1.0 to v1.2)."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.router_script import SECOND, TOPIC, WATCHED, RouterScript

from hearsay.core.language.rpc import MESHSUB_12

NO_MESH = {"D": 0, "Dlo": 0, "Dhi": 0, "Dscore": 0, "Dout": 0}
PAIR = {"D": 2, "Dlo": 1, "Dhi": 3, "Dscore": 0, "Dout": 0, "Dlazy": 2}
LARGE = 2_000
GOSSIP = "v1.0, Controlling the flood"


def scripts() -> Iterator[RouterScript]:
    yield announced()
    yield windows()
    yield how_many()
    yield share()
    yield thresholds()
    yield asked_for()
    yield not_asked_again()
    yield ids_per_heartbeat()
    yield ihaves_per_heartbeat()
    yield answers()
    yield cache_ends()
    yield promises()
    yield promise_of_one_asked_again()
    yield kept_promises()
    yield idontwant()
    yield small_messages()
    yield before_validation()
    yield not_sent_to_older()
    yield own_large_messages()
    yield unwanted()
    yield unwanted_ends()
    yield idontwant_limits()
    yield iwant_of_the_unwanted()


def announced() -> RouterScript:
    script = RouterScript(
        "ihave", GOSSIP, "At a heartbeat all that came since is announced, outside the mesh.", **PAIR
    )
    script.join()
    script.connect("AB")
    script.graft("AB")
    script.connect("CD")
    script.bring("A", "m1", "m2")
    script.heartbeat()
    return script


def windows() -> RouterScript:
    script = RouterScript(
        "history-gossip", "v1.0, The message cache", "A message is announced at HistoryGossip heartbeats.",
        **NO_MESH, HistoryLength=5, HistoryGossip=3, FloodPublish=False,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.publish("m1")
    script.heartbeat()
    script.publish("m2")
    script.heartbeat(4)
    return script


def how_many() -> RouterScript:
    script = RouterScript(
        "lazy-degree", GOSSIP, "Dlazy peers get gossip, whichever they are.",
        **NO_MESH, Dlazy=3, GossipFactor=0, FloodPublish=False,
    )  # fmt: skip
    script.join()
    script.connect("ABCDEFGH")
    script.publish("m1")
    script.heartbeat()
    return script


def share() -> RouterScript:
    script = RouterScript(
        "gossip-factor", "v1.1, Adaptive Gossip Dissemination", "Half of ten are more than Dlazy.",
        **NO_MESH, Dlazy=3, GossipFactor=0.5, FloodPublish=False,
    )  # fmt: skip
    script.join()
    script.connect("ABCDEFGHIJ")
    script.publish("m1")
    script.heartbeat()
    return script


def thresholds() -> RouterScript:
    script = RouterScript(
        "gossip-threshold", "v1.1, Score thresholds",
        "Below the gossip threshold no gossip goes or comes; below the graylist only subscriptions are accepted.",
        **NO_MESH, FloodPublish=False, Score=WATCHED,
    )  # fmt: skip
    script.join()
    script.connect("ABCD")
    script.rate(B=-10, C=-10.5, D=-1000.5)
    script.publish("m1")
    script.heartbeat()
    for peer in "ABCD":
        script.rpc(peer, ihave={TOPIC: [script.message(f"x{peer}")]}, iwant=["m1"])
    for peer in "CD":
        script.rpc(peer, subscribe=["sport"], messages=[script.message(f"y{peer}", author="author")])
    return script


def asked_for() -> RouterScript:
    script = RouterScript("iwant", GOSSIP, "What is not known is asked for, of topics that one is in.", **PAIR)
    script.join()
    script.connect("A")
    script.bring("A", "m1")
    for name in ("m2", "m3"):
        script.message(name)
    script.rpc("A", ihave={TOPIC: ["m1", "m2"], "other": ["m3"]})
    return script


def not_asked_again() -> RouterScript:
    script = RouterScript("iwant-of-all", GOSSIP, "All who announce a message are asked, until it comes.", **PAIR)
    script.join()
    script.connect("AB")
    script.message("m1")
    for peer in "AB":
        script.rpc(peer, ihave={TOPIC: ["m1"]})
    script.bring("A", "m1")
    script.rpc("B", ihave={TOPIC: ["m1"]})
    return script


def ids_per_heartbeat() -> RouterScript:
    script = RouterScript(
        "ihave-ids", "v1.1, Spam Protection Measures", "The ids asked of a peer between two heartbeats are bounded.",
        **PAIR, MaxIHaveLength=3,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    names = [script.message(f"m{number}") for number in range(9)]
    script.rpc("A", ihave={TOPIC: names[:2]})
    script.rpc("A", ihave={TOPIC: names[2:3]})
    script.rpc("A", ihave={TOPIC: names[3:4]})
    script.rpc("B", ihave={TOPIC: names[3:4]})
    script.heartbeat()
    script.rpc("A", ihave={TOPIC: names[4:5]})
    return script


def ihaves_per_heartbeat() -> RouterScript:
    script = RouterScript(
        "ihave-rpcs", "v1.1, Spam Protection Measures", "The RPCs with IHAVE accepted from a peer are bounded.",
        **PAIR, MaxIHaveMessages=2,
    )  # fmt: skip
    script.join()
    script.connect("A")
    for number in range(3):
        script.rpc("A", ihave={TOPIC: [script.message(f"m{number}")]})
    script.heartbeat()
    script.rpc("A", ihave={TOPIC: ["m2"]})
    return script


def answers() -> RouterScript:
    script = RouterScript(
        "iwant-answers", "v1.1, Spam Protection Measures", "A peer gets a message so often and no more.",
        **PAIR, GossipRetransmission=2,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.bring("A", "m1")
    script.message("unknown")
    script.rpc("B", iwant=["m1", "unknown"])
    for _ in range(2):
        script.rpc("B", iwant=["m1"])
    script.rpc("A", iwant=["m1"])
    return script


def cache_ends() -> RouterScript:
    script = RouterScript(
        "history-length", "v1.0, The message cache", "A message is kept for HistoryLength heartbeats.",
        **NO_MESH, FloodPublish=False, HistoryLength=3, HistoryGossip=1, GossipRetransmission=9,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.publish("m1")
    script.heartbeat(2)
    script.rpc("A", iwant=["m1"])
    script.heartbeat()
    script.rpc("A", iwant=["m1"])
    return script


def promises() -> RouterScript:
    script = RouterScript(
        "broken-promise", "v1.1, P₇", "Who announced a message that never comes misbehaves.",
        **PAIR, IWantFollowupTime=3 * SECOND, Score=WATCHED,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.message("m1")
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.heartbeat(5)
    return script


def promise_of_one_asked_again() -> RouterScript:
    script = RouterScript(
        "promise-said-again", "v1.1, P₇", "A peer that announces a message again does not promise it again.",
        **PAIR, IWantFollowupTime=3 * SECOND, Score=WATCHED,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.message("m1")
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.heartbeat(2)
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.heartbeat(2)
    return script


def kept_promises() -> RouterScript:
    script = RouterScript(
        "kept-promise", "v1.1, P₇", "A message that comes from another peer keeps the promise, too.",
        **PAIR, IWantFollowupTime=3 * SECOND, Score=WATCHED,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.message("m1")
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.bring("B", "m1")
    script.heartbeat(5)
    return script


def _meshed(
    name: str, description: str, peers: str = "ABC", protocol: str = MESHSUB_12, **more: object
) -> RouterScript:
    script = RouterScript(name, "v1.2, IDONTWANT", description, **{**PAIR, "D": 3, "Dhi": 6, **more})
    script.join()
    script.connect(peers, protocol)
    script.graft(peers)
    return script


def idontwant() -> RouterScript:
    script = _meshed(
        "idontwant", "The mesh gets IDONTWANT for a large message, except its sender; then it is forwarded."
    )
    script.connect("D", MESHSUB_12)
    script.bring("A", "m1", size=LARGE)
    script.bring("B", "m1", size=LARGE)
    return script


def small_messages() -> RouterScript:
    script = _meshed(
        "idontwant-size", "From IDontWantMessageThreshold on, and not below.", IDontWantMessageThreshold=100
    )
    script.bring("A", "m1", size=99)
    script.bring("A", "m2", size=100)
    return script


def before_validation() -> RouterScript:
    script = _meshed("idontwant-before-validation", "It is said before the verdict, whatever that is.", Validate=True)
    script.bring("A", "m1", size=LARGE)
    script.do("verdict", message="m1", verdict="accept")
    script.bring("A", "m2", size=LARGE)
    script.do("verdict", message="m2", verdict="reject")
    script.bring("B", "m2", size=LARGE)
    return script


def not_sent_to_older() -> RouterScript:
    script = _meshed("idontwant-versions", "Peers of 1.1 get no IDONTWANT.", "AB")
    script.connect("C")
    script.graft("C")
    script.bring("A", "m1", size=LARGE)
    return script


def own_large_messages() -> RouterScript:
    script = _meshed("idontwant-own", "Of one's own messages nothing is said; go says it.", FloodPublish=False)
    script.publish("m1", size=LARGE)
    return script


def unwanted() -> RouterScript:
    script = _meshed("unwanted", "Who said that it does not want a message is not sent it.")
    script.message("m1", LARGE, author="author")
    script.rpc("B", idontwant=["m1"])
    script.bring("A", "m1", size=LARGE)
    return script


def unwanted_ends() -> RouterScript:
    script = _meshed("unwanted-ends", "It is remembered for IDontWantMessageTTL heartbeats.", IDontWantMessageTTL=2)
    for name in ("m1", "m2"):
        script.message(name, author="author")
    script.rpc("B", idontwant=["m1", "m2"])
    script.heartbeat()
    script.bring("A", "m1")
    script.heartbeat()
    script.bring("A", "m2")
    return script


def idontwant_limits() -> RouterScript:
    script = _meshed(
        "idontwant-limits", "The ids accepted from an RPC are bounded, and the RPCs between two heartbeats.",
        MaxIDontWantLength=2, MaxIDontWantMessages=2,
    )  # fmt: skip
    names = [script.message(f"m{number}", author="author") for number in range(5)]
    script.rpc("B", idontwant=names[:3])
    script.rpc("B", idontwant=names[3:4])
    script.rpc("B", idontwant=names[4:])
    for name in names:
        script.bring("A", name)
    return script


def iwant_of_the_unwanted() -> RouterScript:
    script = _meshed("iwant-of-the-unwanted", "An IWANT after an IDONTWANT gets no answer.", "A")
    script.connect("B", MESHSUB_12)
    script.bring("A", "m1")
    script.rpc("B", idontwant=["m1"])
    script.rpc("B", iwant=["m1"])
    return script
