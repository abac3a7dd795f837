"""Random scenarios of gossipsub 1.1 and 1.2 under the checker: scores, ratings, bad senders, direct peers, IDONTWANT,
peer exchange."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import strategies as st
from scenarios import checked, leaves_and_joins, picker

from hearsay.core.scores.named_sets import named_set

BOOTSTRAPPERS = ("bootstrapper", "filecoin-bootstrap")
IMPLEMENTATIONS = ("go", "rust", "js", "nim", "jvm")
JUDGING_PRESETS = (*IMPLEMENTATIONS, "spec", "hardening", "ethereum", "ethereum-prysm", "filecoin", *BOOTSTRAPPERS)

GATER = """\
[router.gater]
threshold = 0.1
global_decay = 0.5
source_decay = 0.9
decay_to_zero = 0.01
duplicate_weight = 0.125
ignore_weight = 1
reject_weight = 16"""


@st.composite
def judging_texts(draw: st.DrawFn) -> str:
    """Draw a scenario under which every invariant must hold."""

    pick = picker(draw)
    nodes = draw(st.integers(2, 30))
    lines = [
        f"seed = {draw(st.integers(0, 1 << 40))}\nwarmup_s = {pick(3, 8)}\nlinger_s = {pick(5, 12)}",
        f"[network]\nnodes = {nodes}\ndegree = {draw(st.integers(1, 8))}\nnat_share = {pick(0, 0.3)}",
        *_router(draw, nodes),
        f"[workload]\nmessages = {draw(st.integers(0, 30))}\ninterval_s = {pick(0.3, 0.05, 1)}",
        f'publishers = "{pick("any", "subscribers")}"\nsize_bytes = {pick(100, 5_000)}',
        f"[links]\njitter_ms = {pick(0, 20)}\nuplink_mbit = {pick(0, 2, 20)}",
        f"[loss]\nrate = {pick(0, 0.3)}",
        f"[validation]\ndelay_ms = {pick(0, 80, 900)}",
        f"[faults]\ndetection_s = {pick(0.001, 0.2, 2)}",
        f"[faults.churn]\naway_share = {pick(0, 0.3)}\nmean_session_s = {pick(2, 10)}",
        f"goodbye = {pick('true', 'false')}",
        f"[addresses]\nnodes_per_address = {pick(0, 1, 3)}",
    ]
    if draw(st.booleans()):
        share = pick(0.2, 0.5)
        lines.append(f"[[faults.partition]]\nat_s = {pick(3.2, 5)}\nheal_s = {pick(6, 9)}\nshare = {share}")
    if draw(st.booleans()):
        lines.append(f"[[validation.invalid]]\nshare = {pick(0.1, 0.4)}\nforwards_invalid = {pick('true', 'false')}")
    for _ in range(draw(st.integers(0, 2))):
        rating = pick(-20_000, -4_500, -1, 0.5, 100)
        lines.append(f"[[ratings]]\nrating = {rating}\nshare = {pick(0.1, 0.5)}")
    return "\n".join([*lines, *leaves_and_joins(draw, nodes)])


def _router(draw: st.DrawFn, nodes: int) -> list[str]:
    pick = picker(draw)
    preset = draw(st.sampled_from(JUDGING_PRESETS))
    lines = [
        f'[router]\nkind = "gossipsub"\npreset = "{preset}"',
        f"exchange_peers = {pick(0, 16)}\naccept_exchange = {pick('true', 'false')}",
        f"prune_backoff_ms = {pick(1_000, 4_000, 60_000)}\nunsubscribe_backoff_ms = {pick(1_000, 8_000)}",
        f'prune_trigger = "{pick("above_high", "at_high")}"\ngraft_on_subscribe = {pick("true", "false")}',
        f"flood_publish = {pick('true', 'false')}\niwant_followup_ms = {pick(200, 3_000)}",
        f'tracked_promises = "{pick("one", "all", "none")}"\nshort_mesh = "{pick("mesh_only", "top_up")}"',
        f"idontwant_threshold_bytes = {pick(0, 50, 1_000)}\nidontwant_on_publish = {pick('true', 'false')}",
        f"withdraw_unwanted = {pick('true', 'false')}\nskip_senders = {pick('true', 'false')}",
        f"direct_connect_ticks = 2\ngraylisted_subscriptions = {pick('true', 'false')}",
        f'outbound_when_full = "{pick("always", "quota", "never")}"\nmax_subscriptions_per_rpc = {pick(0, 5)}',
    ]
    if preset not in BOOTSTRAPPERS:
        degrees = pick("degree = 2\ndegree_low = 2\ndegree_high = 3\ndegree_score = 1\ndegree_out = 1", "")
        lines.append(str(degrees))
    pairs = draw(st.lists(st.lists(st.integers(0, nodes - 1), min_size=2, max_size=2, unique=True), max_size=3))
    lines.append(f"direct_peers = {pairs}")
    score = pick("rust", "js", "ethereum", "as the preset")
    if score != "as the preset":
        tables = named_set(str(score)).to_mapping()
        lines.append(f"score = {toml({**tables, 'topics': [{**tables['topics'][0], 'topic': 'any'}]})}")
    if draw(st.booleans()):
        lines.append(GATER)
    if score == "as the preset" and preset == "hardening":
        lines.append("[router.score]\napplication_weight = 1")
    for other in draw(st.lists(st.sampled_from(IMPLEMENTATIONS), max_size=4)):
        lines.append(f'[[population]]\nshare = 0.2\nrouter = {{ preset = "{other}", direct_connect_ticks = 2 }}')
    return lines


def toml(value: object) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {toml(inside)}' for key, inside in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def soak(number: int) -> Counter[str]:
    """Run the scenarios of this number, and return counts of rows and moments in their traces."""
    return checked(number, judging_texts())
