"""The rules of scores: parts, counters, disconnected peers, thresholds, and upkeep of a mesh (gossipsub v1.1).

A score is the opinion that one router has of one peer; it is never sent. The score has parts for each topic. Each
part is multiplied by its weight:

* SCORE-1: P1, time in mesh: the number of quanta (units of time) that a peer has been in the mesh, up to a cap; 0 for
  a peer that is not in the mesh. Only whole quanta count (go), or also fractions (rust, js, nim, jvm).
* SCORE-2: P2, first deliveries: the number of valid messages that the peer was the first to send, up to a cap. The
  counter never exceeds the cap, so it does not matter that rust applies the cap a second time.
* SCORE-3: P3, mesh deliveries: the number of deliveries that the peer lacks to a threshold, squared. P3 is 0 until
  the peer has been in the mesh for long enough. Because of the square, a peer that is a little slow loses little.
* SCORE-4: P3b, mesh failures: a counter to which P3 is added when the peer leaves the mesh. So the peer gains nothing
  by leaving and coming back.
* SCORE-5: P4, invalid messages: the square of their number.
* SCORE-6: The sum of a topic's parts is multiplied by the topic's weight. A topic without parameters adds nothing to
  the score. A cap bounds the sum of all topics from above only, so that good service in some topics cannot outweigh
  unlimited harm in others.

The other parts belong to the peer, not to a topic:

* SCORE-7: P5, the application's score of the peer, times the weight of P5.
* SCORE-8: P6, shared addresses: at each address of the peer, the number of peers beyond a threshold, squared.
  The squares of all its addresses are added.
* SCORE-9: P7, misbehaviour: the excess of a count over a threshold, squared. Implementations have the threshold; the
  specification squares the whole count.
* SCORE-10: Slow peers: the number of messages beyond a threshold that could not be sent, not squared (rust, nim).
* SCORE-11: The total is capped topics + P5 + P6 + P7 + slow peers, in this order. Thresholds are compared with the
  total alone. The score of an unknown peer is 0.

Counters:

* COUNTER-1: A counter of deliveries never grows above its cap. So the effect of old deliveries ends in bounded time.
* COUNTER-2: A decay multiplies the counter; a counter that falls below `decay_to_zero` becomes 0.
* COUNTER-3: When a topic's parameters change, smaller caps lower the counters at once.

P3 of a peer applies while mesh deliveries of the peer are expected:

* ACTIVE-1: Deliveries of a peer are expected once the peer has been in the mesh for longer than the activation time.
  A GRAFT restarts that time. A member that has just entered cannot have delivered enough yet.
* ACTIVE-2: The time in the mesh is compared with the activation time at a refresh (go), or whenever the score is read
  (jvm).
* ACTIVE-3: When the peer leaves the mesh, deliveries are no longer expected (rust, js, jvm). With go they still are,
  so that P3 of a peer that is still connected grows until the peer is grafted again.
* ACTIVE-4: Leaving the mesh with too few deliveries is a failure (P3b). With go, a later PRUNE of the same peer is
  another failure; with the other implementations it is none.

Disconnected peers:

* RETAIN-1: The counters of a peer with a positive score are removed (go, js), or kept like those of all other peers
  (nim, jvm). If `retain_ms` is 0, the counters of all peers are removed.
* RETAIN-2: First deliveries of a kept peer become 0. The peer leaves all meshes, which may be failures (P3b). P6
  still counts the peer at its addresses.
* RETAIN-3: A peer is kept for `retain_ms` and removed at the first refresh after that. If the peer returns in time,
  its counters continue; with js they start at 0.
* RETAIN-4: While a peer is disconnected, its counters do not decay, so that a disconnection shortens no penalty; with
  jvm they do.

Thresholds (STANDING-1 has the exceptions for direct peers):

* THRESHOLD-1: A peer with a score below 0 is pruned from meshes, by a PRUNE that names no other peers (jvm: that
  names some). It is not grafted, its GRAFTs are refused, and no PRUNE names it.
* THRESHOLD-2: A peer below `gossip` gets no IHAVE, and its IHAVE and IWANT are ignored.
* THRESHOLD-3: A peer below `publish` gets none of the router's own messages, unless it is a mesh member, or in a
  fan-out until the next heartbeat, which removes it there.
* THRESHOLD-4: The RPCs of a peer below `graylist` are ignored (JUDGE-1).
* THRESHOLD-5: If a peer with a score of `accept_exchange` or more names peers in a PRUNE, the router dials them.
* THRESHOLD-6: A mesh whose median score is below `opportunistic_graft` grafts some peers with better scores (KEEP-5).

Attackers dial peers to enter their meshes, and deliver little. So upkeep keeps the members with the best scores, and
some dialled members, that is, members that this node dialled. Rules:

* KEEP-1: A heartbeat prunes members with a negative score, and its PRUNE names no other peers (jvm: names some).
* KEEP-2: A mesh that is too large keeps the D_score members with the best scores; the others that stay are drawn.
* KEEP-3: D_out dialled members stay, if the mesh has that many. They replace members that were drawn last and not
  dialled. If fewer than D_out would stay otherwise, js keeps as many dialled members as the mesh has room for.
* KEEP-4: A mesh with D_low or more members, but fewer than D_out dialled ones, grafts dialled peers up to D_out.
* KEEP-5: Every few heartbeats, a mesh of two or more members with a low median score grafts a few peers with better
  scores: random peers above the median (go, rust, js), the first ones above the median in the order of ids (jvm), or
  the first ones at or above it (nim). So a mesh that is full of idle peers recovers.
* KEEP-6: A full mesh always accepts a GRAFT of a peer that this node dialled (go, js), accepts it only while fewer
  than D_out members are dialled (nim), or never accepts it (unreleased rust).
"""

from __future__ import annotations


def time_in_mesh(mesh_time: int, quantum: int, cap: float, whole: bool) -> float:
    """Return P1 of a member after `mesh_time` microseconds in the mesh; 0 if `quantum` is 0."""
    if quantum <= 0:
        return 0.0
    quanta = float(mesh_time // quantum) if whole else mesh_time / quantum
    return min(quanta, cap)


def deficit_square(deliveries: float, threshold: float) -> float:
    """Return P3 of a peer whose deliveries are expected. When the peer leaves the mesh, P3b grows by this number."""
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
    """Return one topic's part of the score. The first five arguments are P1, P2, P3, P3b and P4 times their
    weights."""
    return (first + second + third + failures + invalid) * weight


def capped_topics(total: float, cap: float) -> float:
    """Return `total`, the sum of all topics, or `cap` if that is less; a cap of 0 is no cap."""
    return cap if cap > 0.0 and total > cap else total


def total(topics: float, application: float, addresses: float, misbehaviour: float, slow: float) -> float:
    """Return the score. `topics` is the capped sum; the other arguments are parts times their weights."""
    return topics + application + addresses + misbehaviour + slow


def counted(counter: float, by: float, cap: float) -> float:
    return min(counter + by, cap)


def decayed(counter: float, decay: float, zero: float) -> float:
    left = counter * decay
    return 0.0 if left < zero else left


def is_active(mesh_time: int, activation: int) -> bool:
    return mesh_time > activation


def stays_active(active: bool, deficit_after_prune: bool) -> bool:
    """Return True if deliveries of a peer are still expected after it has left the mesh (ACTIVE-3)."""
    return active and deficit_after_prune


def counts_as_failure(active: bool, member: bool, second_prune_counts: bool) -> bool:
    """Return True if P3b grows at a PRUNE (ACTIVE-4). `active`: deliveries of the peer are expected."""
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
"""Rules by which a full mesh accepts dialled peers (KEEP-6): always, while fewer than D_out members are dialled, or
never."""
UPPER, LOWER, MEAN = range(3)
"""Rules for the median of an even number of scores: the upper or the lower one of the two in the middle, or their
mean."""


def dialled_to_keep(kept: int, gone: int, degree_out: int, up_to: int) -> int:
    """Return the number of dialled members that stay in place of members that are not dialled (KEEP-3).

    Without KEEP-3, `kept` dialled members would stay, and `gone` dialled members would be pruned. `up_to` is D_out or
    D, the number of dialled members that shall stay.
    """
    return min(up_to - kept, gone) if kept < degree_out else 0


def dialled_to_graft(size: int, dialled: int, low: int, degree_out: int) -> int:
    """Return the number of dialled peers that a mesh of `size` members grafts (KEEP-4); `dialled` members are
    dialled."""
    return max(0, degree_out - dialled) if size >= low else 0


def opportunity_is_due(tick: int, every: int, size: int) -> bool:
    """Return True if heartbeat number `tick` compares the median score of a mesh with the threshold (KEEP-5)."""
    return every > 0 and tick % every == 0 and size > 1


def median(lower: float, upper: float, rule: int) -> float:
    """Return the median, from the two scores in the middle. If the number of scores is odd, both arguments are the
    same."""
    if rule == MEAN:
        return (lower + upper) / 2.0
    return lower if rule == LOWER else upper


def enters_a_full_mesh(outbound: bool, rule: int, dialled: int, degree_out: int) -> bool:
    if not outbound or rule == NEVER:
        return False
    return rule == ALWAYS or dialled < degree_out
