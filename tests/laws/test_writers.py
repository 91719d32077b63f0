"""Law 2: only the named stages move marks; and each field of a sequence has the writers that its docstring names."""

import ast
from collections.abc import Iterator
from pathlib import Path

from engine.held import GroupTable, Held

ENGINE = Path(__file__).parent.parent.parent / "engine"
READS = {"planned", "computed", "drafted", "accepted", "published", "marks", "in_flight", "check"}
MOVERS = {
    "admit": {"admission.py"},
    "plan": {"plan.py"},
    "commit": {"commit.py"},
    "draft": {"commit.py"},
    "publish": {"publish.py"},
    "invalidate": {"sequence.py"},
}
WRITERS = {
    "tokens": {"commit.py"},
    "prompt_logprobs": {"commit.py"},
    "pooled": {"commit.py"},
    "pooled_upto": {"commit.py"},
    "first_output_at": {"commit.py"},
    "last_output_at": {"commit.py"},
    "held": {"commit.py", "stops.py"},  # fields of their own; a sequence's is written into and stays
    "keys": {"cache/tables.py"},  # by PrefixKeys, which it calls
    "stem": {"cache/tables.py"},
    "state": {"roster.py"},
    "moments": {"roster.py"},
    "cached_tokens": {"admission.py"},
    "admitted_at": {"admission.py"},
    "aborted": {"stream.py"},
    "abort_error": {"stream.py"},
    "stalled": {"stream.py"},
    "drafts_kept": {"commit.py"},
    "drafts_fallen": {"commit.py"},
    "failures": {"commit.py", "engine.py"},
    "failed_upto": {"engine.py"},
    "epoch": {"sequence.py"},
}
HELD = {  # what a sequence holds: the fields of `Held` and of its tables
    "tables": {"cache/tables.py"},
    "blocks": {"cache/tables.py"},
    "first": {"cache/tables.py"},
    "num_blocks": {"cache/tables.py"},
    "num_indexed": {"cache/tables.py"},
    "slot": {"cache/slots.py"},
    "source": {"cache/slots.py"},
    "taking": {"cache/slots.py"},
    "ring": {"cache/slots.py"},
    "latest": {"cache/slots.py"},
}
MUTATORS = {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ENGINE.rglob("*.py")):
        yield path.relative_to(ENGINE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def ledger_uses() -> Iterator[tuple[str, str]]:
    """Each module's uses of a sequence's ledger; a use that is no attribute access is named "alias"."""
    for module, tree in sources():
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "ledger" and isinstance(node.ctx, ast.Load):
                parent = parents[node]
                yield module, parent.attr if isinstance(parent, ast.Attribute) else "alias"


def written(target: ast.AST) -> Iterator[str]:
    """The attribute that an assignment to `target` writes, or writes into."""
    if isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        yield target.attr
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from written(element)


def writes(tree: ast.Module) -> Iterator[str]:
    """Every attribute that the module writes after construction."""
    built = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if id(node) in built:
            continue
        if isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                yield from written(target)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield from written(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            yield from written(node.func.value)


def test_only_the_named_stages_move_marks() -> None:
    uses = set(ledger_uses())

    assert {use for _, use in uses} <= READS | MOVERS.keys(), "a ledger is read, or moved by its own methods"
    for move, modules in MOVERS.items():
        assert {module for module, use in uses if use == move} == modules, move


def test_only_the_tables_invalidate_a_sequence() -> None:
    callers = {
        module
        for module, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "invalidate"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sequence"
    }

    assert callers == {"cache/tables.py"}


def test_only_the_ledger_writes_marks_and_their_counts() -> None:
    private = {"_planned", "_computed", "_accepted", "_published", "planned", "computed", "accepted", "published"}
    for module, tree in sources():
        if module != "ledger.py":
            assert not private.intersection(writes(tree)), module


def test_each_field_of_a_sequence_has_its_writers_and_no_others() -> None:
    fields = {module: set(writes(tree)) for module, tree in sources() if not module.startswith("model/")}

    for field, modules in WRITERS.items():
        assert {module for module in fields if field in fields[module]} <= modules, field


def test_what_a_sequence_holds_of_the_cache_is_written_by_block_tables_and_state_slots_alone() -> None:
    fields = {module: set(writes(tree)) for module, tree in sources() if not module.startswith("model/")}

    assert HELD.keys() == {name for part in (Held, GroupTable) for name in part.__slots__}
    for field, modules in HELD.items():
        assert {module for module in fields if field in fields[module]} == modules, field
