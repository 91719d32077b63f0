"""A few schemas with the default model; `make test-schemas` tries hundreds."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]  # it has no types

from benchmarks.cache.subject import running
from config.settings import Settings
from engine.build import Built, build
from engine.request import Grammar, Request, Stopping, Syntax
from server.wire.chat import ChatRequest
from tests.schemas.corpus import Case
from tests.schemas.trial import Trial, Verdict, samplings, tried

ITEM = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 99},
        "price": {"type": "number", "exclusiveMinimum": 0},
    },
    "required": ["sku", "count", "price"],
    "additionalProperties": False,
}
SCHEMAS: Mapping[str, dict[str, object]] = {
    "anything": {},
    "an object": {"type": "object"},
    "an order": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "when": {"type": "string", "format": "date-time"},
            "state": {"enum": ["new", "paid", "sent"]},
            "items": {"type": "array", "items": ITEM, "minItems": 1, "maxItems": 2},
            "note": {"type": ["string", "null"], "maxLength": 20},
        },
        "required": ["id", "when", "state", "items", "note"],
        "additionalProperties": False,
    },
    "a tree": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 8},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
                },
                "required": ["name", "children"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/node",
    },
    "a shape": {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
                "required": ["kind", "radius"],
            },
            {
                "type": "object",
                "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
                "required": ["kind", "side"],
            },
        ]
    },
    "numbers by name": {"type": "object", "additionalProperties": {"type": "number"}, "maxProperties": 3},
    "our own chats": ChatRequest.model_json_schema(),
    "schemas of draft 7": Draft7Validator.META_SCHEMA,
    "anything but a text": {"not": {"type": "string"}},
}
REFUSED = {"our own chats", "schemas of draft 7"}  # for a range of 64 bits, and lists that hold nothing twice


@pytest.fixture(scope="module")
def built(default_model: Path) -> Built:
    settings = Settings.model_validate({"model": {"path": str(default_model)}})
    return build(settings, progress=lambda _: None)


@pytest.fixture(scope="module")
def trials(built: Built) -> dict[str, Trial]:
    cases = [Case("ours", name, schema) for name, schema in SCHEMAS.items()]

    async def run() -> list[Trial]:
        async with running(built.engine):
            return await tried(built.engine, built.tokenizer, cases)

    return {trial.case.name: trial for trial in asyncio.run(run())}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_answer_is_valid_or_the_schema_is_refused(trials: dict[str, Trial], name: str) -> None:
    trial = trials[name]

    assert trial.faults == ()
    assert (trial.refusal is not None) == (name in REFUSED)
    assert trial.refusal is not None or len(trial.verdicts) == 3


def test_some_answers_come_to_their_end(trials: dict[str, Trial]) -> None:
    verdicts = [verdict for trial in trials.values() for verdict in trial.verdicts]

    assert verdicts.count(Verdict.VALID) >= len(verdicts) / 2


def test_drafts_change_no_answer_that_follows_a_schema(default_model: Path) -> None:
    """With the real library: its forced tokens, what lookups guess, and neither."""
    settings = {"model": {"path": str(default_model)}, "engine": {"check_laws": True}}
    built = build(Settings.model_validate(settings), progress=lambda _: None)

    async def outputs(id: str, max_draft_tokens: int | None) -> list[tuple[int, float]]:
        request = Request(
            id=id,
            prompt=tuple(built.tokenizer.encode("An order as JSON: ", add_special_tokens=False)),
            sampling=samplings(built.tokenizer.vocabulary)[1],
            stopping=Stopping(max_tokens=120, eos_ids=built.tokenizer.eos_ids),
            top_logprobs=0,
            max_draft_tokens=max_draft_tokens,
            grammar=Grammar(Syntax.JSON_SCHEMA, Case("", "", SCHEMAS["an order"]).text),
        )
        tokens = [token async for delta in built.engine.open(request) for token in delta.tokens]
        return [(token.id, token.logprob.logprob if token.logprob else 0.0) for token in tokens]

    async def run() -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        async with running(built.engine):
            return await outputs("plain", 0), await outputs("drafted", None)

    plain, drafted = asyncio.run(run())

    assert plain == drafted
    assert built.engine.snapshot().drafts["grammar"].kept > 0
