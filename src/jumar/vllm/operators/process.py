"""What a process of vLLM decided and bound: by one policy, one catalogue, one look at evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jumar.contracts.errors import RunFailed
from jumar.evidence import Store, quarantine
from jumar.operators.binding import Bindings
from jumar.operators.policy.decide import Decision, Decisions, resolve

ASIDE = frozenset({"catalogue", "order"})
"""Where a step stands that says of an implementation only that nobody asked for it."""

VLLM = "vllm"
"""The implementation of a layer that vLLM computes by its own code."""


class Bound(NamedTuple):
    """One operator as it is bound here, and the line that decided."""

    operator: str
    implementation: str
    why: str


@dataclass
class Process:
    """The decisions of a process, and all that was bound by them."""

    device: str
    dtype: str
    """Of the model: `float32`. A layer may have another one."""
    has_experts: bool
    fingerprint: dict[str, str]
    decisions: Decisions
    bindings: Bindings
    overrides: list[Decision] = field(default_factory=list)
    """Of torch's operators, those that the device's own kernels do not compute."""
    products_are_tied: bool = False
    """Whether a rule says who must multiply in linear layers."""
    products: Bound | None = None
    """Who multiplies in linear layers, where it is not torch."""
    told: list[str] = field(default_factory=list)
    """Sentences about rules that are not followed."""
    own: dict[str, str] = field(default_factory=dict)
    """Layer operators that vLLM's configuration leaves to vLLM's code, and why."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """What an implementation says of itself: layers that it computes in another way, and why."""
    _functions: dict[tuple[str, str], Callable[..., Any]] = field(default_factory=dict)

    def hold(self, operator: str, dtype: str | None = None) -> Callable[..., Any]:
        """The function that computes a layer operator; what a layer keeps when it is built.

        Raises:
            OperatorUnavailable: nothing that can be used here may compute it in that dtype.
        """
        key = operator, dtype or self.dtype
        if key not in self._functions:
            self._functions[key] = self.bindings.bind(*key)
        return self._functions[key]

    def note(self, operator: str, sentence: str) -> None:
        """Keep what a layer says of its implementation, once."""
        known = self.notes.setdefault(operator, [])
        if sentence not in known:
            known.append(sentence)

    def bound(self) -> list[Bound]:
        """Layer operators that some layer holds, then overrides; each once."""
        held = {
            (one.operator, one.implementation): Bound(
                one.operator, one.implementation, self._why(one.operator, one.passed_over)
            )
            for one in self.bindings.made
        }
        left = [Bound(operator, VLLM, why) for operator, why in self.own.items()]
        left += [self.products] if self.products else []
        over = [Bound(*one.override, self._why(one.operator)) for one in self.overrides]
        return [*sorted([*held.values(), *left]), *over]

    def _why(self, operator: str, passed_over: tuple[tuple[str, str], ...] = ()) -> str:
        """The line that decided, and what is against those that stand before."""
        decision = self.decisions.decide(operator)
        against = [
            f"{step.implementation} {step}"
            for step in decision.steps
            if step.effect == "excluded" and step.origin not in ASIDE
        ]
        unfit = [f"{name} {why}" for name, why in passed_over]
        notes = self.notes.get(operator, [])
        return "; ".join([decision.line.origin, *against, *unfit, *notes])

    def settle(self) -> None:
        """See that all ranks bound the same, and that every override still is in force."""
        from vllm.distributed import parallel_state

        from jumar.operators.agreement import agree
        from jumar.operators.overrides import live

        for one in self.overrides:
            if not live(one.override, device=self.device):
                raise RunFailed(
                    f"{one.override} is dead: since it was installed something took its place.",
                    hint="Another plugin registers kernels for it: VLLM_PLUGINS says which load.",
                )
        chosen = {one.operator: one.implementation for one in self.bound()}
        if parallel_state.model_parallel_is_initialized():
            agree(chosen, group=parallel_state.get_world_group().cpu_group)


_here: Process | None = None
"""That of this process, once it is started."""


def started() -> bool:
    """Whether something is decided here."""
    return _here is not None


def note(operator: str, sentence: str) -> None:
    """`Process.note`, where something is decided here."""
    if _here is not None:
        _here.note(operator, sentence)


def here() -> Process:
    """What was decided in this process.

    Raises:
        RunFailed: nothing was yet.
    """
    if _here is None:
        raise RunFailed(
            "Nothing was decided about operators in this process yet.",
            hint="Jumar's worker decides when it sets its device; a worker of another class does"
            " not: leave --worker-cls away.",
        )
    return _here


def start(device: Any) -> Process:
    """Look the policy, the catalogue and the evidence up, for this process and `device`."""
    global _here
    _here = decided(device)
    return _here


def decided(device: Any) -> Process:
    """All that can be decided before a model is built."""
    import torch
    from vllm.config import get_current_vllm_config_or_none
    from vllm.version import __version__ as version

    from jumar.devices import accelerators
    from jumar.operators.catalogue import Catalogue, live
    from jumar.operators.policy import effective
    from jumar.operators.policy.layers import with_layers
    from jumar.operators.policy.taking import ties_products

    kind = torch.device(device).type
    accelerator = accelerators()[kind]
    fingerprint = {"device_class": accelerator.device_class(), **accelerator.fingerprint()}
    rules = quarantine(Store(), fingerprint)
    policy = effective(kind)
    named = rules.rules or any(layer.rules for layer in policy.layers)
    # Where no rule and no evidence names an operator, torch's need not be known: most of a second.
    catalogue = with_layers(live() if named else Catalogue({}, {}), usable_only=True)
    decisions = resolve(policy, catalogue, {**fingerprint, "vllm": version}, rules)
    config = get_current_vllm_config_or_none()
    model = config.model_config if config is not None else None
    return Process(
        device=str(device),
        dtype=name_of(model.dtype if model is not None else torch.get_default_dtype()),
        has_experts=model is not None and model.is_moe,
        fingerprint=fingerprint,
        decisions=decisions,
        bindings=Bindings(decisions.order, str(device), fingerprint),
        products_are_tied=ties_products(policy, fingerprint),
    )


def name_of(dtype: Any) -> str:
    """`float32` of `torch.float32`."""
    return str(dtype).removeprefix("torch.")
