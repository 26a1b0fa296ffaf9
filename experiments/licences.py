"""Licences of the installed packages: python -m experiments.licences; fails on one that is not permissive."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions

REFUSED = ("GPL", "AGPL", "SSPL", "PROPRIETARY")
ALLOWED_ALL_THE_SAME = {"docutils"}  # parts are public domain and BSD; used to build the docs only


def licence(package: Distribution) -> str:
    """What the package says of itself: the expression, the classifiers, or the first line of the text."""
    about = package.metadata
    classifiers = about.get_all("Classifier") or []
    classified = [text.rpartition(" :: ")[2] for text in classifiers if text.startswith("License")]
    said = about.get("License-Expression") or "; ".join(classified) or about.get("License") or "unknown"
    return said.strip().splitlines()[0][:60]


def main() -> int:
    """List them; exit status 1 if one is refused."""
    bad = 0
    for package in sorted(distributions(), key=lambda package: package.metadata["Name"].lower()):
        said = licence(package)
        name = package.metadata["Name"]
        lesser = "LESSER" in said.upper() or "LGPL" in said.upper()
        refused = any(word in said.upper() for word in REFUSED) and not lesser
        refused = refused and name not in ALLOWED_ALL_THE_SAME
        bad += refused
        print(f"{'REFUSED ' if refused else ''}{name} {package.version}: {said}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
