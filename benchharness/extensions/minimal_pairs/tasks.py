"""Minimal pairs: which of two sentences does a language model find more likely?

Nothing is trained. If both sentences have equal scores, the first option is chosen. So the order of
the options determines whether a tie is right, and follows the official scorer of each set. The
module also has the pseudo-perplexity of custom text.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

from benchharness.errors import DataError
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.metrics import ChoiceMetric, choice_accuracy, of_group
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.formats import (
    FILE,
    OfficialFiles,
    Record,
    csv_records,
    jsonl_records,
    read_lines,
)
from benchharness.tasks.sources.source import Place, number, text
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import ChoiceTask, Metric


def pair_records(files: OfficialFiles) -> Iterator[Record]:
    """Read minimal pairs from JSON lines, tab-separated tables or plain text.

    Each record has the additional column FILE: the name of its file without the extension. For
    tables it is the name of the folder, because all tables are called "data.tsv" (in MultiBLiMP,
    e.g. "nld/data.tsv"). Plain text (Zorro) has two lines per pair: the unacceptable sentence, then
    the acceptable one.
    """
    for path in files.paths:
        name, _, ending = path.name.rpartition(".")
        one = files._replace(paths=(path,))
        if ending == "tsv":
            name, records = path.parent.name, csv_records(one, "\t")
        else:
            records = jsonl_records(one) if ending == "jsonl" else _turns(path)
        for place, fields in records:
            yield Record(place, {**fields, FILE: name})


def _turns(path: Place) -> Iterator[Record]:
    lines = read_lines(path)  # two lines per pair; the first has the unacceptable sentence
    if len(lines) % 2:
        raise DataError(f"{path} has {len(lines)} lines; expected two lines per example.")
    for index in range(0, len(lines), 2):
        fields = {"bad": lines[index], "good": lines[index + 1]}
        yield Record(f"{path} line {index + 1}", fields)


def _mean_of(groups: Collection[str], name: str) -> ChoiceMetric:
    """Create a metric that is the unweighted mean of the accuracies on several groups.

    Its value is None if no example belongs to any of the groups.
    """

    def compute(
        predictions: Sequence[ChoicePrediction], examples: Sequence[ChoiceExample]
    ) -> float | None:
        rights: dict[str | None, list[bool]] = {}
        for prediction, example in zip(predictions, examples, strict=True):
            if example.group in groups:
                is_right = prediction.option in (example.gold or ())
                rights.setdefault(example.group, []).append(is_right)
        return fmean(map(fmean, rights.values())) if rights else None

    return Metric(name=name, compute=compute)


def _check_groups(found: Iterable[str], known: Sequence[str], noun: str) -> None:
    """Raise ValueError if a group is unknown or missing, because the score needs all groups."""
    there = set(found)
    if unknown := sorted(there - set(known)):
        raise ValueError(f"its {noun} {unknown[0]!r} is not one of the {len(known)} {noun}s")
    if absent := sorted(set(known) - there):
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise ValueError(
            f"it lacks the {noun} {absent[0]}{more}, but the score needs all {len(known)}"
        )


# Minimal pairs: which of two sentences does a language model find more likely?
#
# Nothing is trained. If both sentences have equal scores, the first option is chosen. So the order
# of the options determines whether a tie is right, and follows the official scorer of each set.

# BLiMP: 67 paradigms, which are grouped into 12 phenomena (arXiv:1912.00582).

# fmt: off
PHENOMENA: Mapping[str, tuple[str, ...]] = MappingProxyType({
    name: tuple(names.split()) for name, names in {
        "anaphor_agreement": "anaphor_gender_agreement anaphor_number_agreement",
        "argument_structure": "animate_subject_passive animate_subject_trans causative "
            "drop_argument inchoative intransitive passive_1 passive_2 transitive",
        "binding": "principle_A_c_command principle_A_case_1 principle_A_case_2 "
            "principle_A_domain_1 principle_A_domain_2 principle_A_domain_3 "
            "principle_A_reconstruction",
        "control_raising": "existential_there_object_raising existential_there_subject_raising "
            "expletive_it_object_raising tough_vs_raising_1 tough_vs_raising_2",
        "determiner_noun_agreement": "determiner_noun_agreement_1 determiner_noun_agreement_2 "
            "determiner_noun_agreement_irregular_1 determiner_noun_agreement_irregular_2 "
            "determiner_noun_agreement_with_adj_2 determiner_noun_agreement_with_adjective_1 "
            "determiner_noun_agreement_with_adj_irregular_1 "
            "determiner_noun_agreement_with_adj_irregular_2",
        "ellipsis": "ellipsis_n_bar_1 ellipsis_n_bar_2",
        "filler_gap_dependency": "wh_questions_object_gap wh_questions_subject_gap "
            "wh_questions_subject_gap_long_distance wh_vs_that_no_gap "
            "wh_vs_that_no_gap_long_distance wh_vs_that_with_gap "
            "wh_vs_that_with_gap_long_distance",
        "irregular_forms": "irregular_past_participle_adjectives irregular_past_participle_verbs",
        "island_effects": "adjunct_island complex_NP_island sentential_subject_island wh_island "
            "coordinate_structure_constraint_complex_left_branch "
            "coordinate_structure_constraint_object_extraction left_branch_island_echo_question "
            "left_branch_island_simple_question",
        "npi_licensing": "matrix_question_npi_licensor_present npi_present_1 npi_present_2 "
            "only_npi_licensor_present only_npi_scope sentential_negation_npi_licensor_present "
            "sentential_negation_npi_scope",
        "quantifiers": "existential_there_quantifiers_1 existential_there_quantifiers_2 "
            "superlative_quantifiers_1 superlative_quantifiers_2",
        "subject_verb_agreement": "distractor_agreement_relational_noun "
            "distractor_agreement_relative_clause irregular_plural_subject_verb_agreement_1 "
            "irregular_plural_subject_verb_agreement_2 regular_plural_subject_verb_agreement_1 "
            "regular_plural_subject_verb_agreement_2",
    }.items()
})
# fmt: on
"""Names of BLiMP's paradigms, keyed by the phenomenon to which the paper assigns them (the field
`linguistics_term` of the data)."""

PARADIGMS = tuple(sorted(name for names in PHENOMENA.values() for name in names))


def _arrange_blimp(rows: Sequence[Row]) -> list[Row]:
    # The official files have the ids as strings, and the hub has them as numbers.
    found = [{**row, "pair_id": int(str(row["pair_id"]))} for row in rows]
    _check_groups([text(row, "UID") for row in found], PARADIGMS, "paradigm")
    return sorted(found, key=lambda row: (text(row, "UID"), number(row, "pair_id")))


def _blimp_pair(row: Row) -> ChoiceExample:
    """Convert a BLiMP row; the acceptable sentence is the second option.

    A tie then counts as wrong, as in the official scripts.
    """
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
        revision="877fba0801ffb7cbd8c39c1ff314a46f053f6036",
        home="blimp",
        spellings={"blimp": ("blimp_master",)},
        format="jsonl",
        splits={"dev": Split(hub="train", files=("data/*.jsonl",))},
        columns={
            **{name: name for name in ("sentence_good", "sentence_bad", "UID")},
            "pair_id": "pairID",
        },
        label="",
        arrange=_arrange_blimp,
    ),
    convert=_blimp_pair,
    metrics=(_mean_of(PARADIGMS, "accuracy"),),
    details=(
        *(_mean_of(names, f"accuracy_{name}") for name, names in PHENOMENA.items()),
        *(of_group(choice_accuracy, name) for name in PARADIGMS),
    ),
    cite="Warstadt et al., BLiMP: The Benchmark of Linguistic Minimal Pairs, TACL 2020",
)


# Other sets of minimal pairs, which are scored as in babylm-eval (strict and multilingual tracks)
# and Zorro.


@dataclass(frozen=True, kw_only=True)
class _Set:
    """Layout and scoring of a set of minimal pairs.

    The score is the unweighted mean of the accuracies on all groups.

    Attributes:
        name: Name of the task after "pairs/".
        title: Name of the set in papers.
        files: Possible paths of the files; the first one that exists is read.
        good: Column with the acceptable option.
        bad: Column with the unacceptable option.
        group: Column with the group of the pair.
        groups: Names of all groups, separated by spaces. If the set is on the hub, where groups are
            configs, a local folder may have only some of them.
        context: Column with a text before the options, if any.
        ending: Column with a text after the options, if any. Then only this text is scored.
        tosses: True if every second tie counts as right, like a fair coin; False if every tie
            counts as right.
        hub: Name of the data set on the hub, if it is there.
        spelling: Alternative name of the set's folder.
        cite: Citation of the set's paper.
    """

    name: str
    title: str
    files: tuple[str, ...]
    good: str
    bad: str
    group: str = FILE
    groups: str
    context: str = ""
    ending: str = ""
    tosses: bool = False
    hub: str = ""
    spelling: str = ""
    cite: str


# fmt: off
_SETS = (
    _Set(name="supplement", title="BLiMP supplement", files=("supplement/*.jsonl",),
         spelling="supplement_filtered", good="sentence_good", bad="sentence_bad",
         groups="hypernym qa_congruence_easy qa_congruence_tricky subject_aux_inversion "
             "turn_taking",
         cite="Warstadt et al., Findings of the BabyLM Challenge, CoNLL 2023"),
    _Set(name="ewok", title="EWoK", files=("ewok/*.jsonl",), spelling="ewok_filtered",
         context="Context1", good="Target1", bad="Target2", group="Domain",
         groups="agent-properties material-dynamics material-properties physical-dynamics "
             "physical-interactions physical-relations quantitative-properties "
             "social-interactions social-properties social-relations spatial-relations",
         cite="Ivanova et al., Elements of World Knowledge (EWoK), 2024"),
    _Set(name="comps", title="COMPS", files=("comps/*.jsonl",), ending="property_phrase",
         good="prefix_acceptable", bad="prefix_unacceptable",
         groups="comps_base comps_wugs comps_wugs_dist-before comps_wugs_dist-in-between",
         cite="Misra et al., COMPS: Conceptual Minimal Pair Sentences, EACL 2023"),
    # Zorro's scorer tosses a coin if the scores are equal.
    _Set(name="zorro", title="Zorro", files=("zorro/*.txt", "zorro/sentences/babyberta/*.txt"),
         spelling="babyberta", good="good", bad="bad", tosses=True,
         groups="agreement_determiner_noun-across_1_adjective "
             "agreement_determiner_noun-between_neighbors "
             "agreement_subject_verb-across_prepositional_phrase "
             "agreement_subject_verb-across_relative_clause "
             "agreement_subject_verb-in_question_with_aux "
             "agreement_subject_verb-in_simple_question anaphor_agreement-pronoun_gender "
             "argument_structure-dropped_argument argument_structure-swapped_arguments "
             "argument_structure-transitive binding-principle_a case-subjective_pronoun "
             "ellipsis-n_bar filler-gap-wh_question_object filler-gap-wh_question_subject "
             "irregular-verb island-effects-adjunct_island "
             "island-effects-coordinate_structure_constraint local_attractor-in_question_with_aux "
             "npi_licensing-matrix_question npi_licensing-only_npi_licensor "
             "quantifiers-existential_there quantifiers-superlative",
         cite="Huebner et al., BabyBERTa, CoNLL 2021"),
    _Set(name="multiblimp", title="MultiBLiMP", files=("multiblimp/*/data.tsv",),
         hub="jumelet/multiblimp", good="sen", bad="wrong_sen",
         groups="abk aln amh apu aqz arb azz bel ben bho bor bre bua bul cat ces chu cym dan deu "
             "egy ell eng est eus fao fas fin fra frm fro gla gle glg got grc guj hbo hbs heb hin "
             "hit hsb hun hye hyw isl ita kat kaz kir kmr koi kpv krl kxh lat lav lij lit mar mdf "
             "mkd myv nds nhi nld olo orv ota pcm pol por quc ron rus sah san slk slv sme sms spa "
             "sqi swe tam tpn ttc tur uig ukr urb urd uzb vep wbp wol xcl xnr xpg yrl",
         cite="Jumelet et al., MultiBLiMP 1.0, 2025"),
)
# fmt: on


def _arrange(found: _Set, rows: Sequence[Row]) -> list[Row]:
    """Sort the rows by group, and number the rows within each group."""
    counts, numbered, known = Counter[str](), list[Row](), found.groups.split()
    for row in rows:
        group = text(row, found.group)
        numbered.append({**row, "group": group, "number": counts[group]})
        counts[group] += 1
    _check_groups([*counts, *(known if found.hub else ())], known, "group")
    return sorted(numbered, key=lambda row: (text(row, "group"), number(row, "number")))


def _pair(found: _Set, row: Row) -> ChoiceExample:
    options = text(row, found.good), text(row, found.bad)
    place, group = number(row, "number"), text(row, "group")
    gold = place % 2 if found.tosses else 0
    return ChoiceExample(
        id=f"{group}/{place}",
        context=text(row, found.context) if found.context else "",
        question=f"_ {text(row, found.ending)}" if found.ending else "",
        options=options[::-1] if gold else options,
        gold=(gold,),
        group=group,
    )


def _task(found: _Set) -> ChoiceTask:
    columns = (found.good, found.bad, found.group, found.context, found.ending)
    groups = tuple(found.groups.split())
    return ChoiceTask(
        name=f"pairs/{found.name}",
        title=found.title,
        source=Source(
            hub=found.hub,
            config=found.title,
            configs=groups if found.hub else (),
            revision="main",
            home="pairs",
            spellings={found.name: (found.spelling,)} if found.spelling else {},
            read_records=pair_records,
            splits={"dev": Split(hub="train", files=found.files)},
            columns={name: name for name in columns if name and name != FILE},
            label="",
            arrange=partial(_arrange, found),
        ),
        convert=partial(_pair, found),
        metrics=(_mean_of(groups, "accuracy"),),
        details=tuple(of_group(choice_accuracy, name) for name in groups),
        cite=found.cite,
    )


PAIR_TASKS = tuple(map(_task, _SETS))

# Pseudo-perplexity of custom text: the likelihood of each token while that token is masked.


def _lines(_split: str, place: Path | None) -> list[Row]:
    """Return the nonblank lines of a file, or of text/corpus.txt if the path is a folder."""
    if place is None:
        raise DataError(
            "pseudo-perplexity is computed on your own text, which is not on the hub: pass its "
            "file with --data FILE."
        )
    file = place / "text" / "corpus.txt" if place.is_dir() else place
    lines = enumerate(map(str.strip, read_lines(file)), start=1)
    return [{"line": line, "text": found} for line, found in lines if found]


def _line(row: Row) -> ChoiceExample:
    name = f"line {number(row, 'line')}"
    return ChoiceExample(id=name, context="", question="", options=(text(row, "text"),), gold=(0,))


def _of_tokens(name: str, of_loss: Callable[[float], float], low: float) -> ChoiceMetric:
    def compute(predictions: Sequence[ChoicePrediction], _: object) -> float | None:
        # A prediction without scores, such as a gold answer, has the likelihood 1. A line without
        # tokens has the likelihood 0 and is skipped.
        known = [(max(p.tokens, 1), (p.scores or (1.0,))[0]) for p in predictions]
        losses = [(count, -log(share)) for count, share in known if share]
        return of_loss(sum(n * loss for n, loss in losses) / (sum(n for n, _ in losses) or 1))

    return Metric(name=name, compute=compute, bounds=(low, inf if low else 1.0))


PERPLEXITY = ChoiceTask(
    name="text/pseudo-perplexity",
    title="Text",
    source=Source(
        hub="",
        config="text",
        revision="main",
        splits={"dev": Split(hub="", files=())},
        reader=_lines,
    ),
    convert=_line,
    # Pseudo-perplexity is exp of the mean loss over all tokens. The score is its inverse, so that a
    # higher score is better.
    metrics=(_of_tokens("token_likelihood", lambda loss: exp(-loss), 0.0),),
    details=(_of_tokens("pseudo_perplexity", exp, 1.0),),
    option="text",
    weighs_tokens=True,
    cite="Salazar et al., Masked Language Model Scoring, ACL 2020, section 2.3",
)

TASKS = (BLIMP, *PAIR_TASKS, PERPLEXITY)

SUITES = (
    suite_of(
        [BLIMP],
        "BLiMP",
        ScoreRule(
            name="BLiMP",
            cells={BLIMP.name: ("accuracy",)},
            cite="Warstadt et al., BLiMP, TACL 2020: the mean of the 67 paradigms",
        ),
    ),
    suite_of(
        PAIR_TASKS,
        "Minimal pairs",
        ScoreRule(
            name="Minimal-pairs",
            cells={task.name: ("accuracy",) for task in PAIR_TASKS},
            cite="benchharness: the mean over sets of the mean over each set's groups, as in "
            "babylm-eval",
        ),
    ),
    suite_of(
        [PERPLEXITY],
        "Pseudo-perplexity",
        ScoreRule(
            name="Pseudo-perplexity",
            cells={PERPLEXITY.name: ("token_likelihood",)},
            cite="Salazar et al., ACL 2020: 1 / exp(mean loss over all tokens)",
        ),
    ),
)
