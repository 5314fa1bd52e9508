"""FlagGems in Triton's interpreter on the emulated NPU: what has to be told to both for that.

    TRITON_INTERPRET=1 JUMAR_EMULATE_NPU=1 .venv-gems/bin/python …

`make flag-gems` puts this folder on that environment's path; a line of a .pth file calls `await_it`
in every process, which changes nothing until somebody imports flag_gems. FlagGems 5.0.2 and Triton
3.7 are neither made to run that way nor for each other, so each function below
changes one thing and says why (docs/flag-gems.md has them in a table).

Nothing here computes what FlagGems computes: grids, masks, offsets and arithmetic are its own.
"""

from __future__ import annotations

import ast
import hashlib
import math
import os
import sys
from collections.abc import Callable
from functools import reduce
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from types import SimpleNamespace
from typing import Any

NAME = "flag_gems"
CANN = "triton.language.extra.cann"


def await_it() -> None:
    """Make ready for `import flag_gems`, in an interpreting process; else do nothing."""
    if os.environ.get("TRITON_INTERPRET") == "1" and NAME not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds flag_gems as everybody does; loads it between our two parts."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != NAME:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Between(spec.loader)
        return spec


class _Between(Loader):
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Finder)]
        change_triton()
        self.loader.exec_module(module)
        change_flag_gems()


def change_triton() -> None:
    """Before FlagGems decorates its kernels."""
    _interpreted_kernels()
    _constants()
    _language_once()
    _memory_in_place()
    _logic_of_blocks()
    _blocks_of_any_size()
    _one_configuration()
    _add_cann()


def _interpreted_kernels() -> None:
    """FlagGems looks for a JITFunction below its decorators, for its parameters and source; the
    interpreter's function is none. And the interpreter wants Triton's language among a kernel's
    globals, whatever it is called there.
    """
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    class Interpreted(interpreter.InterpretedFunction, JITFunction):
        """An interpreted kernel that is a JITFunction too: its parameters, its source."""

        __name__ = ""

        def __init__(self, fn: Any, **settings: Any) -> None:
            JITFunction.__init__(self, fn, **settings)
            super().__init__(fn, **settings)
            fn.__globals__.update({"_tl": tl, "_core": tl.core})

        @property
        def cache_key(self) -> str:
            # Of its own source only: Triton's own functions, which it may call, have none here.
            return hashlib.sha256(self.src.encode()).hexdigest()

    interpreter.InterpretedFunction = Interpreted


def _constants() -> None:
    """The interpreter hands on types as they are, where compiled functions get a constant and ask
    for its `value`; and it cannot take `True` as an argument.
    """
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    tl.dtype.value = property(lambda self: self)
    convert = interpreter._implicit_cvt

    def converted(value: Any) -> Any:
        if not isinstance(value, bool):
            return convert(value)
        return tl.tensor(interpreter.TensorHandle(np.array([value]), tl.int1), tl.int1)

    interpreter._implicit_cvt = converted


def _language_once() -> None:
    """The interpreter changes Triton's language at each call of each function, and back: most of
    its time. Nothing is compiled in this process, so once is enough.
    """
    from triton.runtime import interpreter

    change = interpreter._patch_lang
    changed: list[Any] = []

    def changed_once(fn: Any) -> Any:
        if not changed:
            changed.append(change(fn))
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = changed_once


def _memory_in_place() -> None:
    """The interpreter copies tensors to the host and back, and knows only tensors; FlagGems also
    passes views with negative strides. The emulated card's memory is the process's: kernels get it
    itself, watched by `bounds`.
    """
    from bounds import guard
    from triton.runtime.interpreter import GridExecutor

    GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
    GridExecutor._restore_args_dev = lambda self, *args: None
    guard()


def _logic_of_blocks() -> None:
    """In a compiled kernel `and`, `or` and `not` work element by element. The interpreter leaves
    them to Python, which takes one side whole: the mask `rows < m and columns < n` loses `rows`.
    """
    from triton.runtime import interpreter

    def joined(how: str, *values: Callable[[], Any]) -> Any:
        """Like the compiler: constants decide early, the rest is joined element by element."""
        tensors = []
        for value in values:
            now = value()
            if isinstance(now, interpreter.tl.tensor):
                tensors.append(now)
            elif bool(now) == (how == "logical_or"):
                return now
        return reduce(lambda left, right: getattr(left, how)(right), tensors) if tensors else now

    def negated(value: Any) -> Any:
        tensor = isinstance(value, interpreter.tl.tensor)
        return value.__not__() if tensor else not value

    class Rewriter(interpreter.ASTTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.Assign:  # noqa: N802
            node.value = self.visit(node.value)  # theirs leaves it unread
            return super().visit_Assign(node)

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:  # noqa: N802
            self.generic_visit(node)
            how = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
            nothing = ast.parse("lambda: 0", mode="eval").body.args
            later = [ast.Lambda(nothing, value) for value in node.values]
            return ast.Call(ast.Name("_joined", ast.Load()), [ast.Constant(how), *later], [])

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:  # noqa: N802
            self.generic_visit(node)
            if not isinstance(node.op, ast.Not):
                return node
            return ast.Call(ast.Name("_negated", ast.Load()), [node.operand], [])

    # A kernel is made anew among its own globals and the interpreter's.
    interpreter._joined, interpreter._negated = joined, negated
    interpreter.FunctionRewriter.ast_transformer = Rewriter()


def _blocks_of_any_size() -> None:
    """triton-ascend has them, and FlagGems' settings for Ascend use them. Triton: powers of 2."""
    import triton.language as tl
    from triton.language.semantic import TritonSemantic

    def arange(self: Any, start: int, end: int, *, ret_ty: Any = None) -> Any:
        block = tl.block_type(tl.int32, [end - start])
        return self.tensor(self.builder.create_make_range(block, start, end), block)

    TritonSemantic.arange = arange
    tl.core.validate_block_shape = math.prod


def _one_configuration() -> None:
    """Tuning measures, and keeps what it finds for real devices; here the first setting is it."""
    from triton.runtime import Autotuner

    prepared = Autotuner.__init__

    def prepare(self: Any, *args: Any, **kwargs: Any) -> None:
        prepared(self, *args, **kwargs)
        self.configs = self.configs[:1]

    Autotuner.__init__ = prepare


def _add_cann() -> None:
    """CANN's functions, by the name that FlagGems has for them on Ascend: triton-ascend's."""
    from types import ModuleType

    import cann_in_numpy

    package = ModuleType(CANN)
    package.__path__ = []
    package.libdevice = cann_in_numpy
    sys.modules[CANN] = package
    sys.modules[f"{CANN}.libdevice"] = cann_in_numpy


def change_flag_gems() -> None:
    """Its cache of compiled kernels is passed by: none is compiled."""
    from flag_gems.utils.libentry import LibEntry

    def run(self: Any, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        return self.fn.run(*args, **kwargs), {}

    LibEntry.run = run
