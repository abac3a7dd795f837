"""The pubsub RPC for the protobuf library, the reference that the hand-written codec is held to; and RPCs to try."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import strategies as st

from hearsay.core.language.rpc import (
    EXPERIMENTAL_FIELDS,
    Control,
    Extension,
    ExtensionTest,
    Features,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Message,
    Partial,
    PartialUse,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)

FIELD = descriptor_pb2.FieldDescriptorProto
TEXT, BYTES, MESSAGE = FIELD.TYPE_STRING, FIELD.TYPE_BYTES, FIELD.TYPE_MESSAGE
SCHEMA = {
    "SubOpts": [
        (1, "subscribe", FIELD.TYPE_BOOL, ""),
        (2, "topicid", TEXT, ""),
        (3, "requestsPartial", FIELD.TYPE_BOOL, ""),
        (4, "supportsSendingPartial", FIELD.TYPE_BOOL, ""),
    ],
    "Message": [
        (1, "from_", BYTES, ""),
        (2, "data", BYTES, ""),
        (3, "seqno", BYTES, ""),
        (4, "topic", TEXT, ""),
        (5, "signature", BYTES, ""),
        (6, "key", BYTES, ""),
    ],
    "IHave": [(1, "topicID", TEXT, ""), (2, "messageIDs", BYTES, "*")],
    "IWant": [(1, "messageIDs", BYTES, "*")],
    "Graft": [(1, "topicID", TEXT, "")],
    "PeerInfo": [(1, "peerID", BYTES, ""), (2, "signedPeerRecord", BYTES, "")],
    "Prune": [(1, "topicID", TEXT, ""), (2, "peers", MESSAGE, "PeerInfo"), (3, "backoff", FIELD.TYPE_UINT64, "")],
    "IDontWant": [(1, "messageIDs", BYTES, "*")],
    "Features": [
        (10, "partialMessages", FIELD.TYPE_BOOL, ""),
        (6492434, "testExtension", FIELD.TYPE_BOOL, ""),
    ],
    "Partial": [
        (1, "topicID", TEXT, ""),
        (2, "groupID", BYTES, ""),
        (3, "parts", BYTES, ""),
        (4, "metadata", BYTES, ""),
    ],
    "Control": [
        (1, "ihave", MESSAGE, "IHave"),
        (2, "iwant", MESSAGE, "IWant"),
        (3, "graft", MESSAGE, "Graft"),
        (4, "prune", MESSAGE, "Prune"),
        (5, "idontwant", MESSAGE, "IDontWant"),
        (6, "features", MESSAGE, "Features?"),
        (EXPERIMENTAL_FIELDS + 1000, "extension", BYTES, "*"),
    ],
    "Test": [],
    "RPC": [
        (1, "subscriptions", MESSAGE, "SubOpts"),
        (2, "publish", MESSAGE, "Message"),
        (3, "control", MESSAGE, "Control?"),
        (10, "partial", MESSAGE, "Partial?"),
        (6492434, "testExtension", MESSAGE, "Test?"),
    ],
}


def _rpc_type():
    file = descriptor_pb2.FileDescriptorProto(name="pubsub.proto", package="pubsub", syntax="proto2")
    for name, declared in SCHEMA.items():
        message = file.message_type.add(name=name)
        for number, field, kind, of in declared:
            repeated = of and not of.endswith("?")
            label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if kind == MESSAGE:
                added.type_name = f".pubsub.{of.rstrip('?')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pubsub.RPC"))


ReferenceRpc = _rpc_type()


def to_reference(rpc):
    made = ReferenceRpc()
    for change in rpc.subscriptions:
        flags = {PartialUse.REQUESTS: {"requestsPartial": True}, PartialUse.NONE: {}}.get(change.partial, {})
        if change.partial is not PartialUse.NONE:
            flags["supportsSendingPartial"] = True
        made.subscriptions.add(subscribe=change.subscribe, topicid=change.topic, **flags)
    for message in rpc.messages:
        made.publish.add(**reference_fields(message))
    if rpc.control is not None:
        made.control.SetInParent()
        for ihave in rpc.control.ihave:
            made.control.ihave.add(topicID=ihave.topic, messageIDs=ihave.ids)
        for iwant in rpc.control.iwant:
            made.control.iwant.add(messageIDs=iwant.ids)
        for graft in rpc.control.graft:
            made.control.graft.add(topicID=graft.topic)
        for prune in rpc.control.prune:
            added = made.control.prune.add(topicID=prune.topic, backoff=prune.backoff_s)
            for known in prune.peers:
                added.peers.add(peerID=known.peer, signedPeerRecord=known.record)
        for idontwant in rpc.control.idontwant:
            made.control.idontwant.add(messageIDs=idontwant.ids)
        made.control.extension.extend(extension.payload for extension in rpc.control.extensions)
        for features in rpc.control.features:
            made.control.features.SetInParent()
            if features.partial_messages:
                made.control.features.partialMessages = True
            if features.test_extension:
                made.control.features.testExtension = True
    if rpc.test is not None:
        made.testExtension.SetInParent()
    if rpc.partial is not None:
        partial = rpc.partial
        fields = {"groupID": partial.group, "parts": partial.parts, "metadata": partial.metadata}
        given_fields = {name: value for name, value in fields.items() if value is not None}
        made.partial.CopyFrom(type(made.partial)(topicID=partial.topic, **given_fields))
    return made


def reference_fields(message):
    fields = {
        "from_": message.source,
        "data": message.data,
        "seqno": message.seqno,
        "topic": message.topic,
        "signature": message.signature,
        "key": message.key,
    }
    return {name: value for name, value in fields.items() if value is not None}


texts = st.text(max_size=20)
blobs = st.binary(max_size=200)
maybe = st.none() | blobs
peer_ids = st.binary(min_size=32, max_size=32).map(lambda digest: b"\x12\x20" + digest)
id_lists = st.lists(blobs, max_size=4).map(tuple)


def some(strategy, most=3):
    return st.lists(strategy, max_size=most).map(tuple)


prunes = st.builds(
    Prune, texts, st.none() | st.integers(0, (1 << 64) - 1), some(st.builds(PeerInfo, peer_ids, maybe))
)
controls = st.builds(
    Control,
    some(st.builds(IHave, texts, id_lists)),
    some(st.builds(IWant, id_lists)),
    some(st.builds(Graft, texts)),
    some(prunes),
    some(st.builds(Extension, st.just(EXPERIMENTAL_FIELDS + 1000), blobs)),
    some(st.builds(IDontWant, id_lists)),
    some(st.builds(Features, st.booleans(), st.booleans()), 1),
)
messages = st.builds(Message, st.just(b"id"), texts, blobs, maybe, maybe, maybe, maybe)
subscriptions = st.builds(Subscription, texts, st.just(True), st.sampled_from(PartialUse)) | st.builds(
    Subscription, texts, st.just(False)
)
partials = st.builds(Partial, texts, blobs, maybe, maybe)
tests = st.none() | st.just(ExtensionTest())
rpcs = st.builds(Rpc, some(subscriptions), some(messages), st.none() | controls, st.none() | partials, tests)
