"""A strategy for any RPC, made from the declarations of its parts, so that a field added later is drawn, too."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from hearsay.core.language.rpc import FIRST_EXTENSION_FIELD, Control, PeerInfo, Rpc, Subscription
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.peer_id import peer_id_of

PEERS = [peer_id_of(PrivateKey.generate().public) for _ in range(3)]
TOPICS = st.sampled_from(["news", "other", "weather"])
BYTES = st.binary(min_size=1, max_size=12)
SINGLE = {(Control, "features"): 1}
"""Fields with a tuple of which protobuf has at most one element."""
OF_FIELD: dict[tuple[type, str], SearchStrategy[object]] = {
    (Rpc, "messages"): st.just(()),
    (PeerInfo, "peer"): st.sampled_from(PEERS),
    (PeerInfo, "record"): st.none() | BYTES,
    (Control, "episub"): st.just(()),
}
"""Strategies for single fields. Messages are added by the test, which may sign them; only episub peers send its
parts.
"""


def any_of(declared: type) -> SearchStrategy[object]:
    """Return a strategy for values of a dataclass of `core/language/rpc.py`."""
    hints = get_type_hints(declared)
    drawn = {each.name: _value(declared, each.name, hints[each.name]) for each in fields(declared)}
    built = st.builds(declared, **drawn)
    if declared is Subscription:  # an UNSUBSCRIBE has no field for partial messages
        return built.map(lambda said: said if said.subscribe else Subscription(said.topic, False))
    if declared is Control:
        return built.filter(lambda control: control.count() > 0)
    return built


def _value(declared: type, name: str, hint: object) -> SearchStrategy[object]:
    known = OF_FIELD.get((declared, name))
    if known is not None:
        return known
    if name in ("topic", "group"):
        return TOPICS if name == "topic" else BYTES
    if name == "field":
        return st.integers(FIRST_EXTENSION_FIELD, FIRST_EXTENSION_FIELD + 9)
    options = get_args(hint)
    if getattr(hint, "__origin__", None) is tuple:
        element = BYTES if "ids" in name else _value(declared, "", options[0])
        return st.lists(element, max_size=SINGLE.get((declared, name), 3)).map(tuple)
    if options:
        return st.one_of(*(_value(declared, "", option) for option in options))
    if hint is type(None):
        return st.none()
    if hint is int:
        return st.integers(0, 1 << 40)
    if hint is bool:
        return st.booleans()
    if hint is bytes:
        return BYTES
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return any_of(hint)
    if isinstance(hint, type):
        return st.sampled_from(list(hint))
    raise TypeError(f"no values are known for {declared.__name__}.{name}: {hint}")


RPCS = any_of(Rpc)
