"""Which layer of a model is at work: the path of the innermost module whose forward is running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Layers:
    """Follows all forwards. A path begins with the class of the model: `BertModel.pooler.dense`.

    `on_module` is called with each module before its first forward.
    """

    def __init__(self, on_module: Callable[[Any], object]) -> None:
        self._on_module = on_module
        self._paths: dict[int, str] = {}
        self._stack: list[tuple[Any, str]] = []
        self._hooks: list[Any] = []

    @property
    def current(self) -> str | None:
        """The path, or None outside of all modules."""
        return self._stack[-1][1] if self._stack else None

    def __enter__(self) -> Layers:
        from torch.nn.modules import module

        self._hooks = [
            module.register_module_forward_pre_hook(self._begin),
            module.register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._stack.clear()

    def _begin(self, module: Any, _: Any) -> None:
        if id(module) not in self._paths:
            root = type(module).__name__
            for name, child in module.named_modules():
                self._paths[id(child)] = f"{root}.{name}" if name else root
                self._on_module(child)
        self._stack.append((module, self._paths[id(module)]))

    def _end(self, module: Any, *_: Any) -> None:
        if self._stack and self._stack[-1][0] is module:
            self._stack.pop()
