"""The stages of the engine without its loop: one call each, over the digest model."""

from collections.abc import Callable, Sequence as Run

from engine.admission import Admission
from engine.commit import Commit
from engine.course import Loss
from engine.draft.drafts import Drafts
from engine.pace import Pace
from engine.plan import Decision, Limits, plan_step, reserve
from engine.preemption import preempt
from engine.request import Grammar, Pooling, Request, Sampling, Stopping
from engine.roster import Roster
from engine.sequence import Sequence
from engine.stats import Stats
from engine.step import Outcome, Plan, StepResult
from tests.digest import VOCABULARY, VOCABULARY_SIZE, DigestRunner
from tests.laws.shape import Shape

MAX_STEPS = 50  # no test needs more
GREEDY = Sampling(seed=0, temperature=0.0)


def a_request(
    prompt: Run[int] = (2, 3, 4, 5, 2),
    *,
    id: str = "request",
    max_tokens: int | None = 4,
    stopping: Stopping | None = None,
    num_choices: int = 1,
    prompt_logprobs: int | None = None,
    priority: int = 0,
    salt: str = "",
    pooling: Pooling | None = None,
    grammar: Grammar | None = None,
) -> Request:
    """A greedy request that only its length ends."""
    return Request(
        id=id,
        prompt=tuple(prompt),
        sampling=GREEDY,
        stopping=stopping or Stopping(max_tokens=max_tokens if pooling is None else 0),
        num_choices=num_choices,
        prompt_logprobs=prompt_logprobs,
        salt=salt,
        priority=priority,
        pooling=pooling,
        grammar=grammar,
    )


def blocks_of(sequence: Sequence, group: int = 0) -> list[int]:
    """What a sequence holds of one cache group."""
    return sequence.held.tables[group].blocks


class Parts:
    """Admission, plan and commit, joined by hand. Time stands still unless a test moves `now`."""

    def __init__(self, shape: Shape | None = None) -> None:
        self.shape = shape = shape or Shape()
        self.now = 0.0
        self.incarnation = 0
        self.tables = shape.tables()
        self.roster = Roster()
        self.stats = Stats()
        self.pace = Pace(shape.max_step_seconds)
        self.limits = Limits(shape.max_step_positions, shape.max_logit_rows)
        self.draft_model = shape.made_draft_model()
        self.runner = DigestRunner(shape.layout, shape.sizes, block_size=shape.block_size, draft_model=self.draft_model)
        self.admission = Admission(
            tables=self.tables,
            roster=self.roster,
            stats=self.stats,
            context_length=shape.context_length,
            vocabulary_size=VOCABULARY_SIZE,
            max_sequences=shape.max_sequences,
            max_waiting=shape.max_waiting,
            reserved_outputs=shape.reserved_outputs,
        )
        self.grammars = shape.grammars()
        self.drafts = Drafts(
            shape.sources(),
            max_tokens=shape.max_draft_tokens,
            grammars=self.grammars,
            draft_context=shape.draft_context,
        )
        self.commit = Commit(
            tables=self.tables,
            roster=self.roster,
            stats=self.stats,
            vocabulary=VOCABULARY,
            drafts=self.drafts,
            grammars=self.grammars,
        )

    def offer(self, request: Request) -> Sequence:
        """Queue a request; its first choice's sequence."""
        compiled = self.grammars.compiled(request)
        sequences = self.admission.offer(request, now=self.now)
        for sequence in sequences:
            if compiled is not None:
                self.grammars.start(sequence, compiled)
        return sequences[0]

    def admit(self) -> None:
        """Start what can be started."""
        self.admission.settle_parks()
        self.admission.settle_pauses()
        self.admission.admit(now=self.now)

    def run(self, request: Request) -> Sequence:
        """Queue a request and start it at once."""
        sequence = self.offer(request)
        self.admit()
        return sequence

    def preempt(self, sequence: Sequence) -> None:
        """Take a sequence's cache, as for others."""
        preempt(sequence, Loss.ROOM, roster=self.roster, tables=self.tables, stats=self.stats)

    def decide(self) -> Decision:
        """What the next step would compute."""
        return plan_step(self.roster, self.tables, self.limits, self.pace, self.drafts)

    def issue(self) -> Plan:
        """Reserve the next step."""
        self.stats.steps += 1
        return reserve(
            self.decide(),
            number=self.stats.steps,
            incarnation=self.incarnation,
            roster=self.roster,
            tables=self.tables,
            stats=self.stats,
        )

    def apply(self, plan: Plan, result: StepResult | None = None) -> Outcome:
        """Commit the step's own result, or another."""
        result = result or self.runner.compute(plan, self.grammars.masks(plan))
        outcome = self.commit.commit(plan, result, incarnation=self.incarnation, now=self.now)
        self.check()
        return outcome

    def step(self) -> Outcome:
        """Admit, plan, execute, commit."""
        self.admit()
        return self.apply(self.issue())

    def step_until(self, condition: Callable[[], bool]) -> None:
        """Plan, execute and commit, admitting nobody, until `condition` holds."""
        for _ in range(MAX_STEPS):
            if condition():
                return
            self.apply(self.issue())
        raise AssertionError("this takes too many steps")

    def check(self) -> None:
        """The laws of every part."""
        self.roster.check()
        self.tables.check(self.roster)
        self.grammars.check(self.roster)
        for sequence in self.roster:
            sequence.check()
