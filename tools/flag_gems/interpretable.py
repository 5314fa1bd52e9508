"""Loaded once for all workers of the check: FlagGems, and sizes that an interpreter gets through.

At the size of a vocabulary one call takes minutes. What so many columns still do is to need several
blocks in every kernel, the last one not full.
"""

import flag_gems  # noqa: F401  (two seconds; it uses no card yet, so that workers can be forked)

from jumar.lab.check import adversarial

adversarial.VOCABULARY = 1_031
adversarial.LARGEST = 1 << 13
