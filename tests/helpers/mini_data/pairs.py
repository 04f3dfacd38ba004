"""Minimal pairs like BLiMP's in five sets' own layouts, and a text."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchharness.extensions.minimal_pairs.tasks import PAIR_TASKS
from tests.helpers.mini_data.blimp import CASTS, PAIRS
from tests.helpers.mini_data.grammar import write_json_lines

SUPPLEMENT = """
hypernym: If {she} has a lamp, then {she} has a thing. | If {she} has a lamp, then {she} has a {who}.
qa_congruence_easy: A: What did you sell? B: The {it}. | A: What did you sell? B: {he}.
qa_congruence_tricky: A: Who left? B: {he} left. | A: Who left? B: The {it}.
subject_aux_inversion: Is the {who} who is waiting here? | Is the {who} who waiting is here?
turn_taking: {he}: Did you sell it? {she}: No, I didn't. | {he}: Did you sell it? {she}: No, you didn't.
"""  # noqa: E501  (a pair is one line)

PROPERTIES = (("sells {its}", "{who}", "{it}"), ("can be carried away", "{it}", "{who}"))
"""Properties, the subject they fit, and the subject they do not fit."""

ZORRO = {"argument_structure-dropped_argument": "drop_argument", "irregular-verb": "intransitive"}
"""BLiMP's paradigms used for Zorro's; the other paradigms are matched by position."""


def _told(lines: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each line and its two sentences, for every cast."""
    for line in lines.strip().splitlines():
        name, _, pair = line.partition(": ")
        good, _, bad = pair.partition(" | ")
        for cast in CASTS:
            yield name, good.format(**cast), bad.format(**cast)


def _groups(task: str) -> list[str]:
    (found,) = (each for each in PAIR_TASKS if each.name == f"pairs/{task}")
    return [metric.name.removeprefix("accuracy_") for metric in found.details]


def write_pairs(folder: Path) -> None:
    """Write the five sets."""
    by_name: dict[str, list[tuple[str, str]]] = {}
    for name, good, bad in (*_told(SUPPLEMENT), *_told(PAIRS)):
        by_name.setdefault(name, []).append((good, bad))
    for name in _groups("supplement"):
        pairs = by_name[name] + [(f"Then {good}", f"Then {bad}") for good, bad in by_name[name]]
        rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in pairs]
        write_json_lines(folder / "supplement" / f"{name}.jsonl", rows)
    for name in _groups("ewok"):
        rows = [row for cast in CASTS[:2] for row in _ewok(name, cast)]
        write_json_lines(folder / "ewok" / f"{name}.jsonl", rows)
    for number, name in enumerate(_groups("comps")):
        rows = [row for cast in CASTS for row in _comps(number, cast)]
        write_json_lines(folder / "comps" / f"{name}.jsonl", rows)
    kinds = [name for name in by_name if name not in SUPPLEMENT]
    for number, name in enumerate(_groups("zorro")):
        pairs = by_name[ZORRO.get(name, kinds[number])]
        sentences = [text for pair in pairs for text in reversed(pair)]
        apart = [text.lower().replace(".", " .").replace("?", " ?") for text in sentences]
        _write(folder / "zorro" / f"{name}.txt", apart)
    # The sentences are English for every language. Each file has one pair, which contains a quote.
    for number, name in enumerate(_groups("multiblimp")):
        good, bad = by_name[kinds[number % len(kinds)]][number % len(CASTS)]
        lines = ["sen\twrong_sen\tphenomenon", f'"""So,"" {good}"\t"""So,"" {bad}"\tSV-#']
        _write(folder / "multiblimp" / name / "data.tsv", lines)


def _ewok(name: str, cast: Mapping[str, str]) -> Iterator[dict[str, str]]:
    contexts = [f"{cast['he']} sold the {cast['it']}.", f"{cast['he']} bought the {cast['it']}."]
    targets = ["The shelf is empty now.", "The shelf is full now."]
    for one, other in ((0, 1), (1, 0)):
        yield {
            "Domain": name,
            "ContextType": "direct",
            "ContextDiff": "antonym",
            "TargetDiff": "concept swap",
            "Context1": contexts[one],
            "Context2": contexts[other],
            "Target1": targets[one],
            "Target2": targets[other],
        }


def _comps(number: int, cast: Mapping[str, str]) -> Iterator[dict[str, str]]:
    before = ("A {}", "A new {}", "There is a {} here, and it", "A {} of some kind")[number]
    for line in PROPERTIES:
        said, right, wrong = (text.format(**cast) for text in line)
        yield {
            "prefix_acceptable": before.format(right),
            "prefix_unacceptable": before.format(wrong),
            "property_phrase": f"{said}.",
        }
    yield {
        "prefix_acceptable": before.format(cast["who"]),
        "prefix_unacceptable": before.format(cast["its"]),
        "property_phrase": "is waiting.",
    }


def write_text(folder: Path) -> None:
    """Write a text of two paragraphs, one sentence per line."""
    told = [good for _, good, _ in _told(PAIRS)]
    _write(folder / "corpus.txt", [*told[:30], "", *told[60:90]])


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
