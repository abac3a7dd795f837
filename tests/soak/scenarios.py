"""Random scenarios of all routers under the checker, with counts of rows and moments in their traces
(`sightings.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from sightings import Sightings

from hearsay.core.registry import ROUTERS, find_router
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.sim.simulate import Simulation

EXAMPLES = 15
REJOINS = "rejoin_after_s = 1"


def picker(draw: st.DrawFn) -> Callable[..., object]:
    """Return a function that draws one of its arguments."""
    return lambda *values: draw(st.sampled_from(values))


@st.composite
def scenario_texts(draw: st.DrawFn) -> str:
    """Draw a scenario under which every invariant must hold."""

    pick = picker(draw)
    kind = draw(st.sampled_from(sorted(ROUTERS)))
    preset = draw(st.sampled_from(sorted(find_router(kind).presets)))
    nodes = draw(st.integers(1, 40))
    lines = [
        f"seed = {draw(st.integers(0, 1 << 40))}\nwarmup_s = {pick(3, 8)}\nlinger_s = {pick(5, 12)}",
        f"[network]\nnodes = {nodes}\ndegree = {draw(st.integers(0, 8))}",
        f'[router]\nkind = "{kind}"\npreset = "{preset}"',
        f"[workload]\nmessages = {draw(st.integers(0, 12))}\ninterval_s = {pick(0.3, 0.05, 1)}",
        f'publishers = "{pick("any", "subscribers")}"',
        f"[links]\njitter_ms = {pick(0, 20)}",
        f"[loss]\nrate = {pick(0, 0.3)}",
        f"[validation]\ndelay_ms = {pick(0, 80, 900)}\nreject_share = {pick(0, 0.2)}",
        f"[faults]\ndetection_s = {pick(0.001, 0.2, 2)}",
        f"[faults.churn]\naway_share = {pick(0, 0.3, 0.6)}\nmean_session_s = {pick(2, 10)}",
    ]
    if draw(st.booleans()):
        lines.append(f"[[faults.crash]]\nat_s = {pick(3.1, 6)}\n{pick(*crash_choices(nodes))}\n{pick('', REJOINS)}")
    if draw(st.booleans()):
        lines.append(f"[[faults.partition]]\nat_s = {pick(3.2, 5)}\nheal_s = {pick(6, 9)}\nshare = 0.4")
    says_hello = preset != "simsub"  # without a hello, no peer would learn which peers leave a topic
    return "\n".join([*lines, *(leaves_and_joins(draw, nodes) if says_hello else ())])


def leaves_and_joins(draw: st.DrawFn, nodes: int) -> Iterator[str]:
    for number in range(draw(st.integers(0, 6))):
        at_s = 3 + draw(st.integers(0, 7000)) / 1000
        node, action = draw(st.integers(0, nodes - 1)), ("leave", "join")[number % 2]
        yield f'[[timed]]\nat_s = {at_s}\nnode = {node}\naction = "{action}"\ntopic = "topic"'


def crash_choices(nodes: int) -> tuple[str, str, str]:
    return "share = 0.2", "share = 0.5", f"listed = {sorted({nodes // 3, nodes - 1})}"


def soak(number: int) -> Counter[str]:
    """Run the scenarios of this number, and return counts of rows and moments in their traces."""
    return checked(number, scenario_texts())


def checked(number: int, texts: st.SearchStrategy[str]) -> Counter[str]:
    """Run random scenarios under the checker; return counts of rows and moments. Fail if it finds a problem."""
    seen: Counter[str] = Counter()

    @seed(number)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(texts)
    def run_checked(text: str) -> None:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "scenario.toml"
            file.write_text(text, encoding="utf-8")
            scenario = load_scenario(file)
        sightings = Sightings(scenario)
        assert Simulation(scenario, check=True, listener=sightings).run().problems == ()
        seen.update(sightings.seen)
        seen["scenarios"] += 1

    run_checked()
    return seen
