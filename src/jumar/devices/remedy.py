"""What the doctor's rules make of an error's own words."""

from __future__ import annotations

import io


def remedy(text: str) -> str | None:
    """The rule that knows a text, and the first command of its fix; None where none does.

    >>> remedy("ImportError: libhccl.so: cannot open shared object file: No such file or directory")
    'The CANN environment is not loaded (log-cann-environment): source …/set_env.sh'
    """
    from jumar.host.doctor import arrange, classify

    found = arrange(classify(io.BytesIO(text.encode())))
    if not found:
        return None
    lines = found[0].fix("en")
    first = next((line for line in lines if not line.startswith("# ")), lines[0].lstrip("# "))
    return f"{found[0].title('en')} ({found[0].id}): {first}"
