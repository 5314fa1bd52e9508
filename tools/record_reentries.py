"""Write which operators torch's operators call, for the torch that is installed.

    python tools/record_reentries.py

Takes some minutes. `live()` reads the file where torch has the same version.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from jumar.operators.catalogue import torch_names
from jumar.operators.catalogue.base import Catalogue
from jumar.operators.catalogue.record import SHIPPED, write
from jumar.operators.catalogue.reentry import find


def main() -> int:
    """Ask of every operator; write the answers."""
    known = torch_names.read()
    version = known.versions["torch"].partition("+")[0]
    found = find(known.operators)
    path = SHIPPED / f"torch-{version}.json"
    part = replace(Catalogue({"torch": version}, {}), reentries=found)
    write(part, path, source="run on made-up tensors and torch's own samples, on the CPU")
    unknown = sum(calls is None for calls in found.values())
    print(f"{path}: {len(found)} operators, {unknown} of them not found out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
