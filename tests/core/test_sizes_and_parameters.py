"""Sizes of encoded RPCs (compared with protobuf's library), rules for parameters, and recorded values of draws."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.language.rpc import (
    EXPERIMENTAL_FIELDS,
    Control,
    Extension,
    Graft,
    IHave,
    IWant,
    Message,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.core.language.sizes import part_sizes, rpc_size, varint_size
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.rules.randomness import Purpose, Randomness, key_of, mix, sample
from hearsay.core.shell.parameters import ParameterError

FIELD = descriptor_pb2.FieldDescriptorProto
SCHEMA = {
    "SubOpts": [(1, "subscribe", FIELD.TYPE_BOOL, ""), (2, "topicid", FIELD.TYPE_STRING, "")],
    "Message": [
        (1, "from_", FIELD.TYPE_BYTES, ""),
        (2, "data", FIELD.TYPE_BYTES, ""),
        (3, "seqno", FIELD.TYPE_BYTES, ""),
        (4, "topic", FIELD.TYPE_STRING, ""),
        (5, "signature", FIELD.TYPE_BYTES, ""),
        (6, "key", FIELD.TYPE_BYTES, ""),
    ],
    "IHave": [(1, "topicID", FIELD.TYPE_STRING, ""), (2, "messageIDs", FIELD.TYPE_BYTES, "*")],
    "IWant": [(1, "messageIDs", FIELD.TYPE_BYTES, "*")],
    "Graft": [(1, "topicID", FIELD.TYPE_STRING, "")],
    "Prune": [(1, "topicID", FIELD.TYPE_STRING, "")],
    "Control": [
        (1, "ihave", FIELD.TYPE_MESSAGE, "IHave"),
        (2, "iwant", FIELD.TYPE_MESSAGE, "IWant"),
        (3, "graft", FIELD.TYPE_MESSAGE, "Graft"),
        (4, "prune", FIELD.TYPE_MESSAGE, "Prune"),
        (EXPERIMENTAL_FIELDS + 1000, "extension", FIELD.TYPE_BYTES, "*"),
    ],
    "RPC": [
        (1, "subscriptions", FIELD.TYPE_MESSAGE, "SubOpts"),
        (2, "publish", FIELD.TYPE_MESSAGE, "Message"),
        (3, "control", FIELD.TYPE_MESSAGE, "Control?"),
    ],
}


def protobuf_types():
    file = descriptor_pb2.FileDescriptorProto(name="rpc.proto", package="t", syntax="proto2")
    for name, declared in SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, field, kind, of in declared:
            repeated = of and not of.endswith("?")
            label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if kind == FIELD.TYPE_MESSAGE:
                added.type_name = f".t.{of.rstrip('?')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.RPC"))


RPC = protobuf_types()
texts = st.text(max_size=20)
blobs = st.binary(max_size=200)
maybe = st.none() | blobs
rpcs = st.builds(
    Rpc,
    st.lists(st.builds(Subscription, texts, st.booleans()), max_size=3).map(tuple),
    st.lists(st.builds(Message, blobs, texts, blobs, maybe, maybe, maybe, maybe), max_size=3).map(tuple),
    st.none()
    | st.builds(
        Control,
        st.lists(st.builds(IHave, texts, st.lists(blobs, max_size=4).map(tuple)), max_size=3).map(tuple),
        st.lists(st.builds(IWant, st.lists(blobs, max_size=4).map(tuple)), max_size=2).map(tuple),
        st.lists(st.builds(Graft, texts), max_size=2).map(tuple),
        st.lists(st.builds(Prune, texts), max_size=2).map(tuple),
        st.lists(st.builds(Extension, st.just(EXPERIMENTAL_FIELDS + 1000), blobs), max_size=2).map(tuple),
    ),
)


def encoded(rpc: Rpc) -> bytes:
    wire = RPC()
    for change in rpc.subscriptions:
        wire.subscriptions.add(subscribe=change.subscribe, topicid=change.topic)
    for message in rpc.messages:
        fields = {
            "from_": message.source,
            "data": message.data,
            "seqno": message.seqno,
            "topic": message.topic,
            "signature": message.signature,
            "key": message.key,
        }
        wire.publish.add(**{name: value for name, value in fields.items() if value is not None})
    if rpc.control is not None:
        wire.control.SetInParent()
        for ihave in rpc.control.ihave:
            wire.control.ihave.add(topicID=ihave.topic, messageIDs=ihave.ids)
        for iwant in rpc.control.iwant:
            wire.control.iwant.add(messageIDs=iwant.ids)
        for graft in rpc.control.graft:
            wire.control.graft.add(topicID=graft.topic)
        for prune in rpc.control.prune:
            wire.control.prune.add(topicID=prune.topic)
        wire.control.extension.extend(extension.payload for extension in rpc.control.extensions)
    return wire.SerializeToString()


@given(rpcs)
def test_the_size_of_an_rpc_is_that_of_its_protobuf(rpc):
    size = len(encoded(rpc))
    assert rpc_size(rpc) == size
    assert framed_size(rpc, part_sizes(rpc)) == size + varint_size(size)


def test_numbers_have_the_size_of_the_ids_that_they_stand_for():
    simulated = Rpc((), (Message(1, "topic", b"x" * 100, 7),), Control((IHave("topic", (1, 2)),), (IWant((3,)),)))
    peer, number = b"p" * 38, b"i" * 46
    message = Message(number, "topic", b"x" * 100, peer, b"s" * 8, b"g" * 64)
    real = Rpc((), (message,), Control((IHave("topic", (number, number)),), (IWant((number,)),)))
    assert rpc_size(simulated) == len(encoded(real))


@pytest.mark.parametrize(
    ("values", "field", "rule"),
    [
        ({"degree_low": 7}, "degree_low", "must not be above degree (6)"),
        ({"degree_high": 5}, "degree_high", "must not be below degree (6)"),
        ({"degree": -1}, "degree", "must be in 0…"),
        ({"degree": True}, "degree", "must be an integer"),
        ({"degree": 6.0}, "degree", "must be an integer"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms", "must be in 1…"),
        ({"seen_ttl_ms": -5}, "seen_ttl_ms", "must be in 1…"),
        ({"fanout_ttl_ms": -1}, "fanout_ttl_ms", "must be in 0…"),
        ({"history_gossip": 6}, "history_gossip", "must not be above history_length (5)"),
        ({"gossip_targets": "some"}, "gossip_targets", "must be one of select_then_filter, filter_then_select"),
        ({"hello": 1}, "hello", "must be true or false"),
        ({"degre": 6}, "degre", "is not a parameter"),
    ],
)
def test_invalid_values_are_refused_with_the_rule(values, field, rule):
    with pytest.raises(ParameterError) as caught:
        GossipsubParameters.from_mapping(values)
    (violation,) = caught.value.violations
    assert (violation.field, violation.value) == (field, next(iter(values.values())))
    assert rule in violation.rule


def test_all_violations_are_reported_at_once():
    with pytest.raises(ParameterError) as caught:
        GossipsubParameters.from_mapping({"degree": -1, "hello": "no", "nonsense": 1})
    assert {violation.field for violation in caught.value.violations} == {"degree", "hello", "nonsense"}


def test_no_mesh_at_all_is_legal():
    made = GossipsubParameters(degree=0, degree_low=0, degree_high=0, degree_lazy=0)
    assert made.degree_high == 0


@pytest.mark.parametrize("kind", ROUTERS.values(), ids=lambda kind: kind.name)
def test_parameters_are_frozen_and_come_back_from_plain_values(kind):
    for preset in kind.presets.values():
        made = kind.parameters.from_mapping(preset)
        assert kind.parameters.from_mapping(made.to_mapping()) == made
        with pytest.raises(FrozenInstanceError):
            made.hello = True


def test_draws_equal_recorded_values():
    assert mix(1) == 0x5692161D100B05E5
    assert key_of("topic") == key_of(b"topic") == 0x66FE0346A89601B9
    assert key_of(17) == 17
    assert Randomness(1).draw(Purpose.GOSSIP, 2, 3, 4) == 0xA74025A6956A1A33
    assert sample(12345, tuple(range(20)), 6) == [2, 3, 4, 11, 14, 19]
    assert Randomness(1).distinct(5, 100, 7, Purpose.TOPOLOGY, 7) == [44, 38, 29, 50, 47]


def test_all_candidates_are_equally_likely():
    counts = [0] * 20
    randomness = Randomness(3)
    for tick in range(20_000):
        for chosen in sample(randomness.draw(Purpose.GOSSIP, tick), tuple(range(20)), 6):
            counts[chosen] += 1
    expected = 20_000 * 6 / 20
    assert sum((count - expected) ** 2 / expected for count in counts) < 45  # chi-square, 19 degrees, p ~ 0.0007


@given(st.sets(st.integers(0, 1000), max_size=30), st.integers(0, 40), st.integers(0, 1 << 64))
def test_a_sample_is_a_subset_of_the_size_asked_for(candidates, count, state):
    chosen = sample(state, sorted(candidates), count)
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= candidates
    assert len(chosen) == min(count, len(candidates))
