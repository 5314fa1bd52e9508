"""What names mean in a Python package that cannot be imported here: read from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Sort = Literal["function", "class", "value"]

Binding = tuple[str, "Definition | tuple[str, str]"]
"""A name of a module and what it is bound to: a definition, or (module, name) imported. A star
import is bound to the name `*`."""


@dataclass(frozen=True)
class Definition:
    """Where a function, class or value stands, and under which name; `value` as it is written."""

    module: str
    name: str
    sort: Sort
    value: ast.expr | None = None


class PythonSource:
    """The modules of the package in a folder, parsed when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._text = cache(self._read)
        self._bindings = cache(self._parsed)

    def find(self, module: str, name: str) -> Definition | None:
        """What `module.name` is, through imports, stars and `one = other`.

        None where the package does not define it. Conditions are not evaluated: of several
        bindings the last one counts.
        """
        return self._find(module, name, frozenset())

    def path(self, module: str) -> Path | None:
        """The file of a module of this package; None where there is none."""
        package, _, rest = module.partition(".")
        place = self.folder.joinpath(*rest.split(".")) if rest else self.folder
        files = (place / "__init__.py", place.with_suffix(".py"))
        if package != self.folder.name:
            return None
        return next((path for path in files if path.is_file()), None)

    def _find(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> Definition | None:
        if (module, name) in seen:
            return None
        seen |= {(module, name)}
        if self._plainly_defines(module, name):
            return Definition(module, name, "function")
        for bound, meaning in reversed(self._bindings(module)):
            if bound not in (name, "*"):
                continue
            found = self._meant(meaning, name if bound == "*" else None, seen)
            if found is not None:
                return found
        return None

    def _meant(
        self,
        meaning: Definition | tuple[str, str],
        starred: str | None,
        seen: frozenset[tuple[str, str]],
    ) -> Definition | None:
        if isinstance(meaning, tuple):
            module, name = meaning
            return self._find(module, starred or name, seen)
        if isinstance(meaning.value, ast.Name):
            return self._find(meaning.module, meaning.value.id, seen)
        return meaning

    def _plainly_defines(self, module: str, name: str) -> bool:
        """True for a function without decorator (a blank line before it) that nothing else in the
        module is bound over: the module need not be parsed."""
        text, word = self._text(module), re.escape(name)
        if f"\n\ndef {name}(" not in text:
            return False
        other = rf"^\s*(?:(?:from|import) .*\b{word}\b|{word}\s*=[^=]|class {word}\b|{word},?$)"
        return re.search(other, text, re.MULTILINE) is None

    def _read(self, module: str) -> str:
        path = self.path(module)
        return path.read_text(encoding="utf-8") if path is not None else ""

    def _parsed(self, module: str) -> list[Binding]:
        path = self.path(module)
        if path is None:
            return []
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        tree = ast.parse(self._text(module), filename=str(path))
        return [one for statement in statements(tree) for one in _bound(statement, module, package)]


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those in `if`, `try` and `with` too."""
    todo: list[ast.AST] = list(reversed(tree.body))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
            todo += reversed(list(ast.iter_child_nodes(node)))


def _bound(statement: ast.stmt, module: str, package: str) -> Iterator[Binding]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        sort: Sort = "function" if isinstance(statement, ast.FunctionDef) else "class"
        yield statement.name, Definition(module, statement.name, sort)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, Definition(module, target.id, "value", statement.value)
    elif isinstance(statement, ast.ImportFrom):
        origin = statement.module or ""
        if statement.level:
            parts = package.split(".")
            parents = parts[: len(parts) + 1 - statement.level]
            origin = ".".join([*parents, *filter(None, [statement.module])])
        for alias in statement.names:
            yield alias.asname or alias.name, (origin, alias.name)
