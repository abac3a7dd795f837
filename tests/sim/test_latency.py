"""Latencies: symmetric, within bounds, the same in any order of calls; region files and their mistakes."""

from pathlib import Path
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.rules.randomness import Randomness
from hearsay.sim.plan.network import LatencyModel, make_latency
from hearsay.sim.scenario.reading import ScenarioError, read_regions
from hearsay.sim.scenario.scenario import Scenario

REGIONS = "from,to,latency_ms,jitter_ms\neu,eu,10,0\neu,us,90.5,2\nus,us,20,0\nus,eu,91.5,4\n"


def model(seed: int = 1, **links: object) -> LatencyModel:
    scenario = Scenario.model_validate({"links": links})
    return make_latency(scenario.links, scenario.network.nodes, Randomness(seed))


def values(latency: LatencyModel) -> list[int]:
    return [latency.base_us(a, b) for a in range(100) for b in range(a + 1, 101)]


def regions_file(folder: Path, text: str = REGIONS) -> Path:
    file = folder / "regions.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_uniform_fills_its_bounds():
    drawn = values(model(min_ms=0.010, max_ms=0.019))
    assert set(drawn) == set(range(10, 20))
    assert fmean(values(model())) == pytest.approx(80_000, rel=0.02)


def test_constant():
    assert set(values(model(latency="constant", value_ms=7))) == {7000}
    assert set(values(model(latency="constant", value_ms=0))) == {1}


def test_log_normal_has_its_median():
    drawn = values(model(latency="log_normal", median_ms=60, sigma=0.5, cap_ms=200))
    assert median(drawn) == pytest.approx(60_000, rel=0.03)
    assert max(drawn) <= 200_000


LINKS = st.fixed_dictionaries(
    {
        "latency": st.sampled_from(["uniform", "constant", "log_normal"]),
        "min_ms": st.integers(0, 40),
        "max_ms": st.integers(40, 90),
        "value_ms": st.integers(0, 90),
        "median_ms": st.integers(0, 90),
        "jitter_ms": st.integers(0, 50),
    }
)


@given(LINKS, st.integers(0, 200), st.integers(0, 200), st.integers(0, 2**40))
def test_symmetric_bounded_and_jittered(links: dict[str, object], a: int, b: int, sequence: int):
    latency = model(**links)
    base = latency.base_us(a, b)
    reach = 1000 * int(str(links["jitter_ms"]))
    assert base == latency.base_us(b, a) >= 1
    jitter = latency.jitter_us(a, b, sequence)
    assert -reach <= jitter <= reach
    assert max(1, base + jitter) >= latency.minimum_us >= 1
    assert latency.has_jitter == (reach > 0)


def test_jitter_differs_by_direction_and_sequence():
    latency = model(jitter_ms=5)
    drawn = {latency.jitter_us(a, b, sequence) for a, b in ((1, 2), (2, 1)) for sequence in range(1000)}
    assert len(drawn) > 1700
    assert max(drawn) > 4900
    assert min(drawn) < -4900


def test_seeds_differ():
    assert values(model(1)) == values(model(1))
    assert values(model(1)) != values(model(2))


def test_regions(tmp_path: Path):
    latency = model(latency="regions", regions_file=str(regions_file(tmp_path)), jitter_ms=1)
    regions = [latency.region_of(node) for node in range(100)]
    assert 30 < regions.count("eu") < 70
    assert regions.count("eu") + regions.count("us") == 100
    assert latency.region_of(100) == "eu"
    eu, us = regions.index("eu"), regions.index("us")
    assert latency.base_us(eu, us) == latency.base_us(us, eu) == 91_000
    assert latency.base_us(us, 100) == 91_000
    assert latency.base_us(eu, eu) == 10_000
    assert max(abs(latency.jitter_us(eu, us, sequence)) for sequence in range(1000)) in range(3900, 4001)
    assert latency.minimum_us == 9_000
    assert latency.has_jitter


def test_region_jitter_alone_counts(tmp_path: Path):
    latency = model(latency="regions", regions_file=str(regions_file(tmp_path)))
    assert latency.has_jitter
    assert latency.minimum_us == 10_000


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["regions.csv: names no regions; it needs a line from,to,latency_ms,jitter_ms for each pair"]),
        ("a,b,1,2\n", ["regions.csv:1: the header must be from,to,latency_ms,jitter_ms"]),
        (
            "from,to,latency_ms,jitter_ms\na,a,1,0\na,a,2,0\n\na,a,x,0\na,a,-1,0\na,a,1\n",
            [
                "regions.csv:3: an earlier line is from 'a' to 'a'",
                "regions.csv:5: 'x' is not a number",
                "regions.csv:6: -1: must be in 0…2592000000 ms",
                "regions.csv:7: must have 4 fields, not 3",
            ],
        ),
        ("from,to,latency_ms,jitter_ms\na,b,1,0\nb,b,1,0\n", ["regions.csv: no latency from 'a' to 'a'"]),
        ("from,to,latency_ms,jitter_ms\na,a,nan,0\n", ["regions.csv:2: nan: must be in 0…2592000000 ms"]),
    ],
)
def test_bad_regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problems: list[str]):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError) as error:
        read_regions(regions_file(tmp_path, text))
    assert error.value.problems == problems
