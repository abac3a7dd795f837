"""Scenario files: layers, and every mistake with its place, its value and the rule."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import ROUTERS
from hearsay.sim.plan.plan import make_plan
from hearsay.sim.scenario.layers import replace_router
from hearsay.sim.scenario.reading import ScenarioError
from hearsay.sim.scenario.scenario import Scenario
from hearsay.sim.scenario.scenario_file import dump_scenario, load_scenario, preset_names, preset_text


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that writes `file.toml` and other files into a new working directory."""
    monkeypatch.chdir(tmp_path)

    def write(text: str | bytes, **others: str) -> Path:
        file = Path("file.toml")
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        for name, content in others.items():
            Path(name.replace("_", ".")).write_text(content)
        return file

    return write


def problems(path: Path | None, *overrides: tuple[str, object], preset: str | None = None, router: str | None = None):
    with pytest.raises(ScenarioError) as error:
        load_scenario(path, preset, overrides, router=router)
    return error.value.problems


BAD_FILES = [
    ("[network]\nnodes = -3\n", ["file.toml:2: network.nodes = -3: must be in 1…100000000"]),
    ("[network]\nnodes = 2.0\n", ["file.toml:2: network.nodes = 2.0: must be an integer in 1…100000000"]),
    ("network.nodes = true\n", ["file.toml:1: network.nodes = true: must be an integer in 1…100000000"]),
    ("seed = 9223372036854775808\n", ["file.toml:1: seed = 9223372036854775808: must be in 0…9223372036854775807"]),
    ("[network]\n\nnode = 7\n", ["file.toml:3: network.node = 7: unknown key, did you mean 'nodes'?"]),
    ("netwrk = {}\n", ["file.toml:1: netwrk = {}: unknown key, did you mean 'network'?"]),
    (
        "[router]\nidontwant = 9\n",
        ["file.toml:2: router.idontwant = 9: unknown key, did you mean 'idontwant_threshold_bytes'?"],
    ),
    ("[router]\ndegre = 7\n", ["file.toml:2: router.degre = 7: unknown key, did you mean 'degree'?"]),
    ("[router]\ndegree = 13\n", ["file.toml:1: router.degree_high = 12: must not be below degree (13)"]),
    ('[router]\nseen_by = "now"\n', ['file.toml:2: router.seen_by = "now": must be one of time, history']),
    (
        '[router]\nkind = "meshsub"\npreset = "r2"\n',
        ['file.toml:3: router.preset = "r2": must be one of r1, simsub, v1.1'],
    ),
    ("[router]\nkind = 3\n", ["file.toml:2: router.kind = 3: must be a string"]),
    (
        '[router]\nkind = "gosipsub"\n',
        [
            "file.toml:2: router.kind = \"gosipsub\": no router 'gosipsub'; use one of "
            "episub, floodsub, gossipsub, meshsub, randomsub, or an import path module:attribute"
        ],
    ),
    ("warmup_s = nan\n", ["file.toml:1: warmup_s = NaN: must be a finite number"]),
    ("warmup_s = 1e99999999999999999999\n", ["file.toml:1: warmup_s = Infinity: must be a finite number"]),
    ('linger_s = "5"\n', ['file.toml:1: linger_s = "5": must be a number']),
    ("[loss]\nrate = 1.5\n", ["file.toml:2: loss.rate = 1.5: must be in 0…1"]),
    ("[loss]\ncontrol = 1\n", ["file.toml:2: loss.control = 1: must be true or false"]),
    ("[faults.churn]\naway_share = 0.96\n", ["file.toml:2: faults.churn.away_share = 0.96: must be in 0…0.95"]),
    ("topics = 3\n", ["file.toml:1: topics = 3: must be an array"]),
    ("faults = [1]\n", ["file.toml:1: faults = [1]: must be a table"]),
    ("[[topics]]\n[[topics]]\nname = ''\n", ['file.toml:3: topics.1.name = "": must not be empty']),
    (
        "[[timed]]\nat_s = 1\nnode = 1\naction = 'join'\n\n[[timed]]\nat_s = 1\n\n",
        ["file.toml:6: timed.1.node: is required", "file.toml:6: timed.1.action: is required"],
    ),
    (
        "[network]\nnodes = 5\n[[timed]]\nat_s = 1\nnode = 5\naction = 'leave'\n",
        ["file.toml:5: timed.0.node = 5: must be below network.nodes (5)"],
    ),
    (
        "[network]\nnodes = 5\n[[topics]]\nsubscribers = [\n  7,\n  9,\n  1,\n]\n",
        [
            "file.toml:6: topics.0.subscribers.1 = 9: must be below network.nodes (5), and so must 1 more; "
            "all need network.nodes = 10 or more"
        ],
    ),
    (
        "[[faults.cut]]\nat_s = 1\nlinks = [\n  [1, 2],\n  [3],\n]\n",
        ["file.toml:5: faults.cut.0.links.1 = [3]: must be a pair of node numbers"],
    ),
    ("[links]\nmin_ms = 200\n", ["file.toml:2: links.min_ms = 200: must not be above max_ms (150)"]),
    ("[links]\nlatency = 'regions'\n", ['file.toml:2: links.latency = "regions": needs regions_file']),
    (
        "[network]\nedges_file = ''\n",
        ['file.toml:2: network.edges_file = "": must not be empty'],
    ),
    ("preset = 'simsubb'\n", ["file.toml:1: preset = \"simsubb\": no such preset, did you mean 'simsub'?"]),
    ("\n[a\nb = 1\n", ["file.toml:2: Expected ']' at the end of a table declaration"]),
    ("a = 1\na = 2\n", ["file.toml:2: Cannot overwrite a value"]),
    ("a = 1\nb = [1,\n\n", ["file.toml:2: Invalid value"]),
    ("a = " + "[" * 100_000, ["file.toml: is nested too deeply"]),
    (b"a = '\xff'\n", ["file.toml: is not UTF-8 (byte 5)"]),
]


@pytest.mark.parametrize(("text", "expected"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_mistake_is_reported_with_its_place(here: Callable[..., Path], text: str | bytes, expected: list[str]):
    assert problems(here(text)) == expected


def test_all_mistakes_are_reported_in_the_order_of_the_file(here: Callable[..., Path]):
    file = here("""
seed = "x"
[[population]]
share = 2
router = { kind = "floodsub", degree = 3, hello = "no" }
[network]
topology = "star"   # no such thing
colour = "red"
[workload]
messages = -1
[faults]
detection = 3
""")
    assert problems(file, ("loss.rate", "2"), ("trace.every", "7")) == [
        "--set loss.rate=2: must be in 0…1",
        "--set trace.every=7: unknown key",
        'file.toml:2: seed = "x": must be an integer in 0…9223372036854775807',
        "file.toml:4: population.0.share = 2: must be in 0…1",
        "file.toml:5: population.0.router.degree = 3: unknown key",
        'file.toml:5: population.0.router.hello = "no": must be true or false',
        'file.toml:7: network.topology = "star": must be one of random, ring_random, scale_free, complete, edge_list',
        'file.toml:8: network.colour = "red": unknown key',
        "file.toml:10: workload.messages = -1: must be in 0…100000000",
        "file.toml:12: faults.detection = 3: unknown key, did you mean 'detection_s'?",
    ]


def test_files_that_cannot_be_read(here: Callable[..., Path]):
    here("")
    Path("folder").mkdir()
    assert problems(Path("nowhere.toml")) == ["nowhere.toml: no such file"]
    assert problems(Path("folder")) == ["folder: is a directory, not a file"]
    assert problems(Path("file.toml/x")) == ["file.toml/x: cannot be read: Not a directory"]
    assert problems(None, preset="ipn") == ["preset 'ipn': no such preset, did you mean 'ipns'?"]
    names = ", ".join(preset_names())
    assert problems(None, preset="zzz") == [f"preset 'zzz': no such preset; there are {names}"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("network.nodes", "-3", "--set network.nodes=-3: must be in 1…100000000"),
        ("network.nodes", -3, "--set network.nodes=-3: must be in 1…100000000"),
        ("network.nodes", "many", "--set network.nodes=many: must be an integer in 1…100000000"),
        ("nodes", "5", "--set nodes=5: unknown key, did you mean network.nodes?"),
        ("connect", "5", "--set connect=5: unknown key, did you mean network.degree?"),
        ("network.connect", "5", "--set network.connect=5: unknown key, did you mean network.degree?"),
        ("links.max_ms", "1", "--set links.max_ms=1: must not be below min_ms (10)"),
        ("network.nodes.x", "1", "--set network.nodes.x=1: network.nodes is not a table"),
        ("network..x", "1", "--set network..x=1: 'network..x' is not the path of a key, such as network.nodes"),
        ("topics.name", "x", "--set topics.name=x: topics is an array: a number must follow"),
        ("topics.2.name", "x", "--set topics.2.name=x: topics has 1 elements, numbered from 0"),
        ("timed.0", "{at_s = 1}", "--set timed.0={at_s = 1}: timed.0.node: is required"),
        (
            "router.kind",
            "foo:bar",
            "--set router.kind=foo:bar: router 'foo:bar' cannot be loaded: No module named 'foo'",
        ),
        ("workload", "x\ny", "--set workload=x\\ny: must be a table"),
    ],
)
def test_a_mistake_of_an_override(here: Callable[..., Path], key: str, value: object, expected: str):
    assert problems(here("[network]\nnodes = 9\n[[topics]]\n"), (key, value))[0] == expected


def test_overrides_win_and_are_toml_or_text(here: Callable[..., Path]):
    file = here("[network]\nnodes = 9\n[[topics]]\nname = 'a'\n")
    overrides = [
        ("network.nodes", "15"),
        ("network.nodes", "20"),  # the last value counts
        ("network.topology", "ring_random"),
        ("links", "{latency = 'constant', value_ms = 0.1}"),
        ("topics.0.name", '"b"'),
        ("topics.1.name", "ü"),
        ("timed.0", "{at_s = 1, node = 19, action = 'join', topic = 'ü'}"),
        ("faults.crash.0.at_s", "3"),
        ("faults.crash.0.share", 0.5),
        ("loss.control", "true"),
    ]
    made = load_scenario(file, None, overrides)
    assert (made.network.nodes, made.network.topology, made.links.value_us) == (20, "ring_random", 100)
    assert made.topic_names == ("b", "ü")
    assert made.faults.crash[0].share == Decimal("0.5")
    assert made.loss.control


def test_layers_merge_tables_and_replace_arrays(here: Callable[..., Path]):
    file = here("preset = 'ipns'\n[network]\nnodes = 30\n[[topics]]\nname = 'mine'\n")
    made = load_scenario(file)
    assert (made.network.nodes, made.network.degree) == (30, 40)
    assert made.topic_names == ("mine",)
    assert made.topics[0].share_millionths is None
    assert made.workload.size_bytes == 400
    assert load_scenario(file, "r1").workload.size_bytes == 100


def test_a_mistake_in_a_replaced_array_is_the_file_s(here: Callable[..., Path]):
    file = here("preset = 'ipns'\n[[topics]]\nnames = 'mine'\n")
    assert problems(file) == ["file.toml:3: topics.0.names = \"mine\": unknown key, did you mean 'name'?"]


def test_a_rule_broken_by_two_layers_names_the_key_that_breaks_it(here: Callable[..., Path]):
    assert problems(here("preset = 'ipns'\n[router]\ndegree_low = 7\n")) == [
        "file.toml:3: router.degree_low = 7: must not be above degree (6)"
    ]
    assert problems(None, ("router.degree", 4), preset="ipns") == [
        "--set router.degree=4: router.degree_low = 5 (preset ipns): must not be above degree (4)"
    ]


def test_another_router_keeps_the_keys_that_it_knows(here: Callable[..., Path]):
    file = here("preset = 'ipns'\n[router]\nseen_ttl_ms = 77\n")
    flood = load_scenario(file, router="floodsub").router
    assert (flood.kind, flood.preset, flood.parameters.seen_ttl_ms) == ("floodsub", "r1", 77)
    mesh = load_scenario(file, router="meshsub").router.parameters.to_mapping()
    assert (mesh["degree_low"], mesh["first_heartbeat_ms"]) == (5, 100)
    assert "history_length" not in mesh
    again = load_scenario(file, None, [("router.degree_low", 3)], router="meshsub").router.parameters.to_mapping()
    assert again["degree_low"] == 3
    assert problems(file, router="foo") == [
        "no router 'foo'; use one of "
        "episub, floodsub, gossipsub, meshsub, randomsub, or an import path module:attribute"
    ]


def test_a_layer_may_change_the_router(here: Callable[..., Path]):
    assert load_scenario(here("preset = 'ipns'\nrouter.kind = 'floodsub'\n")).router.kind == "floodsub"
    assert load_scenario(None, "ipns", [("router.kind", "floodsub")]).router.kind == "floodsub"
    simsub = load_scenario(None, "ipns", [("router.preset", "simsub")]).router
    assert simsub == load_scenario(None, "simsub").router
    assert load_scenario(here("preset = 'ipns'\nrouter.preset = 'simsub'\n")).router == simsub


def test_replace_router_leaves_the_rest_alone():
    document = {"seed": 3, "router": {"kind": "gossipsub", "preset": "simsub", "degree": 5, "hello": True}}
    assert replace_router(document, "floodsub") == {
        "seed": 3,
        "router": {"kind": "floodsub", "preset": "simsub", "hello": True},
    }
    assert document["router"] == {"kind": "gossipsub", "preset": "simsub", "degree": 5, "hello": True}
    assert replace_router({}, "floodsub") == {"router": {"kind": "floodsub"}}


def test_named_files_are_relative_to_the_scenario(here: Callable[..., Path], tmp_path: Path):
    here("")
    Path("inner").mkdir()
    Path("inner/edges.txt").write_text("0 1\n1 2\n")
    Path("inner/file.toml").write_text("[network]\ntopology = 'edge_list'\nedges_file = 'edges.txt'\nnodes = 3\n")
    made = load_scenario(Path("inner/file.toml"))
    assert made.network.edges_file == str(tmp_path / "inner/edges.txt")
    assert list(make_plan(made).dials) == [[1], [2], []]
    Path("dumped.toml").write_text(dump_scenario(made))
    assert load_scenario(Path("dumped.toml")) == made
    by_hand = [("network.edges_file", "inner/edges.txt"), ("network.topology", "edge_list"), ("network.nodes", 3)]
    assert load_scenario(None, None, by_hand) == made


def test_mistakes_in_named_files(here: Callable[..., Path]):
    file = here(
        "[network]\ntopology = 'edge_list'\nedges_file = 'edges.txt'\nnodes = 3\n"
        "[links]\nlatency = 'regions'\nregions_file = 'regions.csv'\n",
        edges_txt="0 1\n2 3\n",
    )
    assert problems(file) == ["edges.txt:2: node 3: must be in 0…2", "regions.csv: no such file"]


@pytest.mark.parametrize("name", preset_names())
def test_presets_load_plan_and_survive_a_dump(here: Callable[..., Path], name: str):
    assert preset_text(name).startswith("# ")
    made = load_scenario(None, name)
    assert load_scenario(here(preset_text(name))) == made
    assert load_scenario(here(dump_scenario(made))) == made
    assert make_plan(made).publications


def test_the_presets_there_are():
    assert preset_names() == ("churn-30", "ethereum-blocks", "filecoin", "ipns", "r1", "simsub")
    assert load_scenario(None, "r1") == Scenario()
    simsub = load_scenario(None, "simsub")
    assert simsub.router.parameters == GossipsubParameters.from_mapping(ROUTERS["gossipsub"].presets["simsub"])
    assert simsub.model_copy(update={"router": Scenario().router}) == Scenario()


def numbers(most: int) -> st.SearchStrategy[int | float]:
    return st.integers(0, most) | st.floats(0, most, allow_nan=False)


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
SHARES = st.floats(0, 1)
AT = numbers(1000)
KINDS_AND_PRESETS = [{"kind": kind.name, "preset": preset} for kind in ROUTERS.values() for preset in kind.presets]
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "warmup_s": numbers(86_400),
        "network": st.fixed_dictionaries(
            {},
            optional={
                "nodes": st.integers(10, 10**8),
                "topology": st.sampled_from(["random", "ring_random", "scale_free"]),
            },
        ),
        "links": st.fixed_dictionaries(
            {}, optional={"min_ms": numbers(10), "max_ms": numbers(10).map(lambda x: x + 10)}
        ),
        "loss": st.fixed_dictionaries({"rate": SHARES, "control": st.booleans()}),
        "validation": st.fixed_dictionaries({"delay_ms": numbers(10)}),
        "router": st.fixed_dictionaries(
            {}, optional={"hello": st.booleans(), "seen_ttl_ms": st.integers(1, 10**6)}
        ).flatmap(lambda own: st.sampled_from([{**own, **router} for router in KINDS_AND_PRESETS])),
        "population": st.lists(
            st.fixed_dictionaries({"share": st.floats(0, 0.3), "router": st.just({"kind": "meshsub", "degree": 5})}),
            max_size=3,
        ),
        "topics": st.lists(
            st.fixed_dictionaries({"name": TEXT}, optional={"count": st.integers(1, 3), "subscribers_share": SHARES}),
            min_size=1,
            max_size=3,
            unique_by=lambda topic: str(topic["name"]).partition("-")[0],
        ),
        "faults": st.fixed_dictionaries(
            {},
            optional={
                "churn": st.fixed_dictionaries({"away_share": st.floats(0, 0.95), "goodbye": st.booleans()}),
                "crash": st.lists(st.fixed_dictionaries({"at_s": AT, "share": SHARES}), max_size=2),
                "cut": st.lists(st.fixed_dictionaries({"at_s": AT, "links": st.just([[1, 2], [3, 4]])}), max_size=2),
            },
        ),
    },
)


@given(document=DOCUMENTS)
def test_a_dump_loads_as_an_equal_scenario(tmp_path_factory: pytest.TempPathFactory, document: dict[str, object]):
    made = Scenario.model_validate(document)
    file = tmp_path_factory.mktemp("dumped") / "scenario.toml"
    file.write_bytes(dump_scenario(made).encode())
    assert load_scenario(file) == made
    assert dump_scenario(load_scenario(file)) == dump_scenario(made)
