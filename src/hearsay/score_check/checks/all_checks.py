"""All checks, in the order of their output. Their ids are part of the interface."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from hearsay.score_check.checks import on_silence, on_thresholds, on_traffic
from hearsay.score_check.findings import Check, Severity

_NOTE, _WARNING, _ERROR = Severity

CHECKS = (
    Check("silence-outweighed", _ERROR, "deliveries are scored, and other topics outweigh silence in this "
          "one: a peer that forwards nothing in it is never pruned (CVE-2022-47547)", on_silence.outweighed),
    Check("silence-in-many", _WARNING, "how many topics a peer can be silent in at once and keep a score of 0, with "
          "topics among them whose deliveries are scored", on_silence.in_many),
    Check("silence-nowhere-expected", _WARNING, "deliveries are scored in no topic: silence is free everywhere",
          on_silence.nowhere_expected),
    Check("silence-not-expected", _NOTE, "deliveries of a topic are not scored, so silence in it costs nothing",
          on_silence.not_expected),
    Check("topic-unscored", _NOTE, "a topic that is there has no parameters", on_silence.unscored),
    Check("time-outweighs-silence", _WARNING, "time in a topic's mesh gives more than silence in it costs",
          on_silence.time_outweighs),
    Check("silence-graylists", _WARNING, "silence in one topic alone is below graylist, so a bad link is an attack",
          on_silence.graylists),
    Check("failure-not-scored", _WARNING, "deliveries are scored and leaving the mesh is not (P3b), so silent peers "
          "come back", on_silence.failure_unscored),
    Check("failure-fades", _WARNING, "mesh failures are forgotten before a backoff ends", on_silence.failure_fades),
    Check("window-mirrors", _WARNING, "copies count for as long as a round trip: a peer gets credit for "
          "echoing a message", on_silence.mirrors),
    Check("threshold-out-of-reach", _ERROR, "the cap of mesh deliveries, after a refresh, is below what is expected",
          on_traffic.out_of_reach),
    Check("idle-prunes", _ERROR, "the topic's traffic is so little that members that deliver all of it are pruned",
          on_traffic.idle_prunes),
    Check("idle-costs", _WARNING, "the topic's traffic is so little that members that are first with their share "
          "have a deficit", on_traffic.idle_costs),
    Check("pause-prunes", _WARNING, "the traffic is enough on average, and not over a usual pause",
          on_traffic.pause_prunes),
    Check("activation-early", _WARNING, "deliveries are expected before a new member can make them",
          on_traffic.activation_is_early),
    Check("traffic-unknown", _NOTE, "deliveries are expected in a topic whose traffic is not known",
          on_traffic.unknown),
    Check("invalid-unpunished", _ERROR, "invalid messages cost nothing", on_traffic.invalid_unpunished),
    Check("invalid-cheap", _WARNING, "it takes more than ten invalid messages at once until a peer at its best is "
          "below 0", on_traffic.invalid_cheap),
    Check("invalid-forgotten", _ERROR, "an invalid message at every heartbeat never adds up to a score below 0",
          on_traffic.invalid_never_adds_up),
    Check("misbehaviour-unpunished", _WARNING, "broken promises and GRAFTs in a backoff cost nothing",
          on_traffic.misbehaviour_unpunished),
    Check("misbehaviour-forgotten", _WARNING, "as many broken promises as there can be at every heartbeat never "
          "add up to a score below 0",
          on_traffic.misbehaviour_never_adds_up),
    Check("addresses-unpunished", _NOTE, "peers that share an address lose nothing", on_traffic.addresses_unpunished),
    Check("address-of-household", _NOTE, "two peers at one address are punished", on_traffic.address_is_a_household),
    Check("offence-cheap", _WARNING, "it takes more than a hundred GRAFTs in a backoff, or peers at one address, "
          "until a peer at its best is below 0", on_traffic.patience),
    Check("forgotten-in-backoff", _WARNING, "scores of peers that go are kept for less than a backoff lasts",
          on_traffic.forgotten_in_backoff),
    Check("return-is-fresh", _WARNING, "a peer that returns starts with a new score", on_traffic.return_is_fresh),
    Check("decay-below-zero", _WARNING, "a decay is below decay_to_zero: a count of 1 is gone at the next refresh",
          on_traffic.gone_at_once),
    Check("threshold-unreachable", _ERROR, "nothing leads below a threshold", on_thresholds.unreachable),
    Check("threshold-at-zero", _WARNING, "graylist is 0: peers with a score below 0 are ignored",
          on_thresholds.at_zero),
    Check("thresholds-equal", _NOTE, "two thresholds are the same", on_thresholds.equal),
    Check("invalid-graylists", _WARNING, "a single invalid message is below graylist",
          on_thresholds.one_offence_graylists),
    Check("exchange-unreachable", _NOTE, "accept_exchange is above what topics give",
          on_thresholds.exchange_unreachable),
    Check("exchange-from-anyone", _WARNING, "accept_exchange is 0, and the router may dial peers that a PRUNE names",
          on_thresholds.exchange_from_anyone),
    Check("opportunity-unreachable", _WARNING, "opportunistic_graft is above what honest members have",
          on_thresholds.opportunity_unreachable),
    Check("opportunity-off", _NOTE, "opportunistic_graft is 0, or opportunistic_graft_ticks is",
          on_thresholds.opportunity_off),
    Check("refused-incomplete", _WARNING, "rust and js refuse the set, since something is not given",
          on_thresholds.incomplete),
    Check("refused-by-nim", _WARNING, "nim refuses the set", partial(on_thresholds.refused, "nim")),
    Check("refused-by-jvm", _WARNING, "jvm refuses the set", partial(on_thresholds.refused, "jvm")),
    Check("nothing-scored", _WARNING, "nothing is scored at all", on_thresholds.nothing_scored),
    Check("topic-weightless", _WARNING, "topic_weight is 0, so nothing in the topic counts",
          on_thresholds.weightless_topic),
    Check("topic-not-there", _WARNING, "parameters of a topic that is not there", on_thresholds.unmet),
    Check("first-cap-never-binds", _NOTE, "the cap of first deliveries is above the possible number",
          on_thresholds.first_cap_never_binds),
    Check("first-cap-always-binds", _NOTE, "the cap of first deliveries is below the number of a usual member",
          on_thresholds.first_cap_always_binds),
    Check("mesh-cap-never-binds", _NOTE, "the cap of mesh deliveries is above the possible number",
          on_thresholds.mesh_cap_never_binds),
    Check("time-cap-at-once", _NOTE, "time in the mesh is at its cap within a minute",
          on_thresholds.time_cap_at_once),
    Check("weight-negligible", _NOTE, "a part gives less than a thousandth of what all topics give",
          on_thresholds.negligible),
    Check("topic-cap-never-binds", _NOTE, "topic_cap is above what all topics give",
          on_thresholds.topic_cap_never_binds),
    Check("topic-cap-missing", _NOTE, "what topics give is not bounded", on_thresholds.topic_cap_missing),
    Check("activation-within-refresh", _NOTE, "deliveries are expected after less time than a refresh takes",
          on_thresholds.activation_within_a_refresh),
    Check("refresh-rare", _WARNING, "a refresh is rarer than a backoff is long", on_thresholds.refresh_is_rare),
)  # fmt: skip
IDS = tuple(check.id for check in CHECKS)


def chosen(only: Iterable[str] = (), ignored: Iterable[str] = ()) -> tuple[Check, ...]:
    """Return the checks to make: those in `only`, or all, without those in `ignored`."""
    wanted, unwanted = set(only), set(ignored)
    return tuple(check for check in CHECKS if (not wanted or check.id in wanted) and check.id not in unwanted)
