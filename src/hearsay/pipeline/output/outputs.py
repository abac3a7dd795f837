"""The outputs of an analysis: their locks, and the files that a report needs in addition to the tables."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hearsay.foreign_files import open_regular
from hearsay.pipeline.output.folders import Folder, is_same
from hearsay.pipeline.output.tables import METRICS_FOLDER
from hearsay.trace.folder.durable import DurableFile, write_durably
from hearsay.trace.folder.manifest import MANIFEST
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.write.run_folder import DICTIONARIES

CARRIED = (
    *(f"{DICTIONARIES}/{name}.parquet" for name in ("peers", "topics", "messages")),
    "summary.json",
    "scenario.toml",
    MANIFEST,
)
"""The files of a run that a report needs in addition to the tables."""


def is_for_a_report(name: str) -> bool:
    """Return True for a file of an output that a report reads."""
    return name in CARRIED or name.startswith(f"{METRICS_FOLDER}/")


@contextmanager
def claimed_outputs(runs: Mapping[str, Path], outputs: Mapping[str, Folder]) -> Generator[None]:
    """Lock the outputs of these runs, by run name. Raises `RunFolderError` if one is not a folder of this program or
    is used by another process.
    """
    with ExitStack() as claimed:
        taken: set[str | Path] = set()
        for name, output in outputs.items():
            if output.identity in taken:
                raise RunFolderError(f"{output}: named twice")
            taken.add(output.identity)
            claimed.enter_context(output.claim(runs[name]))
        yield


def carry(run: Path, output: Folder) -> None:
    """Copy the files that a report needs in addition to the tables."""
    if is_same(run, output.path):
        return
    try:
        for name in CARRIED:
            if (run / name).is_file():
                (output.path / name).parent.mkdir(exist_ok=True)
                _copy(run / name, output.path / name)
                output.copy_to_store(name)
    except OSError as error:
        raise RunFolderError(f"{error.filename or output}: cannot be written ({error.strerror or error})") from None


def _copy(source: Path, target: Path) -> None:
    def fill(file: DurableFile) -> None:
        with open_regular(source) as opened:
            while data := opened.read(1 << 20):
                file.write(data)

    write_durably(target, fill)
