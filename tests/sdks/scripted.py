"""A server process with everything real but the model: run as `python -m tests.sdks.scripted`.

Its model does what a small one can't be relied on to do: where there are tools and no result yet it calls the first
tool, and everything else it answers with a sentence.
"""

import argparse
import asyncio
import json
import sys
from array import array
from collections.abc import Callable

import orjson

from config.flags import add_flags
from config.load import resolve
from config.settings import Settings
from engine.build import Built
from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.sizing import CacheSizes
from engine.cache.tables import BlockTables
from engine.engine import Engine
from engine.grammar.compiler import CompileLimits, Compiler
from engine.grammar.grammars import Grammars
from engine.grammar.guidance import guidance_for
from engine.request import TokenLogprob
from engine.stats import CacheInfo, ModelInfo
from engine.step import Chosen, Chunk, ChunkResult, MaskSource, Plan, StepResult
from engine.text import Vocabulary
from server.console import Console
from server.logs import open_log
from server.serve import serve
from tests.http.scripted import ByteTokenizer

NUM_BLOCKS, BLOCK_SIZE = 4096, 16
LAYOUT = Layout((CacheGroup((0,), RowShape(1, 1, 1, "float32")),))
END = 256
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), b"<end>"], frozenset({END}))
ARGUMENTS = {"city": "Lisbon", "days": 3}
SENTENCE = "It will be sunny in Lisbon."
_PREFERRED = (END, *b'"}]', *range(256))  # where a grammar forbids what is said: what soon ends it


def next_said(prompt: str) -> str:
    """What the model says behind a prompt: one of `TemplateOfJson`, or any other text."""
    try:
        seen = orjson.loads(prompt)
    except orjson.JSONDecodeError:
        return SENTENCE
    if not seen["tools"] or any(message["role"] == "tool" for message in seen["messages"]):
        return SENTENCE
    call = {"name": seen["tools"][0]["function"]["name"], "arguments": ARGUMENTS}
    return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"  # spaced as models are taught to


class TemplateOfJson(ByteTokenizer):
    """One token a byte; a conversation is a JSON object of its messages and tools."""

    vocabulary = VOCABULARY
    eos_ids = frozenset({END})
    chat_template: str | None = "{{ messages }} {{ tools }}"

    def encode_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: dict[str, object],
    ) -> list[int]:
        """The bytes of the object."""
        del add_generation_prompt, continue_final_message
        return list(orjson.dumps({"messages": messages, "tools": template_kwargs.get("tools") or []}))


class RuledRunner:
    """Continues every sequence as `next_said` has it. It sees whole prompts, since nothing is reused."""

    incarnation = 0

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, ...]] = {}

    async def execute(self, plan: Plan, masks: MaskSource | None = None) -> StepResult:
        """Answer every chunk at once."""
        allowed = ((),) * len(plan.chunks) if masks is None else (await asyncio.to_thread(masks)).by_chunk
        return StepResult(plan.number, tuple(map(self._continue, plan.chunks, allowed)))

    def _continue(self, chunk: Chunk, allowed: tuple[bytes, ...]) -> ChunkResult:
        tokens = self._seen.get(chunk.ticket.sequence, ())[: chunk.start] + chunk.tokens
        self._seen[chunk.ticket.sequence] = tokens
        score = chunk.score
        scores = () if score is None else tuple(_scored(token, score.top_logprobs) for token in score.targets)
        choose = chunk.choose
        if choose is None:
            return ChunkResult(chunk.ticket, scores=scores, pooled=array("d", [1.0]).tobytes() if chunk.pool else b"")
        prompt = tokens[: len(tokens) - choose.output_index]
        said = next_said(VOCABULARY.decode(prompt, skip_special=True)).encode()
        token = said[choose.output_index] if choose.output_index < len(said) else END
        if allowed and not _allows(allowed[0], token):
            token = next((other for other in _PREFERRED if _allows(allowed[0], other)), END)
        logprob = None if choose.top_logprobs is None else _scored(token, choose.top_logprobs)
        return ChunkResult(chunk.ticket, (Chosen(token, logprob),), scores)


def _allows(mask: bytes, token: int) -> bool:
    return bool(mask[token // 8] >> token % 8 & 1)


def _scored(token: int, top: int) -> TokenLogprob:
    """As sure as can be; the tokens beside it are the first of the vocabulary."""
    return TokenLogprob(token, 0.0, tuple((other, -9.0) for other in range(top)))


def build(settings: Settings) -> Built:
    """The engine over the rules."""
    tokenizer = TemplateOfJson()
    cache = CacheInfo(
        BLOCK_SIZE, NUM_BLOCKS, 64, "none", "ruled", groups=tuple(map(str, LAYOUT.groups)), blocks_a_step=1
    )
    length = settings.model.max_context or cache.num_positions
    return Built(
        engine=Engine(
            runner=RuledRunner(),
            tables=BlockTables(
                LAYOUT, CacheSizes(NUM_BLOCKS), block_size=BLOCK_SIZE, fingerprint="ruled", prefix_caching=False
            ),
            info=ModelInfo(
                settings.model.served_name, length, length, VOCABULARY.size, "ruled", "none", "rules", cache, 1
            ),
            vocabulary=VOCABULARY,
            settings=settings.engine,
            grammars=Grammars(
                Compiler(lambda: guidance_for(tokenizer), CompileLimits(1 << 18, 5.0, 64)),
                vocabulary_size=VOCABULARY.size,
                end_ids=tokenizer.eos_ids,
            ),
        ),
        tokenizer=tokenizer,
    )


def main() -> int:
    """Serve as the flags say."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    arguments = parser.parse_args(["--model", "ruled", "--port", "0", "--max-draft-tokens", "0", *sys.argv[1:]])
    settings = resolve(arguments, {}).settings
    console = Console(sys.stderr)

    def load(settings: Settings, *, progress: Callable[[str], None]) -> Built:
        progress("reading the rules")
        return build(settings)

    return serve(
        settings,
        build=load,
        console=console,
        log=open_log(level=settings.server.log_level, stream=console, as_json=False),
    )


if __name__ == "__main__":
    sys.exit(main())
