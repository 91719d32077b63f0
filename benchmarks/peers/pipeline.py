"""Run OpenVINO GenAI's continuous batching in this process, without HTTP, with the workloads of load.py.

    python -m benchmarks.peers.pipeline MODEL W1 W2 [--scale 0.5] [--threads 2]

It is run by the peer's own Python, so that beside the peer it needs the standard library and load.py alone.
Prints one JSON line with the clock at the first answer, then one for each workload.
"""

import argparse
import asyncio
import itertools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openvino_genai  # type: ignore[import-not-found, unused-ignore]  # only the peer's own environment has it

from benchmarks.load import WORKLOADS, Size, Stream, prompt_of, warm_up

CACHE_GB = 2
MAX_STEP_TOKENS = 256
MAX_SEQUENCES = 16
SEED = "7"


@dataclass(frozen=True, eq=False)
class Running:
    """A request in the pipeline, what its client has seen of it, and whether it is over."""

    handle: Any  # openvino_genai has no types
    stream: Stream
    over: asyncio.Event

    def take(self) -> None:
        """Note what the pipeline's last step wrote."""
        if self.handle.can_read():
            self.stream.arrivals.append(time.perf_counter())
            self.stream.output_tokens += sum(len(output.generated_ids) for output in self.handle.read().values())
        status = self.handle.get_status()
        if status == openvino_genai.GenerationStatus.RUNNING:
            return
        if status != openvino_genai.GenerationStatus.FINISHED:
            self.stream.error = f"the pipeline says {status}"
        self.stream.ended = time.perf_counter()
        self.over.set()


class Pipeline:
    """The peer: requests come as they like, `step_forever` serves them."""

    def __init__(self, model: Path, num_threads: int) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.enable_prefix_caching = True
        scheduler.dynamic_split_fuse = True
        scheduler.max_num_batched_tokens = MAX_STEP_TOKENS
        scheduler.max_num_seqs = MAX_SEQUENCES
        threads = {"INFERENCE_NUM_THREADS": num_threads}
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(str(model), scheduler, "CPU", threads)
        self._tokenizer = self._pipeline.get_tokenizer()
        self._running: list[Running] = []
        self._work = asyncio.Event()
        self._numbers = itertools.count()

    async def complete(self, prompt: str, max_tokens: int) -> Stream:
        """Run one request to its end, whatever that is."""
        stream = Stream(started=time.perf_counter())
        ids = self._tokenizer.encode(prompt).input_ids
        stream.prompt_tokens = ids.shape[1]
        wanted = openvino_genai.GenerationConfig(max_new_tokens=max_tokens, ignore_eos=True, do_sample=False)
        handle = self._pipeline.add_request(next(self._numbers), ids, wanted)
        running = Running(handle, stream, asyncio.Event())
        self._running.append(running)
        self._work.set()
        await running.over.wait()
        return stream

    async def step_forever(self) -> None:
        """Step whenever there is work, on a thread: requests may come meanwhile."""
        while await self._work.wait():
            await asyncio.to_thread(self._pipeline.step)
            for running in self._running:
                running.take()
            self._running = [running for running in self._running if not running.over.is_set()]
            if not self._running:
                self._work.clear()


def resident_bytes() -> int:
    """Memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def tell(**values: object) -> None:
    """One JSON line for who started this."""
    print(json.dumps(values), flush=True)


async def run(args: argparse.Namespace) -> None:
    """Load the model, answer once, warm up and run the workloads in their order."""
    pipeline = Pipeline(args.model, args.threads)
    async with asyncio.TaskGroup() as group:
        stepping = group.create_task(pipeline.step_forever())
        first = await pipeline.complete(prompt_of(8, "first"), 1)
        tell(first_answer=first.arrivals[0])
        await warm_up(pipeline, args.seed)
        for name in args.workloads:
            result = await WORKLOADS[name](pipeline, args.seed, Size(args.scale, args.shrink))
            tell(workload=name, resident_bytes=resident_bytes(), result=result)
        stepping.cancel()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("workloads", nargs="+", choices=WORKLOADS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the requests in W2, W3, W4")
    parser.add_argument("--shrink", type=float, default=1.0, help="share of the tokens, to see that it works")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
