"""Write the model card of an exported folder: the origin of the model, its scores, and its use.

The first lines are the hub's metadata. Unknown facts are left out, in particular the license, which
depends on the rows as well as on the checkpoint.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchharness.extensions.exports.cards import METRICS, eval_result, model_card_data
from benchharness.extensions.kept_models.measure import Check
from benchharness.extensions.text_to_text.casts import cast_of
from benchharness.heads.choice import BLANKS
from benchharness.kept_folders import TAKEN
from benchharness.leaderboard.boards.cell import marked, note_lines
from benchharness.leaderboard.job import Job, shown_source
from benchharness.leaderboard.result import COLLAPSED
from benchharness.leaderboard.sharing import is_label
from benchharness.leaderboard.statistics import standing, useful_interval
from benchharness.leaderboard.text import counted, table_cell, visible
from benchharness.plugins import plugins_for
from benchharness.recipes.classes import BODY
from benchharness.recipes.recipe import MAX_ANSWER_TOKENS
from benchharness.tasks.examples import ChoiceExample, PairExample, SpanExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task, full_title
from benchharness.tasks.task import ChoiceTask, PairTask, SpanTask, Task


@dataclass(frozen=True, kw_only=True)
class Card:
    """Facts for the model card of an exported folder.

    Attributes:
        name: Name of the folder.
        job: Job of the run.
        task: Task that the model was trained on.
        splits: Dicts with the `scores` on a split, its number of `rows` and their `fingerprint`,
            keyed by "task:split".
        versions: Versions of the libraries, keyed by their names; None for a library that is not
            installed.
        auto_class: Transformers class that loads the folder; empty if there is none.
        lacking: Reason why no transformers class can load the folder; empty if there is a class.
        license: License that the user has set; None if unknown.
        texts: Number of texts per example of a pair task, 1 or 2; 2 for other tasks, and for models
            that no transformers class can load.
        seeds: Scores of all runs that differ from this run only in their seed, keyed by seed. The
            run's own seed is included. Empty if unknown.
        checks: Comparisons of ONNX files of the model with the model itself.
        flags: Warnings about the scores.
        notes: Sentences about limitations of the folder.
        facts: Facts of extensions about the run, such as how often it was reproduced.
        sheet: Sections of the run's sheet, such as its calibration, as Markdown.
        temperature: Temperature by which the logits are divided; None without calibration.
    """

    name: str
    job: Job
    task: Task
    splits: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str | None]
    auto_class: str
    lacking: str = ""
    license: str | None = None
    texts: int = 2
    seeds: Mapping[int, float] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    flags: Sequence[str] = ()
    notes: Sequence[str] = ()
    facts: Sequence[str] = ()
    sheet: Sequence[str] = ()
    temperature: float | None = None

    @property
    def on_hub(self) -> str:
        """Hub id of the checkpoint; empty if the checkpoint is a folder or a built-in encoder."""
        named = self.job.checkpoint
        is_folder = Path(named).is_absolute() or is_label(named)
        is_local = is_folder or named.startswith("builtin:")
        return "" if is_local else named

    @property
    def is_official(self) -> bool:
        """True if the run used all rows of a data set on the hub."""
        return bool(self.task.source.hub) and self.job.data != "mini" and self.job.limit is None


def write_card(folder: Path, card: Card) -> None:
    """Write a model card to README.md in a folder."""
    (folder / "README.md").write_text(card_text(card), encoding="utf-8")


def card_of(folder: Path, data: str) -> Card:
    """Collect the facts for the model card of a folder that `bench model` wrote.

    The fields `license`, `seeds`, `checks` and `notes`, which the folder does not contain, have
    their defaults.

    Args:
        folder: Folder of the model.
        data: Source of the rows of the run, as in `--data`.
    """
    told = json.loads((folder / TAKEN).read_text(encoding="utf-8"))
    job = Job.from_json(told["job"])
    plugins_for(job, kept=True)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Card(
        temperature=config.get("calibration", {}).get("temperature"),
        name=folder.name,
        job=job,
        task=find_task(told["task"]),
        splits=told["splits"],
        versions=told["versions"],
        flags=told.get("flags", {}).get(told["task"], ()),
        auto_class=told["class"] or "",
        lacking=told["lacking"] or "",
        texts=2 if told["lacking"] else _texts_of(find_task(told["task"]), data, job.limit),
    )


def _texts_of(task: Task, data: str, limit: int | None) -> int:
    """Return the number of texts in an example, 1 or 2; 2 for tasks other than pair tasks."""
    if not isinstance(task, PairTask):
        return 2
    split = (*task.dev_splits, *task.test_splits)[0]
    first: Any = read(task, split, parse_data(data), limit).examples[0]
    return 1 if first.text_b is None else 2


def card_text(card: Card) -> str:
    """Return a model card as Markdown, with YAML metadata at the top."""
    parts = [
        f"---\n{_metadata(card)}\n---",
        f"# {visible(card.name)}",
        _summary(card),
        "## Use",
        *_usage(card),
        "## Scores",
        *_scores(card),
        *(["## Sheet", *card.sheet] if card.sheet else ()),
        *(["## Smaller and faster files", *_checks(card.checks)] if card.checks else ()),
        "## Training",
        *_recipe(card),
        "## Limitations",
        *_limits(card),
        "## Publish",
        f"```\nhf upload {card.name} {card.name}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(card: Card) -> str:
    job, metrics = card.job, {m.name for m in card.task.metrics}
    results = [
        eval_result(
            card.task,
            split,
            name,
            value,
            name=" ".join((name, *(f"({flag})" for flag in card.flags))),
            is_official=card.is_official,
            args={"seed": job.seed, "rows": found["rows"], "fingerprint": found["fingerprint"]}
            | ({"flags": [*card.flags]} if card.flags else {}),
        )
        for split, found in _own_splits(card)
        for name, value in found["scores"].items()
        if name in metrics
    ]
    return model_card_data(
        model_name=visible(card.name),
        eval_results=results or None,
        base_model=card.on_hub or None,
        datasets=[card.task.source.hub] if card.is_official else None,
        license=card.license,
        library_name="sentence-transformers" if card.auto_class == BODY else "transformers",
        pipeline_tag="text2text-generation" if _is_text(card) else card.task.hub_type,
        metrics=[METRICS.get(name, name) for name in sorted(metrics)],
        tags=["benchharness"],
    )


def _own_splits(card: Card) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, found in card.splits.items():
        task, _, split = name.rpartition(":")
        if task == card.task.name:
            yield split, found


def _is_text(card: Card) -> bool:
    return card.auto_class.endswith("Seq2SeqLM")


def _summary(card: Card) -> str:
    job = card.job
    base = f"[{card.on_hub}](https://huggingface.co/{card.on_hub})" if card.on_hub else job.model
    rows = "" if card.is_official else f" ({_rows_of(card)})"
    flags = ", ".join(card.flags)
    warned = f"**The model has learned nothing: {flags}.**\n\n" if COLLAPSED & {*card.flags} else ""
    return (
        f"{warned}This is {visible(base)}, fine-tuned on {visible(full_title(card.task.name))}"
        f"{rows} by benchharness {card.versions.get('benchharness')} (run `{job.key[:12]}`, seed "
        f"{job.seed})."
    )


def _rows_of(card: Card) -> str:
    if not card.task.source.hub:
        return "custom data"
    limit = card.job.limit
    made = "synthetic data" if card.job.data == "mini" else "a subset"
    return made if limit is None else f"{made}, {limit} rows per split"


# Code for the card that predicts a single row with transformers alone.

_LOAD = """\
import torch
from transformers import {auto_class}, AutoTokenizer

name = "{name}"  # or ORG/NAME on the hub
tokenizer = AutoTokenizer.from_pretrained(name)
model = {auto_class}.from_pretrained(name).eval()
"""

_PIPELINE = """\
from transformers import pipeline

ask = pipeline("text-classification", "{name}"{options})  # or ORG/NAME on the hub
print(ask({row}, truncation=True))
"""

_CHOICE = """
context, question = "It rained all night.", "In the morning"
options = ["the street was wet.", "the street was dry."]
blanks = [blank for blank in {blanks} if blank in question]
asked = [
    question.replace(blanks[0], option) if blanks else f"{{question}} {{option}}".strip()
    for option in options
]
inputs = tokenizer(
    [context] * len(options), asked, truncation="only_first", padding=True, return_tensors="pt"
)
with torch.inference_mode():
    logits = model(**{{name: values[None] for name, values in inputs.items()}}).logits[0]
print(options[int(logits.argmax())], logits.softmax(-1).tolist())
"""

_SPAN = """
from unicodedata import category

question, context = "Who wrote it?", "The book was written by Ann Lee in 1990."
inputs = tokenizer(
    question, context, truncation="only_second", return_offsets_mapping=True, return_tensors="pt"
)
offsets = inputs.pop("offset_mapping")[0].tolist()
places = [place for place, text in enumerate(inputs.sequence_ids(0)) if text == 1]
with torch.inference_mode():
    found = model(**inputs)
starts, ends = found.start_logits[0].tolist(), found.end_logits[0].tolist()
score, first, last = max(
    (starts[i] + ends[j], i, j) for i in places for j in places if i <= j < i + {most}
)
start, end = offsets[first][0], offsets[last][1]
while end < len(context) and category(context[end]) in ("Mn", "Me"):
    end += 1  # include an accent that the tokenizer removes
print(context[start:end].strip(), score)
"""

_NO_ANSWER = """\
null = inputs["input_ids"][0].tolist().index(tokenizer.cls_token_id)
print("no answer" if starts[null] + ends[null] > score else "answered")
"""

_TAG = """
words = ["Ann", "Lee", "lives", "in", "Paris"]
text = " ".join(words)
inputs = tokenizer(text, truncation=True, return_offsets_mapping=True, return_tensors="pt")
offsets = inputs.pop("offset_mapping")[0].tolist()
with torch.inference_mode():
    tags = model(**inputs).logits[0].argmax(-1).tolist()
start = 0
for word in words:  # a word has the tag of its first token
    first = [place for place, (begin, end) in enumerate(offsets) if begin <= start < end]
    print(word, model.config.id2label[tags[first[0]]] if first else "cut off")
    start += len(word) + 1
"""

_VECTORS = """\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")  # or ORG/NAME on the hub
queries = model.encode_query(["Who wrote it?"])
documents = model.encode_document(["Ann Lee wrote it.", "It rained."])
print(model.similarity(queries, documents))
"""

_TEXT = """
inputs = tokenizer({words!r}, truncation=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)[0])
"""


def _usage(card: Card) -> Iterator[str]:
    if card.auto_class:
        alone = "sentence-transformers" if card.auto_class == BODY else "transformers"
        yield f"With {alone}:\n\n```python\n{snippet(card)}```"
    if card.auto_class == BODY:
        return
    yield (
        f"To predict a file of rows, truncated as in the run, use `bench predict {card.name} FILE` "
        "(`pip install benchharness`)."
    )


def snippet(card: Card) -> str:
    """Return example code for a model card, which loads the folder and predicts one row.

    The code uses only transformers, or sentence-transformers for a model without a head. It expects
    the folder in the working directory.
    """
    task: Any = card.task
    if card.auto_class == BODY:
        return _VECTORS.format(name=card.name)
    load = _LOAD.format(auto_class=card.auto_class, name=card.name)
    if _is_text(card):
        return load + _TEXT.format(words=cast_of(task).words(_made_example(task)))
    match task.head:
        case "pair":
            two = '{"text": "It rained.", "text_pair": "The street was wet."}'
            options = ", top_k=None" if task.kind == "labels" else ""
            row = two if card.texts == 2 else '"A good film."'
            return _PIPELINE.format(name=card.name, options=options, row=row)
        case "choice":
            return load + _CHOICE.format(blanks=BLANKS)
        case "span":
            most = card.job.values.get("max_answer_tokens", MAX_ANSWER_TOKENS)
            return load + _SPAN.format(most=most) + (_NO_ANSWER if task.no_answer else "")
        case _:
            return load + _TAG


def _made_example(task: Task) -> Any:
    match task:
        case SpanTask():
            return SpanExample(id="1", question="Who wrote it?", context="Ann Lee wrote it.")
        case ChoiceTask():
            options = ("the street was wet.", "the street was dry.")
            return ChoiceExample(id="1", context="It rained.", question="So", options=options)
        case _:
            return PairExample(id="1", text_a="It rained.", text_b="The street was wet.")


# Create the tables of the card.


def _table(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(map(table_cell, row))} |" for row in rows)


def _scores(card: Card) -> Iterator[str]:
    yield _table(
        ("split", "metric", "score", "rows", "fingerprint of the rows"),
        (
            (
                split,
                name,
                marked(f"{value:.4f}", card.flags),
                found["rows"],
                found["fingerprint"][:12],
            )
            for split, found in _own_splits(card)
            for name, value in found["scores"].items()
        ),
    )
    yield from note_lines([("these scores", card.flags)])
    yield from (f"This run was {visible(fact)}." for fact in card.facts)
    if len(card.seeds) > 1:
        values = [*card.seeds.values()]
        said = ", ".join(f"{seed}: {100 * v:.2f}" for seed, v in sorted(card.seeds.items()))
        found = useful_interval(values)
        reach = f" (95 %: {100 * found.low:.2f} to {100 * found.high:.2f})" if found else ""
        best = standing(card.seeds.get(card.job.seed, 0.0), values)
        yield (
            f"This model is {best} of {counted(len(values), 'run')} that differ only in the seed. "
            f"The scores by seed are {said}. Their median is {100 * median(values):.2f}{reach}."
        )
    else:
        yield (
            f"These are the scores of a single seed, {card.job.seed}. Other seeds may score higher "
            "or lower."
        )


CHECK_COLUMNS = (
    "file", "score", "wrong now", "right now", "differ", "p change", "ms p50", "p95", "rows/s",
    "MB", "memory MB",
)  # fmt: skip


def check_lines(checks: Sequence[Check]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table about variants of a model: the model itself, then each variant.

    The cells are in the order of CHECK_COLUMNS. Times are measured on a single CPU thread.

    Args:
        checks: Comparisons of each variant with the same model.
    """
    for side in (0, 1):
        for each in checks if side else checks[:1]:
            verdict, cost = each.verdict, each.costs[side]
            counts = (verdict.lost, verdict.gained, each.differ)
            change = "" if each.change is None else f"{each.change:.2g}"
            yield (
                each.variant if side else each.original,
                f"{100 * each.scores[side]:.2f}",
                *("" if not side or count is None else str(count) for count in counts),
                change if side else "",
                f"{cost.p50:.1f}",
                f"{cost.p95:.1f}",
                f"{cost.rows_per_second:.0f}",
                f"{cost.bytes / 1e6:.1f}",
                f"{cost.memory / 1e6:.0f}",
            )


def _checks(checks: Sequence[Check]) -> Iterator[str]:
    yield _table(CHECK_COLUMNS, check_lines(checks))
    yield "\n".join(f"- {each.sentence} {each.verdict.power_sentence}" for each in checks)
    first = checks[0]
    short, long = first.tokens
    yield (
        f"Times are measured on one thread of {first.machine['processor']}. The median length of "
        f"the rows is {short:.0f} tokens, and the 95th percentile is {long:.0f}."
    )


def _recipe(card: Card) -> Iterator[str]:
    job = card.job
    if card.temperature is not None:
        yield (
            "Its probabilities are calibrated: the logits are divided by the temperature "
            f"{card.temperature:.4f}, which was fitted on a tenth of train. The division is in the "
            "weights of the output layer."
        )
    changed = " with changes" if job.overridden else ""
    weights = f"in {job.precision}, from the weights `{job.weights}`"
    yield f"It was trained with the recipe {visible(job.recipe)}{changed}, {weights}."
    settings = job.settings.items()
    yield _table(
        ("setting", "value", "source"),
        ((name, s.value, shown_source(s.source, s.one_of)) for name, s in settings),
    )
    used = (f"{name} {version}" for name, version in card.versions.items() if version)
    yield f"Made with {', '.join(used)}."


def _limits(card: Card) -> Iterator[str]:
    lines = [*card.notes]
    if card.lacking:
        lines.append(f"{card.lacking}: only `bench predict` can load this folder.")
    if not card.license:
        lines.append(
            "No licence is set. The licences of the checkpoint and of the data both apply."
        )
    if not card.is_official:
        lines.append("The scores were not measured on the full published data set.")
    lines.append(
        "The scores hold for texts like the evaluated rows; other texts may get worse predictions."
    )
    yield "\n".join(f"- {visible(line)}" for line in lines)
