"""Define the challenge sets: source of their rows, tasks of the models to test, merged classes.

A model with three classes (entailment, neutral, contradiction) can be tested on a set with two, and
the other way round. The field `ChallengeSet.counts_as` states how classes are merged, and the field
`label_names` of a set's source states the order of its labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchharness.errors import BenchError, unknown_name
from benchharness.extensions.robustness.files import (
    adversarial_glue,
    contrast_records,
    hard_records,
)
from benchharness.extensions.robustness.metrics import (
    ADVERSARIAL_SQUAD,
    CONSISTENCY,
    CONTRAST_ACCURACY,
    HANS_DETAILS,
    ORIGINAL_ACCURACY,
    ORIGINAL_SQUAD,
)
from benchharness.tasks.examples import PairExample, SpanExample
from benchharness.tasks.glue import MNLI, NLI_LABELS, QNLI, QQP, RTE, SST2, pair
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import number, text
from benchharness.tasks.squad import SQUAD_1, question
from benchharness.tasks.suites import distinct_title
from benchharness.tasks.superglue import BOOLQ
from benchharness.tasks.task import PairTask, SpanTask, Task, has_no_label

CONVERTED = "refs/convert/parquet"
"""Branch of the hub with the automatic conversion of a data set that has only a loading script."""


@dataclass(frozen=True, kw_only=True)
class ChallengeSet:
    """Test set for models that were trained on other data.

    Attributes:
        name: Name of the set, e.g. "anli-r1".
        family: Name that selects several sets together, e.g. "anli".
        task: Source, labels and metrics of the set. The first metric is the most important one.
        models: Names of the tasks on which models may be trained to be tested on the set.
        counts_as: Merged class of each label, for labels of the set and of models. It is used if
            the model has other classes than the set. Empty if classes are never merged.
        other: Class of a model's answers that are not in `counts_as`; "" to count them as wrong.
    """

    name: str
    family: str
    task: PairTask | SpanTask
    models: tuple[str, ...]
    counts_as: Mapping[str, str] = field(default_factory=dict)
    other: str = ""

    @property
    def title(self) -> str:
        """Name of the set as in its paper, for display."""
        return self.task.title

    @property
    def split(self) -> str:
        """Name of the set's only split."""
        return next(iter(self.task.source.splits))

    def fits(self, task: Task) -> bool:
        """Return whether the set can test models of a task.

        The task must be one of `models`, or a custom task of the same kind as the set.
        """
        is_own = task.definition is not None and task.kind == self.task.kind
        return task.name in self.models or is_own

    def merged(self, task: Task) -> Mapping[str, str]:
        """Return the merged class of each label of the set and of a model.

        The result is empty if the set and the model have the same classes.

        Args:
            task: Task on which the model was trained.

        Raises:
            BenchError: A class of the task does not map to a class of the set.
        """
        mine, theirs = (tuple(getattr(each, "labels", ())) for each in (self.task, task))
        if set(mine) == set(theirs):
            return {}
        if unknown := [label for label in theirs if label not in self.counts_as]:
            raise BenchError(
                f"{self.title} cannot test models of {distinct_title(task.name)}: its class "
                f"{unknown[0]!r} maps to none of the set's classes ({', '.join(mine)}). Choose "
                "another set with --sets."
            )
        return {label: self.counts_as[label] for label in (*mine, *theirs)}


def _source(hub: str, place: str, files: str) -> Source:
    """Return the source of a set with one split; callers set its other fields with `replace`.

    Args:
        hub: Name of the data set on the hub, with "@" and its revision; "" if it is not there.
        place: "dev" or "test", and the name of the split on the hub.
        files: Possible paths of the official file, separated by spaces.
    """
    (name, _, revision), (kind, split) = hub.partition("@"), place.split()
    splits = {kind: Split(hub=split, files=tuple(files.split()))}
    return Source(hub=name, config="default", revision=revision or "main", splits=splits)


def _same(*columns: str) -> dict[str, str]:
    """Return a mapping of columns for names that are the same in files and on the hub."""
    return {name: name for name in columns}


def _pairs(name: str, title: str, source: Source, cite: str) -> PairTask:
    """Return the task of a set of texts or pairs of texts, which is scored by accuracy.

    Args:
        name: Name of the set.
        title: Title of the set.
        source: Source of the rows. The first one or two of its columns except "label" are the
            texts.
        cite: Citation of the paper.
    """
    texts = [column for column in source.columns if column != "label"][:2]
    return PairTask(
        name=f"robustness/{name}",
        title=title,
        source=source,
        convert=pair(*texts),
        labels=source.label_names,
        metrics=(accuracy,),
        cite=cite,
    )


# Natural language inference.

THREE_TO_TWO = {
    "entailment": "entailment",
    **dict.fromkeys(
        ("neutral", "contradiction", "not_entailment", "non-entailment"), "not entailment"
    ),
}
"""Merged class of each label in sets and models with two or three classes. As in HANS, the most
probable of three classes is merged; probabilities are not added."""

_NLI = ("glue/mnli", "snli/snli", "glue/rte", "superglue/cb", "superglue/rte", "xtreme/xnli")
_PAIR = {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"}
_HARD = "Gururangan et al., Annotation Artifacts in Natural Language Inference Data, NAACL 2018"


def _hans_example(row: Row) -> PairExample:
    kinds = ("heuristic", "subcase", "template")
    found = pair("premise", "hypothesis")(row)
    return replace(found, categories=tuple(f"{kind} {text(row, kind)}" for kind in kinds))


# fmt: off
HANS = ChallengeSet(
    name="hans", family="hans", models=_NLI, counts_as=THREE_TO_TWO, other="not entailment",
    task=replace(
        _pairs(
            "hans", "HANS",
            replace(
                _source(f"jhu-cogsci/hans@{CONVERTED}", "test validation",
                        "heuristics_evaluation_set.txt"),
                hub_folder="plain_text", home="hans", label_names=("entailment", "non-entailment"),
                columns={**_PAIR, **_same("heuristic", "subcase", "template")},
            ),
            "McCoy et al., Right for the Wrong Reasons, ACL 2019",
        ),
        convert=_hans_example, details=HANS_DETAILS,
    ),
)

ANLI = tuple(
    ChallengeSet(
        name=f"anli-r{n}", family="anli", models=_NLI, counts_as=THREE_TO_TWO,
        task=_pairs(
            f"anli-r{n}", f"ANLI R{n}",
            replace(
                _source("facebook/anli", f"test test_r{n}", f"R{n}/test.jsonl"),
                config="plain_text", home="anli", spellings={"anli": ("anli_v1.0",)},
                format="jsonl", columns={"premise": "context", **_same("hypothesis", "label")},
                label_names=NLI_LABELS, label_texts={name[0]: name for name in NLI_LABELS},
            ),
            "Nie et al., Adversarial NLI, ACL 2020",
        ),
    )
    for n in (1, 2, 3)
)

SNLI_HARD = ChallengeSet(
    name="snli-hard", family="snli-hard", models=_NLI, counts_as=THREE_TO_TWO,
    task=replace(
        _pairs(
            "snli-hard", "SNLI-hard",
            replace(
                _source("", "test test", "snli_1.0_test_hard.jsonl"), home="snli", format="jsonl",
                spellings={"snli": ("snli_1.0", "snli-hard")}, columns=_PAIR,
                label_names=NLI_LABELS, unlabelled="-",
            ),
            _HARD,
        ),
        leaves_out=has_no_label,
    ),
)

MNLI_HARD = tuple(
    ChallengeSet(
        name=f"mnli-hard-{part}", family="mnli-hard", models=_NLI, counts_as=THREE_TO_TWO,
        task=_pairs(
            f"mnli-hard-{part}", f"MNLI-hard {part}",
            # The labels of the official file are "hidden"; the folder has labelled dev rows.
            replace(
                _source("", "dev validation", f"MNLI{genres}HardWithHardTest/*.test "
                        f"multinli_0.9_test_{genres.lower()}_unlabeled_hard.jsonl"),
                home="mnli-hard", columns=_PAIR, label_names=NLI_LABELS,
                read_records=hard_records, unlabelled="hidden",
            ),
            f"{_HARD}; labelled dev rows of Karimi Mahabadi et al., ACL 2020",
        ),
    )
    for part, genres in (("m", "Matched"), ("mm", "Mismatched"))
)


# Paraphrases.

_SAME_MEANING = {
    **dict.fromkeys(("duplicate", "equivalent", "1"), "paraphrase"),
    **dict.fromkeys(("not_duplicate", "not_equivalent", "0"), "different"),
}

PAWS = tuple(
    ChallengeSet(
        name=f"paws-{part.lower()}", family="paws", counts_as=_SAME_MEANING,
        models=("glue/qqp", "glue/mrpc", "xtreme/pawsx"),
        task=_pairs(
            f"paws-{part.lower()}", f"PAWS-{part}",
            replace(
                _source(hub, "test test", files), config="labeled_final",
                home=f"paws_{part.lower()}", columns=_same("sentence1", "sentence2", "label"),
                label_names=("0", "1"),
            ),
            "Zhang et al., PAWS: Paraphrase Adversaries from Word Scrambling, NAACL 2019",
        ),
    )
    for part, hub, files in (
        ("QQP", "", "output/dev_and_test.tsv dev_and_test.tsv"),
        ("Wiki", "google-research-datasets/paws@161ece9501cf0a11f3e48bd356eaa82de46d6a09",
         "final/test.tsv"),
    )
)


# AdvGLUE, which has the columns, the metrics and the order of labels of GLUE.

_ADVGLUE = "AI-Secure/adv_glue@340a2fbb3550f0951dbfdd1d8eb82f0e779d46f3"

ADVGLUE = tuple(
    ChallengeSet(
        name=f"advglue-{key}", family="advglue", models=(base.name,),
        task=replace(
            _pairs(
                f"advglue-{key}", f"AdvGLUE {base.title}{'-mm' if key == 'mnli-mm' else ''}",
                replace(
                    _source(_ADVGLUE, "dev validation", "dev.json"), config=f"adv_{config or key}",
                    home="advglue", spellings={"advglue": ("adversarial-glue",)},
                    columns=_same(*base.source.columns), label_names=base.labels,
                    read_records=adversarial_glue(key),
                    label_texts={str(place): label for place, label in enumerate(base.labels)},
                ),
                "Wang et al., Adversarial GLUE, NeurIPS 2021",
            ),
            metrics=base.metrics,
        ),
    )
    for key, base, config in (
        ("sst2", SST2, ""), ("qqp", QQP, ""), ("mnli", MNLI, ""),
        ("mnli-mm", MNLI, "mnli_mismatched"), ("qnli", QNLI, ""), ("rte", RTE, ""),
    )
)


# Questions.


def _contrast_example(row: Row) -> PairExample:
    group = str(number(row, "set"))
    return replace(pair("passage", "question")(row), group=group, categories=(text(row, "kind"),))


BOOLQ_CONTRAST = ChallengeSet(
    name="boolq-contrast", family="boolq-contrast", models=(BOOLQ.name,),
    task=replace(
        _pairs(
            "boolq-contrast", "BoolQ contrast sets",
            replace(
                _source("", "dev validation", "BoolQ/boolq_perturbed.json boolq_perturbed.json"),
                home="contrast-sets", read_records=contrast_records, label_names=BOOLQ.labels,
                columns=_same("passage", "question", "label", "set", "kind"),
                label_texts={label.upper(): label for label in BOOLQ.labels},
            ),
            "Gardner et al., Evaluating Models' Local Decision Boundaries, EMNLP Findings 2020",
        ),
        convert=_contrast_example, metrics=(CONTRAST_ACCURACY,),
        details=(ORIGINAL_ACCURACY, CONSISTENCY),
    ),
)


def _squad_example(row: Row) -> SpanExample:
    found = question(row)
    return replace(found, group=found.id.partition("-")[0])


ADVERSARIAL = tuple(
    ChallengeSet(
        name=title.lower(), family="squad-adversarial", models=(SQUAD_1.name,),
        task=SpanTask(
            name=f"robustness/{title.lower()}", title=title, convert=_squad_example,
            source=replace(
                _source(f"stanfordnlp/squad_adversarial@{CONVERTED}", "dev validation",
                        f"{file}.json {title}.json"),
                hub_folder=title, format="squad", home="squad_adversarial",
                columns=SQUAD_1.source.columns, no_answer=False,
                spellings={"squad_adversarial": ("adversarial-squad", "adv_squad")},
            ),
            metrics=ADVERSARIAL_SQUAD, details=ORIGINAL_SQUAD,
            cite="Jia and Liang, Adversarial Examples for Reading Comprehension, EMNLP 2017",
        ),
    )
    for title, file in (
        ("AddSent", "sample1k-HCVerifyAll"), ("AddOneSent", "sample1k-HCVerifySample"),
    )
)
# fmt: on

_EVERY = (
    *(HANS, *ANLI, SNLI_HARD, *MNLI_HARD),
    *(*PAWS, *ADVGLUE, BOOLQ_CONTRAST, *ADVERSARIAL),
)

CHALLENGE_SETS: Mapping[str, ChallengeSet] = {each.name: each for each in _EVERY}
"""All challenge sets, keyed by name."""


def named_sets(names: Sequence[str]) -> tuple[ChallengeSet, ...]:
    """Return the challenge sets that are selected by names of sets or families, or by "all".

    Raises:
        BenchError: A name is unknown.
    """
    found: dict[str, ChallengeSet] = {}
    for name in names:
        chosen = [each for each in _EVERY if name.lower() in (each.name, each.family, "all")]
        if not chosen:
            known = [*CHALLENGE_SETS, *(each.family for each in _EVERY), "all"]
            raise unknown_name("challenge set", name, known)
        found |= {each.name: each for each in chosen}
    return tuple(found.values())
