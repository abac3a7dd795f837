"""A folder in a store. A store is a file system that Hadoop can access (`s3a:`, `hdfs:`, …).

The settings of a Spark session say how to access it.

PySpark reads files by name, but has no public way to write, move or remove one, except over Connect
(`copyFromLocalToFs`). So this module, and no other, calls the JVM of a session.

Rules:

* `path` is a local folder. Small files are read and written there, and copied from and to the store.
* Spark reads the rows of a run and writes large tables at `location`, which is the URI.
* A store has no lock. Each analysis has its own work folder. If several analyses write into the folder at the same
  time, readers use the tables of the analysis that began to publish last.
* Files that no manifest names may belong to an analysis that still runs. A week after its beginning, that analysis
  counts as killed, and its files can be removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from time import time_ns
from typing import TYPE_CHECKING, Any

from hearsay.pipeline.output.folders import CARRIED, WORK, Folder
from hearsay.trace.folder.manifest import MANIFEST, load_manifest
from hearsay.trace.folder.own_folders import Holds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ABANDONED_AFTER_US = 7 * 24 * 3600 * 1_000_000
_WORK_FOLDER = re.compile(rf"{re.escape(WORK)}-([0-9]{{16}})-[0-9a-f]{{8}}")


def folder_at(place: Path | str, spark: SparkSession | None, scratch: Path) -> Folder:
    """Return the folder at a path or at a URI.

    A folder at a URI has its local copies of files in a new folder below `scratch`. Without a session (`spark` is
    None), every place is a local path.
    """
    if isinstance(place, Path) or spark is None:
        return Folder(Path(place))
    uri = place.rstrip("/")
    return HadoopFolder(spark, uri, Path(mkdtemp(dir=scratch)) / uri.rpartition("/")[2])


def within(place: Path | str, name: str) -> Path | str:
    """Return the path or URI of `name` below `place`."""
    return place / name if isinstance(place, Path) else f"{place.rstrip('/')}/{name}"


def send_run(folder: Folder) -> None:
    """Copy a complete run from the folder's local `path` to the store. The manifest appears last, as a whole."""
    sealing = f".{MANIFEST}.tmp"
    (folder.path / MANIFEST).rename(folder.path / sealing)
    for name in sorted(Folder(folder.path).files("")):
        folder.copy_to_store(name)
    folder.move_from(folder, sealing, MANIFEST)


class HadoopFolder(Folder):
    """A folder in a store."""

    def __init__(self, spark: SparkSession, uri: str, path: Path) -> None:
        super().__init__(path)
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415  it comes with Spark

        self._java_error = Py4JJavaError
        self.work = f"{WORK}-{time_ns() // 1000}-{token_hex(4)}"
        path.mkdir(parents=True, exist_ok=True)
        context: Any = spark.sparkContext
        self._hadoop = context._jvm.org.apache.hadoop.fs
        self._conf = context._jsc.hadoopConfiguration()
        self._uri = uri
        self._store = self._at("").getFileSystem(self._conf)
        self._copied: dict[str, tuple[int, int]] = {}

    def __str__(self) -> str:
        return self._uri

    @property
    def location(self) -> str:
        return self._uri

    @property
    def store(self) -> str:
        return self._store.getUri().toString()

    @property
    def identity(self) -> str | Path:
        return self._uri

    def is_abandoned(self, since_us: int) -> bool:
        return since_us < time_ns() // 1000 - _ABANDONED_AFTER_US

    def claim(self, run: Path) -> AbstractContextManager[object]:
        root = self._at("")
        for status in self._store.listStatus(root) if self._store.exists(root) else ():
            found = _WORK_FOLDER.fullmatch(status.getPath().getName())
            if found and self.is_abandoned(int(found[1])):
                self.remove(found[0])
        return nullcontext()

    def make_folder(self, name: str, what: Holds) -> None:
        (self.path / name).mkdir(parents=True, exist_ok=True)

    def problems(self) -> list[str]:
        """Return a line for each file that is missing or has another size than the manifest says.

        Spark reports other damage when it reads the files.
        """
        self.refresh(CARRIED.__contains__)
        manifest = load_manifest(self.path)
        there = self._found("")
        sizes = {file.name: file.bytes for file in (*manifest.trace.files, *manifest.others)}
        return [
            f"{name}: {there[name][0]} bytes instead of {size}" if name in there else f"{name}: missing"
            for name, size in sizes.items()
            if name not in there or there[name][0] != size
        ]

    def refresh(self, wanted: Callable[[str], bool]) -> None:
        there = {name: stamp for name, stamp in self._found("").items() if wanted(name)}
        for name in self._copied.keys() - there.keys():
            (self.path / name).unlink(missing_ok=True)
        for name, stamp in there.items():
            if self._copied.get(name) != stamp:
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                self._store.copyToLocalFile(False, self._at(name), self._here(name), True)
        self._copied = there

    def files(self, name: str) -> list[str]:
        return list(self._found(name))

    def copy_to_store(self, name: str) -> None:
        local = self._hadoop.FileSystem.getLocal(self._conf)
        self._hadoop.FileUtil.copy(local, self._here(name), self._store, self._at(name), False, True, self._conf)

    def move_from(self, source: Folder, name: str, new: str) -> None:
        self._store.mkdirs(self._at(new).getParent())
        if not self._store.rename(self._hadoop.Path(f"{source.location}/{name}"), self._at(new)):
            raise OSError(f"{self._uri}/{new}: {source.location}/{name} cannot be moved there")
        if (source.path / name).exists():
            super().move_from(source, name, new)

    def remove(self, name: str) -> None:
        self._store.delete(self._at(name), True)
        super().remove(name)

    def _found(self, name: str) -> dict[str, tuple[int, int]]:
        """Return size and modification time of each file below the folder `name`, by the file's name."""
        start = len(self._store.makeQualified(self._at("")).toString()) + 1
        files = self._files(self._at(name))
        return {file.getPath().toString()[start:]: (file.getLen(), file.getModificationTime()) for file in files}

    def _files(self, path: Any) -> Iterator[Any]:
        """Yield all files below a path; none if the path is missing.

        Folders are listed one by one, because a recursive listing of Hadoop fails if a file is removed meanwhile.
        """
        try:
            inside = self._store.listStatus(path)
        except self._java_error as error:
            if "java.io.FileNotFoundException" not in str(error) and self._store.exists(path):
                raise
            return
        for there in inside:
            if there.isDirectory():
                yield from self._files(there.getPath())
            else:
                yield there

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(f"{self._uri}/{name}")

    def _here(self, name: str) -> Any:
        return self._hadoop.Path(f"file:{self.path.absolute() / name}")
