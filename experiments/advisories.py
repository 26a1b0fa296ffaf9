"""Known vulnerabilities of the pins, without the network: python -m experiments.advisories PATH.

PATH holds advisories in the OSV format: the archive of the PyPI ecosystem that OSV exports (all.zip), a
folder of such files, or a checkout of PyPA's advisory database, whose files are YAML. Exit status 1: a pinned
version is affected, or whether it is cannot be told; 2: there is nothing to look up.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

PINS = Path(__file__).parents[1] / "constraints.txt"
SUFFIXES = (".json", ".yaml", ".yml")


class Found(NamedTuple):
    """An advisory about a pinned version."""

    package: str
    version: str
    advisory: str
    words: str


def pins(path: Path = PINS) -> dict[str, str]:
    """Versions of the packages of a file of pins, by canonical name."""
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    found = {}
    for requirement in [Requirement(line) for line in lines if line]:
        (pin,) = requirement.specifier
        if pin.operator != "==":
            raise ValueError(f"{path} must pin every package by ==, got {requirement}")
        found[canonicalize_name(requirement.name)] = pin.version
    return found


def advisories(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a folder, an archive or a single file; those that were withdrawn are left out."""
    for name, text in _texts(path):
        try:
            record = json.loads(text) if name.endswith(".json") else _from_yaml(text)
        except Exception as error:  # of the parsers, which have their own kinds
            raise ValueError(f"{name} cannot be read: {error}") from None
        if isinstance(record, dict) and "affected" in record and not record.get("withdrawn"):
            yield record


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in SUFFIXES:
                yield file.name, file.read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(SUFFIXES):
                    yield name, archive.read(name)
    else:
        yield path.name, path.read_bytes()


def _from_yaml(text: bytes) -> Any:
    import yaml

    return yaml.safe_load(text)


def affected(version: str, entry: dict[str, Any]) -> bool:
    """Whether an entry of an advisory holds for a version: it is listed, or in one of the ranges.

    Raises
    ------
    InvalidVersion
        If the ends of a range are no versions of Python packages, so that nobody can tell.
    """
    given = Version(version)
    if any(_same(given, listed) for listed in entry.get("versions") or ()):
        return True
    ranges = [part for part in entry.get("ranges") or () if part.get("type") in ("ECOSYSTEM", "SEMVER")]
    return any(_within(given, part.get("events") or ()) for part in ranges)


def _same(version: Version, text: Any) -> bool:
    try:
        return version == Version(str(text))
    except InvalidVersion:
        return False  # a version that is none is not the pinned one


def _within(version: Version, events: Iterable[dict[str, Any]]) -> bool:
    """Whether the last event at or before a version leaves it affected."""
    ordered = sorted(
        (Version(str(text)), kind != "introduced", kind) for event in events for kind, text in event.items()
    )
    inside = False
    for place, _, kind in ordered:
        if kind == "introduced" and version >= place:
            inside = True
        elif (kind == "fixed" and version >= place) or (kind == "last_affected" and version > place):
            inside = False
    return inside


def look_up(pinned: dict[str, str], records: Iterable[dict[str, Any]]) -> tuple[list[Found], int, str]:
    """What is known about the pins, the number of advisories, and when the last of them was changed."""
    found = []
    count = 0
    newest = ""
    for record in records:
        entries = [entry for entry in record["affected"] if _ecosystem(entry) == "PyPI"]
        count += bool(entries)
        newest = max(newest, str(record.get("modified", ""))[:10])
        for entry in entries:
            name = canonicalize_name(entry["package"]["name"])
            if name in pinned:
                words = _judged(pinned[name], entry, record)
                found += [Found(name, pinned[name], str(record.get("id")), words)] if words else []
    return list(dict.fromkeys(found)), count, newest


def _ecosystem(entry: dict[str, Any]) -> str:
    return str((entry.get("package") or {}).get("ecosystem", "")).partition(":")[0]


def _judged(version: str, entry: dict[str, Any], record: dict[str, Any]) -> str:
    """What the advisory says, or that it cannot be told whether it holds; nothing if it does not hold."""
    also = ", ".join(record.get("aliases") or ())
    what = str(record.get("summary") or record.get("details") or "no summary").strip().splitlines()[0]
    try:
        return f"{what[:100]} ({also})" if affected(version, entry) else ""
    except InvalidVersion as error:
        return f"cannot tell: {error}"


def main(arguments: list[str] | None = None) -> int:
    """Look up the pins and say what was looked up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="archive or folder of advisories in the OSV format")
    parser.add_argument("--pins", type=Path, default=PINS, help="file of pinned versions")
    options = parser.parse_args(arguments)
    if not options.path.exists():
        parser.error(f"there is no file or folder {options.path}")
    pinned = pins(options.pins)
    try:
        found, count, newest = look_up(pinned, advisories(options.path))
    except ValueError as error:
        parser.error(str(error))
    if not count:
        parser.error(f"{options.path} holds no advisories about PyPI packages")
    for item in found:
        print(f"{item.package} {item.version}: {item.advisory}: {item.words}")
    about = f"{len(pinned)} pins, {count} advisories, the last of {newest or 'unknown date'}"
    print(f"{about}: {len(found)} apply" if found else f"{about}: none applies")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
