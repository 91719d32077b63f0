"""Puts each fault into the page of a copied tree and runs the test that must find it: `python -m tests.page.mutants`.

Words behind it choose the mutants that have them in what they say. Prints a table; exits with 1 if a mutant survives,
with 2 if the tests fail without one. Needs Chromium, as `make test-page` does.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.edits import Edit
from tests.mutants.tree import copy_tree
from tests.mutants.trial import Failure, first_failure

PAGE = "server/pages/live/"


@dataclass(frozen=True, slots=True)
class PageMutant:
    """A fault put in by hand: what is wrong then, and which test must find it."""

    what: str
    edit: Edit
    test: str

    @property
    def path(self) -> str:
        """The test, as pytest is told it."""
        return f"tests/page/{self.test}"


def mutant(what: str, file: str, place: str, old: str, new: str, test: str) -> PageMutant:
    """In `file`, which has to name the `place`, `old` becomes `new`."""
    return PageMutant(what, Edit(PAGE + file, place, old, new), test)


MUTANTS = (
    mutant(
        "the map paints shared blocks as owned by one",
        *("paint.js", "#owned", "if (state === SHARED) this.#shared", "if (state === FREE) this.#shared"),
        "shown.py::test_blocks_that_are_free_owned_shared_and_kept_are_painted_apart",
    ),
    mutant(
        "a mark's bar is drawn as an inclusive bound",
        *("requests.js", "class Bar", "Math.min(1, value / end)", "Math.min(1, (value - 1) / end)"),
        "shown.py::test_bars_are_as_long_as_their_marks",
    ),
    mutant(
        "an increment is applied one unit further on",
        *("world.js", "codesAfter", "codes.set(codesOf(letters), first)", "codes.set(codesOf(letters), first + 1)"),
        "pure.py::test_increments_add_up_to_the_whole",
    ),
    mutant(
        "a table loses the blocks that its window keeps",
        *("world.js", "tableAfter", "stays.concat(units)", "units"),
        "pure.py::test_a_window_that_moves_drops_what_is_behind_it",
    ),
    mutant(
        "a connection that broke is not opened again",
        *("feed.js", "#failed", "this.#timer = setTimeout(() => this.#connect(), 1000 * seconds);", ""),
        "live.py::test_a_connection_that_a_proxy_cuts_heals",
    ),
    mutant(
        "a hidden tab keeps its stream",
        *("feed.js", "#rest", "#rest() {\n    this.#close();", "#rest() {"),
        "shown.py::test_a_hidden_tab_closes_the_stream_and_opens_it_on_return",
    ),
    mutant(
        "text becomes markup",
        "dom.js",
        "make",
        "  made.append(...children);\n  return made;\n}\n\n/**\n * Set",
        "  for (const one of children) one.at ? made.insertAdjacentHTML('beforeend', one) : made.append(one);"
        "\n  return made;\n}\n\n/**\n * Set",
        "shown.py::test_markup_from_the_model_or_an_id_stays_text",
    ),
    mutant(
        "guesses that fell are counted and not listed",
        *("fallen.js", "add", "this.#parts.list.prepend(...items);", ""),
        "shown.py::test_requests_the_queue_the_cache_and_what_fell_are_shown",
    ),
    mutant(
        "the key goes to another server",
        *("asking.js", "answerTo", 'fetch("v1/chat', 'fetch("http://127.0.0.1:9/v1/chat'),
        "shown.py::test_all_that_is_asked_for_is_asked_of_the_server_that_sent_the_page",
    ),
    mutant(
        "the token behind the guesses that stood counts as one of them",
        *("story.js", "originsOf", "drafted: index < kept", "drafted: index <= kept"),
        "pure.py::test_the_first_tokens_of_a_step_are_the_guesses_that_stood",
    ),
    mutant(
        "a step that is told twice counts twice",
        *("making.js", "take", "story.steps.filter(({ step }) => step > this.last)", "story.steps"),
        "pure.py::test_steps_that_are_told_twice_or_in_parts_tell_the_same_of_an_answer",
    ),
    mutant(
        "guesses fall at the first place of their step",
        *("making.js", "take", "accepted - tokens + kept - this", "accepted - tokens - this"),
        "pure.py::test_steps_that_are_told_twice_or_in_parts_tell_the_same_of_an_answer",
    ),
    mutant(
        "a token is marked by its place in the text, reasoning left out",
        *("answer.js", "#mark", "origins.get(token.scored.index)", "origins.get(this.#tokens.indexOf(token))"),
        "shown.py::test_tokens_behind_reasoning_have_their_own_marks",
    ),
    mutant(
        "a token whose step was told before it came is not marked",
        *("answer.js", "#add", "    this.#mark(token);\n    this.#text.append", "    this.#text.append"),
        "shown.py::test_tokens_are_marked_while_the_answer_comes_by_steps_told_behind_them",
    ),
    mutant(
        "tokens are marked only once the answer has ended",
        *("main.js", "#take", "    this.#chat.look();\n", ""),
        "shown.py::test_marks_move_nothing_and_say_nothing",
    ),
    mutant(
        "the sign of guesses that fell takes place in the text",
        *("page.css", "[data-fell]", "  position: absolute;\n  top: -0.375rem;", "  position: static;"),
        "shown.py::test_marks_move_nothing_and_say_nothing",
    ),
    mutant(
        "an answer is read out piece by piece",
        *("answer.js", "aria-busy", '    "aria-busy": "true", // it is read out once it is whole\n', ""),
        "shown.py::test_marks_move_nothing_and_say_nothing",
    ),
    mutant(
        "whoever reads further up is dragged to the end",
        *("chat.js", "#staying", "if (atEnd) talk", "talk"),
        "shown.py::test_who_reads_further_up_is_left_there_and_who_is_at_the_end_stays_there",
    ),
    mutant(
        "the server is asked for the text of blocks that others own, though it shows none",
        *("main.js", "#describe", "(world.info.show_text && stop - first === 1)", "stop - first === 1"),
        "live.py::test_the_texts_of_others_are_shown_if_the_operator_lets_them_be_and_else_never[False]",
    ),
)


def judge(mutant: PageMutant, root: Path) -> Failure | None:
    """How its test fails over the tree at `root` with the fault in it, or None if it doesn't see it."""
    path = root / mutant.edit.module
    source = path.read_text(encoding="utf-8")
    path.write_text(mutant.edit.applied_to(source), encoding="utf-8")
    try:
        return first_failure(root, [mutant.path])
    finally:
        path.write_text(source, encoding="utf-8")


def main(words: list[str]) -> int:
    """Judge the mutants whose words have one of these, or all."""
    mutants = [mutant for mutant in MUTANTS if not words or any(word in mutant.what for word in words)]
    num_survivors = 0
    with TemporaryDirectory() as folder:
        root = copy_tree(Path(folder))
        if (failure := first_failure(root, list(dict.fromkeys(mutant.path for mutant in mutants)))) is not None:
            sys.stderr.write(f"{failure.told} without a mutant\n")
            return 2
        for mutant in mutants:
            failure = judge(mutant, root)
            num_survivors += failure is None
            sys.stdout.write(f"{'SURVIVED' if failure is None else 'killed':8}  {mutant.what}\n{'':10}{mutant.test}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(mutants) - num_survivors} of {len(mutants)} mutants killed\n")
    return 1 if num_survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
