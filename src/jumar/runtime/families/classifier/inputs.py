"""Texts, and what stands beside each of them."""

from __future__ import annotations

from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidInput

BESIDE = {
    "classification": "text_pairs",
    "reranking": "query",
    "entailment": "hypotheses",
    "decisions": "hypotheses",
}
"""By task, the input with one text for each of the texts, or one for all."""


def prepared(request: ResolvedRequest) -> dict[str, Any]:
    """`texts` as a list, and the input beside it as a list of the same length, where it is given.

    Raises:
        InvalidInput: a text is missing or blank, or there are not as many beside.
    """
    inputs = dict(request.inputs)
    for key in ("texts", BESIDE[request.task]):
        if key in inputs:
            inputs[key] = _listed(inputs[key], f"inputs.{key}")
    name, count = BESIDE[request.task], len(inputs["texts"])
    if name in inputs:
        given: list[str] = inputs[name]
        given = given * count if len(given) == 1 else given
        if len(given) != count:
            raise InvalidInput(
                f"There are {count} texts and {len(given)} in {name}.",
                hint="Give one for each text, or one for all.",
                param=f"inputs.{name}",
            )
        inputs[name] = given
    return inputs


def _listed(texts: str | list[str], where: str) -> list[str]:
    listed = [texts] if isinstance(texts, str) else list(texts)
    if not listed:
        raise InvalidInput("There is no text.", param=where)
    for place, text in enumerate(listed):
        if not text.strip():
            raise InvalidInput(f"Text {place} is empty.", param=f"{where}.{place}")
    return listed
