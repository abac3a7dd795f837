"""Vectors of gossip: IHAVE, IWANT and its answers, promises, IDONTWANT (v1.0 to v1.2)."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.router_script import MISBEHAVIOUR, SECOND, TOPIC, RouterScript

from hearsay.core.language.rpc import MESHSUB_12

NO_MESH = {"D": 0, "Dlo": 0, "Dhi": 0, "Dscore": 0, "Dout": 0}
PAIR = {"D": 2, "Dlo": 1, "Dhi": 3, "Dscore": 0, "Dout": 0, "Dlazy": 2}
LARGE = 2_000
GOSSIP = "v1.0, Controlling the flood"


def scripts() -> Iterator[RouterScript]:
    yield ihave()
    yield history_gossip()
    yield lazy_degree()
    yield gossip_factor()
    yield gossip_threshold()
    yield iwant()
    yield iwant_of_all()
    yield ihave_ids()
    yield ihave_rpcs()
    yield iwant_answers()
    yield history_length()
    yield broken_promise()
    yield promise_said_again()
    yield kept_promise()
    yield idontwant()
    yield idontwant_size()
    yield idontwant_before_validation()
    yield idontwant_versions()
    yield idontwant_own()
    yield unwanted()
    yield unwanted_ends()
    yield idontwant_limits()
    yield iwant_of_the_unwanted()


def ihave() -> RouterScript:
    script = RouterScript("ihave", GOSSIP, "A heartbeat announces new messages to peers outside the mesh.", **PAIR)
    script.join()
    script.connect("AB")
    script.graft("AB")
    script.connect("CD")
    script.receive("A", "m1", "m2")
    script.heartbeat()
    return script


def history_gossip() -> RouterScript:
    script = RouterScript(
        "history-gossip", "v1.0, The message cache", "A message is announced in HistoryGossip heartbeats.",
        **NO_MESH, HistoryLength=5, HistoryGossip=3, FloodPublish=False,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.publish("m1")
    script.heartbeat()
    script.publish("m2")
    script.heartbeat(4)
    return script


def lazy_degree() -> RouterScript:
    script = RouterScript(
        "lazy-degree", GOSSIP, "Dlazy random peers get gossip.",
        **NO_MESH, Dlazy=3, GossipFactor=0, FloodPublish=False,
    )  # fmt: skip
    script.join()
    script.connect("ABCDEFGH")
    script.publish("m1")
    script.heartbeat()
    return script


def gossip_factor() -> RouterScript:
    script = RouterScript(
        "gossip-factor", "v1.1, Adaptive Gossip Dissemination",
        "GossipFactor 0.5 selects five of ten peers, more than Dlazy.",
        **NO_MESH, Dlazy=3, GossipFactor=0.5, FloodPublish=False,
    )  # fmt: skip
    script.join()
    script.connect("ABCDEFGHIJ")
    script.publish("m1")
    script.heartbeat()
    return script


def gossip_threshold() -> RouterScript:
    script = RouterScript(
        "gossip-threshold", "v1.1, Score thresholds",
        "A peer below the gossip threshold gets and gives no gossip; below graylist only subscriptions are accepted.",
        **NO_MESH, FloodPublish=False, Score=MISBEHAVIOUR,
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


def iwant() -> RouterScript:
    script = RouterScript("iwant", GOSSIP, "The router requests unknown messages of its topics.", **PAIR)
    script.join()
    script.connect("A")
    script.receive("A", "m1")
    for name in ("m2", "m3"):
        script.message(name)
    script.rpc("A", ihave={TOPIC: ["m1", "m2"], "other": ["m3"]})
    return script


def iwant_of_all() -> RouterScript:
    script = RouterScript(
        "iwant-of-all", GOSSIP, "Each peer that announces a message is asked, until it comes.", **PAIR
    )
    script.join()
    script.connect("AB")
    script.message("m1")
    for peer in "AB":
        script.rpc(peer, ihave={TOPIC: ["m1"]})
    script.receive("A", "m1")
    script.rpc("B", ihave={TOPIC: ["m1"]})
    return script


def ihave_ids() -> RouterScript:
    script = RouterScript(
        "ihave-ids", "v1.1, Spam Protection Measures",
        "Between two heartbeats a peer is asked for at most MaxIHaveLength ids.",
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


def ihave_rpcs() -> RouterScript:
    script = RouterScript(
        "ihave-rpcs", "v1.1, Spam Protection Measures",
        "Between two heartbeats at most MaxIHaveMessages RPCs with IHAVE of a peer count.",
        **PAIR, MaxIHaveMessages=2,
    )  # fmt: skip
    script.join()
    script.connect("A")
    for number in range(3):
        script.rpc("A", ihave={TOPIC: [script.message(f"m{number}")]})
    script.heartbeat()
    script.rpc("A", ihave={TOPIC: ["m2"]})
    return script


def iwant_answers() -> RouterScript:
    script = RouterScript(
        "iwant-answers", "v1.1, Spam Protection Measures",
        "IWANTs of a peer get a message at most GossipRetransmission times.",
        **PAIR, GossipRetransmission=2,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.receive("A", "m1")
    script.message("unknown")
    script.rpc("B", iwant=["m1", "unknown"])
    for _ in range(2):
        script.rpc("B", iwant=["m1"])
    script.rpc("A", iwant=["m1"])
    return script


def history_length() -> RouterScript:
    script = RouterScript(
        "history-length", "v1.0, The message cache", "A message stays in the cache for HistoryLength heartbeats.",
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


def broken_promise() -> RouterScript:
    script = RouterScript(
        "broken-promise", "v1.1, P₇", "A peer that does not send a message that it announced misbehaves.",
        **PAIR, IWantFollowupTime=3 * SECOND, Score=MISBEHAVIOUR,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.message("m1")
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.heartbeat(5)
    return script


def promise_said_again() -> RouterScript:
    script = RouterScript(
        "promise-said-again", "v1.1, P₇", "A peer that announces a message again does not promise it again.",
        **PAIR, IWantFollowupTime=3 * SECOND, Score=MISBEHAVIOUR,
    )  # fmt: skip
    script.join()
    script.connect("A")
    script.message("m1")
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.heartbeat(2)
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.heartbeat(2)
    return script


def kept_promise() -> RouterScript:
    script = RouterScript(
        "kept-promise", "v1.1, P₇", "A promise is also kept if another peer sends the message.",
        **PAIR, IWantFollowupTime=3 * SECOND, Score=MISBEHAVIOUR,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.message("m1")
    script.rpc("A", ihave={TOPIC: ["m1"]})
    script.receive("B", "m1")
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
    script = _meshed("idontwant", "A large message: the mesh except its sender gets IDONTWANT, then the message.")
    script.connect("D", MESHSUB_12)
    script.receive("A", "m1", size=LARGE)
    script.receive("B", "m1", size=LARGE)
    return script


def idontwant_size() -> RouterScript:
    script = _meshed(
        "idontwant-size",
        "Only messages of IDontWantMessageThreshold bytes or more count.",
        IDontWantMessageThreshold=100,
    )
    script.receive("A", "m1", size=99)
    script.receive("A", "m2", size=100)
    return script


def idontwant_before_validation() -> RouterScript:
    script = _meshed("idontwant-before-validation", "IDONTWANT does not wait for the verdict.", Validate=True)
    script.receive("A", "m1", size=LARGE)
    script.add_step("verdict", message="m1", verdict="accept")
    script.receive("A", "m2", size=LARGE)
    script.add_step("verdict", message="m2", verdict="reject")
    script.receive("B", "m2", size=LARGE)
    return script


def idontwant_versions() -> RouterScript:
    script = _meshed("idontwant-versions", "Peers of 1.1 get no IDONTWANT.", "AB")
    script.connect("C")
    script.graft("C")
    script.receive("A", "m1", size=LARGE)
    return script


def idontwant_own() -> RouterScript:
    script = _meshed("idontwant-own", "There is no IDONTWANT for own messages; go sends it.", FloodPublish=False)
    script.publish("m1", size=LARGE)
    return script


def unwanted() -> RouterScript:
    script = _meshed("unwanted", "A peer does not get a message after its IDONTWANT for it.")
    script.message("m1", LARGE, author="author")
    script.rpc("B", idontwant=["m1"])
    script.receive("A", "m1", size=LARGE)
    return script


def unwanted_ends() -> RouterScript:
    script = _meshed("unwanted-ends", "An IDONTWANT holds for IDontWantMessageTTL heartbeats.", IDontWantMessageTTL=2)
    for name in ("m1", "m2"):
        script.message(name, author="author")
    script.rpc("B", idontwant=["m1", "m2"])
    script.heartbeat()
    script.receive("A", "m1")
    script.heartbeat()
    script.receive("A", "m2")
    return script


def idontwant_limits() -> RouterScript:
    script = _meshed(
        "idontwant-limits", "Limits: the ids that count in an RPC, and the RPCs that count between two heartbeats.",
        MaxIDontWantLength=2, MaxIDontWantMessages=2,
    )  # fmt: skip
    names = [script.message(f"m{number}", author="author") for number in range(5)]
    script.rpc("B", idontwant=names[:3])
    script.rpc("B", idontwant=names[3:4])
    script.rpc("B", idontwant=names[4:])
    for name in names:
        script.receive("A", name)
    return script


def iwant_of_the_unwanted() -> RouterScript:
    script = _meshed("iwant-of-the-unwanted", "An IWANT after an IDONTWANT gets no answer.", "A")
    script.connect("B", MESHSUB_12)
    script.receive("A", "m1")
    script.rpc("B", idontwant=["m1"])
    script.rpc("B", iwant=["m1"])
    return script
