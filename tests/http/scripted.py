"""A server process with everything real but the model: run as `python -m tests.http.scripted`.

Tokens are bytes, and the model answers with the alphabet. Flags say how the model misbehaves.
"""

import argparse
import asyncio
import sys
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from config.flags import add_flags
from config.load import resolve
from config.settings import Settings
from engine.build import Built
from engine.cache.layout import CacheGroup, Layout, RowShape
from engine.cache.sizing import CacheSizes
from engine.cache.tables import BlockTables
from engine.engine import Engine
from engine.errors import ModelNotFound
from engine.request import TokenLogprob
from engine.stats import CacheInfo, ModelInfo
from engine.step import Chosen, Chunk, ChunkResult, MaskSource, Plan, StepResult
from engine.text import Vocabulary
from server.logs import open_output
from server.serve import serve
from server.tracing import tracing

NUM_BLOCKS, NUM_SLOTS, BLOCK_SIZE = 4096, 40, 16
LAYOUT = Layout((CacheGroup((0,), RowShape(1, 1, 1, "float32")),))
DEFAULTS = ("--model", "scripted", "--port", "0", "--max-draft-tokens", "0", "--log-format", "text")
ALPHABET = b"abcdefghijklmnopqrstuvwxyz"
LOGPROB = -0.5  # of every token


@dataclass(frozen=True)
class Script:
    """How the model behaves. While `hold` exists no step ends once `free_steps` have run."""

    hold: Path | None = None
    free_steps: int = 0
    dies_at: int | None = None


class ScriptedRunner:
    """Continues every sequence with the alphabet, by position."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._steps = 0

    @property
    def incarnation(self) -> int:
        """The engine asks for it outside a step, so an error here is the engine's own death."""
        if self._script.dies_at is not None and self._steps >= self._script.dies_at:
            raise RuntimeError("the worker is gone")
        return 0

    async def execute(self, plan: Plan, masks: MaskSource | None = None) -> StepResult:
        """Answer every chunk, at once or when the hold is lifted."""
        assert masks is None, "no script follows a grammar"
        hold = self._script.hold
        while hold is not None and self._steps >= self._script.free_steps and hold.exists():  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.01)
        self._steps += 1
        await asyncio.sleep(0)
        return StepResult(plan.number, tuple(_continue(chunk) for chunk in plan.chunks))


def _continue(chunk: Chunk) -> ChunkResult:
    """What is said at a position depends on the position alone."""
    positions = range(chunk.stop - chunk.num_drafts, chunk.stop - chunk.num_drafts + chunk.num_chosen)
    scored = chunk.choose is not None and chunk.choose.top_logprobs is not None
    chosen = tuple(_chosen(ALPHABET[position % len(ALPHABET)], scored=scored) for position in positions)
    return ChunkResult(chunk.ticket, chosen, pooled=array("d", [chunk.stop]).tobytes() if chunk.pool else b"")


def _chosen(token: int, *, scored: bool) -> Chosen:
    return Chosen(token, TokenLogprob(token, LOGPROB, ((token, LOGPROB),)) if scored else None)


class ByteTokenizer:
    """One token a byte."""

    vocabulary = Vocabulary([bytes([byte]) for byte in range(256)], frozenset())
    eos_ids: frozenset[int] = frozenset()
    bos_id: int | None = None
    chat_template: str | None = "{{ messages }}"

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The text's bytes."""
        del add_special_tokens
        return list(text.encode())

    def encode_chat(
        self,
        messages: list[dict[str, object]],
        *,
        add_generation_prompt: bool,
        continue_final_message: bool,
        template_kwargs: dict[str, object],
    ) -> list[int]:
        """The messages' contents."""
        del add_generation_prompt, continue_final_message, template_kwargs
        return self.encode("\n".join(str(message["content"]) for message in messages), add_special_tokens=True)


def build(settings: Settings, script: Script, layout: Layout = LAYOUT) -> Built:
    """The engine over the scripted model."""
    sizes = CacheSizes(NUM_BLOCKS, num_slots=NUM_SLOTS if layout.states else 0)
    cache = CacheInfo(
        BLOCK_SIZE,
        NUM_BLOCKS,
        64,
        "none",
        "scripted",
        groups=tuple(map(str, layout.groups)),
        blocks_a_step=sum(layout.widths),
        num_slots=sizes.num_slots,
    )
    length = cache.num_positions
    return Built(
        engine=Engine(
            runner=ScriptedRunner(script),
            tables=BlockTables(layout, sizes, block_size=BLOCK_SIZE, fingerprint="scripted"),
            info=ModelInfo(settings.model.served_name, length, length, 256, "scripted", "none", "a script", cache, 1),
            vocabulary=ByteTokenizer.vocabulary,
            settings=settings.engine,
        ),
        tokenizer=ByteTokenizer(),
    )


def main() -> int:
    """Serve as the flags say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold", type=Path)
    parser.add_argument("--free-steps", type=int, default=0)
    parser.add_argument("--dies-at", type=int)
    parser.add_argument("--load", choices=("works", "fails", "hangs"), default="works")
    add_flags(parser)
    arguments = parser.parse_args([*DEFAULTS, *sys.argv[1:]])
    settings = resolve(arguments, {}).settings
    console, log = open_output(settings.server, sys.stderr)

    def load(settings: Settings, *, progress: Callable[[str], None]) -> Built:
        progress("reading the script")
        if arguments.load == "hangs":
            threading.Event().wait()
        if arguments.load == "fails":
            raise ModelNotFound("there is no script\nat all")
        return build(settings, Script(arguments.hold, arguments.free_steps, arguments.dies_at))

    return serve(settings, build=load, console=console, log=log, tracing=tracing(settings.server, log))


if __name__ == "__main__":
    sys.exit(main())
