"""The parts of a score, and how they add up (gossipsub v1.1, "The score function").

A score is one observer's opinion of one peer; it is never sent. Parts of a topic, each times its weight:

* SCORE-1: P1, time in mesh: the quanta a peer has been in the mesh, up to a cap; nothing outside of it. Whole quanta
  (go), or with their fractions (rust, nim, jvm).
* SCORE-2: P2, first deliveries: how often the peer was the first to bring a valid message, up to a cap. The counter
  never is above it, so that reading it through the cap once more, as rust does, changes nothing.
* SCORE-3: P3, mesh deliveries: the square of what is missing to a threshold of deliveries, once the peer has been in
  the mesh for long enough. Squares, because a peer that is a little slow is no attacker.
* SCORE-4: P3b, mesh failures: what P3 was when the peer left the mesh, so that leaving and coming back does not help.
* SCORE-5: P4, invalid messages: the square of their number.
* SCORE-6: A topic's sum counts times the topic's weight. Topics without parameters count nothing. A cap bounds the
  sum of all topics from above only, so that good service somewhere cannot outweigh any amount of harm.

Parts of the peer:

* SCORE-7: P5, the application's own opinion, times its weight.
* SCORE-8: P6, shared addresses: for each address the square of the peers there beyond a threshold.
* SCORE-9: P7, misbehaviour: the square of the count beyond a threshold. The threshold is the implementations'; the
  specification squares the count.
* SCORE-10: Slow peers: what is beyond a threshold, not squared (rust, nim).
* SCORE-11: The total is capped topics + P5 + P6 + P7 + slow peers, in this order. Thresholds look at it alone.
  Unknown peers have 0.
"""

from __future__ import annotations


def time_in_mesh(mesh_time: int, quantum: int, cap: float, whole: bool) -> float:
    """P1 of a member after so many microseconds. Without a quantum there is none."""
    if quantum <= 0:
        return 0.0
    quanta = float(mesh_time // quantum) if whole else mesh_time / quantum
    return min(quanta, cap)


def deficit_square(deliveries: float, threshold: float) -> float:
    """P3 of an active peer, and what P3b grows by when it leaves the mesh."""
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
    """One topic's part of the score, from P1, P2, P3, P3b and P4 times their weights."""
    return (first + second + third + failures + invalid) * weight


def capped_topics(total: float, cap: float) -> float:
    """The topics' sum; a cap of 0 is none."""
    return cap if cap > 0.0 and total > cap else total


def total(topics: float, application: float, addresses: float, misbehaviour: float, slow: float) -> float:
    """The score, from capped topics and the peer's parts times their weights."""
    return topics + application + addresses + misbehaviour + slow
