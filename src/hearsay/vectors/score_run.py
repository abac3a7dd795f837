"""A vector of scores, run on our scorer: after each step every peer must have its expected score.

A step names the peers whose scores change. All other peers must keep their scores. At first all scores are 0. So
every change is noticed. Implementations may add in any order, so numbers are compared with a tolerance."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from hearsay.core.language.actions import Reason
from hearsay.core.language.state import ScoreParts
from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.named_sets import named_set
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers
from hearsay.core.scores.scorer import Scorer
from hearsay.core.shell.parameters import ParameterError, Parameters
from hearsay.vectors.schema import Misshapen

TOLERANCE = 1e-9


def are_close(found: float, wanted: float, tolerance: float) -> bool:
    """Return whether two numbers are equal within the tolerance, which is relative for numbers above 1."""
    return abs(found - wanted) <= tolerance * max(1.0, abs(wanted))


SPECIFICATION = "spec"
IMPLEMENTATIONS = (SPECIFICATION, "go")
"""Implementations whose rules our routers can follow in a vector."""
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
"""Our names of parameters by the vectors' names, in tables `router`, `thresholds`, `peer` and `topic`."""
_NUMBERS = dict(zip(NAMES["topic"], TopicNumbers._fields, strict=True))
_TABLES = {"score": "Score", "thresholds": "Thresholds", "topics": "Topics"}
_OURS = re.compile(r"[a-z][a-z_]*")
Step = Mapping[str, Any]


def peer_values(implementation: str) -> dict[str, Any]:
    """Return the score parameters by which an implementation differs from the specification."""
    own = PeerScoreParameters(validation=Validation.SELECTIVE).to_mapping()
    if implementation == SPECIFICATION:
        return {"validation": own["validation"]}
    theirs = named_set(implementation).peer.to_mapping()
    return {"validation": own["validation"], **{name: theirs[name] for name in _DIFFERENCES}}


def is_time(ours: str) -> bool:
    """Return whether a parameter is a time: microseconds in vectors, milliseconds here."""
    return ours.endswith("_ms")


def read_parameters(given: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return the parameters of a table of `NAMES` by our names, with times in milliseconds; others are left out."""
    known = NAMES[table]
    own = {known[name]: value for name, value in given.items() if name in known}
    return {ours: value // 1000 if is_time(ours) else value for ours, value in own.items()}


def made(
    kind: type[Parameters], values: Mapping[str, object], tables: Sequence[str], topics: Sequence[str] = ()
) -> Any:
    """Return parameters of our type `kind`. Raises `Misshapen` for an invalid one, by its name in the vector.

    `tables` are the tables of `NAMES` for this translation; `topics` are the names of the topics, by number.
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
    """Return a topic's parameters for a scorer. A decay may be 1 (no decay), which `TopicScoreParameters` refuses."""
    ours = NAMES["topic"]
    numbers: dict[str, Any] = {
        _NUMBERS[name]: value if is_time(ours[name]) else float(value) for name, value in given.items()
    }
    return TopicNumbers(**numbers)


def new_scorer(parameters: Mapping[str, Any], implementation: str) -> Scorer:
    values = {**peer_values(implementation), **read_parameters(parameters, "peer")}
    peer: PeerScoreParameters = made(PeerScoreParameters, values, ("peer",))
    return Scorer(peer, {name: topic_numbers(topic) for name, topic in parameters.get("Topics", {}).items()})


def perform(scorer: Scorer, step: Step) -> None:
    """Call the scorer with the event of a step."""
    now: int = step["at"]
    peer, topic, message = (str(step.get(name, "")) for name in ("peer", "topic", "message"))
    match step["event"]:
        case "connect":
            scorer.connect(peer, step["addresses"])
        case "addresses":
            scorer.set_addresses(peer, step["addresses"])
        case "disconnect":
            scorer.disconnect(peer, now)
        case "graft":
            scorer.graft(peer, topic, now)
        case "prune":
            scorer.prune(peer, topic, now)
        case "validate":
            scorer.validate(topic, message, now)
        case "deliver":
            scorer.deliver(peer, topic, message, now)
        case "deliver_own":
            scorer.deliver(None, topic, message, now)
        case "duplicate":
            scorer.duplicate(peer, topic, message, now)
        case "reject":
            scorer.reject(peer, topic, message, REASONS[step["reason"]], now)
        case "behaviour_penalty":
            scorer.penalise(peer, step["count"])
        case "application_score":
            scorer.set_application_score(peer, step["score"])
        case "topic_parameters":
            scorer.set_topic_parameters(topic, topic_numbers(step["parameters"]))
        case _:
            scorer.refresh(now)


def named_parts(found: ScoreParts | None) -> dict[str, Any]:
    """Return the parts of a score that are not 0, by their names."""
    if found is None:
        return {}
    worths = (found.peer.application, found.peer.shared_addresses, found.peer.misbehaviour)
    parts: dict[str, Any] = {name: worth for name, worth in zip(PEER_PARTS, worths, strict=True) if worth}
    topics: dict[str, dict[str, float]] = {}
    for topic, own in found.topics:
        named = {name: worth for name, worth in zip(TOPIC_PARTS, own, strict=True) if worth}
        if named:
            topics[str(topic)] = named
    return {**parts, **({"topics": topics} if topics else {})}


def flat(parts: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts by their paths: `P6`, `topics.news.P1`."""
    own = {name: worth for name, worth in parts.items() if name != "topics"}
    for topic, named in parts.get("topics", {}).items():
        own |= {f"topics.{topic}.{name}": worth for name, worth in named.items()}
    return own


def run_scores(vector: Mapping[str, Any], implementation: str, tolerance: float) -> str | None:
    """Return the first difference from the vector's expectations; None if there is none."""
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
    """Yield each value that is compared: its name, the value found and the value expected."""
    for peer, worth in expected.items():
        yield f"the score of {peer}", scorer.score(peer, at), worth["score"]
        if "parts" in worth:
            found, wanted = flat(named_parts(scorer.parts(peer, at))), flat(worth["parts"])
            for name in sorted({*found, *wanted}):
                yield f"{name} of {peer}", found.get(name, 0.0), wanted.get(name, 0.0)
