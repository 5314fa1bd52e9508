"""Labels of texts by the pieces that they are made of: linear models, in NumPy, without a network.

Only the numbers of a package are read; none of its code runs.
"""

from __future__ import annotations

from jumar.runtime.families.ngrams.family import Ngrams

__all__ = ["Ngrams"]
