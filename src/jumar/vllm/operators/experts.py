"""Mixtures of experts: the layer that vLLM leaves to out-of-tree platforms, and three operators.

vLLM 0.24 has no experts for a platform outside its tree (`UnquantizedMoeBackend.OOT` computes
nothing). Its routers, and its Triton code where there is Triton, call functions of a compiled
library, `_moe_C`, that such a platform does not have either: those with a layer operator of Jumar's
are defined here, so that vLLM's own Python goes on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from vllm.model_executor.layers.fused_moe import unquantized_fused_moe_method as moe
from vllm.model_executor.layers.fused_moe.activation import MoEActivation

from jumar.contracts.errors import OperatorUnavailable
from jumar.operators.dispatcher import device_key
from jumar.vllm.operators.layers import replace
from jumar.vllm.operators.process import Process, here, name_of


class UnquantizedFusedMoEMethod(moe.UnquantizedFusedMoEMethod):
    """Gated experts in the dtype of the model. Routing, and the factor on what was routed
    (`routed_scaling_factor`), stay with vLLM's routers: the weights come with it.
    """

    implementation: Callable[..., Tensor]

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for asked, what in (
            (config.activation != MoEActivation.SILU, f"the activation {config.activation.value}"),
            (config.has_bias, "biases"),
            (config.swiglu_limit is not None, "limits of the activation"),
        ):
            if asked:
                raise OperatorUnavailable(
                    f"fused_moe does not compute {what}, and this model's experts have it.",
                    hint="Models with plain SwiGLU experts: Qwen3-MoE, Mixtral, DeepSeek-V2.",
                    param="model",
                )
        self.implementation = here().hold("fused_moe", name_of(config.in_dtype))
        self._forward_method = self.forward_oot  # vLLM has no code of its own to leave it to

    @property
    def is_monolithic(self) -> bool:
        """The routers choose the experts; vLLM asks a class that this platform does not have."""
        return False

    def maybe_make_prepare_finalize(self, routing_tables: Any = None) -> None:
        """vLLM asks where there are several ranks. Nothing: each has all tokens, and vLLM adds up
        what the ranks compute.

        Raises:
            OperatorUnavailable: they would have to exchange tokens.
        """
        if self.moe.moe_parallel_config.use_all2all_kernels:
            raise OperatorUnavailable(
                "fused_moe does not exchange tokens between ranks.",
                hint="Without --enable-expert-parallel, or with --data-parallel-size 1.",
                param="enable_expert_parallel",
            )

    def forward_oot(
        self,
        layer: Any,
        x: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        shared_experts: Any = None,
        shared_experts_input: Tensor | None = None,
    ) -> Tensor:
        """`x` (tokens, d) by the experts `topk_ids` of each token; those shared run elsewhere."""
        if layer.apply_router_weight_on_input:
            x = x * topk_weights.to(x.dtype)  # one expert for a token: vLLM's condition
            topk_weights = torch.ones_like(topk_weights)
        if layer.expert_map is not None:
            topk_ids = layer.expert_map[topk_ids.long()]
            topk_weights = topk_weights * (topk_ids >= 0)  # what another rank has counts there
            topk_ids = topk_ids.clamp(min=0)
        return self.implementation(x, layer.w13_weight, layer.w2_weight, topk_weights, topk_ids)


def register() -> None:
    """Let vLLM make ours where a model has experts."""
    replace(moe.UnquantizedFusedMoEMethod, UnquantizedFusedMoEMethod)


SCHEMAS = {
    "topk_softmax": "(Tensor(a!) topk_weights, Tensor(b!) topk_indices, "
    "Tensor(c!) token_expert_indices, Tensor gating_output, bool renormalize, "
    "Tensor? bias=None, Tensor? is_padding=None) -> ()",
    "moe_sum": "(Tensor input, Tensor(a!) output, "
    "Tensor? topk_ids=None, Tensor? expert_map=None) -> ()",
    "moe_align_block_size": "(Tensor topk_ids, int num_experts, int block_size, "
    "Tensor(a!) sorted_token_ids, Tensor(b!) experts_ids, Tensor(c!) num_tokens_post_pad, "
    "Tensor? expert_map=None, Tensor? scatter_idx=None) -> ()",
}
"""As vLLM's versions call them; those after 0.24 give more at the end."""

_library: torch.library.Library | None = None
"""Kept for the life of the process: what it defines goes with it."""


def fill(process: Process) -> None:
    """Define those of `_moe_C` that layer operators compute; where it is loaded, at the device's
    key only.
    """
    global _library
    if _library is not None:
        _library._destroy()
    _library = torch.library.Library("_moe_C", "FRAGMENT")
    key = device_key(process.device)
    for name, made in KERNELS.items():
        if not hasattr(torch.ops._moe_C, name):
            _library.define(name + SCHEMAS[name])
        _library.impl(name, made(process.hold(name)), key)


def _refuse(operator: str, **given: Tensor | None) -> None:
    for name in (name for name, value in given.items() if value is not None):
        raise OperatorUnavailable(
            f"{operator} does not take {name}, and a layer of this model gives it.", param="model"
        )


def _topk_softmax(function: Callable[..., Any]) -> Callable[..., None]:
    def topk_softmax(
        topk_weights: Tensor,
        topk_indices: Tensor,
        token_expert_indices: Tensor,
        gating_output: Tensor,
        renormalize: bool,
        bias: Tensor | None = None,
        is_padding: Tensor | None = None,
    ) -> None:
        _refuse("topk_softmax", bias=bias)  # tokens that only pad may be routed: nobody reads them
        tokens, topk = topk_weights.shape
        weights, experts = function(gating_output, topk, renormalize)
        topk_weights.copy_(weights)
        topk_indices.copy_(experts)
        places = torch.arange(tokens * topk, dtype=torch.int32, device=topk_weights.device)
        token_expert_indices.copy_(places.view(topk, tokens).T)

    return topk_softmax


def _moe_sum(function: Callable[..., Any]) -> Callable[..., None]:
    def moe_sum(
        x: Tensor, output: Tensor, topk_ids: Tensor | None = None, expert_map: Tensor | None = None
    ) -> None:
        _refuse("moe_sum", expert_map=expert_map)
        output.copy_(function(x))

    return moe_sum


def _moe_align_block_size(function: Callable[..., Any]) -> Callable[..., None]:
    def moe_align_block_size(
        topk_ids: Tensor,
        num_experts: int,
        block_size: int,
        sorted_token_ids: Tensor,
        experts_ids: Tensor,
        num_tokens_post_pad: Tensor,
        expert_map: Tensor | None = None,
        scatter_idx: Tensor | None = None,
    ) -> None:
        _refuse("moe_align_block_size", expert_map=expert_map, scatter_idx=scatter_idx)
        found = function(topk_ids, block_size, num_experts)
        outs = (sorted_token_ids, experts_ids, num_tokens_post_pad)
        for out, one in zip(outs, found, strict=True):
            out.copy_(one[: out.numel()])

    return moe_align_block_size


KERNELS = {
    "topk_softmax": _topk_softmax,
    "moe_sum": _moe_sum,
    "moe_align_block_size": _moe_align_block_size,
}
