"""CPU time and memory of a process and its descendants, from `/proc`."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

LOOK_EVERY_S = 0.25
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def family(root: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            children.setdefault(int(_words(file)[1]), []).append(int(file.parent.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Return the CPU seconds of a process and its living descendants."""
    seconds = 0.0
    for pid in family(root):
        with suppress(OSError):
            seconds += process_cpu_seconds(pid)
    return seconds


def process_cpu_seconds(pid: int) -> float:
    """Return the user and system seconds of a process. Raise OSError if it has ended."""
    words = _words(Path(f"/proc/{pid}/stat"))
    return (int(words[11]) + int(words[12])) / TICKS_PER_S


@dataclass
class PeakMemory:
    """Peak memory of a process and its descendants while the context lasts, in MiB; shared pages count once.

    `together` is the peak of the sum; the other fields are the peaks of single processes.
    """

    root: int
    together: float = 0.0
    jvm: float = 0.0
    largest_python: float = 0.0
    _over: Event = field(default_factory=Event)

    def __enter__(self) -> PeakMemory:
        self._watcher = Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            together = 0.0
            for pid in family(self.root):
                with suppress(OSError):
                    held, program = _held_mib(pid), Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
                    together += held
                    if program.endswith(b"java"):  # also a process that the JVM has just forked
                        self.jvm = max(self.jvm, held)
                    else:
                        self.largest_python = max(self.largest_python, held)
            self.together = max(self.together, together)


def _words(stat: Path) -> list[str]:
    """Return the fields of `/proc/PID/stat` after the name, which may contain spaces: state, parent and others."""
    return stat.read_text().rpartition(")")[2].split()


def _held_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
