"""Patterns: the classes of a schema's expressions as ECMAScript means them, where the library's have operators."""

import re

from engine.grammar.schema import Schema

_PART = re.compile(r"\\.|\[\^?|\]|.", re.DOTALL)
_OPERATORS = frozenset("[&~")  # within a class: the library nests classes, and takes && and ~~ for set operations


def literal_classes(schema: Schema) -> Schema:
    """One schema with the patterns that stand in it, and none within it, in the library's syntax. Raises ValueError."""
    if isinstance(pattern := schema.get("pattern"), str):
        schema = {**schema, "pattern": in_librarys_syntax(pattern)}
    if isinstance(named := schema.get("patternProperties"), dict):
        schema = {**schema, "patternProperties": {in_librarys_syntax(name): each for name, each in named.items()}}
    return schema


def in_librarys_syntax(pattern: str) -> str:
    """An expression whose classes hold what they list. Raises ValueError of `--`, which is a range or a difference."""
    said, inside = [], False
    for part in _PART.findall(pattern):
        if not inside:
            inside = part.startswith("[")
            said.append(part)
            continue
        if part == "]":
            inside = False
        if part == "-" and said[-1] == "-":
            raise ValueError(f"the class of the pattern {pattern} has --: write \\- for the character")
        said.append(f"\\{part}" if part[0] in _OPERATORS else part)
    return "".join(said)
