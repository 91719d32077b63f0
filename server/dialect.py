"""Dialect: how a model writes calls and reasoning, and what its chat template makes of tools."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from config.settings import ServerSettings
from engine.text import Vocabulary
from server.reading.answer import Thinking
from server.reading.calls import CallFormat
from server.reading.formats import FORMATS

TAIL = 16  # tokens of a prompt, in which its last tag stands
THINKING = MappingProxyType({"think": Thinking("<think>", "</think>"), "mistral": Thinking("[THINK]", "[/THINK]")})

# What a template writes that tells its format, the first that is found.
_TELLING = (
    ("[TOOL_CALLS]", "mistral"),
    ("<tool_call>", "hermes"),
    ("<|tool_call_start|>", "pythonic"),
    ('"parameters":', "llama"),
    ("<|python_tag|>", "llama"),
    ("<|python_start|>", "pythonic"),
)
_DEFAULT = "hermes"
VARIABLES = ("tools", "reasoning_effort", "enable_thinking", "thinking")


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is known of a model's ways.

    `format` None: calls are not looked for. `variables` are those of `VARIABLES` that the template reads.
    """

    format: CallFormat | None
    thinking: Thinking | None
    variables: frozenset[str]

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

    def thinking_after(self, prompt: Sequence[int], said: str, vocabulary: Vocabulary) -> Thinking | None:
        """The tags of an answer that goes on from a prompt, and from what it has said already.

        The reasoning has begun where the prompt ends with its first tag, or where what was said leaves it open.
        """
        tags = self.thinking
        if tags is None:
            return None
        tail = b"".join(vocabulary.bytes_of(token, skip_special=False) for token in prompt[-TAIL:])
        ends = tail.decode("utf-8", "replace").rstrip().endswith(tags.opens)
        return replace(tags, begun=ends or said.rfind(tags.opens) > said.rfind(tags.closes))


def dialect_of(template: str | None, settings: ServerSettings) -> Dialect:
    """The dialect that a template tells of, or that the settings name."""
    text, format, thinking = template or "", settings.tool_format, settings.reasoning_format
    return Dialect(
        format=FORMATS.get(_told_format(text) if format == "auto" else format),
        thinking=_told_thinking(text) if thinking == "auto" else THINKING.get(thinking),
        variables=frozenset(name for name in VARIABLES if _reads(text, name)),
    )


def shown_ids(literals: Iterable[str], vocabulary: Vocabulary) -> frozenset[int]:
    """The special tokens that spell one of these."""
    wanted = frozenset(literals)
    return frozenset(token for token in vocabulary.special_ids if vocabulary.text_of(token) in wanted)


def _told_format(template: str) -> str:
    return next((name for mark, name in _TELLING if mark in template), _DEFAULT)


def _told_thinking(template: str) -> Thinking | None:
    """Some templates only take the reasoning out of earlier answers, so either tag tells of it."""
    return next((tags for tags in THINKING.values() if tags.opens in template or tags.closes in template), None)


def _reads(template: str, variable: str) -> bool:
    """Whether a template's own code names a variable."""
    code = r"\{[{%](?:(?![%}]\}).)*?"
    return re.search(rf"{code}(?<![\w.'\"]){variable}\b", template, re.DOTALL) is not None
