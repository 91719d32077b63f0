"""Sources of drafts that know the right answer, and say it, or something else."""

from collections.abc import Mapping, Sequence as Run
from dataclasses import replace

from engine.cache.layout import Layout
from engine.draft.drafts import MakeSource, usual_sources
from engine.draft.source import Guess
from engine.sequence import Sequence
from tests.answer import answer
from tests.draft_model import BENDS, Bend

DRAFTERS = (*BENDS, "usual")


class Oracle:
    """Says what the digest model will choose, bent; behind the answer's end, where nobody knows, anything."""

    def __init__(self, sequence: Sequence, bend: Bend, *, context_length: int, layout: Layout) -> None:
        request = replace(sequence.request, prompt_logprobs=None)
        right = answer(request, sequence.choice, context_length=context_length, layout=layout)
        self._tokens = (*request.prompt, *(token.id for token in right.tokens))
        self._bend = bend

    def propose(self, tokens: Run[int], most: int) -> Guess | None:
        """As many tokens as are wanted."""
        places = range(len(tokens), len(tokens) + most)
        guess = tuple(self._bend(self._tokens[place] if place < len(self._tokens) else 2, place) for place in places)
        return Guess(guess, firm=True)


def sources_of(drafter: str, *, context_length: int, layout: Layout) -> Mapping[str, MakeSource]:
    """Who drafts in an engine."""
    if drafter not in BENDS:
        return usual_sources(prompt_lookup=True)

    def make(sequence: Sequence) -> Oracle | None:
        if sequence.request.chooses_nothing:
            return None
        return Oracle(sequence, BENDS[drafter], context_length=context_length, layout=layout)

    return {drafter: make}
