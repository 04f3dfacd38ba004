"""Read the official files of challenge sets whose formats the core cannot read."""

from collections.abc import Callable, Iterator

from benchharness.errors import DataError
from benchharness.tasks.sources.formats import (
    OfficialFiles,
    Record,
    items,
    jsonl_records,
    parse_object,
    read_lines,
    read_text,
    value,
)

PARTS = {"premise": "s1.test", "hypothesis": "s2.test", "label": "labels.test"}
"""Files of MNLI-hard's labelled dev sets, keyed by column; each has one row per line."""

TEMPLATE = "Gold Answer"
"""Answer of the first question in the file of BoolQ's contrast sets, which is a template."""


def adversarial_glue(key: str) -> Callable[[OfficialFiles], Iterator[Record]]:
    """Return a function that reads the rows of one task in AdvGLUE's dev.json.

    Args:
        key: Name of the task in the file, such as "mnli-mm".
    """

    def records(files: OfficialFiles) -> Iterator[Record]:
        path = files.paths[0]
        document = parse_object(read_text(path), str(path))
        for number, row in enumerate(items(document, key, str(path))):
            place = f"{path} {key} row {number}"
            yield Record(place, {name: value(row, name, place) for name in files.source.columns})

    return records


def contrast_records(files: OfficialFiles) -> Iterator[Record]:
    """Read BoolQ's contrast sets: each original question, then its perturbed questions.

    A record has BoolQ's columns (the passage begins with its title), and the columns `set` (number
    of the contrast set) and `kind` ("original" or "contrast"). The template at the beginning of the
    file, questions without a text, and contrast sets without perturbed questions are left out.
    """
    path = files.paths[0]
    document = parse_object(read_text(path), str(path))
    for number, entry in enumerate(items(document, "data", str(path))):
        place = f"{path} entry {number}"
        if value(entry, "answer", place) == TEMPLATE:
            continue
        passage = f"{value(entry, 'title', place)} -- {value(entry, 'paragraph', place)}"
        found = [("original", value(entry, "question", place), entry["answer"])]
        found += [
            ("contrast", value(each, "perturbed_q", place), value(each, "answer", place))
            for each in items(entry, "perturbed_questions", place)
            if str(each.get("perturbed_q", "")).strip()
        ]
        for kind, question, answer in found if len(found) > 1 else ():
            fields = {"passage": passage, "question": question, "label": answer}
            yield Record(place, {**fields, "set": number, "kind": kind})


def hard_records(files: OfficialFiles) -> Iterator[Record]:
    """Read MNLI-hard from three parallel text files, or from the official JSON Lines test file.

    Raises:
        DataError: The parallel files have different numbers of lines.
    """
    if len(files.paths) == 1:
        yield from jsonl_records(files)
        return
    paths = {path.name: path for path in files.paths}
    lines = {name: read_lines(path) for name, path in paths.items()}
    counts = [len(lines.get(name, ())) for name in PARTS.values()]
    if len({*counts}) > 1:
        found = ", ".join(f"{n} in {name}" for n, name in zip(counts, PARTS.values(), strict=True))
        raise DataError(
            f"{files.paths[0].parent} has different numbers of lines ({found}): get the complete "
            "folder."
        )
    rows = zip(*(lines[name] for name in PARTS.values()), strict=True)
    for number, row in enumerate(rows, start=1):
        place = f"{paths[PARTS['label']]} line {number}"
        yield Record(place, dict(zip(PARTS, row, strict=True)))
