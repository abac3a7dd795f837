"""Each parameter of a router has a field for kernels, or is listed as one that kernels do not need."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace

import pytest

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.core.shell.parameters import integer
from hearsay.sim.array.engine import ArrayEngine
from hearsay.sim.array.router_parameters import FIELDS, NoKernel, parameter_line
from hearsay.sim.array.world import layout
from hearsay.sim.plan.engines import REFERENCE_ONLY, WITH_KERNELS, choose_engine
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario_file import load_scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMore(GossipsubParameters):
    """Parameters with one that has no field."""

    unknown_parameter: int = integer(0, low=0)


def test_a_parameter_without_a_field_stops_the_engine_when_it_is_built():
    plan = make_plan(load_scenario(None, "r1", (("network.nodes", "5"), ("workload.messages", "1"))))
    kind, given = plan.routers[0]
    values = {field.name: getattr(given, field.name) for field in fields(given)}
    more = replace(plan, routers=((kind, OneMore(**values)),))
    with pytest.raises(NoKernel, match=r"no field of gossipsub carries unknown_parameter; add one, or "):
        ArrayEngine(more, None)


def test_a_parameter_for_the_reference_engine_only_is_refused_unless_it_has_its_default(monkeypatch):
    monkeypatch.setitem(REFERENCE_ONLY, "gossipsub", ("degree_low",))
    by_default = load_scenario(None, None, (("router.kind", "gossipsub"),))
    assert choose_engine(by_default, "array")[0] == "array"
    changed = load_scenario(None, None, (("router.kind", "gossipsub"), ("router.degree_low", 3)))
    assert choose_engine(changed)[0] == "reference"
    with pytest.raises(ScenarioError, match=r"engine array: router\.degree_low: only the reference engine follows"):
        choose_engine(changed, "array")


@pytest.mark.parametrize("router", WITH_KERNELS)
@pytest.mark.parametrize("preset", ["r1", "simsub"])
def test_all_parameters_have_fields_or_are_listed(router, preset):
    kind = ROUTERS[router]
    line = parameter_line(router, kind.parameters.from_mapping(kind.presets.get(preset, {})))
    assert line[layout.ROUTER_KIND] == WITH_KERNELS.index(router)


def test_each_field_is_filled_by_one_description():
    filled = Counter(getattr(layout, name) for table, fields in FIELDS.items() if table != "reals" for name in fields)
    places = set(range(layout.PARAMETERS)) - {layout.ROUTER_KIND}
    shared = {layout.ANSWERS_LIMIT, layout.MAX_CACHED, layout.MAX_CACHED_BYTES}
    """Fields that gossipsub and episub share."""
    assert filled == {place: 2 if place in shared else 1 for place in places}
    assert sorted(getattr(layout, name) for name in FIELDS["reals"]) == list(range(layout.REALS))
