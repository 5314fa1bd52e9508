"""A model that is about to be served, held to its golden answers."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from jumar.contracts.errors import ParityFailed
from jumar.contracts.results import Parity
from jumar.engine.answers import answers, digest
from jumar.engine.service import Model

log = logging.getLogger(__name__)


class Prover:
    """Holds each worker to the golden answers of its model before it answers anybody.

    The first is asked each request twice, since answers have to repeat. Whether they do is a matter
    of device, versions and operators, not of one process: a later worker that has the same of them
    all, as one that replaces a lost one, is asked once. Its answers are held against the references
    all the same.
    """

    def __init__(self) -> None:
        self._repeat: set[Hashable] = set()

    def __call__(self, model: Model) -> Parity:
        """As `proven`."""
        parity = proven(model, twice=model.identity not in self._repeat)
        self._repeat.add(model.identity)
        return parity


def proven(model: Model, *, twice: bool = True) -> Parity:
    """What its recorded golden set says of a loaded model: `unverified` where there is none.
    `twice`: whether its answers have to repeat.

    Raises:
        ParityFailed: an answer is wrong, or there is none; the first is named.
    """
    from jumar.lab.golden import Key, Request, read, sentence, verify
    from jumar.lab.golden.base import Answers
    from jumar.lab.golden.places import folder_of

    manifest = model.manifest
    folder = folder_of(manifest.id)
    if folder is None:
        return Parity(status="unverified")
    golden = read(folder)
    if golden.digest != digest(manifest):
        log.warning("The golden set in %s belongs to other weights of %s.", folder, manifest.id)
        return Parity(status="unverified")

    def ask(request: Request) -> Answers:
        return answers(model, request.inputs, request.config)

    made_on = model.fingerprint
    key = Key(model.placement.device_class, model.dtype, made_on.get("chip", ""))
    outcome = verify(golden, key, ask, made_on=made_on, twice=twice)
    if outcome.findings:
        raise ParityFailed(
            f"{len(outcome.findings)} findings in the golden answers on {key};"
            f" first: {sentence(outcome.findings[0])}",
            hint=f"jumar golden verify {manifest.id} --device {model.placement.device.label}",
        )
    reference = None if outcome.reference is None else str(outcome.reference.key)
    return Parity(
        status=outcome.status,
        checked=outcome.checked,
        matched=outcome.matched,
        reference=reference,
    )
