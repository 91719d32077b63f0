"""Text and conversations to tokens, through `tokenizers` and the templates of `transformers`."""

import inspect
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from jinja2 import TemplateError, TemplateSyntaxError
from tokenizers import Tokenizer as Backend
from transformers import AutoTokenizer, GenerationConfig, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from engine.errors import (
    ChatTemplateFailed,
    EngineError,
    ModelNotFound,
    ModelUnsupported,
    NoChatTemplate,
    PromptError,
    SettingUnusable,
    VariableReserved,
)
from engine.model.control import CUT, ControlTokens, clean
from engine.model.gguf_tokenizer import load_gguf_tokenizer
from engine.model.locate import MAX_REASON_CHARACTERS
from engine.model.patience import TookTooLong, within
from engine.model.pieces import vocabulary_of
from engine.text import Tokenizer

RENDER_SECONDS = 10.0  # a conversation of megabytes takes one; an endless template is ended
MAX_RENDERED = 1 << 26  # characters: more than a body can hold, so they are the template's own

logger = logging.getLogger(__name__)

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")

# Names that are the renderer's own and not a template's variables.
_RESERVED = frozenset(
    name
    for renderer in (PreTrainedTokenizerBase.apply_chat_template, render_jinja_template)
    for name in inspect.signature(renderer).parameters
) - {"tools", "documents"} | {"messages"}


class TransformersTokenizer:
    """Implements `engine.text.Tokenizer` over a tokenizer of `transformers` with a Rust backend.

    Nothing in it changes once it is built, so threads may share it; encoding releases the GIL.
    """

    def __init__(
        self,
        source: PreTrainedTokenizerBase,
        *,
        eos_ids: frozenset[int],
        chat_template: str | None,
        render_seconds: float = RENDER_SECONDS,
    ) -> None:
        self._apply: Callable[..., object] = source.apply_chat_template  # its types know string content alone
        self._render_seconds = render_seconds
        self.chat_template = chat_template
        self._backend = _backend_of(source)
        self.vocabulary = vocabulary_of(self._backend)
        self.eos_ids = eos_ids
        self.bos_id: int | None = source.bos_token_id
        self._control = _control_tokens(self._backend, chat_template or "")
        self._lead, self._lead_ids = self._find_lead()

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """See `engine.text.Tokenizer`."""
        return self._encode([clean(text)], add_special_tokens=add_special_tokens)[0]

    def encode_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: dict[str, object],
    ) -> list[int]:
        """See `engine.text.Tokenizer`."""
        if self.chat_template is None:
            raise NoChatTemplate
        if reserved := _RESERVED & template_kwargs.keys():
            raise VariableReserved(min(reserved))
        with _failing_as(ChatTemplateFailed, "the chat template failed"):
            render = partial(
                self._apply,
                [self._control.cut_message(message) for message in messages],
                chat_template=self.chat_template,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                tokenize=False,
                **self._control.cut_variables(template_kwargs),
            )
            rendered = str(within(self._render_seconds, render))
        if len(rendered) > MAX_RENDERED:
            raise ChatTemplateFailed(f"the chat template wrote {len(rendered)} characters, at most {MAX_RENDERED}")
        return self._encode_cut(rendered)

    def _encode_cut(self, text: str) -> list[int]:
        """The tokens of a rendered conversation, each part between two cuts on its own."""
        first, *rest = text.split(CUT)
        lead, lead_ids = self._lead, self._lead_ids
        ids, *ids_of_rest = self._encode([first, *(lead + part for part in rest)])
        for part, part_ids in zip(rest, ids_of_rest, strict=True):
            led = part_ids[: len(lead_ids)] == lead_ids
            ids += part_ids[len(lead_ids) :] if led else self._encode([part])[0]
        return ids

    def _find_lead(self) -> tuple[str, list[int]]:
        """What to put before a part, and what it becomes, so that the tokenizer adds no space of its own.

        SentencePiece begins every text with a space. After a line feed it is the line feed's.
        """
        x_ids, lead_ids = self._encode(["x", "\n"])
        spelled = b"".join(self.vocabulary.bytes_of(id_, skip_special=False) for id_ in x_ids)
        return ("\n", lead_ids) if spelled.startswith(b" ") else ("", [])

    def _encode(self, texts: list[str], *, add_special_tokens: bool = False) -> list[list[int]]:
        with _failing_as(PromptError, "the tokenizer failed"):
            encodings = self._backend.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
            return [encoding.ids for encoding in encodings]


def load_tokenizer(path: str, *, chat_template: str | None = None, render_seconds: float = RENDER_SECONDS) -> Tokenizer:
    """The tokenizer of a model: a folder, a `.gguf` file or a hub id.

    `chat_template` is the path of a template file that replaces the model's own. A template has `render_seconds` for
    a conversation.

    Raises:
        ModelNotFound: there is no such model.
        ModelUnsupported: a kind of tokenizer that is not known here.
        SettingUnusable: no such template file, or one that doesn't parse, or has no end.
    """
    exists = Path(path).exists()
    if not exists and (path.endswith(".gguf") or not _HUB_ID.fullmatch(path)):
        raise ModelNotFound(f"there is no file or folder {path}")
    kind = ModelUnsupported if exists else ModelNotFound
    with _failing_as(kind, f"no tokenizer from {path}"):
        source, eos_ids = load_gguf_tokenizer(Path(path)) if path.endswith(".gguf") else _load_pretrained(path)
    template = _own_template(source)
    if chat_template is not None:
        template = _read_template(Path(chat_template), source, render_seconds)
    return TransformersTokenizer(source, eos_ids=eos_ids, chat_template=template, render_seconds=render_seconds)


def _load_pretrained(path: str) -> tuple[PreTrainedTokenizerBase, frozenset[int]]:
    """The tokenizer of a folder or a hub id, and the tokens that end its output."""
    source = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    return source, frozenset(_ids_in(source.eos_token_id)) | frozenset(_ids_in(_configured_ends(path)))


def _configured_ends(path: str) -> object:
    """What the generation config names as the end, or the model's config where there is no other."""
    try:
        return GenerationConfig.from_pretrained(path).eos_token_id
    except OSError:
        return PreTrainedConfig.get_config_dict(path)[0].get("eos_token_id")


def _ids_in(value: object) -> list[int]:
    """The ids in a config's field, which holds none, one or several."""
    match value:
        case int():
            return [value]
        case list():
            return [id_ for id_ in value if isinstance(id_, int)]
        case _:
            return []


def _backend_of(source: PreTrainedTokenizerBase) -> Backend:
    """The Rust tokenizer, set to encode whole texts as they are."""
    backend = getattr(source, "backend_tokenizer", None)
    if not isinstance(backend, Backend):
        raise ModelUnsupported(f"a {type(source).__name__} has no backend of the tokenizers library")
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = False
    return backend


def _control_tokens(backend: Backend, template: str) -> ControlTokens:
    """The special tokens, and those added tokens that the template names; never mere whitespace."""
    added = [token for token in backend.get_added_tokens_decoder().values() if not token.content.isspace()]
    special = [token.content for token in added if token.special]
    return ControlTokens(special, [token.content for token in added if not token.special and token.content in template])


def _own_template(source: PreTrainedTokenizerBase) -> str | None:
    """The model's own template; of several named ones the default."""
    template = source.chat_template
    return template.get("default") if isinstance(template, dict) else template


def _read_template(file: Path, source: PreTrainedTokenizerBase, render_seconds: float) -> str:
    """The operator's template, refused at once where it doesn't parse, or does not come to an end."""
    message = {"role": "user", "content": "x"}
    try:
        template = file.read_text(encoding="utf-8")
        within(render_seconds, partial(source.apply_chat_template, [message], chat_template=template, tokenize=False))
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(f"no chat template from {file}: {_reason(error)}") from error
    except TemplateSyntaxError as error:
        raise _unusable(f"the chat template {file} fails in line {error.lineno}: {_reason(error)}") from error
    except TookTooLong as error:
        raise _unusable(f"the chat template {file} fails on a lone user's message: {error}") from error
    except Exception as error:  # noqa: BLE001  # a template may refuse this conversation, not others
        logger.info("the chat template %s answers a lone user's message with: %s", file, _reason(error))
    return template


def _unusable(message: str) -> SettingUnusable:
    return SettingUnusable(message, setting="model.chat_template")


@contextmanager
def _failing_as(kind: type[EngineError], what: str) -> Iterator[None]:
    """Turn any failure of other people's code, Rust panics included, into an error of ours."""
    try:
        yield
    except BaseException as failure:
        if not isinstance(failure, Exception) and type(failure).__name__ != "PanicException":  # pyo3's, not importable
            raise
        raise kind(f"{what}: {_reason(failure)}") from failure


def _reason(failure: BaseException) -> str:
    """An error's message in one line, short and in valid UTF-8; a template's own words as they are."""
    message = clean(" ".join(str(failure).split()).replace(CUT, ""))[:MAX_REASON_CHARACTERS]
    return message if isinstance(failure, TemplateError) else f"{type(failure).__name__}: {message}"
