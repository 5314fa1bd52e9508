"""Check operators of FlagGems on the emulated NPU and print the verdicts: `make flag-gems`.

    table.py [--workers N] FOLDER [DTYPE …]

Findings are kept in FOLDER, with reproducers, and not made again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from jumar.evidence.records import BAD
from jumar.lab.check import Finding, Summary, Target, check, session

OPERATORS = """
aten::_log_softmax aten::_softmax aten::_to_copy aten::add.Tensor aten::addmm aten::all
aten::any aten::argmax aten::argmin aten::bmm aten::cat aten::div.Tensor
aten::embedding aten::exp aten::exponential_ aten::fill.Scalar aten::gather aten::gelu
aten::index.Tensor aten::isin.Tensor_Tensor aten::log aten::masked_fill.Scalar aten::max.dim
aten::mean.dim aten::mm aten::mm.out aten::mul.Tensor aten::native_layer_norm
aten::pow.Tensor_Scalar aten::pow.Tensor_Tensor aten::silu aten::sub.Tensor
aten::sum.dim_IntList aten::tanh aten::where.self aten::zeros
gelu_and_mul rms_norm rotary_embedding silu_and_mul
""".split()
DTYPES = ("float32", "float16")
"""Not bfloat16: Triton's interpreter cuts where hardware rounds."""
LIMIT_S = 60.0
SEEN = 110
"""Characters of what was seen that the table has room for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("folder", type=Path)
    parser.add_argument("dtypes", nargs="*", default=DTYPES)
    given = parser.parse_args()
    outside = given.folder.resolve() / "outside.txt"
    outside.parent.mkdir(parents=True, exist_ok=True)
    os.environ["GEMS_OUTSIDE"] = str(outside)
    session.PRELOAD = (*session.PRELOAD, "interpretable")
    summary = check(
        Target("flag_gems", "npu:0"),
        OPERATORS,
        dtypes=given.dtypes,
        folder=given.folder,
        limit=LIMIT_S,
        workers=given.workers,
        progress=lambda done, total: print(done.task.operator, done.task.dtype, file=sys.stderr),
    )
    print("\n".join(rows(summary)))
    print("\n".join(loads(outside.read_text().splitlines() if outside.exists() else [])))


def rows(summary: Summary) -> Iterator[str]:
    """A line of Markdown per operator and dtype; a defect that differs by shape is told once."""
    yield "| operator | dtype | cases | verdicts | what was seen |\n|---|---|---|---|---|"
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in summary.findings:
        groups.setdefault((one.case.operator, one.case.dtype), []).append(one)
    for (operator, dtype), group in groups.items():
        kinds = Counter(one.verdict.kind for one in group)
        said = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        yield f"| `{operator}` | {dtype} | {len(group)} | {said} | {'; '.join(seen(group))} |"
    for operator, why in summary.refused.items():
        yield f"| `{operator}` | | 0 | not judged | {why} |"
    for task, why in summary.not_run.items():
        yield f"| `{task}` | | | | {why} |"
    operators = {one.case.operator for one in summary.findings}
    counted = ", ".join(f"{count} {kind}" for kind, count in summary.kinds().items())
    yield f"\n{len(operators)} operators, {len(summary.findings)} cases: {counted}"
    yield f"Held against: {', '.join(f'{k} {v}' for k, v in summary.fingerprint.items())}"


def seen(group: Iterable[Finding]) -> Iterator[str]:
    """Each different reason of a bad verdict, with the input that first showed it."""
    first: dict[str, str] = {}
    for one in group:
        if one.verdict.kind in BAD:
            reason = one.verdict.reason.replace("|", "\\|")[:SEEN]
            first.setdefault(reason, f"{one.case.source}: {reason}")
    return iter(first.values())


def loads(lines: Iterable[str]) -> Iterator[str]:
    """The kernels that load outside their arguments."""
    launches = Counter(line.split()[0] for line in lines)
    yield "\n| kernel that loads outside its arguments | loads |\n|---|---|"
    yield from (f"| `{kernel}` | {count} |" for kernel, count in sorted(launches.items()))


if __name__ == "__main__":
    main()
