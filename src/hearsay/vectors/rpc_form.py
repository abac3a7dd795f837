"""RPCs as vectors have them: parts by kind, messages by name, and no order where the protocol has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hearsay.core.language.identifiers import MessageId
from hearsay.core.language.rpc import (
    Control,
    Graft,
    IDontWant,
    IHave,
    IWant,
    Message,
    PeerInfo,
    Prune,
    Rpc,
    Subscription,
)
from hearsay.vectors.shapes import Misshapen


def to_rpc(form: Mapping[str, Any], messages: Mapping[str, Message]) -> Rpc:
    subscriptions = [Subscription(topic, True) for topic in form.get("subscribe", ())]
    subscriptions += [Subscription(topic, False) for topic in form.get("unsubscribe", ())]
    return Rpc(
        tuple(subscriptions),
        tuple(named(name, messages) for name in form.get("messages", ())),
        Control(
            ihave=tuple(IHave(topic, tuple(ids)) for topic, ids in form.get("ihave", {}).items()),
            iwant=(IWant(tuple(form["iwant"])),) if form.get("iwant") else (),
            graft=tuple(map(Graft, form.get("graft", ()))),
            prune=tuple(_prune(topic, said) for topic, said in form.get("prune", {}).items()),
            idontwant=(IDontWant(tuple(form["idontwant"])),) if form.get("idontwant") else (),
        ),
    )


def named(name: str, messages: Mapping[str, Message]) -> Message:
    if name not in messages:
        raise Misshapen("messages", f"{name!r} is missing, which a step names")
    return messages[name]


def _prune(topic: str, said: Mapping[str, Any]) -> Prune:
    return Prune(topic, said.get("backoff"), tuple(map(PeerInfo, said.get("peers", ()))))


def to_form(rpcs: Iterable[Rpc]) -> dict[str, Any]:
    """All that these say, together."""
    subscribe: set[str] = set()
    unsubscribe: set[str] = set()
    messages: set[str] = set()
    ihave: dict[str, set[str]] = {}
    iwant: set[str] = set()
    graft: set[str] = set()
    prune: dict[str, Any] = {}
    idontwant: set[str] = set()
    for rpc in rpcs:
        for change in rpc.subscriptions:
            (subscribe if change.subscribe else unsubscribe).add(str(change.topic))
        messages |= {str(message.id) for message in rpc.messages}
        control = rpc.control or Control()
        for part in control.ihave:
            ihave.setdefault(str(part.topic), set()).update(_texts(part.ids))
        iwant.update(*(_texts(part.ids) for part in control.iwant))
        graft |= {str(part.topic) for part in control.graft}
        prune |= {str(part.topic): _said(part) for part in control.prune}
        idontwant.update(*(_texts(part.ids) for part in control.idontwant))
    named_ids = {topic: sorted(ids) for topic, ids in sorted(ihave.items())}
    found: dict[str, Any] = {
        "subscribe": sorted(subscribe), "unsubscribe": sorted(unsubscribe), "messages": sorted(messages),
        "ihave": named_ids, "iwant": sorted(iwant), "graft": sorted(graft), "prune": dict(sorted(prune.items())),
        "idontwant": sorted(idontwant),
    }  # fmt: skip
    return {kind: parts for kind, parts in found.items() if parts}


def _texts(ids: Iterable[MessageId]) -> set[str]:
    return set(map(str, ids))


def _said(prune: Prune) -> dict[str, Any]:
    backoff = {} if prune.backoff_s is None else {"backoff": prune.backoff_s}
    return backoff | ({"peers": sorted(str(each.peer) for each in prune.peers)} if prune.peers else {})


def sorted_form(form: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says in any order, in the order in which `to_form` has it; what is empty is not there."""
    return {kind: _sorted(parts) for kind, parts in form.items() if parts}


def _sorted(parts: Any) -> Any:
    if isinstance(parts, Mapping):
        return {str(name): _sorted(each) for name, each in parts.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return sorted(parts) if isinstance(parts, list) else parts  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
