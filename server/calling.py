"""Calling: the grammar of an answer that is calls, may be, or thinks before it says what it has to match.

Rules are llguidance's Lark. Where a mark is a special token it is written as that token, since no text is.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import orjson

from engine.request import Grammar, Syntax
from server.asked import Asked
from server.dialect import Dialect
from server.reading.answer import AnswerReader, Thinking
from server.reading.calls import ARGUMENTS, ASIDE, CallFormat, Calls, Frame
from server.reading.channels import CHANNEL, CONSTRAIN, END, FUNCTIONS, MESSAGE, START
from server.spelling import TEXT, Spelling, literal
from server.tools import NOTHING, Offer
from server.wire.chat import FunctionBody

MAX_CALLS = 16  # of an answer that is nothing else: a small model may write calls for ever
ANYTHING = '{"type":"object"}'
_ARGUMENTS = "tm_arguments_"  # and a function's number: the part that its arguments have to match


@dataclass(frozen=True, slots=True)
class Shape:
    """What an answer has to match, if anything, and what reads it."""

    asked: Asked | None
    reader: AnswerReader


def shape_of(asked: Asked | None, offer: Offer, thinking: Thinking | None, dialect: Dialect) -> Shape:
    """The shape of an answer for which a grammar was asked, tools are offered, and which may think before."""
    format = dialect.format if offer.callable or dialect.always_read else None
    offer = replace(offer, single=offer.single or dialect.one_call)
    spelling = Spelling(dialect.within)
    reader = AnswerReader(thinking)
    if format is not None:
        schemas = {function.name: function.parameters or {} for function in offer.callable}
        reader = replace(reader, format=format, make_calls=partial(Calls, schemas, most=1 if offer.single else None))
        if offer.required:
            return Shape(required_calls(offer, format, thinking, spelling), reader)
    if asked is None:
        if format is not None and is_strict(offer, format, spelling):
            return Shape(strict_calls(offer, format, thinking, spelling), reader)
        return Shape(None, reader)
    if format is None and thinking is None:
        return Shape(asked, reader)
    return Shape(behind_thinking(asked, offer, format, thinking, spelling), reader)


# -- what an answer may be ------------------------------------------------------------------------


def required_calls(offer: Offer, format: CallFormat, thinking: Thinking | None, spelling: Spelling) -> Asked:
    """Calls and nothing else, behind reasoning if there is some."""
    rules = [*_thinking(thinking, spelling, "tm_calls"), *_calls(offer, format, spelling)]
    return _asked(rules, offer, strict=False)


def behind_thinking(
    asked: Asked, offer: Offer, format: CallFormat | None, thinking: Thinking | None, spelling: Spelling
) -> Asked:
    """What was asked for, or calls in its place, behind reasoning."""
    rules = [*_thinking(thinking, spelling, "tm_said"), "tm_answer: @tm_asked"]
    if offer.callable and format is not None:
        rules += ["tm_said: tm_answer | tm_calls", *_calls(offer, format, spelling, led=True)]
    else:
        rules.append("tm_said: tm_answer")
        offer = NOTHING
    whole = _asked(rules, offer, strict=False)
    parts = (("tm_asked", asked.grammar), *whole.grammar.parts)
    return replace(asked, grammar=replace(whole.grammar, parts=parts), places={**whole.places, **asked.places})


def strict_calls(offer: Offer, format: CallFormat, thinking: Thinking | None, spelling: Spelling) -> Asked:
    """Any text, in which calls are those of tools that may be called, with arguments that match where that is asked."""
    if format.openings == (CHANNEL,):
        rules = _addressed_calls(offer, format, spelling)
    elif format.openings:
        rules = _opening_calls(offer, format, thinking, spelling)
    else:
        [trigger, *_] = format.marks
        said = "tm_said: tm_begun tm_units | tm_text" if offer.single else "tm_said: (tm_begun tm_units)* tm_text"
        rules = [said, *spelling.up_to(trigger, "tm_begun"), *_units(offer, format, spelling, trigger)]
    return _asked([*_thinking(thinking, spelling, "tm_said"), *rules], offer, strict=True)


def is_strict(offer: Offer, format: CallFormat, spelling: Spelling) -> bool:
    """Whether freely made calls are to be enforced, and can be: it can be told where they begin."""
    wanted = any(function.strict for function in offer.callable) or len(offer.callable) < len(offer.shown)
    if format.openings == (CHANNEL,):
        return wanted and all(map(spelling.begins_special, (CHANNEL, START, MESSAGE)))
    return wanted


# -- rules ----------------------------------------------------------------------------------------


def _asked(rules: Iterable[str], offer: Offer, *, strict: bool) -> Asked:
    """The grammar of rules in which each function's arguments are a part. `strict`: only strict ones have schemas."""
    parts, places = [], {}
    for number, function in enumerate(offer.callable):
        schema = arguments_schema(function) if function.strict or not strict else ANYTHING
        parts.append((f"{_ARGUMENTS}{number}", Grammar(Syntax.JSON_SCHEMA, schema)))
        places[f"{_ARGUMENTS}{number}"] = offer.places.get(function.name, "tools")
    return Asked(Grammar(Syntax.LARK, "\n".join([*rules, TEXT]), tuple(parts)), "tools", places=places)


def _thinking(thinking: Thinking | None, spelling: Spelling, then: str) -> list[str]:
    """The first rule: reasoning, which may be left out unless it has begun, and what comes then."""
    if thinking is None:
        return [f"start: {then}"]
    thought = "tm_thought TM_SPACE"
    if not thinking.begun:
        thought = f"({spelling.spell(thinking.opens)} {thought})?"
    return [f"start: {thought} {then}", *spelling.up_to(thinking.closes, "tm_thought")]


def _calls(offer: Offer, format: CallFormat, spelling: Spelling, *, led: bool = False) -> list[str]:
    """Calls of the tools, their arguments by their schemas. `led`: a mark comes first, to tell them from an answer."""
    first, then, last = format.frame
    mark = spelling.first(format.marks)
    if led and not f"{first}{format.around[0]}".startswith(mark):
        first = mark + first
    most = 1 if offer.single else MAX_CALLS
    return [
        _several("tm_calls", (first, then, last), spelling, more=f"{{0,{most - 1}}}" if most > 1 else ""),
        *_each(offer.callable, format.around, format, spelling),
    ]


def _units(offer: Offer, format: CallFormat, spelling: Spelling, trigger: str) -> list[str]:
    """What comes behind a trigger: one call, or a frame of several."""
    (first, then, last), (before, *rest) = format.frame, format.around
    around = (before if first else before.removeprefix(trigger), rest[0], rest[1])
    frame = (first.removeprefix(trigger), then, last)
    return [
        _several("tm_units", frame, spelling, more="*" if first and not offer.single else ""),
        *_each(offer.callable, around, format, spelling),
    ]


def _opening_calls(offer: Offer, format: CallFormat, thinking: Thinking | None, spelling: Spelling) -> list[str]:
    """Calls as the whole answer, or behind a mark, or else a text that begins as neither they nor reasoning do.

    What is read as a call's beginning is one terminal: until it is told from a text, it may be either.
    """
    [opening] = format.openings
    (first, then, last), (before, between, behind) = format.frame, format.around
    looks = _LOOKS[opening]([function.name for function in offer.callable])
    if thinking is not None:
        looks = f"({looks}|{_escaped(thinking.opens)})"
    heads = [f"{before}{format.name(function.name)}{between}" for function in offer.callable]
    begun = [f"tm_begun_{number}" for number in range(len(format.marks))]
    more = "" if offer.single else f"({literal(then)} {_any('tm_call', heads)})*"
    end = literal(last) if last else ""
    rules = [
        f"tm_said: (({' | '.join(begun)}) TM_SPACE)? tm_units | TM_FREE",
        *(
            rule
            for name, mark in zip(begun, format.marks, strict=True)
            for rule in spelling.up_to(mark, name, "TM_FREE")
        ),
        f"TM_FREE: /(?s:.*)/ & ~/[ \\t\\r\\n]*{looks}(?s:.*)/",
        f"tm_units: {_any('tm_first', heads)} {more} {end}",
    ]
    for number, head in enumerate(heads):
        rules += [
            f"tm_first_{number}: {_head(first + head)} tm_rest_{number}",
            f"tm_call_{number}: {_head(head)} tm_rest_{number}",
            f"tm_rest_{number}: @{_ARGUMENTS}{number} {literal(behind)}",
        ]
    return rules


def _addressed_calls(offer: Offer, format: CallFormat, spelling: Spelling) -> list[str]:
    """Messages of any text, the last of which may be a call: it is one where its header names a function.

    A header is text between special tokens, and what names a function stands between two of them as a whole.
    """
    channel, message, start = map(spelling.spell, (CHANNEL, MESSAGE, START))
    parted = f"({channel} | {spelling.spell(CONSTRAIN)})"
    end = f"({spelling.spell(END)} tm_text)?" if spelling.begins_special(END) else ""
    rules = [
        "tm_said: tm_text tm_message* tm_addressed?",
        f"tm_message: tm_header TM_HEAD? {message} tm_text {end}",
        f"tm_addressed: tm_header {_any('tm_call', offer.callable)}",
        f"tm_header: ({channel} | {start}) (TM_HEAD? {parted})*",
        f"TM_HEAD: /(?s:.+)/ & ~/(?s:.*)to={re.escape(FUNCTIONS)}(?s:.*)/",
        "TM_BEFORE: /((?s:.*)[ \\n])?/ & ~/(?s:.*)to=(?s:.*)/",
    ]
    for number, function in enumerate(offer.callable):
        address = f"to={FUNCTIONS}{format.name(function.name)}"
        rules += [
            f"TM_ADDRESS_{number}: TM_BEFORE {literal(address)} /([ \\n](?s:.*))?/",
            f"tm_call_{number}: TM_ADDRESS_{number} ({parted} TM_HEAD?)* {message} TM_SPACE @{_ARGUMENTS}{number}",
        ]
    return rules


def _any(name: str, of: Sequence[object]) -> str:
    return f"({' | '.join(f'{name}_{number}' for number in range(len(of)))})"


def _head(text: str) -> str:
    """A text as an expression, in which spaces may be left out, and which may begin with some."""
    return f"/{_SPACES}{_escaped(text).replace(chr(92) + ' ', _SPACES)}/"


def _escaped(text: str) -> str:
    return re.escape(text).replace("/", "\\/")


def _like_an_object(names: Sequence[str]) -> str:
    """What a call begins with that is a JSON object: a tool's name, behind what models add, or arguments.

    Of what is spelled with escapes, or holds parts, it can't be told, so it counts as one.
    """
    space, aside = r"[ \t\r\n]*", f'"({"|".join(ASIDE)})"'
    plain = r'("[^"\\]*"|[^"\\,\[{]*)'
    named = "|".join(_escaped(literal(name)[1:-1]) for name in names)
    before = rf"({aside}{space}:{space}{plain}{space},{space})*"
    escaped = r'"[^"]*\\'
    key = rf'"name"{space}:{space}("({named})"|{escaped})|"({"|".join(ARGUMENTS)})"'
    return rf"\{{{space}{before}({key}|{aside}{space}:{space}([\[{{]|{escaped})|{escaped})"


def _like_a_list(names: Sequence[str]) -> str:
    """What calls begin with that are a list of Python's calls: a tool's name and a bracket."""
    return rf"\[[ \t\r\n]*({'|'.join(map(_escaped, names))})\("


_SPACES = r"[ \n]{0,4}"
_LOOKS: dict[str, Callable[[Sequence[str]], str]] = {"{": _like_an_object, "[": _like_a_list}  # by what opens them


def _several(name: str, frame: Frame, spelling: Spelling, *, more: str) -> str:
    """The rule of calls in a frame; `more`: how often another may come."""
    first, then, last = map(spelling.spell, frame)
    again = f"({then} tm_call){more}" if more else ""
    return f"{name}: {' '.join(filter(None, (first, 'tm_call', again, last)))}"


def _each(functions: Sequence[FunctionBody], around: Frame, format: CallFormat, spelling: Spelling) -> Iterator[str]:
    """A rule for each function, and one for any of them."""
    before, between, behind = map(spelling.spell, around)
    yield "tm_call: " + " | ".join(f"tm_call_{number}" for number in range(len(functions)))
    for number, function in enumerate(functions):
        parts = (before, literal(format.name(function.name)), between, f"@{_ARGUMENTS}{number}", behind)
        yield f"tm_call_{number}: {' '.join(filter(None, parts))}"


def arguments_schema(function: FunctionBody) -> str:
    """What a function's arguments, which are an object, have to match; one without parameters has none."""
    if function.parameters is None:
        return '{"type":"object","properties":{},"additionalProperties":false}'
    an_object: dict[str, object] = {"type": "object"}
    if function.parameters.get("type", "object") != "object":
        an_object = {"allOf": [an_object]}  # beside its own type
    return orjson.dumps(an_object | function.parameters).decode()
