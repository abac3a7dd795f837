"""This package as a zip, for the Python of a cluster."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

_PACKAGE = Path(__file__).parents[2]


def zip_package(folder: Path) -> Path:
    """Create the zip in `folder`, and return its path."""
    target = folder / "hearsay.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for file in sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.toml")]):
            archive.write(file, file.relative_to(_PACKAGE.parent))
    return target
