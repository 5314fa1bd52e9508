"""One patch of foreign code, as data, and what applying it means."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Literal

from jumar.contracts.errors import DependencyMissing

Where = Literal["process", "front", "worker"]


@dataclass(frozen=True)
class Patch:
    """`target` and `replacement` are `module:attribute`; so is `proof`, a function that raises
    AssertionError where the patched name does not do what it has to.
    """

    name: str
    target: str
    replacement: str
    proof: str
    why: str
    how: str
    until: str
    """What has to happen before it can go."""
    devices: tuple[str, ...] = ("cpu", "npu")
    where: Where = "worker"
    """`process`: in every process of vLLM; `front`: where requests come in; `worker`: where a model
    runs."""
    parameters: tuple[str, ...] | None = None
    """Names of the target's parameters when this was written; None where it is no function."""
    versions: str = ">=0"
    """Of vLLM, as pip writes them."""

    def concerns(self, device: str, version: str) -> bool:
        """Whether it is for this kind of device and this vLLM."""
        from packaging.specifiers import SpecifierSet

        return device in self.devices and SpecifierSet(self.versions).contains(
            version, prereleases=True
        )

    def problem(self) -> str | None:
        """Why the target is not what the patch was written for; None where it is."""
        try:
            _, _, found = _find(self.target)
        except (ImportError, AttributeError) as error:
            return f"{self.target} is gone: {error}"
        if self.parameters is not None and (has := _parameters(found)) != self.parameters:
            return f"{self.target} takes ({', '.join(has)}), not ({', '.join(self.parameters)})"
        return None

    def apply(self) -> None:
        """Put the replacement in the target's place, and prove it.

        Raises:
            DependencyMissing: the target moved, or what stands there now does not do its work.
        """
        if problem := self.problem():
            raise self._unfit(problem)
        self._put()
        if not self.in_force():
            raise self._unfit(f"{self.target} is not what was put there")
        try:
            load(self.proof)()
        except AssertionError as error:
            raise self._unfit(f"it is applied, and does not do its work: {error}") from error

    def in_force(self) -> bool:
        """Whether the target is the replacement now."""
        return _find(self.target)[2] is load(self.replacement)

    def _put(self) -> None:
        owner, attribute, _ = _find(self.target)
        setattr(owner, attribute, load(self.replacement))

    def _unfit(self, problem: str) -> DependencyMissing:
        return DependencyMissing(
            f"The patch {self.name} does not fit this vLLM: {problem}.",
            hint="jumar vllm patches shows all of them; docs/vllm.md says which vLLM was tested.",
        )


class Kernel(Patch):
    """A kernel for which vLLM has a place where platforms register theirs (0.33 has)."""

    def in_force(self) -> bool:
        """Whether calls of the kernel reach the replacement."""
        return getattr(_find(self.target)[2], "func", None) is load(self.replacement)

    def _put(self) -> None:
        from vllm.triton_utils.dispatcher import register_kernels

        register_kernels({self.target.replace(":", "."): load(self.replacement)})


def load(path: str) -> Any:
    """What `module:attribute` names."""
    return _find(path)[2]


def _find(path: str) -> tuple[Any, str, Any]:
    """Owner, name and value."""
    module, _, attributes = path.partition(":")
    owner: Any = import_module(module)
    *above, last = attributes.split(".")
    for name in above:
        owner = getattr(owner, name)
    return owner, last, getattr(owner, last)


def _parameters(found: Any) -> tuple[str, ...]:
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    function = getattr(found, "func", None) or getattr(found, "fn", found)  # of a Triton kernel
    return tuple(p.name for p in signature(function).parameters.values() if p.kind not in kinds)
