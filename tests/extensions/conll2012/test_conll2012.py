"""Tests of CoNLL-2012's columns: documents with parts, propositions and chains."""

# ruff: noqa: E501  (the files' own lines)

import shutil
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.extensions.conll2012.files import write_clusters, write_roles
from benchharness.extensions.conll2012.task import ClusterPrediction, DocumentExample
from benchharness.extensions.conll2012.tasks import COREF, KINDS, REPEATED, SHARED, SRL, TAGS
from benchharness.tasks.examples import RoleExample, TagPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import Data
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.task import find_fault
from tests.helpers.official_files import read_file, write_file

NAME = "conll2012/train.english.v4_gold_conll"

# Twelve columns and one per proposition, padded as in the files of the shared task.
PLAIN = """\
#begin document (bc/cctv/00/cctv_0001); part 000
bc/cctv/00/cctv_0001   0   0     Mary   NNP  (TOP(S(NP*)        -    -   -   Ann   (PERSON)  (ARG0*)  *        (3)
bc/cctv/00/cctv_0001   0   1     said   VBD          (VP*     say   01   1   Ann          *     (V*)  *          -
bc/cctv/00/cctv_0001   0   2      her   PRP$    (SBAR(S(NP*     -    -   -   Ann          *   (ARG1*  (ARG1*  (3)|(7
bc/cctv/00/cctv_0001   0   3      cat    NN             *)      -    -   -   Ann          *       *   *)         7)
bc/cctv/00/cctv_0001   0   4    slept   VBD        (VP*)))   sleep   01   1   Ann          *       *)  (V*)       -
bc/cctv/00/cctv_0001   0   5       /.     .            *))      -    -   -   Ann          *       *   *          -

bc/cctv/00/cctv_0001   0   0       It   PRP   (TOP(S(NP*)       -    -   -     -          *   (ARG1*)           (7)
bc/cctv/00/cctv_0001   0   1   purred   VBD         (VP*)     purr   01   -     -          *      (V*)             -

#end document
#begin document (bc/cctv/00/cctv_0001); part 001
bc/cctv/00/cctv_0001   1   0      Yes    UH   (TOP(INTJ*))      -    -   -     -          *                         -

#end document
"""

DOCUMENTS = (
    DocumentExample(
        id="bc/cctv/00/cctv_0001/000",
        sentences=(("Mary", "said", "her", "cat", "slept", "."), ("It", "purred")),
        speakers=("Ann", "-"),
        genre="bc",
        clusters=(((0, 1), (2, 3)), ((2, 4), (6, 7))),
    ),
    DocumentExample(
        id="bc/cctv/00/cctv_0001/001",
        sentences=(("Yes",),),
        speakers=("-",),
        genre="bc",
        clusters=(),
    ),
)

PROPOSITIONS = (
    RoleExample(
        id="bc/cctv/00/cctv_0001/000/0/0",
        words=("Mary", "said", "her", "cat", "slept", "."),
        tags=("B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1", "O"),
        predicate=1,
    ),
    RoleExample(
        id="bc/cctv/00/cctv_0001/000/0/1",
        words=("Mary", "said", "her", "cat", "slept", "."),
        tags=("O", "O", "B-ARG1", "I-ARG1", "B-V", "O"),
        predicate=4,
    ),
    RoleExample(
        id="bc/cctv/00/cctv_0001/000/1/0",
        words=("It", "purred"),
        tags=("B-ARG1", "B-V"),
        predicate=1,
    ),
)


def read_task(folder: Path, task: str, content: str | bytes, name: str = NAME) -> object:
    return read_file(task, "train", write_file(folder, name, content)).examples


def test_conll2012_documents_and_propositions_are_read(tmp_path: Path):
    assert read_task(tmp_path, "conll2012/coref", PLAIN) == DOCUMENTS
    assert read_task(tmp_path, "conll2012/srl", PLAIN) == PROPOSITIONS


@pytest.mark.parametrize(
    "name",
    [
        "conll-2012/v4/data/train/data/english/annotations/bc/cctv/00/cctv_0001.v4_gold_conll",
        "conll-formatted-ontonotes-5.0/data/train/data/english/annotations/bc/a/00/a_0001.gold_conll",
        "CoNLL12/train.english.v4_gold_conll",
    ],
)
def test_official_conll2012_folder_layouts_are_accepted(tmp_path: Path, name: str):
    assert read_task(tmp_path, "conll2012/coref", PLAIN, name) == DOCUMENTS


def test_files_with_automatic_annotation_are_accepted_for_coreference_only(tmp_path: Path):
    name = NAME.replace("gold", "auto")
    assert read_task(tmp_path, "conll2012/coref", PLAIN, name) == DOCUMENTS
    with pytest.raises(DataError, match=r"train\.english\.v4_gold_conll"):
        read_task(tmp_path, "conll2012/srl", PLAIN, name)


@pytest.mark.parametrize("task", ["conll2012/coref", "conll2012/srl"])
@pytest.mark.parametrize("ending", ["gold_skel", "gold_conll"])
def test_conll2012_skeleton_files_without_words_are_an_error(
    tmp_path: Path, task: str, ending: str
):
    content = PLAIN.replace("Mary", "[WORD]")
    with pytest.raises(DataError, match="line 2 belongs to a skeleton"):
        read_task(tmp_path, task, content, NAME.replace("gold_conll", ending))


@pytest.mark.parametrize(
    ("task", "old", "new", "error"),
    [
        ("coref", "(3)|(7", "(3)|(7|", r"line 2 has the coreference '\(3\)\|\(7\|', expected"),
        ("coref", "         7)", "         -", r"line 2 has a mention of chain 7 that does not end"),
        ("coref", "(3)|(7", "(3)", r"has the coreference '7\)', but no mention"),
        ("srl", "(ARG0*)", "(ARG0*", r"has the argument '\(V\*\)', expected one such as"),
        ("srl", "(ARG0*)", "ARG0", r"has the argument 'ARG0', expected"),
        ("srl", "(ARG0*)", "(ARG9*)", r"has the tag 'B-ARG9'; expected one of O, B-V"),
        ("srl", "*)  (V*)", "*  (V*)", r"has an argument ARG1 that does not end"),
        ("srl", "0   3      cat", "3      cat", r"line 5 has 13 columns, but the first .* has 14"),
        ("coref", "0   0       It   PRP   (TOP(S(NP*)       -    -", "0   0  It  -", r"line 9 has 10 columns; expected CoNLL-2012's 12"),
    ],
)  # fmt: skip
def test_malformed_conll2012_line_is_an_error_that_states_the_cause(
    tmp_path: Path, task: str, old: str, new: str, error: str
):
    assert old in PLAIN
    with pytest.raises(DataError, match=error):
        read_task(tmp_path, f"conll2012/{task}", PLAIN.replace(old, new, 1))


def test_conll2012_files_without_chains_or_propositions_are_an_error(tmp_path: Path):
    bare = "".join(
        f"{line.rsplit(maxsplit=1)[0]} -\n" if line.startswith("bc") else f"{line}\n"
        for line in PLAIN.splitlines()
    )
    with pytest.raises(DataError, match="no document has a coreference chain"):
        read_task(tmp_path, "conll2012/coref", bare)
    with pytest.raises(DataError, match="no sentence has a predicate"):
        read_task(tmp_path, "conll2012/srl", "\n".join(PLAIN.splitlines()[11:]))


def test_chains_that_share_a_mention_are_merged_for_training(tmp_path: Path):
    content = PLAIN.replace("(3)|(7", "(3)|(7|(7)", 1)
    (first, _) = read_task(tmp_path, "conll2012/coref", content)  # type: ignore[misc]
    assert first.clusters == (((0, 1), (2, 3), (2, 4), (6, 7)),)
    assert first.oddities == (SHARED,)
    assert first.chains == (((0, 1), (2, 3)), ((2, 3), (2, 4), (6, 7)))


def test_repeated_mention_is_dropped_from_training_and_counted(tmp_path: Path):
    content = PLAIN.replace("(3)|(7", "(3)|(3)|(7", 1)
    (first, _) = read_task(tmp_path, "conll2012/coref", content)  # type: ignore[misc]
    assert first.clusters == DOCUMENTS[0].clusters
    assert first.oddities == (REPEATED,)
    assert first.chains == (((0, 1), (2, 3), (2, 3)), ((2, 4), (6, 7)))


def test_proposition_without_a_verb_is_skipped_and_counted(tmp_path: Path):
    content = PLAIN.replace("(V*)             -", "*                -")
    folder = write_file(tmp_path, NAME, content)
    found = read_file("conll2012/srl", "train", folder)
    assert (found.examples, found.left_out) == (PROPOSITIONS[:2], 1)


def test_role_tags_include_continuations_and_references():
    assert len(set(TAGS)) == len(TAGS) == 1 + 2 * len(KINDS)
    assert {"B-ARG0", "I-C-ARG1", "B-R-ARGM-TMP", "B-V", "I-C-V", "B-ARGA"} < set(TAGS)


@pytest.mark.parametrize(
    ("example", "fault"),
    [
        (DocumentExample(id="x", sentences=(), speakers=(), clusters=()), "has no words"),
        (DocumentExample(id="x", sentences=(("a",),), speakers=()), "1 sentences and 0 speakers"),
        (
            DocumentExample(
                id="x", sentences=(("a",),), speakers=("-",), clusters=(((0, 2), (0, 1)),)
            ),
            "a mention with the words 0 to 2",
        ),
        (
            DocumentExample(
                id="x", sentences=(("a",),), speakers=("-",), clusters=(((0, 1),), ((0, 1),))
            ),
            "a mention twice",
        ),
    ],
)
def test_check_of_an_invalid_document_names_the_cause(example: DocumentExample, fault: str):
    assert fault in find_fault(COREF, example)


def test_predicate_index_outside_the_sentence_is_reported():
    example = RoleExample(id="x", words=("a",), tags=("O",), predicate=1)
    assert "the predicate index 1; expected -1 to 0" in find_fault(SRL, example)


# Written prediction files are read again.


@pytest.mark.parametrize("task", [COREF, SRL])
def test_bundled_conll2012_rows_are_the_same_in_the_official_layout(tmp_path: Path, task):
    deep = tmp_path / "conll-2012/v4/data/development/data/english/annotations/bc/mini/00"
    deep.mkdir(parents=True)
    text = (mini_folder() / "conll2012/dev.english.v4_gold_conll").read_text("utf-8")
    first, *others = text.split("#begin document ")[1:]
    for number, document in enumerate((first, *others)):
        (deep / f"dev_{number:04}.v4_gold_conll").write_text(f"#begin document {document}")
    data = Data(source="files", folder=tmp_path)
    assert read(task, "dev", data) == read(task, "dev", Data(source="mini"))
    shutil.rmtree(tmp_path / "conll-2012")


def test_predictions_are_written_in_the_columns_of_the_official_scorers():
    clusters = [ClusterPrediction(id=e.id, clusters=e.clusters or ()) for e in DOCUMENTS]
    assert write_clusters(clusters, DOCUMENTS).decode() == (
        "#begin document (bc/cctv/00/cctv_0001); part 000\n"
        "bc/cctv/00/cctv_0001\t0\t0\tMary\t(0)\n"
        "bc/cctv/00/cctv_0001\t0\t1\tsaid\t-\n"
        "bc/cctv/00/cctv_0001\t0\t2\ther\t(1|(0)\n"
        "bc/cctv/00/cctv_0001\t0\t3\tcat\t1)\n"
        "bc/cctv/00/cctv_0001\t0\t4\tslept\t-\n"
        "bc/cctv/00/cctv_0001\t0\t5\t.\t-\n\n"
        "bc/cctv/00/cctv_0001\t0\t0\tIt\t(1)\n"
        "bc/cctv/00/cctv_0001\t0\t1\tpurred\t-\n\n"
        "#end document\n"
        "#begin document (bc/cctv/00/cctv_0001); part 001\n"
        "bc/cctv/00/cctv_0001\t1\t0\tYes\t-\n\n"
        "#end document\n"
    )
    tags = [TagPrediction(id=e.id, tags=e.tags or ()) for e in PROPOSITIONS]
    assert write_roles(tags, PROPOSITIONS).decode() == (
        "- (ARG0*) *\nsaid (V*) *\n- (ARG1* (ARG1*\n- * *)\nslept *) (V*)\n- * *\n\n"
        "- (ARG1*)\npurred (V*)\n\n"
    )
