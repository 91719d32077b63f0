import inspect

from engine import errors


def classes_below(root: type[errors.EngineError]) -> set[type[errors.EngineError]]:
    return {root}.union(*(classes_below(child) for child in root.__subclasses__()))


def test_the_tree_that_is_drawn_is_the_tree_that_there_is() -> None:
    drawn = inspect.getdoc(errors) or ""
    lines = [line for line in drawn.splitlines() if "──" in line or line.startswith("EngineError")]

    names = [line.split("── ")[-1].split()[0] for line in lines]

    own = {error for error in classes_below(errors.EngineError) if error.__module__ == errors.__name__}
    assert sorted(names) == sorted(error.__name__ for error in own)


def test_refusals_say_the_numbers() -> None:
    refusals = {
        str(errors.ContextTooLong(prompt_tokens=9, limit=8)): ("9", "8"),
        str(errors.QueueFull(waiting=7, limit=6, retry_after_seconds=1)): ("7", "6"),
        str(errors.UnknownToken(field="prompt", token=11, vocabulary_size=10)): ("prompt", "11", "9"),
    }

    for message, parts in refusals.items():
        assert all(part in message for part in parts)
