"""Models that are run by their own script, as a command, from the operator's checkout.

checkout = find(plan)                    # nothing runs before everything is there
launch = launch_of(plan)                 # which cards, how many processes
argv = command(checkout, launch, values) # what to call it is data of the manifest
"""

from __future__ import annotations

from jumar.runtime.families.avatar.family import Avatar

__all__ = ["Avatar"]
