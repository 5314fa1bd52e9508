"""`jumar version`: what a bug report needs, without importing any of it."""

from __future__ import annotations

import platform
import sys

import click

from jumar import __version__
from jumar.cli import show

_PACKAGES = (
    "torch",
    "torch_npu",
    "transformers",
    "diffusers",
    "accelerate",
    "onnxruntime",
    "numpy",
    "safetensors",
    "tokenizers",
    "huggingface_hub",
    "soundfile",
    "av",
    "pillow",
    "vllm",
    "vllm_ascend",
    "pydantic",
    "click",
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(as_json: bool) -> None:
    """Print the versions of Jumar, Python and what models need."""
    versions = {
        "jumar": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        **{name: _version_of(name) for name in _PACKAGES},
    }
    if as_json:
        show.as_json(versions)
        return
    show.columns([(name, version) for name, version in versions.items() if version], indent=0)
    if missing := [name for name, version in versions.items() if version is None]:
        click.secho(f"not installed: {', '.join(missing)}", dim=True)


def _version_of(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
