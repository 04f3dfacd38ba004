"""Multiple choice: BLiMP, RACE and SWAG."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.metrics import ChoiceMetric, choice_accuracy, of_group
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import label_of, number, splits_of, text, texts
from benchharness.tasks.task import ChoiceTask, Metric

# BLiMP: which of two sentences is acceptable, in 67 paradigms of 12 phenomena (arXiv:1912.00582).
#
# Nothing is trained: a language model prefers the sentence that it finds likelier. The
# unacceptable one is the first option, because of equal scores the first counts, and the official
# scripts count a tie as wrong.

PHENOMENA: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "anaphor_agreement": ("anaphor_gender_agreement", "anaphor_number_agreement"),
        "argument_structure": (
            *("animate_subject_passive", "animate_subject_trans", "causative", "drop_argument"),
            *("inchoative", "intransitive", "passive_1", "passive_2", "transitive"),
        ),
        "binding": (
            *("principle_A_c_command", "principle_A_case_1", "principle_A_case_2"),
            *("principle_A_domain_1", "principle_A_domain_2", "principle_A_domain_3"),
            "principle_A_reconstruction",
        ),
        "control_raising": (
            *("existential_there_object_raising", "existential_there_subject_raising"),
            *("expletive_it_object_raising", "tough_vs_raising_1", "tough_vs_raising_2"),
        ),
        "determiner_noun_agreement": (
            *("determiner_noun_agreement_1", "determiner_noun_agreement_2"),
            *("determiner_noun_agreement_irregular_1", "determiner_noun_agreement_irregular_2"),
            *("determiner_noun_agreement_with_adj_2", "determiner_noun_agreement_with_adjective_1"),
            "determiner_noun_agreement_with_adj_irregular_1",
            "determiner_noun_agreement_with_adj_irregular_2",
        ),
        "ellipsis": ("ellipsis_n_bar_1", "ellipsis_n_bar_2"),
        "filler_gap_dependency": (
            *("wh_questions_object_gap", "wh_questions_subject_gap"),
            *("wh_questions_subject_gap_long_distance", "wh_vs_that_no_gap"),
            *("wh_vs_that_no_gap_long_distance", "wh_vs_that_with_gap"),
            "wh_vs_that_with_gap_long_distance",
        ),
        "irregular_forms": (
            "irregular_past_participle_adjectives",
            "irregular_past_participle_verbs",
        ),
        "island_effects": (
            *("adjunct_island", "complex_NP_island", "sentential_subject_island", "wh_island"),
            "coordinate_structure_constraint_complex_left_branch",
            "coordinate_structure_constraint_object_extraction",
            *("left_branch_island_echo_question", "left_branch_island_simple_question"),
        ),
        "npi_licensing": (
            *("matrix_question_npi_licensor_present", "npi_present_1", "npi_present_2"),
            *("only_npi_licensor_present", "only_npi_scope"),
            *("sentential_negation_npi_licensor_present", "sentential_negation_npi_scope"),
        ),
        "quantifiers": (
            *("existential_there_quantifiers_1", "existential_there_quantifiers_2"),
            *("superlative_quantifiers_1", "superlative_quantifiers_2"),
        ),
        "subject_verb_agreement": (
            *("distractor_agreement_relational_noun", "distractor_agreement_relative_clause"),
            "irregular_plural_subject_verb_agreement_1",
            "irregular_plural_subject_verb_agreement_2",
            "regular_plural_subject_verb_agreement_1",
            "regular_plural_subject_verb_agreement_2",
        ),
    }
)
"""The paradigms, by the phenomenon (the files' linguistics_term) that the paper counts them to."""

PARADIGMS = tuple(sorted(name for names in PHENOMENA.values() for name in names))


def _mean_of(paradigms: Sequence[str], name: str) -> ChoiceMetric:
    """The mean of these paradigms' accuracies; None where no example is of one of them."""

    def compute(
        predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]
    ) -> float | None:
        rights: dict[str | None, list[bool]] = {}
        for prediction, example in zip(predictions, examples, strict=True):
            if example.group in paradigms:
                is_right = prediction.option in (example.gold or ())
                rights.setdefault(example.group, []).append(is_right)
        return fmean(map(fmean, rights.values())) if rights else None

    return Metric(name=name, compute=compute)


def _arrange(rows: Sequence[Row]) -> list[Row]:
    """The rows by paradigm and number, which is text in the files.

    ValueError for a paradigm that is unknown, or absent: the score is over all of them.
    """
    found = [{**row, "pair_id": int(str(row["pair_id"]))} for row in rows]
    known = {text(row, "UID") for row in found}
    if unknown := sorted(known - set(PARADIGMS)):
        raise ValueError(f"it has the paradigm {unknown[0]!r}, which is none of BLiMP's")
    if absent := sorted(set(PARADIGMS) - known):
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ValueError(f"it lacks the paradigm {absent[0]}{more}, and the score is over all 67")
    return sorted(found, key=lambda row: (text(row, "UID"), number(row, "pair_id")))


def _pair(row: Row) -> ChoiceExample:
    """The two sentences, the acceptable one last."""
    return ChoiceExample(
        id=f"{text(row, 'UID')}/{number(row, 'pair_id')}",
        context="",
        question="",
        options=(text(row, "sentence_bad"), text(row, "sentence_good")),
        gold=(1,),
        group=text(row, "UID"),
    )


BLIMP = ChoiceTask(
    name="blimp/blimp",
    title="BLiMP",
    source=Source(
        hub="nyu-mll/blimp",
        config="blimp",
        configs=PARADIGMS,
        revision="main",  # no commit of it could be confirmed
        home="blimp",
        spellings={"blimp": ("blimp_master",)},
        format="jsonl",
        splits={"dev": Split(hub="train", files=("data/*.jsonl",))},
        columns={
            **{name: name for name in ("sentence_good", "sentence_bad", "UID")},
            "pair_id": "pairID",
        },
        label="",
        arrange=_arrange,
    ),
    convert=_pair,
    metrics=(_mean_of(PARADIGMS, "accuracy"),),
    details=(
        *(_mean_of(names, f"accuracy_{name}") for name, names in PHENOMENA.items()),
        *(of_group(choice_accuracy, name) for name in PARADIGMS),
    ),
    cite="Warstadt et al., BLiMP: The Benchmark of Linguistic Minimal Pairs, TACL 2020",
)

# RACE: questions of English exams for middle and high schools, with four options each.
#
# Training takes both levels together, and the score is over both pooled, as in the paper; each
# level's accuracy stands beside it.


LETTERS = "ABCD"
LEVELS = ("middle", "high")


def _in_passages(rows: Sequence[Row]) -> list[Row]:
    """The rows by level and passage number, with each question's number in its passage.

    The hub has the passages in the order of an archive. Its `example_id` is the passage's name
    ("high12.txt"), which all the questions of a passage share. ValueError where a level is absent:
    the score is over both.
    """
    asked: Counter[str] = Counter()
    numbered: list[Row] = []
    for row in rows:
        name = text(row, "example_id")
        numbered.append({**row, "number": asked[name]})
        asked[name] += 1
    found = {LEVELS[_passage(name)[0]] for name in asked}
    if absent := [level for level in LEVELS if level not in found]:
        raise ValueError(
            f"it has no passage of the level {' or '.join(absent)}, and RACE's score is over both"
        )
    return sorted(numbered, key=lambda row: (_passage(text(row, "example_id")), row["number"]))


def _passage(name: str) -> tuple[int, int]:
    """A passage's level, as its place in LEVELS, and its number."""
    found = re.fullmatch(r"(middle|high)(\d+)\.txt", name)
    if found is None:
        raise ValueError(f"the passage {name!r} is not named like 'high12.txt'")
    return LEVELS.index(found[1]), int(found[2])


def _question(row: Row) -> ChoiceExample:
    """A question on an article, or a sentence with a blank, "_", for the option."""
    name, answer = text(row, "example_id"), text(row, "answer")
    if answer not in tuple(LETTERS):
        raise ValueError(f"its answer is {answer!r}, expected A, B, C or D")
    return ChoiceExample(
        id=f"{name.removesuffix('.txt')}/{number(row, 'number')}",
        context=text(row, "article"),
        question=text(row, "question"),
        options=texts(row, "options"),
        gold=(LETTERS.index(answer),),
        group=LEVELS[_passage(name)[0]],
    )


RACE = ChoiceTask(
    name="race/all",
    title="RACE",
    source=Source(
        hub="ehovy/race",
        config="all",
        revision="2fec9fd81f1dc971569a9b729c43f2f0e6436637",
        home="race",
        format="race",
        splits=splits_of("train/*/*.txt", "dev/*/*.txt", "test/*/*.txt"),
        columns={name: name for name in ("example_id", "article", "question", "options", "answer")},
        arrange=_in_passages,
    ),
    convert=_question,
    metrics=(choice_accuracy,),
    details=tuple(of_group(choice_accuracy, level) for level in LEVELS),
    cite="Lai et al., RACE: Large-scale Reading Comprehension Dataset from Exams, EMNLP 2017",
)

# SWAG: which of four endings goes on with a video's caption (Zellers et al., EMNLP 2018).


ENDINGS = ("ending0", "ending1", "ending2", "ending3")
LABELS = ("0", "1", "2", "3")


def _situation(row: Row) -> ChoiceExample:
    """A caption, and the start of the next sentence that the options end."""
    label = label_of(row)
    return ChoiceExample(
        id=str(row["idx"]),
        context=text(row, "sent1"),
        question=text(row, "sent2"),
        options=tuple(text(row, ending) for ending in ENDINGS),
        gold=None if label is None else (LABELS.index(str(label)),),
    )


SWAG = ChoiceTask(
    name="swag/regular",
    title="SWAG",
    source=Source(
        hub="allenai/swag",
        config="regular",
        revision="main",  # no commit of it could be confirmed
        home="swag",
        spellings={"swag": ("swagaf",)},
        format="csv",
        splits=splits_of("train.csv", "val.csv", "test.csv", hidden=True),
        columns={name: name for name in ("sent1", "sent2", *ENDINGS, "label")},
        label_names=LABELS,
    ),
    convert=_situation,
    metrics=(choice_accuracy,),
    cite="Zellers et al., SWAG: A Large-Scale Adversarial Dataset, EMNLP 2018",
)
