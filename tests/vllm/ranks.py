"""Greedy tokens of an engine of several ranks: `python -m tests.vllm.ranks FOLDER KIND RANKS`, of
the kind `tensor` or `pipeline`.

One line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.vllm import references
from tests.vllm.engines import answers, engine

COUNT = 16


def main() -> None:
    """Each rank is a process; what vLLM prints goes to stderr."""
    folder, kind, ranks = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with engine(Path(folder), **{f"{kind}_parallel_size": int(ranks)}) as llm:
        print(json.dumps(answers(llm, references.MIXED, COUNT)), file=out)


if __name__ == "__main__":
    main()
