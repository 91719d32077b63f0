"""Each schema's answers by a model, judged by a validator that knows nothing of grammars."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from jsonschema import validators  # type: ignore[import-untyped]  # it has no types
from referencing import Registry

from engine.engine import Engine
from engine.errors import GrammarFailed, GrammarRefused
from engine.request import FinishReason, Grammar, Request, Sampling, Stopping, Syntax
from engine.text import Tokenizer, Vocabulary
from tests.schemas.corpus import Case

SHOWN = 600  # characters of a schema that the model sees
MAX_TOKENS = 160
CLOSING = frozenset('"]},')
CLOSING_BIAS = 6.0  # so that an answer comes to its end
NUM_AT_ONCE = 16


class Verdict(Enum):
    """What became of one answer."""

    VALID = "valid"
    BEGUN = "the beginning of a JSON text"  # it ran out of tokens
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Trial:
    """One schema: why it was refused, or what became of its answers; `faults` says what is wrong with them."""

    case: Case
    refusal: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    faults: tuple[str, ...] = ()


def samplings(vocabulary: Vocabulary) -> list[Sampling]:
    """Three ways to answer: likeliest, and drawn, both hurrying to the end; and drawn as it comes."""
    closing = tuple((token, CLOSING_BIAS) for token in range(vocabulary.size) if _closes(vocabulary.text_of(token)))
    return [
        Sampling(seed=0, temperature=0.0, logit_bias=closing),
        Sampling(seed=1, temperature=1.0, logit_bias=closing),
        Sampling(seed=2, temperature=1.0),
    ]


def _closes(text: str) -> bool:
    return bool(text) and CLOSING.issuperset(text)


async def tried(engine: Engine, tokenizer: Tokenizer, cases: Iterable[Case]) -> list[Trial]:
    """Try every schema, several at once; the engine runs."""
    seats = asyncio.Semaphore(NUM_AT_ONCE)
    ways = samplings(tokenizer.vocabulary)

    async def one(number: int, case: Case) -> Trial:
        async with seats:
            return await _trial(engine, tokenizer, case, number, ways)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number, case)) for number, case in enumerate(cases)]
    return [task.result() for task in tasks]


async def _trial(engine: Engine, tokenizer: Tokenizer, case: Case, number: int, ways: Sequence[Sampling]) -> Trial:
    grammar = Grammar(Syntax.JSON_SCHEMA, case.text)
    try:
        await engine.prepare(grammar)
    except GrammarRefused as refusal:
        return Trial(case, refusal=refusal.reason)
    request = Request(
        id=str(number),
        prompt=tuple(_prompt(tokenizer, case)),
        sampling=ways[0],
        stopping=Stopping(max_tokens=MAX_TOKENS, eos_ids=tokenizer.eos_ids),
        grammar=grammar,
    )
    requests = [replace(request, id=f"{number}.{way}", sampling=sampling) for way, sampling in enumerate(ways)]
    try:
        answers = [await _answer(engine, each) for each in requests]
    except GrammarFailed as failure:  # it could not be followed to its end, which shows late
        return Trial(case, refusal=failure.reason)
    judged = [judge(case, text, ended=ended) for text, ended in answers]
    return Trial(case, verdicts=tuple(verdict for verdict, _ in judged), faults=tuple(f for _, f in judged if f))


def _prompt(tokenizer: Tokenizer, case: Case) -> list[int]:
    text = f"Write a very short JSON document for this schema: {case.text[:SHOWN]}"
    return tokenizer.encode_chat(
        [{"role": "user", "content": text}],
        add_generation_prompt=True,
        continue_final_message=False,
        template_kwargs={},
    )


async def _answer(engine: Engine, request: Request) -> tuple[str, bool]:
    """The text, and whether it ended by itself. Raises the error that ended it in another way."""
    text, ended = "", False
    async for delta in engine.open(request):
        text += delta.text
        if delta.end is not None:
            if delta.end.error is not None:
                raise delta.end.error
            ended = delta.end.reason is FinishReason.STOP
    return text, ended


# -- the judge ------------------------------------------------------------------------------------


def judge(case: Case, text: str, *, ended: bool) -> tuple[Verdict, str]:
    """What an answer is, and what is wrong with it."""
    if not ended:
        return (Verdict.BEGUN, "") if is_beginning(text) else (Verdict.INVALID, f"no JSON begins with {text!r}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return Verdict.INVALID, f"{error} in {text!r}"
    fault = next(_errors(case, value), None)
    return (Verdict.VALID, "") if fault is None else (Verdict.INVALID, f"{fault} in {text!r}")


def _errors(case: Case, value: object) -> Iterator[str]:
    kind = validators.validator_for(case.schema, default=validators.Draft202012Validator)
    validator = kind(case.schema, format_checker=kind.FORMAT_CHECKER, registry=Registry())
    for error in validator.iter_errors(value):
        yield f"{error.json_path}: {error.message[:200]}"


def is_beginning(text: str) -> bool:
    """Whether something can follow that makes it JSON: it is at fault only where it ends."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        cut_string = error.msg.startswith(("Unterminated string", "Invalid \\u")) or not rest.strip()
        return cut_string or any(word.startswith(rest) for word in ("true", "false", "null", "-"))
    return True
