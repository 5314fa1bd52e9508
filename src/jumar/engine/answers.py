"""What a placed model says to a request, as quantities that can be compared.

answers(placed, {"texts": ["a", "b"]}, {})        # {"vector.0": Answer(...), "vector.1": ...}
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jumar.catalog.manifest import Manifest
from jumar.contracts.errors import InvalidRequest, RunFailed
from jumar.contracts.results import Artifact, GenerateResult, StageEventRecord
from jumar.parity.answers import Answer

if TYPE_CHECKING:
    import numpy as np

    from jumar.engine.inline import InlineModel
    from jumar.engine.placed import PlacedModel
    from jumar.engine.watched import WatchedModel


def answers(
    placed: PlacedModel | WatchedModel | InlineModel,
    inputs: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Answer]:
    """Ask a loaded model; nothing that it makes is kept.

    Vectors are `vector.N`, what a classifier says `probability.N`, `logit.N` or `span.N`, texts
    `words.N`, pictures `picture.N` (uint8 [h, w, 3]), sounds
    `sound.N` (int16 [n], mono), statistics of a diffusion model's latents `latents.NAME`.

    Raises:
        JumarError: the run failed, or made something that nobody here can compare.
    """
    if "texts" in inputs:
        return _read(placed, inputs, config)
    with tempfile.TemporaryDirectory(prefix="jumar-") as folder:
        result = placed.generate(out=folder, **inputs, **config)
        if not result.ok:
            raise _failure(result)
        found = {}
        for number, artifact in enumerate(result.outputs):
            name, read = _reader(artifact)
            found[f"{name}.{number}"] = Answer(name, read(artifact))
        statistics = result.metadata.latent_stats or {}
    for name, value in statistics.items():
        found[f"latents.{name}"] = Answer("statistic", _number(value))
    return found


def _read(
    placed: PlacedModel | WatchedModel | InlineModel,
    inputs: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Answer]:
    """A value for each text, called by what the model's head says of itself."""
    told: dict[str, Any] = {}

    def hear(event: StageEventRecord) -> None:
        told.update(event.data if event.event == "tokenized" else {})

    given = {key: value for key, value in inputs.items() if key != "texts"}
    values: Any = placed.encode(inputs["texts"], listener=hear, **given, **config)
    quantity = _QUANTITIES[told["head"]["kind"]] if told.get("head") else "vector"
    if quantity == "span":
        values = [" ".join(f"{s.label}:{s.start}-{s.end}" for s in spans) for spans in values]
    return {f"{quantity}.{n}": Answer(quantity, value) for n, value in enumerate(values)}


_QUANTITIES = {
    "sequence": "probability",
    "scores": "probability",
    "rerank": "logit",
    "entailment": "logit",
    "token": "span",
}


def digest(manifest: Manifest) -> str:
    """SHA-256 over the digests of all files of a model's weights: what a golden set belongs to.

    Raises:
        InvalidRequest: the manifest pins no digests, so nobody can say which weights these are.
    """
    pinned = [
        f"{name}/{file}={sha}"
        for name, weights in sorted(manifest.weights.items())
        for file, sha in sorted((weights.files or {}).items())
    ]
    if not pinned:
        raise InvalidRequest(
            f"The manifest of {manifest.id} pins no digests: a golden set would belong to nothing.",
            hint="List its files with their SHA-256 under weights.",
        )
    return hashlib.sha256("\n".join(pinned).encode()).hexdigest()


def _failure(result: GenerateResult) -> RunFailed:
    detail = result.metadata.error_detail
    said = f"{detail.code}: {detail.message}" if detail else result.metadata.error or "it failed"
    return RunFailed(f"{said} ({detail.cause})" if detail and detail.cause else said)


def _reader(artifact: Artifact) -> tuple[str, Callable[[Artifact], Any]]:
    if artifact.text is not None:
        return "words", lambda one: one.text
    if artifact.kind not in _READERS:
        raise InvalidRequest(
            f"An artifact of kind {artifact.kind} cannot be compared.",
            hint=f"These can: {', '.join(_READERS)}, and text.",
        )
    return _READERS[artifact.kind]


def _number(value: float) -> np.ndarray[Any, Any]:
    import numpy as np

    one: np.ndarray[Any, Any] = np.asarray([value], np.float64)
    return one


def _picture(artifact: Artifact) -> np.ndarray[Any, Any]:
    import numpy as np
    from PIL import Image

    with Image.open(artifact.path) as picture:
        levels: np.ndarray[Any, Any] = np.asarray(picture.convert("RGB"))
    return levels


def _sound(artifact: Artifact) -> np.ndarray[Any, Any]:
    import numpy as np

    from jumar.runtime.families.sound import decode

    samples = decode(artifact.path, artifact.sample_rate or 0, param="artifact").samples
    levels: np.ndarray[Any, Any] = np.rint(samples * 32767).astype(np.int16)
    return levels


_READERS: dict[str, tuple[str, Callable[[Artifact], Any]]] = {
    "image": ("picture", _picture),
    "audio": ("sound", _sound),
}
