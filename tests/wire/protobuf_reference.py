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

CLASSES = message_classes("pubsub")
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
