"""Many mixed requests over a cache that is far too small for them: all finish, and little is computed twice."""

from random import Random

import pytest

from engine.ledger import Positions
from engine.request import Request, Stopping
from engine.step import Chosen, Chunk, ChunkResult, Plan, StepResult
from tests.digest import LAYOUTS
from tests.laws.shape import Shape
from tests.parts import GREEDY, Parts

NUM_REQUESTS = 64
SHORTEST, LONGEST = 8, 4_000  # tokens of a request, prompt and outputs
MAX_OUTPUTS = 600
BLOCK_SIZE = 16
CACHE_SHARE = 8  # the demand is so many times what the cache holds
WORST_RECOMPUTED = 0.15  # of the work that is useful
TOKEN = 2


def mixed_requests(seed: int) -> list[Request]:
    """Requests of every length, the short ones as many as the long, a tenth to a half of each outputs."""
    random = Random(seed)
    return [_request(random, f"request-{number}") for number in range(NUM_REQUESTS)]


def _request(random: Random, name: str) -> Request:
    total = int(SHORTEST * (LONGEST / SHORTEST) ** random.random())
    num_outputs = max(1, min(int(total * random.uniform(0.1, 0.5)), MAX_OUTPUTS))
    prompt = tuple(random.randrange(3, 10) for _ in range(total - num_outputs))
    return Request(name, prompt, GREEDY, Stopping(max_tokens=num_outputs))


def result_of(plan: Plan) -> StepResult:
    """The same token wherever one is to be chosen."""

    def answer(chunk: Chunk) -> ChunkResult:
        return ChunkResult(chunk.ticket, (Chosen(TOKEN),) if chunk.choose is not None else ())

    return StepResult(plan.number, tuple(map(answer, plan.chunks)))


class Served:
    """All requests served from one burst, and when each sequence ended, counted in steps."""

    def __init__(self, requests: list[Request], layout: str) -> None:
        demand = sum(len(request.prompt) + (request.stopping.max_tokens or 0) for request in requests)
        self.parts = Parts(
            Shape(
                layout=LAYOUTS[layout],
                num_blocks=demand // CACHE_SHARE // BLOCK_SIZE,
                block_size=BLOCK_SIZE,
                max_context=2 * LONGEST,
                max_sequences=16,
                max_step_positions=256,
                max_logit_rows=256,
                max_waiting=NUM_REQUESTS,
                reserved_outputs=128,
            )
        )
        self.ends: dict[str, int] = {}
        for request in requests:
            self.parts.offer(request)
        while self.parts.roster:
            self._step()

    def _step(self) -> None:
        parts = self.parts
        parts.admit()
        plan = parts.issue()
        outcome = parts.commit.commit(plan, result_of(plan), incarnation=parts.incarnation, now=0.0)
        ended = (each.sequence for each in outcome.advances if each.delta is not None and each.delta.end is not None)
        self.ends.update(dict.fromkeys(ended, plan.number))

    @property
    def positions(self) -> Positions:
        """What was computed."""
        return self.parts.stats.positions


@pytest.mark.parametrize("layout", ["full", "full and window", "full and states"])
def test_with_an_eighth_of_the_cache_all_finish_and_little_is_computed_twice(layout: str) -> None:
    served = Served(mixed_requests(seed=1), layout)

    assert len(served.ends) == NUM_REQUESTS
    useful = served.positions.computed - served.positions.recomputed
    assert served.positions.recomputed < WORST_RECOMPUTED * useful
    served.parts.check()


def test_nobody_starves_and_a_priority_is_served_before_those_who_came_first() -> None:
    requests = mixed_requests(seed=2)
    urgent = Request("urgent", requests[-1].prompt, GREEDY, requests[-1].stopping, priority=-1)

    served = Served([*requests[:-1], urgent], "full")

    first_half = [served.ends[f"{request.id}/0"] for request in requests[: NUM_REQUESTS // 2]]
    last_half = [served.ends[f"{request.id}/0"] for request in requests[NUM_REQUESTS // 2 : -1]]
    assert max(first_half) < max(last_half), "whoever came first is not the last to be served"
    assert served.ends["urgent/0"] <= sorted(served.ends.values())[NUM_REQUESTS // 4]
