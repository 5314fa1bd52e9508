"""Makes `import torch_npu` find the emulated module, with a spec and a version, in this process."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike
    from types import ModuleType

HERE = Path(__file__).with_name("torch_npu")
VERSIONS = {"2.13": "2.13.0+emulated", "2.1": "2.1.0.post6+emulated"}


def version() -> str:
    """The version that the emulated torch_npu has in this process."""
    from jumar.emulator.start import current_settings

    return VERSIONS[current_settings().profile]


class EmulatedDistribution(Distribution):
    """What `importlib.metadata.version("torch_npu")` reads."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch_npu\nVersion: {version()}\n"

    def locate_file(self, path: str | PathLike[str]) -> Path:
        return HERE.parent / path


class EmulatedFinder(DistributionFinder):
    """Knows one package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch_npu":
            return None
        return spec_from_file_location(
            fullname, HERE / "__init__.py", submodule_search_locations=[str(HERE)]
        )

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterable[Distribution]:
        if context.name is None or context.name.replace("-", "_") == "torch_npu":
            yield EmulatedDistribution()


def install() -> None:
    """Add the finder to `sys.meta_path`."""
    sys.meta_path.append(EmulatedFinder())
