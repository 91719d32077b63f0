"""Tags: answers that are free but for tags, whose contents match something. vLLM's and SGLang's structural tags.

Two ways to say it: `structures` and `triggers`, or xgrammar's `format`, which says more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import orjson

from engine.request import Grammar, Syntax
from server.asked import Asked, schema_asked, written_asked
from server.errors import unsupported
from server.rules import wrong
from server.spelling import TEXT, Spelling
from server.wire.sampling import TagStructure
from server.words import name_of

_ANY_TEXT = "TM_TEXT"
_STRUCTURES = ((re.compile(r"(.*)\.tags(\[\d+\])\.content\.json_schema"), r"\1.structures\2.schema"),)
_NOT_SPELLED = frozenset({"type", "json_schema", "pattern", "grammar"})  # of a format's keys

Format = Mapping[str, object]  # what is in it is checked as it is read


class _Read(Protocol):
    """Makes an expression for a format of one type at some place in the body; None where it has not what it needs."""

    def __call__(self, rules: "_Rules", given: Format, at: str, /, *, last: bool) -> str | None:
        """`last`: nothing comes behind it."""
        ...


def tags_asked(
    structures: Sequence[TagStructure], triggers: Sequence[str], param: str, special: Mapping[str, int]
) -> Asked:
    """Free text in which each trigger begins one of the tags, whose content is JSON by its schema."""
    tags = []
    for number, each in enumerate(structures):
        at = f"{param}.structures[{number}]"
        if not each.begin.startswith(tuple(triggers)):
            raise wrong(f"{at}.begin", "begins with none of the triggers")
        schema = schema_asked({} if each.schema_ is None else each.schema_, f"{at}.schema").grammar.source
        content = {"type": "json_schema", "json_schema": orjson.loads(schema)}
        tags.append({"type": "tag", "begin": each.begin, "content": content, "end": each.end})
    format = {"type": "triggered_tags", "triggers": list(triggers), "tags": tags}
    asked = _asked(format, param, param, special)
    return replace(asked, places={part: name_of(place, _STRUCTURES) for part, place in asked.places.items()})


def format_asked(format: Format, param: str, special: Mapping[str, int]) -> Asked:
    """What a format describes. `special` has the ids of special tokens by what they spell."""
    return _asked(format, f"{param}.format", param, special)


def _asked(format: Format, at: str, param: str, special: Mapping[str, int]) -> Asked:
    texts = list(_texts_in(format))
    used = {mark: id for mark, id in special.items() if mark and any(mark in text for text in texts)}
    rules = _Rules(Spelling(used))
    whole = rules.expression(format, at, last=True)
    source = "\n".join([f"start: {whole}", *rules.rules, TEXT])
    return Asked(Grammar(Syntax.LARK, source, tuple(rules.parts)), param, frozenset(used.values()), rules.places)


class _Rules:
    """Makes the rules of one format. What stands in it as a whole is a part of the grammar."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self.rules: list[str] = []
        self.parts: list[tuple[str, Grammar]] = []
        self.places: dict[str, str] = {}

    def expression(self, given: object, at: str, *, last: bool) -> str:
        """What stands for a format in a rule; `last`: nothing comes behind it. `at` is its place in the body."""
        if not isinstance(given, dict) or not isinstance(kind := given.get("type"), str):
            raise wrong(at, "must be an object with a `type`")
        if kind not in _KINDS:
            raise unsupported(f"{at}.type", f"must be one of {', '.join(_KINDS)}")
        read, fields = _KINDS[kind]
        made = read(self, given, at, last=last)
        if made is None:
            raise wrong(at, f"a format of the type {kind} has {fields}")
        return made

    # -- what stands as a whole -------------------------------------------------------------------

    def const_string(self, given: Format, _at: str, *, last: bool) -> str | None:
        """A text as it is."""
        value = given.get("value")
        return self._spelling.spell(value) if isinstance(value, str) and value else None

    def json_schema(self, given: Format, at: str, *, last: bool) -> str | None:
        """JSON by a schema."""
        schema = given.get("json_schema")
        if given.get("style", "json") != "json":
            raise unsupported(f"{at}.style", "must be json")
        if schema is True:
            schema = {}
        return self._part(schema_asked(schema, f"{at}.json_schema")) if isinstance(schema, dict) else None

    def regex(self, given: Format, at: str, *, last: bool) -> str | None:
        """What matches an expression."""
        pattern = given.get("pattern")
        if not isinstance(pattern, str) or not pattern:
            return None
        return self._part(Asked(Grammar(Syntax.REGEX, pattern), f"{at}.pattern"))

    def grammar(self, given: Format, at: str, *, last: bool) -> str | None:
        """What matches a grammar that is written out."""
        text = given.get("grammar")
        return self._part(written_asked(text, f"{at}.grammar")) if isinstance(text, str) and text else None

    def any_text(self, given: Format, at: str, *, last: bool) -> str:
        """Any text, which ends with the answer."""
        _refuse_excludes(given, at)
        if not last:
            raise unsupported(at, "any text has no end of its own: it may be the last, or in a tag that has an `end`")
        return _ANY_TEXT

    # -- what is made of others -------------------------------------------------------------------

    def sequence(self, given: Format, at: str, *, last: bool) -> str | None:
        """One behind the other."""
        elements = _listed(given, "elements")
        made = (
            self.expression(each, f"{at}.elements[{number}]", last=last and number == len(elements) - 1)
            for number, each in enumerate(elements)
        )
        return " ".join(made) if elements else None

    def one_of(self, given: Format, at: str, *, last: bool) -> str | None:
        """One of several."""
        elements = _listed(given, "elements")
        made = (self.expression(each, f"{at}.elements[{number}]", last=last) for number, each in enumerate(elements))
        return _any_of(made) if elements else None

    def repeated(self, given: Format, at: str, *, last: bool) -> str | None:
        """Once or not at all, or often."""
        if "content" not in given:
            return None
        kind = given["type"]
        one = self.expression(given["content"], f"{at}.content", last=last and kind == "optional")
        return f"({one}){'?' if kind == 'optional' else '+' if kind == 'plus' else '*'}"

    def tag(self, given: Format, at: str, *, last: bool) -> str | None:
        """A content between two texts."""
        return self._tag(given, at, behind="")

    def triggered_tags(self, given: Format, at: str, *, last: bool) -> str | None:
        """Any text until a trigger, then one of its tags, and so on; where one is needed, it comes first."""
        tags, triggers = _listed(given, "tags"), _listed(given, "triggers")
        texts = [text for text in triggers if isinstance(text, str) and text]
        if not (tags and texts) or len(texts) < len(triggers):
            return None
        _refuse_excludes(given, at)
        if not last:
            raise unsupported(at, "the text around triggered tags has no end of its own: nothing may come behind them")
        single = _flag(given, "stop_after_first", at)
        if not _flag(given, "at_least_one", at):
            one = self._triggered(texts, tags, at)
            return f"({one} | {_ANY_TEXT})" if single else f"{one}* {_ANY_TEXT}"
        first = self._any_tag(tags, at)
        return first if single else f"{first} {self._triggered(texts, tags, at)}* {_ANY_TEXT}"

    def tags_with_separator(self, given: Format, at: str, *, last: bool) -> str | None:
        """Tags and nothing else but what stands between two of them."""
        tags, separator = _listed(given, "tags"), given.get("separator")
        if not tags or not isinstance(separator, str):
            return None
        one = self._any_tag(tags, at)
        more = "" if _flag(given, "stop_after_first", at) else f" ({self._spelling.spell(separator)} {one})*"
        return f"({one}{more})" if _flag(given, "at_least_one", at) else f"({one}{more})?"

    # -- tags -------------------------------------------------------------------------------------

    def _any_tag(self, tags: Sequence[object], at: str) -> str:
        return _any_of(self._one_tag(tag, f"{at}.tags[{number}]", behind="") for number, tag in enumerate(tags))

    def _one_tag(self, given: object, at: str, *, behind: str) -> str:
        made = self._tag(given, at, behind=behind) if isinstance(given, dict) else None
        if made is None:
            raise wrong(at, f"a tag has {_TAG}")
        return made

    def _tag(self, given: Format, at: str, *, behind: str) -> str | None:
        """The rule of a tag, of which what stands `behind` was written already."""
        begin, end = given.get("begin"), given.get("end")
        if isinstance(end, list):
            raise unsupported(f"{at}.end", "must be one text")
        if not (isinstance(begin, str) and begin and isinstance(end, str)) or "content" not in given:
            return None
        content = self._content(given["content"], end, f"{at}.content")
        return self._rule(f"{self._spelling.spell(begin.removeprefix(behind))} {content}")

    def _content(self, content: object, end: str, at: str) -> str:
        """What is in a tag, and its end."""
        if not (isinstance(content, dict) and content.get("type") == "any_text" and end):
            return f"{self.expression(content, at, last=False)} {self._spelling.spell(end)}"
        _refuse_excludes(content, at)
        return self._up_to(end, at)

    def _triggered(self, triggers: Sequence[str], tags: Sequence[object], at: str) -> str:
        """For each trigger any text, it, and one of its tags. Of two that fit, the shorter is met before the longer."""
        by_trigger: dict[str, list[str]] = {}
        for number, tag in enumerate(tags):
            place = f"{at}.tags[{number}]"
            begin = tag.get("begin") if isinstance(tag, dict) else None
            fitting = [text for text in triggers if isinstance(begin, str) and begin.startswith(text)]
            if isinstance(begin, str) and not fitting:
                raise wrong(f"{place}.begin", "begins with none of the triggers")
            trigger = min(fitting, key=len, default="")
            by_trigger.setdefault(trigger, []).append(self._one_tag(tag, place, behind=trigger))
        return _any_of(f"{self._up_to(text, f'{at}.triggers')} {_any_of(each)}" for text, each in by_trigger.items())

    def _up_to(self, mark: str, at: str) -> str:
        """The name of any text up to a mark, and the mark."""
        if self._spelling.has_special(mark) and not self._spelling.begins_special(mark):
            raise unsupported(at, "what ends a free text may have a special token at its beginning, and not later")
        name = f"tm_rule_{len(self.rules)}"
        self.rules += self._spelling.up_to(mark, name)
        return name

    def _rule(self, body: str) -> str:
        name = f"tm_rule_{len(self.rules)}"
        self.rules.append(f"{name}: {body}")
        return name

    def _part(self, asked: Asked) -> str:
        name = f"tm_part_{len(self.parts)}"
        self.parts.append((name, asked.grammar))
        self.places[name] = asked.param
        return f"@{name}"


_A_TEXT = "a text that is not empty"
_TAG = f"`begin`, {_A_TEXT}, `content`, a format, and `end`, a text"
_ELEMENTS = "`elements`, a list that is not empty"
_KINDS: dict[str, tuple[_Read, str]] = {
    "const_string": (_Rules.const_string, f"`value`, {_A_TEXT}"),
    "json_schema": (_Rules.json_schema, "`json_schema`, an object"),
    "regex": (_Rules.regex, f"`pattern`, {_A_TEXT}"),
    "grammar": (_Rules.grammar, f"`grammar`, {_A_TEXT}"),
    "any_text": (_Rules.any_text, "nothing else"),
    "sequence": (_Rules.sequence, _ELEMENTS),
    "or": (_Rules.one_of, _ELEMENTS),
    "optional": (_Rules.repeated, "`content`, a format"),
    "plus": (_Rules.repeated, "`content`, a format"),
    "star": (_Rules.repeated, "`content`, a format"),
    "tag": (_Rules.tag, _TAG),
    "triggered_tags": (_Rules.triggered_tags, "`triggers`, texts that are not empty, and `tags`, at least one"),
    "tags_with_separator": (_Rules.tags_with_separator, "`tags`, at least one, and `separator`, a text"),
}


def _any_of(expressions: Iterable[str]) -> str:
    return f"({' | '.join(expressions)})"


def _listed(given: Format, name: str) -> Sequence[object]:
    value = given.get(name)
    return value if isinstance(value, list) else ()


def _flag(given: Format, name: str, at: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise wrong(f"{at}.{name}", "must be true or false")
    return value


def _refuse_excludes(given: Format, at: str) -> None:
    if given.get("excludes"):
        raise unsupported(f"{at}.excludes", "is not available here")


def _texts_in(format: object) -> Iterator[str]:
    """The texts that a format spells."""
    match format:
        case str():
            yield format
        case list():
            for each in format:
                yield from _texts_in(each)
        case dict():
            yield from _texts_in([each for key, each in format.items() if key not in _NOT_SPELLED])
        case _:
            pass
