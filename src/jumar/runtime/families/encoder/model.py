"""A loaded encoder: texts in, vectors out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from jumar.contracts.errors import InvalidModelOutput, InvalidValue
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.checkpoint import model_and_tokenizer
from jumar.runtime.families.cores import Cores
from jumar.runtime.families.encoder.batches import batches
from jumar.runtime.families.encoder.packing import ATTENTION, Packing, packs
from jumar.runtime.families.encoder.recipe import Recipe
from jumar.runtime.families.precision import dtype_for
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import numpy as np
    import torch

MOST_TEXTS = 32
"""Texts of a batch, where nobody says."""

MOST_TOKENS = 16_384
"""Tokens of a batch with its padding, where nobody says: keeps memory within bounds."""

FORWARD = 40
"""What one forward takes beside its tokens, in tokens. Measured for all-minilm-l6-v2 on a CPU:
14 ms, and 0.34 ms a token."""

FORWARD_ELSEWHERE = 2_048
"""The same on an accelerator, where kernels wait for their launches."""

PACKED = 1 << 40
"""Texts in one row cost no padding: as few forwards as the bounds allow."""


class EncoderModel:
    """A tokenizer, an `AutoModel`, and the recipe that its folder has.

    `longest` is where a text is cut off, in tokens.
    """

    def __init__(self, plan: LoadPlan) -> None:
        from transformers import AutoModel

        folder = plan.weights["model"]
        on_cpu = plan.placement.device.kind == "cpu"
        self._recipe = Recipe.read(folder)
        # fp32 on every device: a vector is compared with vectors made elsewhere.
        self.dtype = dtype_for(plan.config.get("dtype"), plan.placement, usual="fp32")
        self._model, tokenizer = model_and_tokenizer(
            AutoModel, folder, self.dtype, plan.placement, unused=("pooler",)
        )
        # A graph for each shape of a batch would take minutes to make, and an encoder milliseconds.
        backend = replace(plan.backend, unasked=False)
        backend.wrap_module(self._model, "encoder")
        self._cores = Cores(self._model)
        self._padding = tokenizer.pad_token_id or 0
        self._unknown: int | None = tokenizer.unk_token_id
        self._tokenizer: Any = tokenizer.backend_tokenizer
        self.longest = longest_of(tokenizer.model_max_length, self._model, self._recipe.longest)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.longest)
        self._packs = on_cpu and plan.config.get("compile") != "on" and packs(self._model.config)
        if self._packs:
            self._model.set_attn_implementation(ATTENTION)
        self._forward = (PACKED if self._packs else FORWARD) if on_cpu else FORWARD_ELSEWHERE

    def generate(self, run: Run) -> list[Draft]:
        """The vectors of `texts` as one NumPy file, float32 [n, dimensions].

        Raises:
            InvalidValue: more dimensions than the model has.
            InvalidModelOutput: NaN or infinity in a vector.
        """
        vectors = self.encode(run)

        def write(file: BinaryIO) -> None:
            import numpy as np

            np.save(file, vectors, allow_pickle=False)

        count, width = vectors.shape
        return [
            Draft(
                kind="vectors",
                mime="application/x-npy",
                suffix=".npy",
                write=write,
                width=width,
                height=count,
            )
        ]

    def encode(self, run: Run) -> np.ndarray:
        """The vectors of `texts`, in their order, float32 [n, dimensions]."""
        import numpy as np

        run.config["dtype"] = self.dtype
        with run.stage("tokenize"):
            tokens = self._tokens(run.inputs["texts"], run)
        with run.stage("encode"):
            rows: dict[int, np.ndarray] = {}
            lengths = [len(each) for each in tokens]
            for group in batches(lengths, *self._bounds(run.config), self._forward):
                vectors = self._vectors([tokens[place] for place in group], run)
                rows.update(zip(group, vectors, strict=True))
                run.step(len(rows), len(tokens))
            result: np.ndarray = np.stack([rows[place] for place in range(len(tokens))])
        if not np.isfinite(result).all():
            raise InvalidModelOutput("The encoder answered with NaN or infinity.")
        return result

    def close(self) -> None:
        """Drop the model."""
        del self._model

    def _tokens(self, texts: Sequence[str], run: Run) -> list[list[int]]:
        """The ids of each text. What is cut off at the model's longest is said, not refused."""
        found = self._tokenizer.encode_batch_fast([self._recipe.written(text) for text in texts])
        lost = {
            place: sum(len(rest.ids) - self._added for rest in each.overflowing)
            for place, each in enumerate(found)
            if each.overflowing
        }
        if lost:
            places = ", ".join(f"{place} ({count} over)" for place, count in [*lost.items()][:10])
            more = f" and {len(lost) - 10} more" if len(lost) > 10 else ""
            run.warn(f"Cut off after {self.longest} tokens: text {places}{more}.")
        ids = [each.ids for each in found]
        over = [lost.get(place, 0) for place in range(len(ids))]
        run.emit("tokenized", kept=False, tokens=[len(each) for each in ids], over=over)
        if strange := [str(place) for place, each in enumerate(ids) if self._unknown in each]:
            more = f" and {len(strange) - 10} more" if len(strange) > 10 else ""
            run.warn(
                "Words or signs that the model does not know count for nothing in text"
                f" {', '.join(strange[:10])}{more}."
            )
        return ids

    @staticmethod
    def _bounds(config: dict[str, Any]) -> tuple[int, int]:
        """Texts and tokens of a batch."""
        return config["batch_size"] or MOST_TEXTS, config["batch_tokens"] or MOST_TOKENS

    @property
    def _added(self) -> int:
        """Special tokens around each text."""
        count: int = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        return count

    def _vectors(self, tokens: list[list[int]], run: Run) -> np.ndarray:
        """float32 [n, dimensions] of one batch."""
        import torch

        with self._cores.for_tokens(sum(map(len, tokens))), torch.inference_mode():
            states, mask = self._states(tokens)
            vectors = self._sized(self._recipe.pool(states, mask), run.config)
        result: np.ndarray = vectors.cpu().numpy()
        return result

    def _states(self, tokens: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states [n, longest, dim] and mask [n, longest] of one batch, longest first."""
        if self._packs:
            packing = Packing.of([len(each) for each in tokens])
            row = self._model(**packing.inputs(tokens), packing=packing).last_hidden_state
            return packing.apart(row)
        ids, mask = (part.to(self._model.device) for part in padded(tokens, self._padding))
        return self._model(input_ids=ids, attention_mask=mask).last_hidden_state, mask

    def _sized(self, vectors: torch.Tensor, config: dict[str, Any]) -> torch.Tensor:
        """The first `dimensions` numbers, and of length 1 where `normalize` says so.

        A model that was trained for it (Matryoshka) loses little by fewer dimensions.
        """
        import torch

        dimensions, normalize = config["dimensions"], config["normalize"]
        if dimensions is not None and dimensions > vectors.shape[1]:
            raise InvalidValue(
                f"The vectors have {vectors.shape[1]} dimensions, not {dimensions}.",
                param="config.dimensions",
            )
        vectors = vectors[:, :dimensions]
        if self._recipe.normalize if normalize is None else normalize:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        return vectors


def padded(tokens: Sequence[Sequence[int]], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask of a batch: int64 [n, longest], padded on the right."""
    import torch

    width = max(map(len, tokens))
    ids = [[*each, *[padding] * (width - len(each))] for each in tokens]
    mask = [[1] * len(each) + [0] * (width - len(each)) for each in tokens]
    return torch.tensor(ids), torch.tensor(mask)


def longest_of(tokenizers: int, model: Any, folders: int | None = None) -> int:
    """The longest text in tokens: the folder's word, the tokenizer's, and the model's positions."""
    positions = getattr(model.config, "max_position_embeddings", None)
    embeddings = getattr(getattr(model, "base_model", model), "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    before = getattr(table, "padding_idx", None)  # RoBERTa counts positions from after the padding
    if positions and before is not None:
        positions -= before + 1
    return min(int(limit) for limit in (folders, tokenizers, positions) if limit)
