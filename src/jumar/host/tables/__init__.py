"""Tables that come with Jumar, as tab-separated text with a header line.

soc_names.tsv           chips: name, torch_npu's number, product line, generation
torch_npu_compat.tsv    torch_npu, torch and CANN versions that belong together
vllm_ascend_matrix.tsv  what each vllm-ascend release was made for
torch_npu_compat_zh.tsv what the Chinese page lists besides
torch_python.tsv        which Pythons a torch release supports
driver_cann.tsv         the oldest driver for a CANN (reported by users)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table by column name; missing cells are empty texts."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    head, *lines = [line.split("\t") for line in text.splitlines() if line.strip()]
    return tuple(
        dict(zip(head, line + [""] * (len(head) - len(line)), strict=True)) for line in lines
    )
