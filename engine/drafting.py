"""Drafting: which streams of a step have drafts, how long, and what the draft model computes for it."""

from collections.abc import Sequence as Run
from dataclasses import dataclass, replace

from engine.cache.tables import BlockTables
from engine.draft.drafts import Draft, Drafts
from engine.draft.rounds import share_rounds
from engine.draft.share import Offer, could_pay, share_drafts
from engine.pace import DraftPrice, Pace, as_streams
from engine.sequence import Sequence
from engine.step import Feed


@dataclass(frozen=True, slots=True)
class Grant:
    """`count` positions of one sequence, from its `computed` mark on, and behind them the tokens of a draft.

    The draft model computes the `feed` first.
    """

    sequence: Sequence
    count: int
    draft: Draft | None = None
    feed: Feed | None = None

    @property
    def num_drafts(self) -> int:
        """How many tokens are drafted."""
        return 0 if self.draft is None else self.draft.count

    @property
    def upto(self) -> int:
        """The `planned` mark that the grant leads to."""
        return self.sequence.ledger.computed + self.count + self.num_drafts


@dataclass(frozen=True, slots=True)
class DraftRoom:
    """How many tokens a step may draft, and how many accepted positions the draft model may compute in it."""

    drafts: int
    fed: int


def add_drafts(
    grants: Run[Grant], room: DraftRoom, tables: BlockTables, pace: Pace, drafts: Drafts
) -> tuple[Grant, ...]:
    """The grants of a step of streams alone, with the drafts that it is worth.

    Where the draft model is the likelier guesser and pays, it guesses, or comes nearer to where it can; the others
    draft what they know.
    """
    streams = as_streams([grant.sequence for grant in grants])
    price = pace.price_of_drafts(streams)
    if room.drafts <= 0 or price is None:
        return tuple(grants)
    if not could_pay(most=room.drafts, num_tokens=len(grants), seconds=pace.seconds_of(streams), price=price):
        return tuple(grants)  # asking 16 streams takes 2 % of their step
    known = [drafts.draft(grant.sequence) for grant in grants]
    promised = [drafts.promise(grant.sequence, draft) for grant, draft in zip(grants, known, strict=True)]
    worth = _Worth(len(grants), pace.seconds_of(streams), price)
    asked = _ask_model(grants, promised, room, worth, tables, pace)
    rest = [None if guess else draft for guess, draft in zip(asked.guesses, known, strict=True)]
    counts = share_drafts(
        list(map(_offer, rest)),
        most=room.drafts - asked.num_guesses,
        num_tokens=asked.worth.tokens,
        seconds=asked.worth.seconds,
        price=asked.worth.price,
    )
    cut = [draft.cut(count) if draft and count else None for draft, count in zip(rest, counts, strict=True)]
    return tuple(
        replace(grant, draft=guess or draft, feed=feed)
        for grant, guess, draft, feed in zip(grants, asked.guesses, cut, asked.feeds, strict=True)
    )


def _offer(draft: Draft | None) -> Offer:
    return Offer(0, 0.0) if draft is None else Offer(draft.count, draft.chance)


@dataclass(frozen=True, slots=True)
class _Worth:
    """What a step gives and takes so far, and what further drafts cost in it."""

    tokens: float
    seconds: float
    price: DraftPrice


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the draft model is asked, by grant: guesses, and what it computes first. The step is `worth` more then."""

    guesses: list[Draft | None]
    feeds: list[Feed | None]
    worth: _Worth

    @property
    def num_guesses(self) -> int:
        """Of all grants together."""
        return sum(guess.count for guess in self.guesses if guess)


def _ask_model(
    grants: Run[Grant], promised: Run[Draft | None], room: DraftRoom, worth: _Worth, tables: BlockTables, pace: Pace
) -> _Asked:
    """Ask for guesses where they pay; where the draft model lags far behind, it computes a part of that first."""
    offers, rounds = list(map(_offer, promised)), pace.price_of_rounds()
    wanted = share_rounds(
        offers, most=room.drafts, num_tokens=worth.tokens, seconds=worth.seconds, price=worth.price, rounds=rounds
    )
    num_fed = max(tables.block_size, min(room.fed, pace.num_fed_within(worth.seconds)))
    feeds = _feeds(
        [grant.sequence if count else None for grant, count in zip(grants, wanted, strict=True)], num_fed, tables
    )
    ready = [
        feed is not None and feed.stop == grant.sequence.ledger.accepted
        for grant, feed in zip(grants, feeds, strict=True)
    ]
    counts = [count if is_ready else 0 for count, is_ready in zip(wanted, ready, strict=True)]
    guesses = [draft.cut(count) if draft and count else None for draft, count in zip(promised, counts, strict=True)]
    total = sum(counts)
    tokens = worth.tokens + sum(offer.expected(count) for offer, count in zip(offers, counts, strict=True))
    seconds = worth.seconds + worth.price.of(total) + rounds.of(total, max(counts))
    return _Asked(guesses, feeds, _Worth(tokens, seconds, worth.price.behind(total)))


def _feeds(sequences: Run[Sequence | None], room: int, tables: BlockTables) -> list[Feed | None]:
    """What the draft model computes of these sequences, `room` positions in all; who lacks least comes first."""
    feeds: list[Feed | None] = [None] * len(sequences)
    lacking = [range(0) if sequence is None else tables.lacking(sequence) for sequence in sequences]
    written = set[int]()
    for index in sorted(range(len(sequences)), key=lambda index: len(lacking[index])):
        sequence = sequences[index]
        feed = None if sequence is None else _feed(sequence, lacking[index], room, written, tables)
        feeds[index] = feed
        room -= len(feed.tokens) if feed else 0
    return feeds


def _feed(sequence: Sequence, lacking: range, room: int, written: set[int], tables: BlockTables) -> Feed | None:
    """What the draft model computes next of what it lacks: all, or as many whole blocks as there is room for.

    Two sequences of one step never have it write the same place; `written` are those of the others.
    """
    if len(lacking) > room:
        lacking = range(lacking.start, (lacking.start + room) // tables.block_size * tables.block_size)
    if not lacking or not written.isdisjoint(places := tables.places_beside(sequence, lacking)):
        return None
    written |= places
    return Feed(lacking.start, tuple(sequence.tokens[lacking.start : lacking.stop]))
