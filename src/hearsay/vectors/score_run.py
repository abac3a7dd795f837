"""The execution of a vector of kind `score` on Hearsay's scorer: after each step, every peer must have its expected
score.

A step names the peers whose scores change. The scores of all other peers must stay the same; at first all scores are
0. So every change is compared. Implementations may add numbers in any order, so numbers are compared with a
tolerance.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from hearsay.core.language.actions import Reason
from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.named_sets import named_set
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.guarantees import ScoreParts
from hearsay.core.shell.parameters import ParameterError, Parameters
from hearsay.vectors.schema import Misshapen

TOLERANCE = 1e-9


def are_close(found: float, wanted: float, tolerance: float) -> bool:
    """Return True if two numbers differ at most by the tolerance. The tolerance is a share of `wanted` if `wanted` is
    above 1 or below -1.
    """
    return abs(found - wanted) <= tolerance * max(1.0, abs(wanted))


SPECIFICATION = "spec"
IMPLEMENTATIONS = (SPECIFICATION, "go")
"""The implementations whose rules Hearsay's scorer and router can follow in a vector; `spec` is the specification."""
_DIFFERENCES = ("deficit_after_prune", "second_prune_counts")
REASONS = {
    "invalid_signature": Reason.BAD_SIGNATURE,
    "self_origin": Reason.SELF_ORIGIN,
    "validation_failed": Reason.REJECTED,
    "validation_ignored": Reason.IGNORED,
    "validation_throttled": Reason.THROTTLED,
    "queue_full": Reason.QUEUE_FULL,
}
TOPIC_PARTS = ("P1", "P2", "P3", "P3b", "P4")
PEER_PARTS = ("P5", "P6", "P7")
NAMES: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (files("hearsay.vectors") / "names.toml").read_text(encoding="utf-8")
)
"""Tables `router`, `thresholds`, `peer` and `topic` from names of parameters in vectors to Hearsay's names."""
_NUMBERS = dict(zip(NAMES["topic"], TopicNumbers._fields, strict=True))
_TABLES = {"score": "Score", "thresholds": "Thresholds", "topics": "Topics"}
_OURS = re.compile(r"[a-z][a-z_]*")
Step = Mapping[str, Any]


def peer_values(implementation: str) -> dict[str, Any]:
    """Return the parameters of `PeerScoreParameters` that depend on the implementation, not on the vector."""
    own = PeerScoreParameters(validation=Validation.SELECTIVE).to_mapping()
    if implementation == SPECIFICATION:
        return {"validation": own["validation"]}
    theirs = named_set(implementation).peer.to_mapping()
    return {"validation": own["validation"], **{name: theirs[name] for name in _DIFFERENCES}}


def is_time(ours: str) -> bool:
    """Return True if the parameter with this name in Hearsay is a time: microseconds in vectors, milliseconds in
    Hearsay.
    """
    return ours.endswith("_ms")


def read_parameters(given: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return the given parameters that a table of `NAMES` has, by Hearsay's names and with times in milliseconds."""
    known = NAMES[table]
    own = {known[name]: value for name, value in given.items() if name in known}
    return {ours: value // 1000 if is_time(ours) else value for ours, value in own.items()}


def made(
    kind: type[Parameters], values: Mapping[str, object], tables: Sequence[str], topics: Sequence[str] = ()
) -> Any:
    """Return an instance of `kind` with these values. Raise `Misshapen` for the first invalid parameter, with the
    parameter's name in vectors.

    `tables` are the tables of `NAMES` that have these parameters. `topics` are the names of the topics with score
    parameters, in the order of `values`.
    """
    try:
        return kind.from_mapping(values)
    except ParameterError as error:
        wrong = error.violations[0]
        names = {ours: name for table in tables for name, ours in NAMES[table].items()}
        way = [topics[int(step)] if step.isdecimal() else {**_TABLES, **names}.get(step, step)
               for step in wrong.field.split(".")]  # fmt: skip
        rule = _OURS.sub(lambda word: names.get(word[0], word[0]), wrong.rule)
        raise Misshapen(".".join(("parameters", *way)), rule) from None


def topic_numbers(given: Mapping[str, Any]) -> TopicNumbers:
    """Return a topic's parameters for a scorer, from parameters in a vector. A decay may be 1 (no decay), which
    `TopicScoreParameters` forbids.
    """
    ours = NAMES["topic"]
    numbers: dict[str, Any] = {
        _NUMBERS[name]: value if is_time(ours[name]) else float(value) for name, value in given.items()
    }
    return TopicNumbers(**numbers)


def new_scorer(parameters: Mapping[str, Any], implementation: str) -> Scorer:
    values = {**peer_values(implementation), **read_parameters(parameters, "peer")}
    peer: PeerScoreParameters = made(PeerScoreParameters, values, ("peer",))
    return Scorer(peer, {name: topic_numbers(topic) for name, topic in parameters.get("Topics", {}).items()})


_CALLS: Mapping[str, tuple[Callable[..., object], tuple[str, ...]]] = {
    "connect": (Scorer.connect, ("peer", "addresses")),
    "addresses": (Scorer.set_addresses, ("peer", "addresses")),
    "disconnect": (Scorer.disconnect, ("peer", "at")),
    "graft": (Scorer.graft, ("peer", "topic", "at")),
    "prune": (Scorer.prune, ("peer", "topic", "at")),
    "validate": (Scorer.validate, ("topic", "message", "at")),
    "deliver": (Scorer.deliver, ("peer", "topic", "message", "at")),
    "deliver_own": (Scorer.deliver, ("own", "topic", "message", "at")),
    "duplicate": (Scorer.duplicate, ("peer", "topic", "message", "at")),
    "reject": (Scorer.reject, ("peer", "topic", "message", "reason", "at")),
    "behaviour_penalty": (Scorer.penalise, ("peer", "count")),
    "application_score": (Scorer.set_application_score, ("peer", "score")),
    "topic_parameters": (Scorer.set_topic_parameters, ("topic", "parameters")),
    "refresh": (Scorer.refresh, ("at",)),
}
"""For each event the method of the scorer, and the keys of the step that have the arguments of the method. The key
`own` has the value None, for the node itself.
"""


def perform(scorer: Scorer, step: Step) -> None:
    """Call the scorer's method for the event of a step."""
    values: dict[str, Any] = {**step, "own": None}
    if "reason" in step:
        values["reason"] = REASONS[step["reason"]]
    if "parameters" in step:
        values["parameters"] = topic_numbers(step["parameters"])
    method, keys = _CALLS[step["event"]]
    method(scorer, *(values[key] for key in keys))


def parts_by_path(found: ScoreParts | None) -> dict[str, float]:
    """Return the parts of a score by path, such as `P6` or `topics.news.P1`; nothing for None, an unknown peer."""
    if found is None:
        return {}
    peer = (found.peer.application, found.peer.shared_addresses, found.peer.misbehaviour)
    parts: dict[str, float] = dict(zip(PEER_PARTS, peer, strict=True))
    for topic, own in found.topics:
        parts |= {f"topics.{topic}.{name}": value for name, value in zip(TOPIC_PARTS, own, strict=True)}
    return parts


def _expected_by_path(parts: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts of a score that a vector expects, by path."""
    own = {name: value for name, value in parts.items() if name != "topics"}
    for topic, named in parts.get("topics", {}).items():
        own |= {f"topics.{topic}.{name}": value for name, value in named.items()}
    return own


def run_scores(vector: Mapping[str, Any], implementation: str, tolerance: float) -> str | None:
    """Return a description of the first difference from the expectations of a vector of kind `score`; None without
    one.
    """
    scorer = new_scorer(vector["parameters"], implementation)
    expected: dict[str, Mapping[str, Any]] = {peer: {"score": 0.0} for peer in vector["peers"]}
    for number, step in enumerate(vector["steps"]):
        perform(scorer, step)
        expected |= {**step.get("expect", {}), **step.get("differs", {}).get(implementation, {})}
        for place, found, wanted in _compared(scorer, expected, step["at"]):
            if not are_close(found, wanted, tolerance):
                return (
                    f"step {number}, {step['event']} at {step['at']} us: {place} is {found:.12g}, not {wanted:.12g}"
                )
    return None


def _compared(
    scorer: Scorer, expected: Mapping[str, Mapping[str, Any]], at: int
) -> Iterator[tuple[str, float, float]]:
    """Yield for each value to compare its name, the value of the scorer, and the expected value."""
    for peer, worth in expected.items():
        yield f"the score of {peer}", scorer.score(peer, at), worth["score"]
        if "parts" in worth:
            found, wanted = parts_by_path(scorer.parts(peer, at)), _expected_by_path(worth["parts"])
            for name in sorted({*found, *wanted}):
                yield f"{name} of {peer}", found.get(name, 0.0), wanted.get(name, 0.0)
