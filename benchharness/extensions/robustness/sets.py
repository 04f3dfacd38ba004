"""Challenge sets: where their rows are, which models they test, and how classes are compared.

A model with three classes (entailment, neutral, contradiction) can be tested on a set with two, and
the other way round. How classes are merged is the field `ChallengeSet.counts_as`, and the order of
a set's labels is the field `label_names` of its source.
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
"""Branch with the hub's automatic conversion of a data set that has only a loading script."""


@dataclass(frozen=True, kw_only=True)
class ChallengeSet:
    """Test set for models that were trained on other data.

    Attributes:
        name: Name of the set, e.g. "anli-r1".
        family: Name by which several sets are selected together, e.g. "anli".
        task: Rows, labels and metrics of the set. The first metric is the most important one.
        models: Names of the tasks whose models the set tests.
        counts_as: Class that each label counts as, for labels of the set and of models. It is used
            if the model has other classes than the set. Empty if classes are never merged.
        other: Class that any other answer of a model counts as; "" if it is always wrong.
    """

    name: str
    family: str
    task: PairTask | SpanTask
    models: tuple[str, ...]
    counts_as: Mapping[str, str] = field(default_factory=dict)
    other: str = ""

    @property
    def title(self) -> str:
        """Name of the set in papers."""
        return self.task.title

    @property
    def split(self) -> str:
        """Name of the only split."""
        return next(iter(self.task.source.splits))

    def fits(self, task: Task) -> bool:
        """Return whether the set tests models of a task: one of `models`, or a user's own data."""
        is_own = task.definition is not None and task.kind == self.task.kind
        return task.name in self.models or is_own

    def merged(self, task: Task) -> Mapping[str, str]:
        """Return the class that each label counts as, for a model of a task; empty if none changes.

        Raises:
            BenchError: A class of the task maps to none of the set's classes.
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


def _source(hub: str, kind: str, split: str, *files: str, **facts: object) -> Source:
    """Create the source of a set with one split.

    Args:
        hub: Name of the data set on the hub, with "@" and its revision; "" if it is not there.
        kind: "dev" or "test".
        split: Name of the split on the hub.
        *files: Possible paths of the official file.
        **facts: Other fields of `Source`.
    """
    name, _, revision = hub.partition("@")
    splits = {kind: Split(hub=split, files=files)}
    made = Source(hub=name, config="default", revision=revision or "main", splits=splits)
    return replace(made, **facts)  # type: ignore[arg-type]


def _same(*columns: str) -> dict[str, str]:
    """Return columns that have the same names in files and on the hub."""
    return {name: name for name in columns}


def _pairs(
    name: str, title: str, source: Source, models: Sequence[str], cite: str, **facts: object
) -> ChallengeSet:
    """Create a set of pairs of texts; `facts` has fields of ChallengeSet and of PairTask."""
    labels = source.label_names
    texts = [column for column in source.columns if column != "label"][:2]
    own = {key: facts.pop(key) for key in ("family", "counts_as", "other") if key in facts}
    task = PairTask(
        name=f"robustness/{name}",
        title=title,
        source=source,
        convert=pair(*texts),
        labels=labels,
        metrics=(accuracy,),
        cite=cite,
    )
    task = replace(task, **facts)  # type: ignore[arg-type]
    made = ChallengeSet(name=name, family=name, task=task, models=tuple(models))
    return replace(made, **own)  # type: ignore[arg-type]


# Natural language inference.

_NLI = ("glue/mnli", "snli/snli", "glue/rte", "superglue/cb", "superglue/rte", "xtreme/xnli")

THREE_TO_TWO = {
    "entailment": "entailment",
    **dict.fromkeys(
        ("neutral", "contradiction", "not_entailment", "non-entailment"), "not entailment"
    ),
}
"""Classes of models and sets with two and with three classes. As HANS prescribes, the most probable
of three classes is merged; probabilities are not added."""

_PAIR = {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"}


def _hans_example(row: Row) -> PairExample:
    kinds = ("heuristic", "subcase", "template")
    found = pair("premise", "hypothesis")(row)
    return replace(found, categories=tuple(f"{kind} {text(row, kind)}" for kind in kinds))


HANS = _pairs(
    "hans",
    "HANS",
    _source(
        f"jhu-cogsci/hans@{CONVERTED}",
        "test",
        "validation",
        "heuristics_evaluation_set.txt",
        hub_folder="plain_text",
        home="hans",
        columns={**_PAIR, **_same("heuristic", "subcase", "template")},
        label_names=("entailment", "non-entailment"),
    ),
    _NLI,
    "McCoy et al., Right for the Wrong Reasons, ACL 2019",
    convert=_hans_example,
    details=HANS_DETAILS,
    counts_as=THREE_TO_TWO,
    other="not entailment",
)


def _anli(number_: int) -> ChallengeSet:
    source = _source(
        "facebook/anli",
        "test",
        f"test_r{number_}",
        f"R{number_}/test.jsonl",
        config="plain_text",
        home="anli",
        spellings={"anli": ("anli_v1.0",)},
        format="jsonl",
        columns={"premise": "context", **_same("hypothesis", "label")},
        label_names=NLI_LABELS,
        label_texts={name[0]: name for name in NLI_LABELS},
    )
    facts = (source, _NLI, "Nie et al., Adversarial NLI, ACL 2020")
    name, title = f"anli-r{number_}", f"ANLI R{number_}"
    return _pairs(name, title, *facts, family="anli", counts_as=THREE_TO_TWO)


_HARD = "Gururangan et al., Annotation Artifacts in Natural Language Inference Data, NAACL 2018"

SNLI_HARD = _pairs(
    "snli-hard",
    "SNLI-hard",
    _source(
        "",
        "test",
        "test",
        "snli_1.0_test_hard.jsonl",
        home="snli",
        spellings={"snli": ("snli_1.0", "snli-hard")},
        format="jsonl",
        columns=_PAIR,
        label_names=NLI_LABELS,
        unlabelled="-",
    ),
    _NLI,
    _HARD,
    leaves_out=has_no_label,
    counts_as=THREE_TO_TWO,
)


def _mnli_hard(part: str, genres: str) -> ChallengeSet:
    source = _source(
        "",
        "dev",
        "validation",
        f"MNLI{genres}HardWithHardTest/*.test",
        f"multinli_0.9_test_{genres.lower()}_unlabeled_hard.jsonl",
        home="mnli-hard",
        columns=_PAIR,
        label_names=NLI_LABELS,
        read_records=hard_records,
        unlabelled="hidden",  # in the official test file, whose labels are not public
    )
    cite = f"{_HARD}; labelled dev rows of Karimi Mahabadi et al., ACL 2020"
    name, title = f"mnli-hard-{part}", f"MNLI-hard {part}"
    facts = (source, _NLI, cite)
    return _pairs(name, title, *facts, family="mnli-hard", counts_as=THREE_TO_TWO)


# Paraphrases.

_SAME_MEANING = {
    **dict.fromkeys(("duplicate", "equivalent", "1"), "paraphrase"),
    **dict.fromkeys(("not_duplicate", "not_equivalent", "0"), "different"),
}


def _paws(name: str, title: str, source: Source) -> ChallengeSet:
    columns = _same("sentence1", "sentence2", "label")
    source = replace(source, columns=columns, label_names=("0", "1"))
    models = ("glue/qqp", "glue/mrpc", "xtreme/pawsx")
    cite = "Zhang et al., PAWS: Paraphrase Adversaries from Word Scrambling, NAACL 2019"
    facts = (source, models, cite)
    return _pairs(name, title, *facts, family="paws", counts_as=_SAME_MEANING)


_QQP_FILES = ("output/dev_and_test.tsv", "dev_and_test.tsv")
_WIKI = "google-research-datasets/paws@161ece9501cf0a11f3e48bd356eaa82de46d6a09"

PAWS = (
    _paws("paws-qqp", "PAWS-QQP", _source("", "test", "test", *_QQP_FILES, home="paws_qqp")),
    _paws(
        "paws-wiki",
        "PAWS-Wiki",
        _source(_WIKI, "test", "test", "final/test.tsv", config="labeled_final", home="paws_wiki"),
    ),
)


# AdvGLUE, whose rows have the columns, the metrics and the order of labels of GLUE.


def _advglue(key: str, base: PairTask, config: str) -> ChallengeSet:
    source = _source(
        "AI-Secure/adv_glue@340a2fbb3550f0951dbfdd1d8eb82f0e779d46f3",
        "dev",
        "validation",
        "dev.json",
        config=f"adv_{config}",
        home="advglue",
        spellings={"advglue": ("adversarial-glue",)},
        columns=_same(*base.source.columns),
        label_names=base.labels,
        label_texts={str(place): label for place, label in enumerate(base.labels)},
        read_records=adversarial_glue(key),
    )
    title = f"AdvGLUE {base.title}{'-mm' if key == 'mnli-mm' else ''}"
    facts = (source, (base.name,), "Wang et al., Adversarial GLUE, NeurIPS 2021")
    return _pairs(f"advglue-{key}", title, *facts, family="advglue", metrics=base.metrics)


# Questions.


def _contrast_example(row: Row) -> PairExample:
    group = str(number(row, "set"))
    return replace(pair("passage", "question")(row), group=group, categories=(text(row, "kind"),))


BOOLQ_CONTRAST = _pairs(
    "boolq-contrast",
    "BoolQ contrast sets",
    _source(
        "",
        "dev",
        "validation",
        "BoolQ/boolq_perturbed.json",
        "boolq_perturbed.json",
        home="contrast-sets",
        columns=_same("passage", "question", "label", "set", "kind"),
        label_names=BOOLQ.labels,
        label_texts={label.upper(): label for label in BOOLQ.labels},
        read_records=contrast_records,
    ),
    (BOOLQ.name,),
    "Gardner et al., Evaluating Models' Local Decision Boundaries, EMNLP Findings 2020",
    convert=_contrast_example,
    metrics=(CONTRAST_ACCURACY,),
    details=(ORIGINAL_ACCURACY, CONSISTENCY),
)


def _squad_example(row: Row) -> SpanExample:
    found = question(row)
    return replace(found, group=found.id.partition("-")[0])


def _squad(title: str, file: str) -> ChallengeSet:
    task = SpanTask(
        name=f"robustness/{title.lower()}",
        title=title,
        source=_source(
            f"stanfordnlp/squad_adversarial@{CONVERTED}",
            "dev",
            "validation",
            file,
            f"{title}.json",
            hub_folder=title,
            home="squad_adversarial",
            spellings={"squad_adversarial": ("adversarial-squad", "adv_squad")},
            format="squad",
            columns=SQUAD_1.source.columns,
            no_answer=False,
        ),
        convert=_squad_example,
        metrics=ADVERSARIAL_SQUAD,
        details=ORIGINAL_SQUAD,
        cite="Jia and Liang, Adversarial Examples for Reading Comprehension, EMNLP 2017",
    )
    models, family = (SQUAD_1.name,), "squad-adversarial"
    return ChallengeSet(name=title.lower(), family=family, task=task, models=models)


_EVERY = (
    HANS,
    *map(_anli, (1, 2, 3)),
    SNLI_HARD,
    _mnli_hard("m", "Matched"),
    _mnli_hard("mm", "Mismatched"),
    *PAWS,
    _advglue("sst2", SST2, "sst2"),
    _advglue("qqp", QQP, "qqp"),
    _advglue("mnli", MNLI, "mnli"),
    _advglue("mnli-mm", MNLI, "mnli_mismatched"),
    _advglue("qnli", QNLI, "qnli"),
    _advglue("rte", RTE, "rte"),
    BOOLQ_CONTRAST,
    _squad("AddSent", "sample1k-HCVerifyAll.json"),
    _squad("AddOneSent", "sample1k-HCVerifySample.json"),
)

CHALLENGE_SETS: Mapping[str, ChallengeSet] = {each.name: each for each in _EVERY}
"""All challenge sets, keyed by name."""


def named_sets(names: Sequence[str]) -> tuple[ChallengeSet, ...]:
    """Return the sets with these names; a name may be that of a family, or "all".

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
