"""The results of tasks are read as data: the same values, and nothing that runs."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hearsay.ingest.message_facts import MessageFacts, PairDelays
from hearsay.ingest.workers import BadResult, from_bytes, to_bytes
from hearsay.trace.folder.manifest import TraceFile, WrittenTrace


class Runs:
    """A pickle as a hostile server would send it: reading it writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def test_results_come_back_as_they_were():
    file = TraceFile("trace/class=rpc/part-00001.parquet", "rpc", 1, 2, 3, 4, "ab")
    for value in (None, "why", Counter({3: 2, -1: 5}), WrittenTrace((file,), 1, "ff", (), 0)):
        assert from_bytes(to_bytes(value)) == value
    numbers = np.arange(3)
    facts, delays = from_bytes(to_bytes((MessageFacts(*[numbers] * 4), PairDelays(*[numbers + 1] * 4))))
    assert [each.tolist() for each in facts] == [[0, 1, 2]] * 4
    assert delays.delay_us.tolist() == [1, 2, 3]


def test_a_pickle_is_not_run(tmp_path):
    hostile = tmp_path / "ran"
    for data in (pickle.dumps(Runs(hostile)), b"", b"PK\3\4", to_bytes({1: 2})[:-30]):
        with pytest.raises(BadResult):
            from_bytes(data)
    assert not hostile.exists()
