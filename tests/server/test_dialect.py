import pytest

from config.settings import ServerSettings
from engine.text import Vocabulary
from server.dialect import Dialect, dialect_of
from server.reading.formats import FORMATS, Mistral
from tests.fakes import VOCABULARY

QWEN = """{%- if tools %}{{- "# Tools <tool_call>" }}{%- for tool in tools %}{{ tool | tojson }}{% endfor %}{%- endif %}
{{- '<|im_start|>assistant\\n' }}{%- if enable_thinking is defined and not enable_thinking %}
{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"""
LLAMA = """{%- if tools is not none %}{{- '{"name": function name, "parameters": dictionary}' }}{% endif %}"""
MISTRAL = """{%- if tools is not none %}[AVAILABLE_TOOLS]{% endif %}{{ "[TOOL_CALLS]" + '"parameters":' }}[THINK]"""
PLAIN = "{% for message in messages %}{{ message['tools'] }} thinking about tools {{ m.enable_thinking }}{% endfor %}"


def dialect(template: str | None, vocabulary: Vocabulary = VOCABULARY, **settings: str) -> Dialect:
    return dialect_of(template, ServerSettings.model_validate(settings), vocabulary)


@pytest.mark.parametrize(
    ("template", "format", "tags", "shows"),
    [
        (QWEN, "hermes", "<think>", True),
        (LLAMA, "llama", None, True),
        (MISTRAL, "mistral", "[THINK]", True),
        ("{{ tools }}<|tool_call_start|>", "pythonic", None, True),
        ("{{ tools }}<|python_start|>", "pythonic", None, True),
        ("{{ tools }}<|channel|>analysis<think>", "harmony", None, True),
        ("{{ tools }} {{ content.split('</think>') }}", "hermes", "<think>", True),
        (PLAIN, "hermes", None, False),
        (None, "hermes", None, False),
    ],
)
def test_a_template_tells_the_models_ways(template: str | None, format: str, tags: str | None, *, shows: bool) -> None:
    told = dialect(template)

    assert told.format is FORMATS[format]
    assert (told.thinking.opens if told.thinking else None) == tags
    assert told.shows_tools is shows


def test_the_settings_go_before_the_template() -> None:
    told = dialect(QWEN, tool_format="llama", reasoning_format="mistral")
    none = dialect(QWEN, tool_format="none", reasoning_format="none")

    assert told.format is FORMATS["llama"]
    assert told.thinking is not None
    assert told.thinking.opens == "[THINK]"
    assert (none.format, none.thinking) == (None, None)


def test_an_effort_sets_the_variables_that_the_template_reads() -> None:
    granite = dialect("{%- if thinking %}{{ reasoning_effort }}{% endif %}")

    assert dialect(QWEN).effort("none") == {"enable_thinking": False}
    assert dialect(QWEN).effort("low") == {"enable_thinking": True}
    assert granite.effort("high") == {"reasoning_effort": "high", "thinking": True}
    assert dialect(PLAIN).effort("high") == {}
    assert dialect(QWEN).effort(None) == {}


@pytest.mark.parametrize(
    ("prompt", "said", "begun"),
    [
        ("assistant\n<think>\n", "", True),
        ("assistant\n<think>\n\n</think>\n\n", "", False),
        ("what is <think>?\nassistant\n", "", False),
        ("<think>\nI was", "<think>\nI was", True),
        ("<think>\nI was</think> so", "<think>\nI was</think> so", False),
    ],
)
def test_reasoning_has_begun_where_the_prompt_leaves_it_open(prompt: str, said: str, *, begun: bool) -> None:
    tags = dialect(QWEN).thinking_after(tuple(prompt.encode()), said, VOCABULARY)

    assert (tags is not None and tags.begun) is begun
    assert dialect(PLAIN).thinking_after(tuple(prompt.encode()), said, VOCABULARY) is None


def test_marks_that_are_special_tokens_are_shown() -> None:
    vocabulary = Vocabulary([b"a", b"[TOOL_CALLS]", b"</s>", b"[ARGS]"], frozenset({1, 2}))

    told = dialect("[TOOL_CALLS]", vocabulary)

    assert told.special == {"[TOOL_CALLS]": 1}
    assert told.special_ids(("[TOOL_CALLS]", "[ARGS]")) == {1}


def test_a_prompt_that_ends_behind_reasoning_leaves_none_to_come() -> None:
    tags = dialect(QWEN).thinking_after(tuple(b"assistant\n<think>\n\n</think>\n\n"), "", VOCABULARY)

    assert tags is None


def test_mistrals_calls_are_named_where_the_template_names_them() -> None:
    assert dialect("{{ tools }}[TOOL_CALLS][ARGS]").format == Mistral(named=True)
    assert dialect("{{ tools }}[TOOL_CALLS]").format == Mistral()


def test_a_template_that_refuses_a_system_message_is_known() -> None:
    assert dialect(QWEN).takes_system
    assert not dialect("{{ raise_exception('System role not supported') }}").takes_system


def test_a_template_that_refuses_several_calls_is_known() -> None:
    assert dialect("{{ raise_exception('This model only supports single tool-calls at once!') }}").one_call
    assert not dialect(QWEN).one_call


def test_a_template_that_wants_short_ids_is_known() -> None:
    assert dialect("{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}").short_ids
    assert not dialect(QWEN).short_ids
