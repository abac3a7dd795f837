"""The fastest path beside the one that was taken: how much sooner, where they part, and why it was not taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hearsay.explain import reasons
from hearsay.explain.books import Copy, Fate
from hearsay.explain.connections import TooManyConnections
from hearsay.explain.fastest import FastHop, FastPath, Network, fastest_path
from hearsay.explain.mesh_links import mesh_links
from hearsay.explain.path import Path
from hearsay.explain.reasons import Cause
from hearsay.explain.story import Story


@dataclass(frozen=True, slots=True)
class Shortcut:
    path: FastPath
    sooner_us: int
    """0 where the first copy came by the fastest path."""
    parts_at: FastHop | None
    """The first hop on which the message did not go so; None where it went so."""
    why: Cause | None
    """Why it did not."""


def shortcut_of(story: Story, path: Path) -> Shortcut | str:
    """Or why there is none to tell."""
    if not path.hops:
        return "the node published it itself"
    if not story.books.published:
        return "nobody knows when it was published"
    if story.in_parts:
        return "messages of this topic go in parts, which their receivers ask for"
    try:
        network = Network(story, path.delivered_us)
    except TooManyConnections:
        return "the run has more connections than are held in memory"
    found = fastest_path(network, path.node, path.delivered_us)
    if found is None:
        return "the trace does not tell how the message came here from its publisher"
    sooner_us = path.delivered_us - found.arrived_us
    if not sooner_us:
        return Shortcut(found, 0, None, None)
    parting = next((hop for hop in found.hops if not _went_so(story, hop)), None)
    if parting is None:
        return Shortcut(found, sooner_us, None, None)
    return Shortcut(found, sooner_us, parting, _why(story, parting, _copy_over(story, parting)))


def _went_so(story: Story, hop: FastHop) -> bool:
    """A copy took this hop as fast as that, and nothing came of it sooner."""
    copy = _copy_over(story, hop)
    return copy is not None and copy.fate is Fate.ARRIVED and (copy.arrived_us or 0) <= hop.arrived_us


def _copy_over(story: Story, hop: FastHop) -> Copy | None:
    copies = story.books.copies
    there = copies.to(hop.receiver)
    found = np.flatnonzero(copies.sender[there] == hop.sender)
    return copies.at(there.start + int(found[0])) if len(found) else None


def _why(story: Story, hop: FastHop, copy: Copy | None) -> Cause:
    if copy is not None and copy.fate is not Fate.ARRIVED:
        return reasons.of_fate(copy.fate)
    if copy is not None:
        late_us = (copy.sent_us or hop.sent_us) - hop.sent_us
        where = "it was sent later" if 2 * late_us > (copy.arrived_us or 0) - hop.arrived_us else "it took longer"
        return Cause(
            f"{where}: a copy went there and arrived {_ms((copy.arrived_us or 0) - hop.arrived_us)} later", None
        )
    links = mesh_links(story.run, story.books.topic, [hop.sender], hop.sent_us)
    receiver, sender = story.node(hop.receiver), story.node(hop.sender)
    if links.any_mesh and not links.holds(hop.sender, hop.receiver, hop.sent_us):
        if links.has_tree(hop.sender):
            return Cause(f"{sender} had no eager link to {receiver}", "TREE-1")
        return Cause(f"{receiver} was not in the mesh of {sender}", "GOSSIP-1")
    deliveries = story.books.deliveries
    there = deliveries.of(hop.receiver)
    if there and int(deliveries.time_us[there.start]) <= hop.arrived_us:
        return Cause(f"{receiver} had it already", None)
    return Cause(f"{sender} did not send it there", None)


def _ms(us: int) -> str:
    return f"{us / 1000:,.1f} ms"
