"""What rows of a board are called: their model, what was set, and what tells them apart."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.grouping import trained_on
from benchharness.leaderboard.job import START_FROM, Word, is_setting, setting_word, unquoted
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import grouped
from benchharness.tasks.suites import distinct_title, title_of

_MOST = 4  # settings that differ and are named; of more the first

_DIGITS = 7  # of a digest, where nothing else is known of what differs; git shows as many


def told_apart(entries: Iterable[Entry]) -> list[Entry]:
    """The entries with names of their own: those that share one are called by what differs.

    A variant is kept only where its model, recipe and precision are there twice.
    """
    listed = list(entries)
    for _ in range(_ROUNDS):
        listed = _apart(listed)
    variants = Counter((e.model, e.recipe, e.precision) for e in listed)
    return [
        replace(e, variant="") if variants[e.model, e.recipe, e.precision] == 1 else e
        for e in listed
    ]


_ROUNDS = 2  # what differs from one row may be what a third one is called already


def _apart(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, with words for what differs between those of one name."""
    named = list(entries)
    for numbers in grouped((entry.name, n) for n, entry in enumerate(entries)).values():
        if len(numbers) > 1:
            found = _differences([named[number] for number in numbers])
            for number, more in zip(numbers, found, strict=True):
                entry = named[number]
                words = tuple(w for w in more if w not in (*entry.words, _precision(entry)))
                named[number] = replace(
                    entry,
                    words=(*entry.words, *words),
                    says_precision=entry.says_precision or _precision(entry) in more,
                )
    return named


def _precision(entry: Entry) -> Word:
    return Word(entry.precision, unquoted(entry.precision))


def _differences(entries: Sequence[Entry]) -> list[tuple[Word, ...]]:
    """For each entry, which is called like the others, words that no other one has."""
    words: list[tuple[Word, ...]] = [()] * len(entries)
    # One kind of fact after another, until no two entries have the same words.
    for find in _FACTS:
        found = find(entries)
        if len(set(found)) > 1:
            words = [(*known, *more) for known, more in zip(words, found, strict=True)]
        if len(set(words)) == len(entries):
            return words
    return [(*each, Word(f"no. {n}", f"no={n}")) for n, each in enumerate(words, start=1)]


_Words = Sequence[tuple[Word, ...]]


def _plain(run: RunRow) -> Mapping[str, str | float]:
    return {name: setting.value for name, setting in run.settings.items()}


def _differing(by_task: Sequence[Mapping[str, Mapping[str, str | float]]]) -> _Words:
    """For each of several, whose values are given by task, those that others have otherwise."""
    differing: dict[str, None] = {}
    for task in dict.fromkeys(task for tasks in by_task for task in tasks):
        known = [tasks[task] for tasks in by_task if tasks.get(task)]
        names = dict.fromkeys(name for values in known for name in values)
        # By repr, to which 1, 1.0 and True are not the same; None is of what has no such setting.
        differing |= {n: None for n in names if len({repr(v.get(n)) for v in known}) > 1}
    told = [name for name in differing if name != START_FROM][:_MOST]
    return [tuple(_setting_words(told, tasks.values())) for tasks in by_task]


def _setting_words(
    names: Iterable[str], tasks: Iterable[Mapping[str, str | float]]
) -> Iterator[Word]:
    listed = list(tasks)
    for name in names:
        values = dict.fromkeys(values[name] for values in listed if name in values)
        if values:
            yield setting_word(name, values)
        elif any(listed):
            yield Word(f"no {name.replace('_', ' ')}", f"{name}=off")


def _of_each(
    found: Callable[[Entry], Iterable[str]], word: Callable[[str], Word]
) -> Callable[[Sequence[Entry]], _Words]:
    """A word for each text that is found of an entry, in alphabetical order."""
    return lambda entries: [tuple(map(word, sorted(set(found(entry))))) for entry in entries]


def _start_word(name: str) -> Word:
    title = distinct_title(name) if "/" in name else name
    return Word(f"from {title}", f"from={unquoted(name.partition('/')[2] or name)}")


def _task_word(name: str) -> Word:
    return Word(f"{name} from a start", f"start={unquoted(name)}")


def _weight_word(weights: str) -> Word:
    """A revision of the hub, or the beginning of a folder's digest."""
    # "hub:owner/name@COMMIT" or "sha256:DIGEST".
    revision = weights.rpartition("@")[2] if weights.startswith("hub:") else ""
    name, text = ("revision", revision) if revision else ("weights", weights.rpartition(":")[2])
    short = text[:_DIGITS] if re.fullmatch("[0-9a-f]{8,}", text) else text
    return Word(f"{name} {short}", f"{name}={unquoted(short)}")


def _rows(entries: Sequence[Entry]) -> _Words:
    """Which rows of a task that several of them have they were trained on."""
    by_task = [
        {run.task: " ".join(trained_on(tuple(run.fingerprints.items()))) for run in entry.runs}
        for entry in entries
    ]
    for task in dict.fromkeys(task for tasks in by_task for task in tasks):
        found = [tasks.get(task, "") for tasks in by_task]
        if len(set(filter(None, found))) > 1:
            return [_digest_word("train rows", "train", text) for text in found]
    return [()] * len(entries)


def _by_digest(name: str, digest: Callable[[Entry], str]) -> Callable[[Sequence[Entry]], _Words]:
    """What is told by no more than a digest, where an entry has one."""
    return lambda entries: [_digest_word(name, name, digest(entry)) for entry in entries]


def _digest_word(shown: str, typed: str, digest: str) -> tuple[Word, ...]:
    short = digest[:_DIGITS]
    return (Word(f"{shown} {short}", f"{typed}={unquoted(short)}"),) if digest else ()


_FACTS: Sequence[Callable[[Sequence[Entry]], _Words]] = (
    lambda entries: [(Word(e.shown_kind, e.shown_kind),) for e in entries],
    # The settings in which they differ on a task that several of them have.
    lambda entries: _differing([{r.task: _plain(r) for r in e.runs} for e in entries]),
    lambda entries: [(_precision(entry),) for entry in entries],
    _of_each(lambda e: e.starts.values() or ["pretrained"], _start_word),
    # The tasks that started from others, where what they started from is the same.
    _of_each(lambda e: map(title_of, e.starts), _task_word),
    _of_each(lambda e: (run.weights for run in e.runs), _weight_word),
    _rows,
    # Values of which nothing is known but that they differ.
    _by_digest("values", lambda e: min(run.recipe_digest for run in e.runs)),
    # How what they started from, and how their teachers of one model, were trained.
    _by_digest("start", lambda e: max((run.start_variant for run in e.runs), default="")),
    _by_digest(
        "teacher", lambda e: max((r.teacher.variant for r in e.runs if r.teacher), default="")
    ),
)
"""What may tell apart rows of one model, what is said first before the others."""


def heads(entries: Sequence[Entry]) -> tuple[str, ...]:
    """What columns of these entries are headed by: what differs between them."""
    models = [entry.model for entry in entries]
    if len(set(models)) == len(models):
        return tuple(models)
    # What all of them have is left out; if that is everything, the model is left.
    said = [(e.model, *(word.shown for word in e.words), e.precision) for e in entries]
    shared = set.intersection(*map(set, said))
    found = [", ".join(w for w in words if w not in shared) or words[0] for words in said]
    if len(set(found)) < len(found):
        found = [entry.name for entry in entries]
    if len(set(found)) < len(found):
        found = [f"{entry.name}, {entry.precision}" for entry in entries]
    return tuple(found)


# What a row may be called on the command line.


def is_called(entry: Entry, name: str) -> bool:
    """Whether a name is of the entry: its model, and as much of the rest as one likes.

    "minilm", "minilm:lr=3e-4", "minilm:fast:bf16".
    """
    for model in dict.fromkeys((entry.model, unquoted(entry.model))):
        if name == model:
            return True
        if name.startswith(f"{model}:"):
            rest = name[len(model) + 1 :]
            # A part is the entry's precision, its recipe, or words of its own.
            known = (entry.precision, entry.recipe, unquoted(entry.recipe), entry.recipe_label)
            return all(
                part in known or all(_is_word(entry, word.strip()) for word in part.split(","))
                for part in rest.split(":")
            )
    return False


def _is_word(entry: Entry, word: str) -> bool:
    if any(word in known for known in entry.words):
        return True
    runs = [run for run in entry.runs if run.settings]
    return bool(runs) and all(is_setting(word, run.settings) for run in runs)


def typed_names(entry: Entry) -> tuple[str, ...]:
    """From the shortest to the whole: "minilm", "minilm:lr=3e-4", "minilm:lr=3e-4:fp32"."""
    model, words = unquoted(entry.model), ",".join(word.typed for word in entry.words)
    return model, f"{model}:{words}", f"{model}:{words}:{unquoted(entry.precision)}"


def full_label(entry: Entry) -> str:
    """What names one entry of a board: "minilm:lr=3e-4:bf16"."""
    words = ",".join(word.typed for word in entry.words)
    return f"{entry.model}:{words}:{entry.precision}"


def short_name(entry: Entry, others: Iterable[Entry]) -> str:
    """The shortest name that is of this entry alone."""
    listed = [entry, *(other for other in others if other is not entry)]
    model, *whole = typed_names(entry)
    names = (model, *(f"{model}:{word.typed}" for word in entry.words), *whole)
    return next((name for name in names if called(listed, name) == [entry]), names[-1])


def called(entries: Iterable[Entry], name: str) -> list[Entry]:
    """The entries of that name: those that it names whole before those that it names in part."""
    found = [entry for entry in entries if is_called(entry, name)]
    whole = [e for e in found if name in (*typed_names(e)[1:], full_label(e))]
    return whole if len(whole) == 1 else found
