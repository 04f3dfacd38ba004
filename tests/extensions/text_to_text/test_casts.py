"""Tests of text-to-text casts against the examples of arXiv:1910.10683, appendix D.

They are rows of the benchmarks' development sets. Two differ from those printed there: WiC's part
of speech is in no file of SuperGLUE's, and MultiRC's markup is taken out, as T5's code does.
"""

from dataclasses import replace

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.text_to_text.casts import cast_of, rows_to_learn
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Mark,
    PairExample,
    PairPrediction,
    SpanExample,
    SpanPrediction,
)
from benchharness.tasks.read import SplitRows, fingerprint, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.superglue import COPA_QUESTIONS, multirc_example, word_mark

STABLE = (
    "The stable was very roomy, with four good stalls; a large swinging window opened into the "
    "yard , which made it pleasant and airy."
)
JOEY = (
    "<b>Sent 1: </b>Once upon a time, there was a squirrel named Joey.<br><b>Sent 2: </b>Joey "
    "loved to go outside and play with his cousin Jimmy."
)
JOEY_CAST = (
    "Sent 1: Once upon a time, there was a squirrel named Joey. Sent 2: Joey "
    "loved to go outside and play with his cousin Jimmy."
)
OXYGEN = (
    "Hyperbaric (high-pressure) medicine uses special oxygen chambers to increase the partial "
    "pressure of O\n2 around the patient and, when needed, the medical staff. Carbon monoxide "
    "poisoning, gas gangrene, and decompression sickness (the 'bends') are sometimes treated using "
    "these devices. Increased O\n2 concentration in the lungs helps to displace carbon monoxide "
    "from the heme group of hemoglobin."
)
VALENCE = (
    "Valence the void-brain, Valence the virtuous valet. Why couldn't the figger choose his own "
    "portion of titanic anatomy to shaft? Did he think he was helping?"
)


def pair(a: str, b: str | None, label: str | float | None, **more: object) -> PairExample:
    return PairExample(id="0", text_a=a, text_b=b, label=label, **more)  # type: ignore[arg-type]


def copa(label: int) -> ChoiceExample:
    return ChoiceExample(
        id="0",
        context="Political violence broke out in the nation.",
        question=COPA_QUESTIONS["effect"],
        options=(
            "Many citizens relocated to the capitol.",
            "Many citizens took refuge in other territories.",
        ),
        gold=(label,),
    )


def wsc(noun: str, index: int, label: str) -> PairExample:
    marks = (word_mark(STABLE, index, noun), word_mark(STABLE, 20, "it"))
    return pair(STABLE, None, label, marks=marks)


MULTIRC = multirc_example(
    {
        "paragraph": JOEY,
        "question": "Why was Joey surprised the morning he woke up for breakfast?",
        "answer": "There was only pie to eat, rather than traditional breakfast foods",
        "idx.paragraph": 0,
        "idx.question": 0,
        "idx.answer": 0,
        "label": "True",
    }
)
SQUAD = SpanExample(
    id="0",
    question="What does increased oxygen concentrations in the patient's lungs displace?",
    context=OXYGEN,
    answers=(("carbon monoxide", OXYGEN.index("carbon monoxide")),),
)

APPENDIX_D = {
    "glue/cola": (
        pair("John made Bill master of himself.", None, "acceptable"),
        "cola sentence: John made Bill master of himself.",
        "acceptable",
    ),
    "glue/rte": (
        pair(
            "A smaller proportion of Yugoslavia's Italians were settled in Slovenia (at the 1991 "
            "national census, some 3000 inhabitants of Slovenia declared themselves as ethnic "
            "Italians).",
            "Slovenia has 3,000 inhabitants.",
            "not_entailment",
        ),
        (
            "rte sentence1: A smaller proportion of Yugoslavia's Italians were settled in "
            "Slovenia (at the 1991 national census, some 3000 inhabitants of Slovenia declared "
            "themselves as ethnic Italians). sentence2: Slovenia has 3,000 inhabitants."
        ),
        "not_entailment",
    ),
    "glue/mnli": (
        pair(
            "yeah well losing is i mean i'm i'm originally from Saint Louis and Saint Louis "
            "Cardinals when they were there were uh a mostly a losing team but",
            "The St. Louis Cardinals have always won.",
            "contradiction",
        ),
        (
            "mnli hypothesis: The St. Louis Cardinals have always won. premise: yeah well losing "
            "is i mean i'm i'm originally from Saint Louis and Saint Louis Cardinals when they "
            "were there were uh a mostly a losing team but"
        ),
        "contradiction",
    ),
    "glue/mrpc": (
        pair(
            '" We acted because we saw the existing evidence in a new light , through the prism of '
            'our experience on 11 September , " Rumsfeld said .',
            'Rather , the US acted because the administration saw " existing evidence in a new '
            'light , through the prism of our experience on September 11 " .',
            "equivalent",
        ),
        (
            'mrpc sentence1: " We acted because we saw the existing evidence in a new light , '
            'through the prism of our experience on 11 September , " Rumsfeld said . sentence2: '
            'Rather , the US acted because the administration saw " existing evidence in a new '
            'light , through the prism of our experience on September 11 " .'
        ),
        "equivalent",
    ),
    "glue/qnli": (
        pair(
            "Where did Jebe die?",
            "Genghis Khan recalled Subutai back to Mongolia soon afterwards, and Jebe died on the "
            "road back to Samarkand.",
            "entailment",
        ),
        (
            "qnli question: Where did Jebe die? sentence: Genghis Khan recalled Subutai back to "
            "Mongolia soon afterwards, and Jebe died on the road back to Samarkand."
        ),
        "entailment",
    ),
    "glue/qqp": (
        pair(
            "What attributes would have made you highly desirable in ancient Rome?",
            "How I GET OPPERTINUTY TO JOIN IT COMPANY AS A FRESHER?",
            "not_duplicate",
        ),
        (
            "qqp question1: What attributes would have made you highly desirable in ancient "
            "Rome? question2: How I GET OPPERTINUTY TO JOIN IT COMPANY AS A FRESHER?"
        ),
        "not_duplicate",
    ),
    "glue/sst2": (
        pair(
            "it confirms fincher 's status as a film maker who artfully bends technical know-how "
            "to the service of psychological insight . ",
            None,
            "positive",
        ),
        (
            "sst2 sentence: it confirms fincher 's status as a film maker who artfully bends "
            "technical know-how to the service of psychological insight . "
        ),
        "positive",
    ),
    "glue/stsb": (
        pair(
            "Representatives for Puretunes could not immediately be reached for comment Wednesday.",
            "Puretunes representatives could not be located Thursday to comment on the suit.",
            3.25,
        ),
        (
            "stsb sentence1: Representatives for Puretunes could not immediately be reached for "
            "comment Wednesday. sentence2: Puretunes representatives could not be located "
            "Thursday to comment on the suit."
        ),
        "3.2",
    ),
    "superglue/cb": (
        pair(VALENCE, "Valence was helping", "contradiction"),
        f"cb hypothesis: Valence was helping premise: {VALENCE}",
        "contradiction",
    ),
    "superglue/copa": (
        copa(1),
        (
            "copa choice1: Many citizens relocated to the capitol. choice2: Many citizens took "
            "refuge in other territories. premise: Political violence broke out in the nation. "
            "question: effect"
        ),
        "True",
    ),
    "superglue/multirc": (
        MULTIRC,
        (
            "multirc question: Why was Joey surprised the morning he woke up for breakfast? "
            "answer: There was only pie to eat, rather than traditional breakfast foods "
            "paragraph: "
            f"{JOEY_CAST}"
        ),
        "True",
    ),
    "superglue/wic": (
        pair(
            "It was the deliberation of his act that was insulting .",
            "The deliberations of the jury .",
            "False",
            marks=(Mark(text="a", start=11, end=23), Mark(text="b", start=4, end=17)),
            about="deliberation",
        ),
        (
            "wic sentence1: It was the deliberation of his act that was insulting . sentence2: "
            "The deliberations of the jury . word: deliberation"
        ),
        "False",
    ),
    "superglue/wsc": (
        wsc("stable", 1, "True"),
        (
            "wsc: The stable was very roomy, with four good stalls; a large swinging window "
            "opened into the yard , which made *it* pleasant and airy."
        ),
        "stable",
    ),
    "squad/v1.1": (
        SQUAD,
        "question: What does increased oxygen concentrations in the patient's lungs displace? "
        "context: " + OXYGEN.replace("\n", " "),
        "carbon monoxide",
    ),
}
"""Example, encoder input and decoder target, by task."""


@pytest.mark.parametrize("name", APPENDIX_D)
def test_text_to_text_input_and_target_match_the_examples_of_the_paper(name: str):
    example, words, target = APPENDIX_D[name]
    cast = cast_of(find_task(name))
    assert cast.words(example) == words
    assert cast.targets(example) == (target,)


# Further conversions of T5's released code (t5/data/preprocessors.py, glue_utils.py).


def test_inputs_of_boolq_rte_and_wnli_match_t5s_released_code():
    boolq, rte, wnli = (cast_of(find_task(n)) for n in ("superglue/boolq", "superglue/rte", "wnli"))
    example = pair("One.", "Two?", "True")
    assert boolq.words(example) == "boolq passage: One. question: Two?"
    assert rte.words(example) == "rte hypothesis: Two? premise: One."
    assert wnli.words(example) == "wnli sentence1: One. sentence2: Two?"


def test_record_input_has_query_entities_and_summary_sentences():
    example = ChoiceExample(
        id="0",
        context="It rained\n@highlight\nBob went out.\n@highlight\nAnn stayed",
        question="@placeholder got wet.",
        options=("Ann", "Bob"),
        gold=(1,),
    )
    cast = cast_of(find_task("superglue/record"))
    assert cast.words(example) == (
        "record query: @placeholder got wet. entities: Ann, Bob passage: It rained. Bob went out. "
        "Ann stayed"
    )
    assert cast.targets(example) == ("Bob",)
    assert cast.read("Bob", example) == ChoicePrediction(id="0", option=1)
    assert cast.read("Bobby", example) == ChoicePrediction(id="0", option=-1, text="Bobby")


# Training rows.


def rows_of(*examples: object) -> SplitRows:
    return SplitRows(examples=examples, fingerprint=fingerprint(examples))  # type: ignore[arg-type]


def test_text_to_text_training_uses_only_true_rows_of_wsc():
    rows = rows_of(wsc("stable", 1, "True"), wsc("yard", 16, "False"))
    learned = rows_to_learn(rows, find_task("superglue/wsc"))
    assert learned.examples == rows.examples[:1]
    assert learned.fingerprint == fingerprint(rows.examples[:1])


def test_text_to_text_task_without_trainable_rows_is_an_error():
    with pytest.raises(DataError, match="can be used for text-to-text training"):
        rows_to_learn(rows_of(wsc("yard", 16, "False")), find_task("superglue/wsc"))


def test_record_query_has_one_text_to_text_training_row_per_answer():
    example = ChoiceExample(id="0", context="c", question="q", options=("a", "b", "c"), gold=(0, 2))
    task = find_task("superglue/record")
    learned = rows_to_learn(rows_of(example), task).examples
    assert [cast_of(task).targets(e) for e in learned] == [("a",), ("c",)]


def test_text_target_is_missing_for_hidden_labels_but_not_for_the_label_false():
    task = find_task("superglue/boolq")
    assert cast_of(task).targets(pair("a", "b", None)) == ()
    rows = rows_of(pair("a", "b", "False"))
    assert rows_to_learn(rows, task).examples == rows.examples


# Reading generated answers.


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, t in TASKS.items()
        if t.kind not in {"tag", "role", "coref", "ranking", "timed", "labels"}
    ],
)
def test_gold_text_targets_of_the_bundled_data_score_1(name: str):
    task = find_task(name)
    leader = find_task(task.trained_on) if task.trained_on else task
    cast = cast_of(leader)
    split = task.dev_splits[0] if task.dev_splits else task.test_splits[0]
    examples = read(task, split, parse_data("mini"), 40).examples
    predictions = []
    for example in examples:
        assert cast.words(example)
        # A WSC row without a target has the label "False".
        said = cast.targets(example) or ("surely not this",)
        predictions.append(cast.read(said[0], example))
    # A text contains no supporting sentences.
    metrics = [m for m in task.metrics if not m.name.startswith(("facts", "joint", "sp_"))]
    best = [metric.compute(predictions, examples) for metric in metrics]
    assert best == pytest.approx([1.0] * len(best), abs=0.02 if name == "glue/stsb" else 1e-9)


def test_generated_text_is_a_label_only_if_it_matches_exactly():
    cast, example = cast_of(find_task("glue/rte")), pair("a", "b", "entailment")
    assert cast.read("entailment", example) == PairPrediction(id="0", label="entailment")
    lost = cast.read("entailmen", example)
    assert lost == PairPrediction(id="0", label="", text="entailmen")


@pytest.mark.parametrize(
    ("answer", "label", "text"),
    [("3.4", 3.4, None), ("88", 88.0, None), ("three", -1.0, "three"), ("nan", -1.0, "nan")],
)
def test_generated_numbers_are_parsed_as_in_t5(answer: str, label: float, text: str | None):
    cast = cast_of(find_task("glue/stsb"))
    assert cast.read(answer, pair("a", "b", 3.0)) == PairPrediction(id="0", label=label, text=text)


@pytest.mark.parametrize(
    ("score", "said"), [(0.0, "0.0"), (5.0, "5.0"), (2.5, "2.4"), (2.75, "2.8"), (1.3, "1.2")]
)
def test_stsb_targets_are_rounded_to_the_nearest_fifth(score: float, said: str):
    """Round ties (2.5 is 12.5 fifths) to the even fifth, as tf.round does."""
    cast = cast_of(find_task("glue/stsb"))
    assert cast.targets(pair("a", "b", score)) == (said,)
    assert said in cast.answers
    assert len(cast.answers) == 26


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("The stable", "True"),
        ("stable", "True"),
        ("big stable", "True"),
        ("the yard", "False"),
        ("stable's", "False"),
        ("a the", ""),
        ("", ""),
    ],
)
def test_generated_wsc_referents_are_compared_without_determiners(answer: str, label: str):
    cast = cast_of(find_task("superglue/wsc"))
    found = cast.read(answer, wsc("stable", 1, "True"))
    assert found.label == label
    assert (found.text is None) == bool(label)


def test_text_target_of_an_unanswerable_question_is_unanswerable():
    cast = cast_of(find_task("squad/v2.0"))
    none = replace(SQUAD, answers=())
    assert cast.targets(none) == ("unanswerable",)
    assert cast.read("unanswerable", none) == SpanPrediction(id="0", text="", no_answer_score=1.0)
    assert not cast.read("carbon", none).abstains  # type: ignore[union-attr]


def test_text_to_text_options_are_numbered_in_input_and_target():
    race = find_task("race/all")
    example = replace(copa(1), options=("a", "b", "c", "d"), question="Why?", gold=(2,))
    cast = cast_of(race)
    assert cast.words(example) == (
        "race question: Why? choice1: a choice2: b choice3: c choice4: d context: "
        "Political violence broke out in the nation."
    )
    assert cast.targets(example) == ("choice3",)
    assert cast.read("choice3", example) == ChoicePrediction(id="0", option=2)
    assert cast.read("choice5", example) == ChoicePrediction(id="0", option=-1, text="choice5")


def test_text_to_text_for_a_tagging_task_is_an_error():
    with pytest.raises(BenchError, match=r"conll2003/ner .* have no text form"):
        cast_of(find_task("conll2003/ner"))


def test_fingerprint_ignores_the_about_field():
    """Keep the fingerprints of stored results, which are older than the field."""
    example = pair("a", "b", "True")
    assert fingerprint([example]) == fingerprint([replace(example, about="b")])
