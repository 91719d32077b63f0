"""Every setting, as one frozen tree: `Settings{model, cache, engine, server}`.

Units stand in the names. A `None` means that Tidemark works the value out; files, variables and
flags spell it `auto`. Numbers are strict: `true` is no port and `"8000"` no integer. Sizes may be
text such as `512MiB`. `config.load` says where values come from.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

AUTO = "auto"
KIB, MIB = 1 << 10, 1 << 20

T = TypeVar("T")
_byte_size = TypeAdapter(ByteSize)
_KEY = re.compile(r"[!-~]+")  # the visible characters of ASCII


def _none_if_auto(value: object) -> object:
    return None if value == AUTO else value


def _count_bytes(value: object) -> object:
    return int(_byte_size.validate_python(value)) if isinstance(value, str) else value


def _sendable(key: SecretStr) -> SecretStr:
    """A key that a client can send: a header strips spaces at its ends, and clients disagree on other characters."""
    if not _KEY.fullmatch(key.get_secret_value()):
        raise PydanticCustomError("unsendable", "no client can send it")
    return key


Auto = Annotated[T | None, BeforeValidator(_none_if_auto)]
Text = Annotated[str, Field(min_length=1)]
Key = Annotated[SecretStr, AfterValidator(_sendable)]
BodyBytes = Annotated[int, Field(ge=KIB), BeforeValidator(_count_bytes)]
CacheBytes = Annotated[int, Field(ge=MIB), BeforeValidator(_count_bytes)]


def wrong_together(rule: str, *fields: str) -> PydanticCustomError:
    """An error about several fields of one section, which breaks `rule` together."""
    return PydanticCustomError("wrong_together", "{rule}", {"rule": rule, "fields": fields})


class Section(BaseModel):
    """One part's settings: frozen, strict, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True)


class ModelSettings(Section):
    """Which model is served, and how it is loaded."""

    path: Text = Field(description="a folder of safetensors, a .gguf file or a hub id")
    name: Auto[Text] = Field(default=None, description="the id it is served under; auto: from the path")
    aliases: tuple[Text, ...] = Field(default=(), description="more names that it answers to")
    draft_path: Auto[Text] = Field(
        default=None, description="a smaller model with the same tokenizer that guesses tokens ahead; auto: none"
    )
    weights: Literal["auto", "float32", "bfloat16", "int8", "int4"] = Field(
        default="auto", description="the bits that matrices are kept in; auto: those that the file has"
    )
    kernels: Literal["auto", "torch", "avx2", "avx512", "amx"] = Field(
        default="auto", description="what the model step runs on; auto: the fastest that this CPU has"
    )
    num_threads: Auto[Annotated[int, Field(ge=1, le=1024)]] = Field(
        default=None, description="threads of the model step; auto: one a core, within a quota"
    )
    max_context: Auto[Annotated[int, Field(ge=2)]] = Field(
        default=None, description="most tokens of a request, outputs included; auto: the model's own limit"
    )
    chat_template: Auto[Text] = Field(
        default=None, description="a file with a chat template to use; auto: the model's own"
    )

    @property
    def served_name(self) -> str:
        """The id in `/v1/models`: the name that was set, else the folder's or the file's own, else the hub id."""
        if self.name is not None:
            return self.name
        path = Path(self.path)
        return path.resolve().name.removesuffix(".gguf") if path.exists() else self.path


class CacheSettings(Section):
    """How much state is kept, and in what pieces."""

    block_size: int = Field(default=16, ge=1, le=1024, description="positions in a block")
    num_blocks: Auto[Annotated[int, Field(ge=1)]] = Field(
        default=None, description="blocks in the cache; auto: what memory_bytes holds"
    )
    memory_bytes: Auto[CacheBytes] = Field(
        default=None, description="memory of the cache, such as 2GiB; auto: a share of what is free, with a ceiling"
    )
    dtype: Literal["auto", "float32", "bfloat16", "int8"] = Field(
        default="auto", description="the type of the cached rows; auto: bfloat16, or float32 with float32 weights"
    )
    prefix_caching: bool = Field(default=True, description="reuse what was computed for an equal beginning")
    checkpoint_bytes: Auto[CacheBytes] = Field(
        default=None,
        description="memory for checkpoints of recurrent states, such as 256MiB; auto: a quarter of the cache",
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.num_blocks is not None and self.memory_bytes is not None:
            raise wrong_together("only one of num_blocks and memory_bytes can be set", "num_blocks", "memory_bytes")
        return self


class EngineSettings(Section):
    """What the engine runs at once, and how long it is patient."""

    max_sequences: int = Field(default=16, ge=1, le=4096, description="most sequences that run at once")
    max_step_positions: int = Field(default=256, ge=1, le=65536, description="most positions that a step computes")
    max_logit_rows: int = Field(default=256, ge=1, le=65536, description="most rows of logits that a step holds")
    max_step_seconds: Auto[Annotated[float, Field(gt=0)]] = Field(
        default=None, description="how long prompts may make a step; auto: as long as running streams hardly feel"
    )
    reserved_outputs: int = Field(
        default=128,
        ge=0,
        le=65536,
        description="outputs of each running sequence that room is kept for as others start",
    )
    max_draft_tokens: int = Field(
        default=15, ge=0, le=512, description="most tokens that are drafted behind one sequence in a step; 0: none"
    )
    prompt_lookup: bool = Field(default=True, description="draft from what followed the same tokens earlier")
    max_grammar_bytes: BodyBytes = Field(default=256 * KIB, description="largest grammar or schema, such as 256KiB")
    max_grammar_seconds: float = Field(default=10.0, gt=0, description="how long a grammar may take to be made ready")
    max_kept_grammars: int = Field(default=64, ge=1, le=4096, description="grammars that are kept ready")
    max_waiting: int = Field(default=64, ge=1, le=65536, description="most requests that wait; more are refused (429)")
    max_buffered_deltas: int = Field(
        default=256, ge=1, le=65536, description="unread deltas of a stream before its sequence pauses"
    )
    slow_reader_seconds: float = Field(default=60.0, gt=0, description="how long a paused stream may stay unread")
    stall_seconds: float = Field(default=120.0, gt=0, description="how long a step may take before /ready says stalled")
    check_laws: bool = Field(default=False, description="check every law after every step; slow")

    @model_validator(mode="after")
    def _room_for_every_sequence(self) -> Self:
        for limit in ("max_step_positions", "max_logit_rows"):
            most = getattr(self, limit)
            if self.max_sequences > most:
                rule = f"max_sequences ({self.max_sequences}) must be at most {limit} ({most}), one for each"
                raise wrong_together(rule, "max_sequences", limit)
        return self


class ServerSettings(Section):
    """How HTTP is spoken."""

    host: Text = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 is every interface")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0: a free one")
    api_keys: tuple[Key, ...] = Field(
        default=(), description="clients must send one of these; a flag shows in process lists, a variable does not"
    )
    cors_origins: tuple[Text, ...] = Field(
        default=("localhost",),
        description="origins whose pages may call: full ones, localhost for any port of this machine, * for all",
    )
    max_body_bytes: BodyBytes = Field(default=32 * MIB, description="largest request body, such as 32MiB")
    max_json_depth: int = Field(default=64, ge=1, le=512, description="deepest nesting of a request body")
    drain_seconds: float = Field(default=30.0, ge=0, description="how long running requests may finish at the end")
    keep_alive_seconds: float = Field(default=15.0, gt=0, description="silence in a stream before a keep-alive comment")
    resume_seconds: float = Field(
        default=300.0, ge=0, description="how long a stream whose client left can be resumed; 0: not at all"
    )
    resume_bytes: BodyBytes = Field(
        default=64 * MIB, description="most memory of streams that are sent or can be resumed, such as 64MiB"
    )
    store_path: Auto[Text] = Field(
        default=None, description="a file that keeps responses; auto: memory, so that a restart loses them"
    )
    store_seconds: float = Field(
        default=2_592_000.0, gt=0, description="how long a response is kept after its last use (30 days)"
    )
    store_bytes: BodyBytes = Field(default=256 * MIB, description="most bytes of kept responses, such as 256MiB")
    idle_connection_seconds: int = Field(default=75, ge=1, description="how long an idle connection is kept")
    tool_format: Literal["auto", "hermes", "llama", "pythonic", "mistral", "harmony", "none"] = Field(
        default="auto", description="how the model writes calls of tools; auto: as its chat template tells"
    )
    reasoning_format: Literal["auto", "think", "mistral", "none"] = Field(
        default="auto", description="the tags around the model's reasoning; auto: as its chat template tells"
    )
    show_text: bool = Field(
        default=False, description="let whoever watches the engine see the tokens and texts of others' requests"
    )
    metrics_need_key: bool = Field(default=False, description="ask for a key at /metrics too")
    vllm_metrics: bool = Field(default=False, description="also give the metrics under vLLM's names")
    traces: bool = Field(
        default=False, description="send a span of each request to OpenTelemetry, as its own variables say"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="what is logged")
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="how log lines are written; auto: key=value text on a terminal, JSON elsewhere"
    )

    @model_validator(mode="after")
    def _keys_to_ask_for(self) -> Self:
        if self.metrics_need_key and not self.api_keys:
            raise wrong_together("metrics_need_key needs one of api_keys", "metrics_need_key", "api_keys")
        return self


class Settings(BaseSettings):
    """The whole tree. A part is handed its own section."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    model: ModelSettings
    cache: CacheSettings = CacheSettings()
    engine: EngineSettings = EngineSettings()
    server: ServerSettings = ServerSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read nothing but what is handed in: `config.load` brings the other sources."""
        return (init_settings,)
