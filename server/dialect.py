"""Dialect: how a model writes calls and reasoning, and what its chat template makes of tools."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from config.settings import ServerSettings
from engine.text import Vocabulary
from server.reading.answer import AnswerReader, Thinking
from server.reading.calls import CallFormat
from server.reading.channels import Harmony
from server.reading.formats import FORMATS, Mistral

TAIL = 16  # tokens of a prompt, in which its last tag stands
THINKING = MappingProxyType({"think": Thinking("<think>", "</think>"), "mistral": Thinking("[THINK]", "[/THINK]")})

# What a template writes that tells its format, the first that is found.
_TELLING = (
    ("<|channel|>", "harmony"),
    ("[TOOL_CALLS]", "mistral"),
    ("<tool_call>", "hermes"),
    ("<|tool_call_start|>", "pythonic"),
    ('"parameters":', "llama"),
    ("<|python_tag|>", "llama"),
    ("<|python_start|>", "pythonic"),
)
_DEFAULT = "hermes"
_ONE_CALL = "only supports single tool-calls"  # as the templates of Llama 3 refuse several
_SHORT_IDS = "alphanumeric strings with length 9"  # as Mistral's refuse others
_NO_SYSTEM = re.compile(r"raise_exception\([^)]*system", re.IGNORECASE)
VARIABLES = ("tools", "reasoning_effort", "enable_thinking", "thinking")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is known of a model's ways.

    `format` None: calls are not looked for. `variables` are those of `VARIABLES` that the template reads. `special` has
    the ids of those marks that are special tokens, `within` of those that end no answer, `tokens` those of all special
    tokens. `takes_system`: the template does not refuse a system message. `one_call`: it refuses an answer of several
    calls. `short_ids`: it refuses ids of calls that are not like our own.
    """

    format: CallFormat | None
    thinking: Thinking | None
    variables: frozenset[str]
    special: Mapping[str, int]
    within: Mapping[str, int]
    tokens: Mapping[str, int]
    takes_system: bool
    one_call: bool
    short_ids: bool

    @property
    def always_read(self) -> bool:
        """Whether answers are read in the format though nothing can be called."""
        return isinstance(self.format, Harmony)

    @property
    def shows_tools(self) -> bool:
        """Whether the template puts tools, calls and results into the prompt; else they are told in text."""
        return "tools" in self.variables

    def effort(self, effort: str | None) -> dict[str, object]:
        """The template's variables that say how much to think, of those that it reads."""
        if effort is None:
            return {}
        thinks = effort != "none"
        known = {"reasoning_effort": effort, "enable_thinking": thinks, "thinking": thinks}
        return {name: value for name, value in known.items() if name in self.variables}

    def special_ids(self, marks: Iterable[str]) -> frozenset[int]:
        """Those of these marks that are special tokens."""
        return frozenset(self.special[mark] for mark in marks if mark in self.special)

    def thinking_after(self, prompt: Sequence[int], said: str, vocabulary: Vocabulary) -> Thinking | None:
        """The tags of an answer that goes on from a prompt, and from what it has said already.

        The reasoning has begun where the prompt ends with its first tag, or where what was said leaves it open. It is
        over where the prompt ends with its last.
        """
        tags = self.thinking
        if tags is None:
            return None
        tail = b"".join(vocabulary.bytes_of(token, skip_special=False) for token in prompt[-TAIL:])
        end = tail.decode("utf-8", "replace").rstrip()
        if end.endswith(tags.closes):
            return None
        return replace(tags, begun=end.endswith(tags.opens) or said.rfind(tags.opens) > said.rfind(tags.closes))


def dialect_of(
    template: str | None, settings: ServerSettings, vocabulary: Vocabulary, *, eos_ids: frozenset[int] = frozenset()
) -> Dialect:
    """The dialect that a template tells of, or that the settings name. `eos_ids` end answers, so they are in none."""
    text, name = template or "", settings.tool_format
    format = _format(_told_format(text) if name == "auto" else name, text)
    tags = settings.reasoning_format
    thinking = _told_thinking(text) if tags == "auto" else THINKING.get(tags)
    if isinstance(format, Harmony):
        thinking = None  # its channels say what is reasoning
    marks = AnswerReader(thinking, format).marks
    special = {vocabulary.text_of(token): token for token in sorted(vocabulary.special_ids)}
    return Dialect(
        format=format,
        thinking=thinking,
        variables=frozenset(variable for variable in VARIABLES if _reads(text, variable)),
        special={mark: special[mark] for mark in marks if mark in special},
        within={mark: special[mark] for mark in marks if mark in special and special[mark] not in eos_ids},
        tokens=special,
        takes_system=_NO_SYSTEM.search(text) is None,
        one_call=_ONE_CALL in text or isinstance(format, Harmony),
        short_ids=_SHORT_IDS in text,
    )


def _format(name: str, template: str) -> CallFormat | None:
    return Mistral(named=True) if name == "mistral" and "[ARGS]" in template else FORMATS.get(name)


def _told_format(template: str) -> str:
    return next((name for mark, name in _TELLING if mark in template), _DEFAULT)


def _told_thinking(template: str) -> Thinking | None:
    """Some templates only take the reasoning out of earlier answers, so either tag tells of it."""
    return next((tags for tags in THINKING.values() if tags.opens in template or tags.closes in template), None)


def _reads(template: str, variable: str) -> bool:
    """Whether a template's own code names a variable."""
    code = r"\{[{%](?:(?![%}]\}).)*?"
    return re.search(rf"{code}(?<![\w.'\"]){variable}\b", template, re.DOTALL) is not None
