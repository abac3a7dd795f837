"""Invalid files of vectors, reported in one line with file, field and allowed values; bounds of work."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from fuzz_seeds import seeds

from hearsay.vectors import files
from hearsay.vectors.files import VectorError, parse_vectors, read_vectors, run_file, vector_files

VALID: dict[str, Any] = json.loads(seeds("vectors")[0])
FIRST = "vectors[0]"
STEP = f"{FIRST}.steps[0]"


def fault(text: bytes) -> str:
    with pytest.raises(VectorError) as caught:
        parse_vectors(text, "file")
    return str(caught.value)


def changed(*path: str | int, to: Any = None) -> bytes:
    """Return the valid file with another value at a path; None removes the key."""
    made = deepcopy(VALID)
    place: Any = made
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return json.dumps(made).encode()


V = ("vectors", 0)
S = (*V, "steps", 0)


@pytest.mark.parametrize(
    ("path", "to", "expected_text"),
    [
        (("kind",), None, "kind: is missing"),
        (("kind",), "scores", "kind: must be score or router"),
        (("format",), "other", "format: must be gossipsub-vectors"),
        (("version",), 7, "version 7 is not supported; the newest is 1"),
        (("version",), True, "version: must be 1"),
        (("tolerance",), 2, "tolerance: must be a number in 0…0.001"),
        (("vectors",), [], "vectors: must be a list of 1…10000 elements"),
        (("vectors",), VALID["vectors"] * 2, "vectors: 'one' is the name of 2 vectors; names must be unique"),
        ((*V, "name"), "x" * 201, f"{FIRST}.name: must be a text of 1…200 characters"),
        ((*V, "colour"), 1, f"{FIRST}.colour: no such key; there are name, description"),
        (("colour",), 1, "file: colour: no such key; there are kind, format, version"),
        ((*S, "colour"), 1, f"{STEP}.colour: no such key; there are event, at, expect, differs, peer, addresses"),
        ((*V, "peers"), [], f"{FIRST}.peers: must be a list of 1…1000 elements"),
        ((*V, "peers"), ["A", "B", "A"], f"{FIRST}.peers: a peer is repeated"),
        ((*V, "peers"), ["B"], f"{FIRST}.steps[1].expect.A: is not among {FIRST}.peers"),
        ((*V, "steps", 1, "differs"), {"go": {"C": VALID["vectors"][0]["steps"][1]["expect"]["A"]}},
         f"{FIRST}.steps[1].differs.go.C: is not among {FIRST}.peers"),
        ((*V, "parameters", "DecayInterval"), 1_000_001,
         f"{FIRST}.parameters.DecayInterval: must be an integer in 1000000…2592000000000, a multiple of 1000"),
        ((*V, "parameters", "BehaviourPenaltyDecay"), 1,
         f"{FIRST}.parameters.BehaviourPenaltyDecay: must be a number in 0…0.9999999999999999"),
        ((*V, "parameters", "Topics", "news", "TopicWeight"), -1,
         f"{FIRST}.parameters.Topics.news.TopicWeight: must be a number in 0…1000000000"),
        ((*V, "steps"), {}, f"{FIRST}.steps: must be a list of 1…20000 elements"),
        ((*S, "event"), "dance", f"{STEP}.event: must be connect or addresses or"),
        ((*S, "event"), None, f"{STEP}.event: is missing"),
        ((*S, "at"), 1.5, f"{STEP}.at: must be an integer in 0…2592000000000"),
        ((*S, "at"), 6, f"{FIRST}.steps[1].at: must not be before the previous step, at 6"),
        ((*S, "peer"), None, f"{STEP}.peer: is missing"),
        ((*S, "addresses"), ["1.2.3.4"] * 17, f"{STEP}.addresses: must be a list of 0…16 elements"),
        ((*S, "addresses"), ["1.2.3.4", "nope"], f"{STEP}.addresses[1]: must be an IP address"),
        ((*V, "steps", 1, "differs", "golang"), {},
         "steps[1].differs.golang: no such key; there are go, rust, js, nim, jvm, py"),
        ((*V, "steps", 1, "expect", "A", "score"), "1", "steps[1].expect.A.score: must be a number"),
        ((*V, "steps", 1, "expect", "A", "parts", "P1"), 1, "parts.P1: no such key; there are P5, P6, P7, topics"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_place_and_what_is_allowed(path, to, expected_text):
    message = fault(changed(*path, to=to))
    assert message.startswith("file: ")
    assert expected_text in message
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1e999]", "not a finite number"),
        (b"[NaN]", "not a finite number"),
        (b'{"a": 1, "a": 2}', "'a' is repeated"),
        (b"[" + b"9" * 5_000 + b"]", "not JSON"),
        (b"[]", "file: must be an object"),
    ],
)
def test_unusable_json_is_refused(text, expected_text):
    assert expected_text in fault(text)


def test_control_characters_in_names_are_escaped():
    text = changed(*V, "parameters", "x\ny\x1b[31m", to=1)
    assert "x\\ny\\x1b[31m: no such key" in fault(text)


def test_the_work_of_a_vector_is_bounded():
    peers = [f"p{number}" for number in range(1000)]
    made = deepcopy(VALID)
    made["vectors"][0] |= {"peers": ["A", *peers[1:]], "steps": [made["vectors"][0]["steps"][0]] * 6_000}
    assert fault(json.dumps(made).encode()) == f"file: {FIRST}: steps times peers must be 5000000 at most"


@pytest.mark.parametrize(
    ("messages", "steps", "expected_text"),
    [
        (
            {f"m{number}": {"topic": "t", "size": 1 << 20} for number in range(65)},
            1,
            "messages: the sum of sizes must be",
        ),
        ({}, 3_000, "steps times connect events must be"),
    ],
)
def test_the_work_of_a_router_vector_is_bounded(messages, steps, expected_text):
    connects = [{"at": 0, "event": "connect", "peer": f"p{n}", "protocol": "/meshsub/1.1.0"} for n in range(steps)]
    vector = {"name": "one", "description": "One.", "parameters": {}, "messages": messages, "steps": connects}
    found = {"format": "gossipsub-vectors", "version": 1, "kind": "router", "vectors": [vector]}
    assert expected_text in fault(json.dumps(found).encode())


def test_the_size_of_a_file_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_BYTES", 10)
    file = tmp_path / "large.json"
    file.write_bytes(seeds("vectors")[0])
    with pytest.raises(VectorError, match="larger than 10 bytes"):
        read_vectors(file)


def test_a_folder_without_files(tmp_path):
    with pytest.raises(VectorError, match=r"no file in it ends in \.json"):
        list(vector_files([tmp_path]))


@pytest.mark.parametrize(
    ("name", "value", "expected_text"),
    [
        ("IPColocationFactorWhitelist", ["1.2.3"], "IPColocationFactorWhitelist: must be a network"),
        ("BehaviourPenaltyWeight", -1, "BehaviourPenaltyDecay: must be above 0 when there is a"),
    ],
)
def test_invalid_parameters_are_reported_by_their_names_in_vectors(tmp_path, name, value, expected_text):
    file = tmp_path / "file.json"
    file.write_bytes(changed(*V, "parameters", name, to=value))
    with pytest.raises(VectorError) as caught:
        list(run_file(file, "spec"))
    assert f"{FIRST}.parameters.{expected_text}" in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "expected_text"),
    [
        ({"Dlo": 5, "D": 2}, "Dlo: must not be above D (2)"),
        ({"HistoryGossip": 9}, "HistoryGossip: must not be above HistoryLength (5)"),
        ({"Score": {"Thresholds": {"GossipThreshold": -5, "PublishThreshold": -1, "GraylistThreshold": -9}}},
         "Score.Thresholds.PublishThreshold: must not be above GossipThreshold (-5)"),
        ({"Score": {"Topics": {"news": {"FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": 1}}}},
         "Score.Topics.news.FirstMessageDeliveriesDecay: must be above 0 when there is a "
         "FirstMessageDeliveriesWeight"),
    ],
)  # fmt: skip
def test_invalid_parameters_of_routers_are_reported_by_their_names_in_vectors(tmp_path, parameters, expected_text):
    made = json.loads(seeds("vectors")[1])
    if "Score" in parameters:
        topic = {"TopicWeight": 1, "TimeInMeshQuantum": 1_000_000}
        own = {"DecayInterval": 1_000_000, "DecayToZero": 0.01, "SeenMsgTTL": 120_000_000, **parameters["Score"]}
        own["Topics"] = {name: {**topic, **each} for name, each in own.get("Topics", {}).items()}
        parameters = {"Score": own}
    made["vectors"][0]["parameters"] = parameters
    file = tmp_path / "file.json"
    file.write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(VectorError) as caught:
        list(run_file(file, "spec"))
    assert str(caught.value).endswith(f"{FIRST}.parameters.{expected_text}")
