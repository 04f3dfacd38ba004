"""Tests of LaTeX tables: their content, and that they fit a page when they are compiled."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.exports.latex import latex_escaped, to_latex
from benchharness.extensions.exports.table import Choice, to_markdown
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.result import RunRow
from benchharness.models import MODELS
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import make_row, make_rows, one_board
from tests.helpers.hostile import HOSTILE_CELLS

WITH_PUBLISHED = Choice(published=("models",))


def _floor(name: str = "majority") -> list[RunRow]:
    return make_rows(name, [0.95], data="hub", kind="baseline", weights=f"baseline:{name}")


@pytest.fixture(scope="module")
def board() -> Board:
    rows = make_rows("roberta-base", [0.7, 0.8, 0.9], data="hub")
    rows += make_rows("minilm", [0.6], data="hub") + _floor()
    return one_board([*rows, make_row("ours", "glue/rte", scores=0.99, data="hub")])


def _rows(text: str) -> dict[str, list[str]]:
    """Return the cells of a table's rows by the name in the first column."""
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    lines = [re.split(r"(?<!\\) & ", line.removesuffix(r" \\")) for line in body.splitlines()]
    return {line[0]: line[1:] for line in lines if line[0]}


def test_latex_table_has_rules_caption_label_spread_and_baselines(board: Board) -> None:
    text = to_latex([board])
    for word in (
        r"\toprule",
        r"\bottomrule",
        r"\caption{GLUE, development sets.}",
        r"\label{tab:glue}",
    ):
        assert text.count(word) == 1
    rows = _rows(text)
    assert rows["RoBERTa-base"][0] == r"\textbf{80.0}$_{10.0}$", "its name, and the best in bold"
    assert rows["ours"][-2:] == [r"\textbf{99.0}", "--"]
    assert "textbf" not in "".join(rows["majority"])
    assert r"\emph{Baselines}" in text
    assert "MRPC, QQP: the mean of F1 and accuracy" in text
    assert "Values are medians over 1-3 seeds, times 100" in text
    assert text.count("$_{10.0}$") == 10
    assert "the subscript is the sample" in text
    assert "_{" not in to_latex([board], Choice(spread=False))
    narrow = to_latex([board], Choice(columns=("rte", "cola")), caption=r"\emph{Ours}.", label="x")
    assert r"\caption{\emph{Ours}.}" in narrow
    assert r"\label{x}" in narrow


@pytest.mark.parametrize(
    "caption",
    ["50% of A", "A & B", "a_b", "x^2", "#1", "{open", "close}", "}{", "$x", "one\n\ntwo", "end\\"],
)
def test_invalid_latex_caption_or_label_is_an_error(board: Board, caption: str) -> None:
    with pytest.raises(BenchError, match="--caption"):
        to_latex([board], caption=caption)
    with pytest.raises(BenchError, match=r"--label may only contain letters.*'a b'"):
        to_latex([board], label="a b")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="LaTeX is not installed")
def test_valid_latex_caption_is_not_escaped(board: Board, tmp_path: Path) -> None:
    caption = r"\emph{Dev} scores, $x_{1} < 50\%$, 50\,\% \& \textbf{a {b}}\_\{ \$5, \ref{a_b}."
    text = to_latex([board], caption=caption, label="tab:a+b_1.2-3")
    assert caption in text
    assert _complaints(tmp_path, text, "", ["booktabs", "graphicx"]) == []


def test_export_columns_can_be_selected_by_title_or_task_name(board: Board) -> None:
    text = to_latex([board], Choice(columns=("RTE", "seeds", "score", "glue/cola")))
    assert r"Model & Seeds & RTE & Score & CoLA \\" in text
    assert _rows(text)["ours"][:2] == ["1", r"\textbf{99.0}"]
    assert "begin{table}[t]" in text, "few columns fit one of two columns of a page"
    (head,) = re.findall(r"\| model .*", to_markdown([board], Choice(columns=("rte",))))
    assert head == "| model | RTE |"
    with pytest.raises(BenchError, match="there is no column 'nope'"):
        to_latex([board], Choice(columns=("rte", "nope")))


def test_latex_notes_state_metric_and_source_of_published_scores(board: Board) -> None:
    text = to_latex([board], WITH_PUBLISHED)
    row = _rows(text)[r"MiniLM-L6-H384\textsuperscript{1}"]
    assert row[1] == "47.5"
    assert row[3] == r"88.9\textsuperscript{a}"
    assert r"\textsuperscript{a}\,accuracy or F1." in text
    assert r"\textsuperscript{1}\,microsoft/unilm minilm/README.md" in text
    only = to_latex([board], Choice(published=("BERT-large",)))
    assert "BERT-large" in only
    assert "microsoft/unilm" not in only
    with pytest.raises(BenchError, match="'nobody' has no published dev scores"):
        to_latex([board], Choice(published=("nobody",)))
    with pytest.raises(BenchError, match="published scores are on complete official data"):
        to_latex([replace(board, limit=9)], WITH_PUBLISHED)


def test_published_average_with_another_score_rule_is_shown_as_printed() -> None:
    rows = [*make_rows("modernbert-base", [0.7], data="hub"), *make_rows("minilm", data="hub")]
    text = to_latex([one_board(rows)], WITH_PUBLISHED)
    assert re.search(r"ModernBERT-base.* & 88.4\\textsuperscript{[a-z]} &", text)
    assert r",GLUE-dev-8." in text


def test_latex_table_shows_and_explains_statistical_ties_in_bold(board: Board) -> None:
    choice = Choice(ties={"glue/cola": frozenset({"minilm:paper:fp32"})})
    text = to_latex([board], choice)
    assert _rows(text)["MiniLM-L6-H384"][:2] == ["60.0", r"\textbf{60.0}"]
    assert "that do not differ significantly from it in a paired test" in text
    holm = r"p \textless{} 0.05 after Holm's correction for all models that are compared with the"
    assert f"(significant: {holm} best one of the column)." in text
    assert "paired test" not in to_latex([board])


def test_latex_note_on_recipes_names_the_models_unless_all_share_a_recipe() -> None:
    rows = make_rows("bert-base-cased", [0.6]) + make_rows("roberta-base", [0.5])
    shared = to_latex([one_board(rows)])
    assert "\nRecipe: paper.\n" in shared
    assert "The recipe paper has the hyperparameters published for an encoder" in shared
    # The names of the first two rows contain their recipe, so the note is only about the third row.
    text = to_latex([one_board(rows + make_rows("roberta-base", [0.4], recipe="mine"))])
    assert "\nRecipe: paper (BERT-base" in text
    mine = to_latex([one_board(make_rows("roberta-base", [0.4], recipe="mine"))])
    assert "\nRecipe: mine.\n" in mine
    assert "The recipe paper" not in mine


def test_latex_rows_of_one_model_have_distinct_names() -> None:
    rows = make_rows("minilm", [0.6]) + make_rows("minilm", [0.5], recipe="mine")
    rows += make_rows("bert-base-uncased", [0.4]) + make_rows("bert-base-cased", [0.3])
    names = list(_rows(to_latex([one_board(rows)])))
    assert names[:2] == ["MiniLM-L6-H384 (paper)", "MiniLM-L6-H384 (mine)"]
    assert len(set(names)) == 4


@pytest.mark.parametrize("name", HOSTILE_CELLS)
def test_hostile_names_are_escaped_for_latex(name: str) -> None:
    ours = "textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar"
    ours += "|textasciigrave|char34|ensuremath|pm|texttt"
    shown = latex_escaped(name)
    commands = set(re.findall(r"\\([a-z]+\d*|.)", shown))
    assert commands <= {*ours.split("|"), *"{}$&#%_"}
    bare = re.sub(r"\\[a-z]+\d*|\\.", "", shown)
    assert not set(bare) & set('\\~^<>|`"$&#%_')
    assert not re.search(r"([-',])\1", shown)
    assert "\n" not in shown
    assert bare.count("{") == bare.count("}")
    assert all(len(c.encode()) <= 2 for c in shown)


def test_latex_escaping_keeps_ordinary_names_readable() -> None:
    assert latex_escaped("org/roberta-base_v2.1") == r"org/roberta-base\_v2.1"
    assert latex_escaped("a--b''c–d") == r"a-{}-b'{}'c\textendash{}d"


# Compiled tables: nothing is wider than its column or page.


def _suite(name: str, models: Iterable[str], seeds: int) -> Board:
    rule = SUITES[name].rule
    rows = [
        make_row(
            model,
            task,
            seed,
            dict.fromkeys(rule.cells.get(task) or ("mcc",), 0.5 + 0.011 * seed + 0.03 * place),
            data="hub",
        )
        for place, model in enumerate(models)
        for task in rule.cells
        for seed in range(seeds)
    ]
    (board,) = build_boards(rows, SUITES[name])
    return board


def test_latex_table_names_a_local_checkpoint_as_the_user_does() -> None:
    rows = make_rows("minilm", [0.6], weights="sha256:" + "ab" * 32)
    rows += make_rows("bert-base-uncased", [0.5], flags={"glue/rte": ("unread",)})
    text = to_latex([one_board(rows)])
    assert "MiniLM" not in text
    assert "minilm" in text
    assert "bert-base-uncased" not in text, "notes call models as rows do"
    assert "BERT-base" in text.partition("bottomrule")[2]


def test_latex_omits_empty_columns_and_bold_for_collapsed_scores() -> None:
    """Test a board of two of GLUE's nine tasks, one of them with collapsed runs."""
    rows = [
        make_row(model, task, scores=score, data="hub", flags={task: flags})
        for task, scores, flags in (
            ("glue/cola", (-0.079, 0.2), ("constant predictions",)),
            ("glue/rte", (0.5, 0.6), ()),
        )
        for model, score in zip(("one", "two"), scores, strict=True)
    ]
    board = one_board(rows)
    text = to_latex([board])
    assert r"Model & CoLA & RTE \\" in text
    assert "GLUE-9" not in text
    mark = r"\textsuperscript{!}"
    rows = {"two": [f"20.0{mark}", r"\textbf{60.0}"], "one": [f"$-$7.9{mark}", "50.0"]}
    assert _rows(text) == rows
    assert board.best("glue/cola") == ""


CONSTANT = {"glue/rte": ("constant predictions",)}


@pytest.mark.parametrize(
    ("seeds", "learned", "text"),
    [
        ("cc.", False, "50.0"),  # the run with the median score has collapsed
        ("c..", True, "70.0"),
        ("c.", False, "60.0"),  # for two seeds, one of the two runs has collapsed
        ("c...", True, "70.0"),
        ("cc..", False, "60.0"),
        ("ccc", False, "50.0"),
    ],
)
def test_median_score_is_not_bold_if_it_comes_from_a_collapsed_run(
    seeds: str, learned: bool, text: str
) -> None:
    one = [
        make_row("one", "glue/rte", seed, 0.5 if kind == "c" else 0.7, data="hub")
        for seed, kind in enumerate(seeds)
    ]
    stuck = [
        replace(row, flags=CONSTANT if kind == "c" else {})
        for row, kind in zip(one, seeds, strict=True)
    ]
    board = one_board([*stuck, make_row("two", "glue/rte", scores=0.4, data="hub")])
    cell = board.entries[0].cells["glue/rte"]
    assert (cell.has_learned, cell.text) == (learned, f"{text}!")
    number = rf"\textbf{{{text}}}" if learned else text
    shown = _rows(to_latex([board], Choice(spread=False)))["one"][0]
    assert shown == rf"{number}\textsuperscript{{!}}"
    assert ("**" in to_markdown([board]).partition(r"| one |")[2].partition("\n")[0]) is learned
    assert board.best("glue/rte") == (text if learned else "40.0")


def test_latex_notes_distinguish_rows_of_one_model_by_their_different_settings() -> None:
    """Regression test: two entries of a model were both "tiny" in every note."""
    rows = [
        replace(
            make_row("tiny", task, scores=0.5, data="hub", flags={task: CONSTANT["glue/rte"]}),
            settings={"epochs": Setting(value=epochs, source="--set")},
            overridden=True,
            recipe_digest=f"{epochs:064x}",
            key=f"{task}{epochs}",
        )
        for task in ("glue/rte", "glue/cola")
        for epochs in (1, 3)
    ]
    board = one_board([*rows, make_row("bert", "glue/rte", scores=0.6, data="hub")])
    note = "!: 1 of 1 seed collapsed (constant predictions): "
    places = "tiny (1 epoch) on CoLA, RTE; tiny (3 epochs) on CoLA, RTE."
    for text in (to_latex([board]), to_latex([board], Choice(columns=("recipe", "cola", "rte")))):
        plain = re.sub(r"\\allowbreak\{\}", "", text)
        assert note + places in plain
        assert "(tiny)" not in plain
    assert places in to_markdown([board])


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="LaTeX is not installed")
def test_latex_table_of_24_models_with_published_rows_fits_two_pages(tmp_path: Path) -> None:
    models = [name for name in MODELS if name != "tiny"][:24]
    rows = [
        make_row(model, task, seed, dict.fromkeys(names, 0.5 + 0.017 * place + 0.011 * seed))
        for place, model in enumerate(models)
        for task in SUITES["glue"].tasks
        for names in [SUITES["glue"].rule.cells.get(task, ("mcc",))]
        for seed in range(5)
    ]
    rows = [replace(row, data="hub") for row in rows]
    text = to_latex(build_boards(rows, SUITES["glue"]), WITH_PUBLISHED)
    assert text.count(r"\begin{table*}") <= 2
    assert text.count(r"\begin{tabular}") <= 2
    assert _complaints(tmp_path, text, "twocolumn", ["booktabs", "graphicx"]) == []
    assert "Output written on paper.pdf (2 pages" in (tmp_path / "paper.log").read_text("latin-1")


def _boards() -> list[Board]:
    """Make boards of suites, and of several kinds of rows with names of every length."""
    rows = make_rows("roberta-base", [0.7, 0.81, 0.902], data="hub") + _floor()
    rows += make_rows("org/" + "paraphrase-multilingual-" * 3 + "v2", [0.6, 0.5], data="hub")
    rows += make_rows("W" * 70, [-0.6, 1.0], data="hub")
    rows += make_rows("three models", [0.6], data="hub", kind="ensemble")
    rows += make_rows("bert-base-uncased", [0.61, 0.6], data="hub", recipe="a recipe of ours")
    rows += make_rows("bert-base-uncased", [0.5, 0.6], data="hub", recipe="paper")
    hostile = [row for name in HOSTILE_CELLS for row in make_rows(name, [0.5, 0.6], data="hub")]
    models = ("bert-base-uncased", "roberta-large", "deberta-v3-large", "minilm", "xlnet-large")
    return [
        one_board(make_rows("roberta-base", [0.7, 0.71, 0.72], data="hub") + _floor()),
        _suite("superglue", models, 5),
        one_board(rows),
        one_board(hostile),
        _suite("squad", models, 3),
        _suite("xtreme", ("xlm-roberta-base", "mdeberta-v3-base"), 3),
        _suite("beir", models, 1),
    ]


def _is_there(file: str) -> bool:
    if not shutil.which("pdflatex"):
        return False
    found = subprocess.run(("kpsewhich", file), capture_output=True, check=False)
    return found.returncode == 0


@pytest.mark.skipif(not _is_there("booktabs.sty"), reason="LaTeX or booktabs is not installed")
@pytest.mark.parametrize("options", ["", "twocolumn"])
def test_latex_tables_compile_without_overfull_boxes(tmp_path: Path, options: str) -> None:
    boards = _boards()
    columns = ("rank", "recipe", "seeds", "score", "rte", "cb", "squad/v2.0")
    choices = (Choice(), Choice(spread=False), WITH_PUBLISHED, Choice(columns=columns))
    text = "\n\\clearpage\n".join(to_latex(boards, choice) for choice in choices)
    assert _complaints(tmp_path, text, options, ["booktabs", "graphicx"]) == []


CLASSES = {
    "IEEEtran": "conference",
    "acmart": "sigconf,nonacm",
    "elsarticle": "5p",
    "llncs": "",
    "revtex4-2": "twocolumn",
}
"""Document classes of Debian's texlive-publishers used for papers on encoders, and options."""


@pytest.mark.soak  # each class takes seconds, and .ci/run does not install the classes
@pytest.mark.parametrize("name", CLASSES)
def test_latex_tables_fit_the_document_classes_of_publishers(tmp_path: Path, name: str) -> None:
    if not _is_there(f"{name}.cls"):
        pytest.skip("texlive-publishers is not installed")
    text = "\n\\clearpage\n".join(
        to_latex(_boards(), choice) for choice in (Choice(), WITH_PUBLISHED)
    )
    if name == "acmart":  # acmart requires a title
        text = rf"\title{{A paper}}\maketitle {text}"
    packages = ["booktabs", "graphicx"]
    assert _complaints(tmp_path, text, CLASSES[name], packages, name=name) == []


def _complaints(
    folder: Path, text: str, options: str, packages: Iterable[str], name: str = "article"
) -> list[str]:
    """Compile the tables and return pdflatex's warnings on boxes, floats and characters."""
    uses = "".join(rf"\usepackage{{{name}}}" for name in packages)
    paper = rf"\documentclass[{options}]{{{name}}}{uses}\begin{{document}}{text}\end{{document}}"
    (folder / "paper.tex").write_text(paper, encoding="utf-8")
    command = ("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex")
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    log = (folder / "paper.log").read_text(encoding="latin-1")
    assert ended.returncode == 0, log[-2000:]
    return re.findall(r"Overfull.*|.*Float too large.*|Missing character.*", log)
