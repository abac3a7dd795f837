"""Parts of a score, counters, thresholds, members of a mesh, and what is kept of disconnected peers (gossipsub v1.1).

A score is one observer's opinion of one peer; it is never sent. Parts of a topic, each times its weight:

* SCORE-1: P1, time in mesh: the number of quanta that a peer has been in the mesh, up to a cap; 0 for a peer outside
  of the mesh. Only whole quanta count (go), or also fractions (rust, nim, jvm).
* SCORE-2: P2, first deliveries: how often the peer was the first to send a valid message, up to a cap. The counter
  never exceeds the cap, so that applying it again, as rust does, changes nothing.
* SCORE-3: P3, mesh deliveries: the square of the deficit to a threshold of deliveries, once the peer has been in the
  mesh for long enough. It is squared, so that a peer that is a little slow loses little.
* SCORE-4: P3b, mesh failures: what P3 was when the peer left the mesh, so that leaving and coming back does not help.
* SCORE-5: P4, invalid messages: the square of their number.
* SCORE-6: A topic's sum is multiplied by the topic's weight. Topics without parameters count nothing. A cap bounds
  the sum of all topics from above only, so that good service in some cannot outweigh unlimited harm in others.

Parts of the peer:

* SCORE-7: P5, the application's score of the peer, times its weight.
* SCORE-8: P6, shared addresses: for each address, the square of the number of its peers beyond a threshold.
* SCORE-9: P7, misbehaviour: the square of the count beyond a threshold. Implementations have the threshold; the
  specification squares the whole count.
* SCORE-10: Slow peers: the excess over a threshold, not squared (rust, nim).
* SCORE-11: The total is capped topics + P5 + P6 + P7 + slow peers, in this order. Thresholds are compared with the
  total alone. The score of an unknown peer is 0.

Counters:

* COUNTER-1: A counter of deliveries never grows above its cap: what was earned long ago is forgotten in bounded time.
* COUNTER-2: A decay multiplies the counter; a counter that falls below `decay_to_zero` becomes 0.
* COUNTER-3: Smaller caps hold at once when a topic's parameters change.

When mesh deliveries are expected:

* ACTIVE-1: A peer's deliveries are expected (P3) once it has been in the mesh for longer than the activation time. A
  GRAFT restarts that time. Before its end no peer can have delivered enough.
* ACTIVE-2: A refresh checks that time (go), or every reading of the score (jvm).
* ACTIVE-3: When the peer leaves the mesh, deliveries are expected no longer (rust, js, jvm); with go they are, so
  that the deficit of a peer that is still connected grows until it is grafted again.
* ACTIVE-4: Leaving the mesh with a deficit counts as a failure (P3b). With go, a later PRUNE of the same peer counts
  again; with the other implementations it does not.

Disconnected peers:

* RETAIN-1: A peer with a positive score is forgotten (go, js), or kept like all others (nim, jvm). With retention off
  all are forgotten.
* RETAIN-2: First deliveries of a kept peer are forgotten; it leaves all meshes, which counts as failures (P3b). Its
  addresses continue to count.
* RETAIN-3: A peer is kept for `retain_ms` and forgotten at the first refresh after that. If it returns in time, its
  counters continue; with js they start at 0.
* RETAIN-4: While a peer is disconnected, its counters do not decay, so that a disconnection shortens no penalty; with
  jvm they do.

Thresholds; direct peers are exempt from all of them:

* THRESHOLD-1: Below 0 a peer is pruned from meshes, by a PRUNE without other peers. It is not grafted, its GRAFTs are
  refused, and it is not named to others.
* THRESHOLD-2: Below `gossip` it gets no IHAVE, and its IHAVE and IWANT are ignored.
* THRESHOLD-3: Below `publish` it gets none of our own messages, and is in no fan-out.
* THRESHOLD-4: Below `graylist` its RPCs are ignored.
* THRESHOLD-5: From `accept_exchange` on, the peers that it names in a PRUNE are dialled.
* THRESHOLD-6: A mesh whose median is below `opportunistic_graft` grafts some peers with scores above the median.

Attackers dial into a mesh and deliver little. So upkeep keeps the members with the best scores, and some members that
this node dialled. Rules:

* KEEP-1: A heartbeat prunes members with a negative score, and its PRUNE names no other peers.
* KEEP-2: A mesh that is too large keeps the D_score best; the others that stay are drawn.
* KEEP-3: D_out dialled peers stay, if the mesh has that many. They replace peers that were drawn last and not
  dialled. If fewer than D_out would stay otherwise, js keeps as many dialled peers as the mesh has room for.
* KEEP-4: A mesh with D_low or more members, but fewer than D_out dialled ones, grafts dialled peers up to D_out.
* KEEP-5: Every few heartbeats, a mesh of two or more members with a poor median score grafts a few peers above the
  median, at random (go, rust, js), the first of them (jvm), or the first that are at least as good (nim). So a mesh
  full of idle peers recovers.
* KEEP-6: A full mesh accepts a peer that this node dialled (go, js), while it has too few of them (nim), or never
  (rust).
"""

from __future__ import annotations


def time_in_mesh(mesh_time: int, quantum: int, cap: float, whole: bool) -> float:
    """Return P1 of a member after `mesh_time` microseconds; 0 without a quantum."""
    if quantum <= 0:
        return 0.0
    quanta = float(mesh_time // quantum) if whole else mesh_time / quantum
    return min(quanta, cap)


def deficit_square(deliveries: float, threshold: float) -> float:
    """Return P3 of an active peer; P3b grows by it when the peer leaves the mesh."""
    if deliveries >= threshold:
        return 0.0
    deficit = threshold - deliveries
    return deficit * deficit


def excess(count: float, threshold: float) -> float:
    return count - threshold if count > threshold else 0.0


def excess_square(count: float, threshold: float) -> float:
    beyond = excess(count, threshold)
    return beyond * beyond


def square(count: float) -> float:
    return count * count


def topic_sum(first: float, second: float, third: float, failures: float, invalid: float, weight: float) -> float:
    """Return one topic's part of the score, from P1, P2, P3, P3b and P4 times their weights."""
    return (first + second + third + failures + invalid) * weight


def capped_topics(total: float, cap: float) -> float:
    """Return the capped sum of all topics; a cap of 0 is none."""
    return cap if cap > 0.0 and total > cap else total


def total(topics: float, application: float, addresses: float, misbehaviour: float, slow: float) -> float:
    """Return the score, from capped topics and the peer's parts times their weights."""
    return topics + application + addresses + misbehaviour + slow


def counted(counter: float, by: float, cap: float) -> float:
    return min(counter + by, cap)


def decayed(counter: float, decay: float, zero: float) -> float:
    left = counter * decay
    return 0.0 if left < zero else left


def is_active(mesh_time: int, activation: int) -> bool:
    return mesh_time > activation


def stays_active(active: bool, deficit_after_prune: bool) -> bool:
    """Return True if deliveries are expected after the peer has left the mesh (ACTIVE-3)."""
    return active and deficit_after_prune


def counts_as_failure(active: bool, member: bool, second_prune_counts: bool) -> bool:
    """Return True if a deficit at a PRUNE counts for P3b (ACTIVE-4)."""
    return active and (member or second_prune_counts)


def is_kept(score: float, positive_too: bool, retain: int) -> bool:
    return retain > 0 and (positive_too or score <= 0.0)


def is_forgotten(now: int, until: int) -> bool:
    return now > until


def may_be_in_mesh(score: float) -> bool:
    return score >= 0.0


def may_gossip(score: float, gossip: float) -> bool:
    return score >= gossip


def gets_published(score: float, publish: float) -> bool:
    return score >= publish


def is_graylisted(score: float, graylist: float) -> bool:
    return score < graylist


def exchange_is_accepted(score: float, accept_exchange: float) -> bool:
    return score >= accept_exchange


def mesh_is_poor(median: float, opportunistic_graft: float) -> bool:
    return median < opportunistic_graft


ALWAYS, QUOTA, NEVER = range(3)
"""When a full mesh accepts dialled peers (KEEP-6). QUOTA: while it has too few of them."""
UPPER, LOWER, MEAN = range(3)
"""The median of an even number of scores: one of the two in the middle, or their mean."""


def dialled_to_keep(kept: int, gone: int, degree_out: int, up_to: int) -> int:
    """Return how many of `gone` dialled members stay in place of others, if only `kept` would stay (KEEP-3).

    `up_to` is D_out or D.
    """
    return min(up_to - kept, gone) if kept < degree_out else 0


def dialled_to_graft(size: int, dialled: int, low: int, degree_out: int) -> int:
    """Return how many dialled peers a mesh grafts (KEEP-4)."""
    return max(0, degree_out - dialled) if size >= low else 0


def opportunity_is_due(tick: int, every: int, size: int) -> bool:
    """Return True if a heartbeat checks the median of a mesh."""
    return every > 0 and tick % every == 0 and size > 1


def median(lower: float, upper: float, rule: int) -> float:
    """Return the median from the two scores in the middle; for an odd number they are equal."""
    if rule == MEAN:
        return (lower + upper) / 2.0
    return lower if rule == LOWER else upper


def enters_a_full_mesh(outbound: bool, rule: int, dialled: int, degree_out: int) -> bool:
    if not outbound or rule == NEVER:
        return False
    return rule == ALWAYS or dialled < degree_out
