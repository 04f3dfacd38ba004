"""Names of leaderboard entries. A name is the model, with words that distinguish its entries."""

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

_MOST = 4  # maximum number of differing settings in a name

_DIGITS = 7  # number of digits of an abbreviated digest, the same as in git


def told_apart(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with distinct names.

    Entries with equal names get words that describe how they differ. An entry keeps the hex digits
    in `variant` only if another entry has the same model, recipe and precision; else they are
    removed.
    """
    listed = list(entries)
    for _ in range(_ROUNDS):
        listed = _apart(listed)
    variants = Counter((e.model, e.recipe, e.precision) for e in listed)
    return [
        replace(e, variant="") if variants[e.model, e.recipe, e.precision] == 1 else e
        for e in listed
    ]


_ROUNDS = 2  # after the first round, a changed name may equal the name of another entry


def _apart(entries: Sequence[Entry]) -> list[Entry]:
    """Add words to the names of entries with equal names; return all entries."""
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
    """Return different words for each entry, which describe how the entries differ."""
    words: list[tuple[Word, ...]] = [()] * len(entries)
    # Add words from one function after another until no two entries have the same words.
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
    """Return, for each entry, words for the settings that differ between entries on the same task.

    `by_task` contains one mapping per entry, from each task to the entry's settings on this task.
    """
    differing: dict[str, None] = {}
    for task in dict.fromkeys(task for tasks in by_task for task in tasks):
        known = [tasks[task] for tasks in by_task if tasks.get(task)]
        names = dict.fromkeys(name for values in known for name in values)
        # Compare by repr, which distinguishes 1, 1.0 and True. None stands for a missing setting.
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
    """Return a function that applies `found` to each entry and `word` to each resulting text."""
    return lambda entries: [tuple(map(word, sorted(set(found(entry))))) for entry in entries]


def _start_word(name: str) -> Word:
    title = distinct_title(name) if "/" in name else name
    return Word(f"from {title}", f"from={unquoted(name.partition('/')[2] or name)}")


def _task_word(name: str) -> Word:
    return Word(f"{name} from a start", f"start={unquoted(name)}")


def _weight_word(weights: str) -> Word:
    """Return a word for the commit on the Hub or, for a folder, for the digest of its weights."""
    # `weights` is e.g. "hub:owner/name@COMMIT" or "sha256:DIGEST".
    revision = weights.rpartition("@")[2] if weights.startswith("hub:") else ""
    name, text = ("revision", revision) if revision else ("weights", weights.rpartition(":")[2])
    short = text[:_DIGITS] if re.fullmatch("[0-9a-f]{8,}", text) else text
    return Word(f"{name} {short}", f"{name}={unquoted(short)}")


def _rows(entries: Sequence[Entry]) -> _Words:
    """Return words for the training data of the first task whose data differ between entries."""
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
    """Return a function that converts each entry's digest to a word; an empty digest has none."""
    return lambda entries: [_digest_word(name, name, digest(entry)) for entry in entries]


def _digest_word(shown: str, typed: str, digest: str) -> tuple[Word, ...]:
    short = digest[:_DIGITS]
    return (Word(f"{shown} {short}", f"{typed}={unquoted(short)}"),) if digest else ()


_FACTS: Sequence[Callable[[Sequence[Entry]], _Words]] = (
    lambda entries: [(Word(e.shown_kind, e.shown_kind),) for e in entries],
    # Settings that differ between entries on the same task.
    lambda entries: _differing([{r.task: _plain(r) for r in e.runs} for e in entries]),
    lambda entries: [(_precision(entry),) for entry in entries],
    _of_each(lambda e: e.starts.values() or ["pretrained"], _start_word),
    # Tasks whose runs start from other runs, to distinguish entries that have the same starting
    # points on different tasks.
    _of_each(lambda e: map(title_of, e.starts), _task_word),
    _of_each(lambda e: (run.weights for run in e.runs), _weight_word),
    _rows,
    # Digests of the hyperparameters, for entries whose settings are unknown.
    _by_digest("values", lambda e: min(run.recipe_digest for run in e.runs)),
    # Digests that identify how the starting points and the teachers were trained.
    _by_digest("start", lambda e: max((run.start_variant for run in e.runs), default="")),
    _by_digest(
        "teacher", lambda e: max((r.teacher.variant for r in e.runs if r.teacher), default="")
    ),
)
"""Functions that find words to distinguish entries of one model, in order of preference."""


def heads(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return a column title per entry, for a table whose columns are entries.

    If all entries have different models, a title is the name of the model. Otherwise it consists of
    the words (model, settings, precision) that not all entries have in common. If these titles are
    not distinct, the complete names of the entries are used and, if these are not distinct either,
    the complete names with the precision.
    """
    models = [entry.model for entry in entries]
    if len(set(models)) == len(models):
        return tuple(models)
    # Leave out the words that all entries share. If no words remain, use the name of the model.
    said = [(e.model, *(word.shown for word in e.words), e.precision) for e in entries]
    shared = set.intersection(*map(set, said))
    found = [", ".join(w for w in words if w not in shared) or words[0] for words in said]
    if len(set(found)) < len(found):
        found = [entry.name for entry in entries]
    if len(set(found)) < len(found):
        found = [f"{entry.name}, {entry.precision}" for entry in entries]
    return tuple(found)


# Names by which users select entries on the command line.


def is_called(entry: Entry, name: str) -> bool:
    """Return whether a name from the command line refers to the leaderboard entry.

    A name is the model, optionally followed by settings, recipe and precision after colons, e.g.
    "minilm", "minilm:lr=3e-4" or "minilm:fast:bf16". A name may refer to several entries.
    """
    for model in dict.fromkeys((entry.model, unquoted(entry.model))):
        if name == model:
            return True
        if name.startswith(f"{model}:"):
            rest = name[len(model) + 1 :]
            # Each part of the name is the precision, the recipe, or some of the entry's words.
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
    """Return the names of an entry that users can type, shortest first.

    For example: "minilm", "minilm:lr=3e-4", "minilm:lr=3e-4:fp32".
    """
    model, words = unquoted(entry.model), ",".join(word.typed for word in entry.words)
    return model, f"{model}:{words}", f"{model}:{words}:{unquoted(entry.precision)}"


def full_label(entry: Entry) -> str:
    """Return the model, settings and precision of an entry as one name, e.g. "minilm:lr=3e-4:bf16".

    The name identifies the entry on its leaderboard.
    """
    words = ",".join(word.typed for word in entry.words)
    return f"{entry.model}:{words}:{entry.precision}"


def short_name(entry: Entry, others: Iterable[Entry]) -> str:
    """Return a short command-line name that refers to this entry and to none of `others`.

    If there is no such name, the entry's longest name is returned. `others` may include the entry.
    """
    listed = [entry, *(other for other in others if other is not entry)]
    model, *whole = typed_names(entry)
    names = (model, *(f"{model}:{word.typed}" for word in entry.words), *whole)
    return next((name for name in names if called(listed, name) == [entry]), names[-1])


def called(entries: Iterable[Entry], name: str) -> list[Entry]:
    """Return the entries to which a name from the command line refers (see `is_called`).

    If the name is the complete name of exactly one entry, only this entry is returned.
    """
    found = [entry for entry in entries if is_called(entry, name)]
    whole = [e for e in found if name in (*typed_names(e)[1:], full_label(e))]
    return whole if len(whole) == 1 else found
