"""Tools: which of a body's tools the prompt shows, which may be called, and whether one must be."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from server.errors import ApiError, unsupported
from server.rules import wrong
from server.wire.chat import FunctionBody, FunctionTool, OtherTool, ToolFields

HOSTED = frozenset(  # kinds that agents send and others run; what else clients may call a kind is not logged
    {
        *("apply_patch", "code_interpreter", "computer_use", "computer_use_preview", "custom", "file_search"),
        *(
            "image_generation",
            "local_shell",
            "mcp",
            "namespace",
            "shell",
            "tool_search",
            "web_search",
            "web_search_preview",
        ),
    }
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a body offers its model. `shown` are in the prompt, of those `callable` may be called.

    `required`: the answer is calls and nothing else. `single`: it has one call at most, as where one is named.
    `places` has the field of each function's schema, by the function's name.
    """

    shown: tuple[FunctionBody, ...] = ()
    callable: tuple[FunctionBody, ...] = ()
    required: bool = False
    single: bool = False
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """What may be called."""
        return frozenset(function.name for function in self.callable)


NOTHING = Offer()


def offer_of(body: ToolFields) -> Offer:
    """What a body offers, or an ApiError that says what of it can't be."""
    functions = tuple(tool.function for tool in body.tools or () if isinstance(tool, FunctionTool))
    if num_dropped := len(body.tools or ()) - len(functions):
        given = {tool.type for tool in body.tools or () if not isinstance(tool, FunctionTool)}
        kinds = sorted(given & HOSTED) + ["other"] * bool(given - HOSTED)
        log.warning("tools_dropped", extra={"fields": {"tools": num_dropped, "kinds": ",".join(kinds)}})
    required, allowed = _choice(body.tool_choice, functions)
    if body.tool_choice == "none" or not functions:
        return NOTHING
    named = isinstance(body.tool_choice, dict) and body.tool_choice.get("type") == "function"
    single = named or body.parallel_tool_calls is False
    return Offer(functions, allowed, required=required, single=single, places=_places(body.tools or ()))


def _places(tools: Sequence[FunctionTool | OtherTool]) -> dict[str, str]:
    return {
        tool.function.name: f"tools[{place}].function.parameters"
        for place, tool in enumerate(tools)
        if isinstance(tool, FunctionTool)
    }


def _choice(
    choice: str | dict[str, object] | None, functions: tuple[FunctionBody, ...]
) -> tuple[bool, tuple[FunctionBody, ...]]:
    """Whether a call is required, and of which functions it may be."""
    if choice is None or choice in ("none", "auto"):
        return False, functions
    if not functions:
        raise wrong("tool_choice", "asks for a tool, and there are no `tools`")
    match choice:
        case "required":
            return True, functions
        case {"type": "function"}:
            return True, _named([choice], functions)
        case dict() if choice.get("type") == "allowed_tools":
            return _allowed(choice, functions)
    raise _hosted()


def _allowed(choice: dict[str, object], functions: tuple[FunctionBody, ...]) -> tuple[bool, tuple[FunctionBody, ...]]:
    """The `allowed_tools` choice, whose fields stand in an object of that name, or beside its type."""
    match choice.get("allowed_tools", choice):
        case {"mode": "auto" | "required" as mode, "tools": [_, *_] as tools}:
            return mode == "required", _named(tools, functions)
    raise wrong("tool_choice.allowed_tools", "needs a `mode`, auto or required, and `tools`")


def _named(choices: Sequence[object], functions: tuple[FunctionBody, ...]) -> tuple[FunctionBody, ...]:
    """The functions that are named."""
    names = {_name(choice) for choice in choices}
    known = {function.name for function in functions}
    if not names <= known:
        raise wrong("tool_choice", "names a function that is not among `tools`")
    return tuple(function for function in functions if function.name in names)


def _name(choice: object) -> str:
    """The name in `{"type": "function", "function": {"name": …}}`, or beside the type."""
    match choice:
        case {"type": "function", "function": {"name": str() as name}} | {"type": "function", "name": str() as name}:
            return name
        case {"type": "function", "function": {"name": _}} | {"type": "function", "name": _}:
            raise wrong("tool_choice.function.name", "must be a string")
        case {"type": "function"}:
            raise wrong("tool_choice.function.name", "is required")
    raise _hosted()


def _hosted() -> ApiError:
    return unsupported("tool_choice", "names a tool that is not run here; functions alone can be chosen")
