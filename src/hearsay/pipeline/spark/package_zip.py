"""This package as a zip that Python imports from, for clusters. What happens there: `start_from_zip.py`."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from hearsay.pipeline.spark.start_from_zip import PROGRAM

_PACKAGE = Path(__file__).parents[2]
_START = "pipeline/spark/start_from_zip.py"


def zip_package(folder: Path) -> Path:
    """The zip, made in this folder. Equal sources make equal bytes, after which it is known where it is unpacked."""
    target = folder / "hearsay.zip"
    with ZipFile(target, "w") as archive:
        _add(archive, "hearsay/__init__.py", _PACKAGE / _START)
        for file in sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.toml")]):
            _add(archive, f"{PROGRAM}/hearsay/{file.relative_to(_PACKAGE).as_posix()}", file)
    return target


def _add(archive: ZipFile, name: str, file: Path) -> None:
    archive.writestr(ZipInfo(name), file.read_bytes(), ZIP_DEFLATED)
