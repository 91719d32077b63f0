"""Answers that follow a grammar, and how each is asked for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from engine.request import Grammar, Request, Sampling, Stopping, Syntax
from engine.text import Tokenizer
from server.trace import encode_message

EXPRESSION = r"([a-z]+ [0-9]{1,3}, )*[a-z]+"
PEOPLE = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "email": {"type": "string", "format": "email"},
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                "required": ["street", "city"],
                "additionalProperties": False,
            },
        },
        "required": ["name", "age", "email", "address"],
        "additionalProperties": False,
    },
    "minItems": 50,
}
ANYTHING = {"type": "array", "items": {"type": "object"}, "minItems": 50}


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that run at once, with their grammars."""

    title: str
    requests: tuple[Request, ...]


def workloads(tokenizer: Tokenizer, *, num_outputs: int, num_streams: int) -> list[Workload]:
    """All of them: answers so long that none comes to its end."""

    def asked(text: str, grammar: Grammar, count: int) -> tuple[Request, ...]:
        prompt = tuple(encode_message(tokenizer, text))
        how = (Sampling(seed=number, temperature=0.7) for number in range(count))
        stopping = Stopping(max_tokens=num_outputs)
        return tuple(Request(str(n), prompt, sampling, stopping, grammar=grammar) for n, sampling in enumerate(how))

    people = "Make up fifty people, as a JSON array."
    crowd = f", {num_streams} at once"
    return [
        Workload("a schema", asked(people, _schema(PEOPLE), 1)),
        Workload("a schema" + crowd, asked(people, _schema(PEOPLE), num_streams)),
        Workload("any JSON" + crowd, asked(people, _schema(ANYTHING), num_streams)),
        Workload(
            "a regular expression" + crowd,
            asked("List some words, each with a number.", Grammar(Syntax.REGEX, EXPRESSION), num_streams),
        ),
    ]


def _schema(schema: object) -> Grammar:
    return Grammar(Syntax.JSON_SCHEMA, json.dumps(schema))


def grammars_of(found: Sequence[Workload]) -> set[Grammar]:
    """Every grammar that they bring."""
    return {request.grammar for workload in found for request in workload.requests if request.grammar is not None}
