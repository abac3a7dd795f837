"""The pubsub RPC for the protobuf library, to compare with the hand-written codec, and strategies for RPCs."""

from __future__ import annotations

from hypothesis import strategies as st
from protobuf_classes import message_classes

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

SCHEMA = {
    "Subscription": "subscribe:bool=1 topic:string=2 requests:bool=3 supports:bool=4",
    "Message": "source:bytes=1 data:bytes=2 seqno:bytes=3 topic:string=4 signature:bytes=5 key:bytes=6",
    "IHave": "topic:string=1 ids:bytes*=2",
    "IWant": "ids:bytes*=1",
    "Graft": "topic:string=1",
    "PeerInfo": "peer:bytes=1 record:bytes=2",
    "Prune": "topic:string=1 peers:PeerInfo*=2 backoff_s:uint64=3",
    "IDontWant": "ids:bytes*=1",
    "Features": "partial_messages:bool=10 test_extension:bool=6492434",
    "Partial": "topic:string=1 group:bytes=2 parts:bytes=3 metadata:bytes=4",
    "Control": "ihave:IHave*=1 iwant:IWant*=2 graft:Graft*=3 prune:Prune*=4 idontwant:IDontWant*=5 "
    f"features:Features=6 extensions:bytes*={EXPERIMENTAL_FIELDS + 1000}",
    "ExtensionTest": "",
    "Rpc": "subscriptions:Subscription*=1 messages:Message*=2 control:Control=3 partial:Partial=10 "
    "test:ExtensionTest=6492434",
}
"""The types and numbers of the specification, with the names that the fields have in `core/language/rpc.py`."""
CLASSES = message_classes("pubsub", SCHEMA)
ReferenceRpc = CLASSES["Rpc"]


def to_reference(part):
    """Return a part of `core/language/rpc.py` as the reference message with the same name."""
    made = CLASSES[type(part).__name__]()
    for field in made.DESCRIPTOR.fields:
        value = _value(part, field.name)
        if isinstance(value, tuple):
            getattr(made, field.name).extend(to_reference(each) if field.message_type else each for each in value)
        elif value is not None and field.message_type:
            getattr(made, field.name).CopyFrom(to_reference(value))
            getattr(made, field.name).SetInParent()
        elif value is not None:
            setattr(made, field.name, value)
    return made


def _value(part, name):
    """Return the value of a field of the reference message; None if the field is left out."""
    match part, name:
        case Subscription(), "requests":
            return part.partial is PartialUse.REQUESTS or None
        case Subscription(), "supports":
            return part.partial is not PartialUse.NONE or None
        case Features(), _:
            return getattr(part, name) or None
        case Control(), "features":
            return part.features[0] if part.features else None
        case Control(), "extensions":
            return tuple(extension.payload for extension in part.extensions)
        case _:
            return getattr(part, name)


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
