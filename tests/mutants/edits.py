"""One small change to a source file, addressed by its function and the exact text that it replaces."""

import ast
from dataclasses import dataclass
from pathlib import Path


class NoLongerApplies(Exception):
    """The source has changed: the mutant has to be written anew."""


@dataclass(frozen=True, slots=True)
class Edit:
    """In `function` of `module`, `old` becomes `new`. A function in a class is named `Class.function`.

    In C++ the text must be one of a kind in its file, which has to name the function.
    """

    module: str
    function: str
    old: str
    new: str

    def applied_to(self, source: str) -> str:
        """The changed source.

        Raises:
            NoLongerApplies: there is no such function, or `old` does not stand in it exactly once.
        """
        if not self.module.endswith(".py"):
            return self._changed(source if self.function in source else "")
        first, last = self._lines_of_function(ast.parse(source))
        lines = source.splitlines(keepends=True)
        body = self._changed("".join(lines[first:last]))
        return "".join(lines[:first]) + body + "".join(lines[last:])

    def _changed(self, body: str) -> str:
        if body.count(self.old) != 1:
            raise NoLongerApplies(f"{self.module}: {self.function} has {body.count(self.old)} times {self.old!r}")
        return body.replace(self.old, self.new)

    def _lines_of_function(self, tree: ast.Module) -> tuple[int, int]:
        node: ast.AST = tree
        for name in self.function.split("."):
            node = self._child(node, name)
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        assert node.end_lineno is not None
        return node.lineno - 1, node.end_lineno

    def _child(self, node: ast.AST, name: str) -> ast.AST:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and child.name == name:
                return child
        raise NoLongerApplies(f"{self.module} has no {self.function}")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault put in by hand; `fault` names the case or law, `what` says what is wrong then."""

    fault: str
    what: str
    edits: tuple[Edit, ...]

    @property
    def name(self) -> str:
        """What it is known by, as long as its words stay."""
        return f"{self.fault}: {self.what}"

    @property
    def in_model(self) -> bool:
        """Whether it needs torch to be found."""
        return any(edit.module.startswith("engine/model/") for edit in self.edits)

    @property
    def native(self) -> bool:
        """Whether it is about the native kernels, and what leads to them."""
        return self.fault == "native" or self.compiled

    @property
    def compiled(self) -> bool:
        """Whether the native library has to be built for it."""
        return any(not edit.module.endswith(".py") for edit in self.edits)

    def apply(self, root: Path) -> dict[Path, str]:
        """Put the fault into the tree at `root`; return what the files held before."""
        before: dict[Path, str] = {}
        for edit in self.edits:
            path = root / edit.module
            source = path.read_text(encoding="utf-8")
            before.setdefault(path, source)
            path.write_text(edit.applied_to(source), encoding="utf-8")
        return before
