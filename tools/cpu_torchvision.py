"""Lets the package index's torchvision be imported beside a CPU build of torch.

    .venv-vllm/bin/python tools/cpu_torchvision.py

The index has torchvision for x86 built against CUDA only. Its transforms, which the image
processors of transformers use, are Python and need no CUDA; but importing it describes two
operators of its library, which such a torch cannot load, and fails. This declares the two in the
installed package; calling any of its operators still raises torchvision's own error. Nothing
changes where the library loads.
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

MARK = "# Declared by tools/cpu_torchvision.py"
DECLARED = f"""

{MARK}: the library with these two operators was not loaded.
if not _has_ops():
    torch.library.define(
        "torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )
    torch.library.define(
        "torchvision::qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )
"""


def main() -> None:
    """Append the declarations to the installed package, once."""
    extension = Path(str(distribution("torchvision").locate_file("torchvision/extension.py")))
    source = extension.read_text()
    if MARK not in source:
        extension.write_text(source + DECLARED)


if __name__ == "__main__":
    main()
