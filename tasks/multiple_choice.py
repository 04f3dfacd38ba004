"""Multiple-choice tasks: RACE and SWAG."""

import re
from collections import Counter
from collections.abc import Sequence

from benchharness.tasks.examples import ChoiceExample
from benchharness.tasks.metrics import choice_accuracy, of_group
from benchharness.tasks.sources import Row, Source
from benchharness.tasks.sources.source import label_of, number, splits_of, text, texts
from benchharness.tasks.task import ChoiceTask

# RACE consists of questions with four options from English exams in middle and high schools.
#
# As in the paper, the examples of both levels are pooled for training and for the score. The
# accuracy on each level is shown next to the score.


LETTERS = "ABCD"
LEVELS = ("middle", "high")

OTHER_LETTER = "answers with spaces or in lower case are read as A, B, C or D"


def _in_passages(rows: Sequence[Row]) -> list[Row]:
    """Sort RACE's rows by level and passage number, and number the questions on each passage.

    On the hub, passages are in the order of an archive, and all questions on a passage have the
    same `example_id`, e.g. "high12.txt". Raises ValueError if all rows are of the same level,
    because the score is over both levels.
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
            f"it has no passage of the level {' or '.join(absent)}, but RACE's score needs both "
            "levels"
        )
    return sorted(numbered, key=lambda row: (_passage(text(row, "example_id")), row["number"]))


def _passage(name: str) -> tuple[int, int]:
    """Return the level of a passage, as an index into LEVELS, and the number of the passage."""
    found = re.fullmatch(r"(middle|high)(\d+)\.txt", name)
    if found is None:
        raise ValueError(f"the passage {name!r} is not named like 'high12.txt'")
    return LEVELS.index(found[1]), int(found[2])


def _question(row: Row) -> ChoiceExample:
    """Convert a RACE row: a question about an article, or a sentence with a blank "_" to fill."""
    name, written = text(row, "example_id"), text(row, "answer")
    answer = written.strip().upper()
    if answer not in tuple(LETTERS):
        raise ValueError(f"its answer is {written!r}, expected A, B, C or D")
    return ChoiceExample(
        id=f"{name.removesuffix('.txt')}/{number(row, 'number')}",
        oddities=() if answer == written else (OTHER_LETTER,),
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
    categories={level: f"{level} school" for level in LEVELS},
    cite="Lai et al., RACE: Large-scale Reading Comprehension Dataset from Exams, EMNLP 2017",
)

# SWAG asks: which of four endings continues the caption of a video? (Zellers et al., EMNLP 2018)


ENDINGS = ("ending0", "ending1", "ending2", "ending3")
LABELS = ("0", "1", "2", "3")


def _situation(row: Row) -> ChoiceExample:
    """Convert a SWAG row: a caption, the beginning of the next sentence, and its four endings."""
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
        revision="main",  # not pinned to a commit
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
