"""Who was in which topic, as an analysis stores it while it runs: for the tasks that need it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet

from hearsay.pipeline.kernels.sums import Ints

parquet: Any = pyarrow.parquet


@dataclass(frozen=True, slots=True)
class Members:
    """Who was in which topic from when to when."""

    topic: Ints
    node: Ints
    since_us: Ints
    until_us: Ints

    def of_topic(self, topic: int) -> Members:
        mine = self.topic == topic
        return Members(self.topic[mine], self.node[mine], self.since_us[mine], self.until_us[mine])


def read_members(folder: str) -> Members:
    """From a folder of Parquet; without the folder there are none."""
    if not Path(folder).exists():
        return Members(*(np.empty(0, dtype=np.int64) for _ in range(4)))
    table = parquet.read_table(folder, columns=["topic", "node", "since_us", "until_us"], partitioning=None)
    return Members(*(table.column(name).to_numpy() for name in table.column_names))
