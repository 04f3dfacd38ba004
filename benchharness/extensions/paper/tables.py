"""Create the files of `bench paper`: LaTeX tables, an appendix, BibTeX, and a README.

The files do not depend on the time, folder or machine: the same runs give the same bytes.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from benchharness.extensions.exports.latex import breakable, latex_escaped, to_latex
from benchharness.extensions.exports.table import (
    LIKE_OURS,
    SCORE,
    Choice,
    Table,
    build_tables,
    published_rows,
)
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.text import inert
from benchharness.tasks.suites import SUITES

RUNS = "runs.csv"
"""Name of the file that lists the runs behind each cell of the tables."""


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """Table of a paper, which shows a leaderboard.

    Attributes:
        board: Leaderboard that the table shows.
        table: Content of the table.
        choice: Columns and other options of the table.
        label: LaTeX label of the table.
    """

    board: Board
    table: Table
    choice: Choice
    label: str

    @property
    def rows(self) -> Iterator[tuple[str, Entry]]:
        """Pairs (name of the row, leaderboard entry), without the rows of published results."""
        for row, entry in zip(self.table.rows, self.board.entries, strict=False):
            yield row.official, entry

    def latex(self) -> str:
        """Return the table as LaTeX. Its caption cites the suite, and has no path of the data."""
        cited = "".join(rf"~\cite{{{key}}}" for key in list(citations([self.board.suite]))[:1])
        title = latex_escaped(self.board.title)
        caption = latex_escaped(self.table.caption).replace(title, title + cited, 1) + "."
        return to_latex([self.board], self.choice, caption=caption, label=self.label)


def paper_tables(boards: Iterable[tuple[Board, Choice]]) -> list[PaperTable]:
    """Create one table per leaderboard, which also shows published results of its models.

    Args:
        boards: Leaderboards, each with the options of its table.
    """
    found: list[PaperTable] = []
    for board, choice in boards:
        published = (LIKE_OURS,) if published_rows(board, (LIKE_OURS,)) else ()
        own = replace(choice, published=published)
        number = 1 + sum(each.board.suite == board.suite for each in found)
        label = f"tab:{board.suite}" + (f"-{number}" if number > 1 else "")
        tables = build_tables([board], own, official=True)
        found += [PaperTable(board=board, table=t, choice=own, label=label) for t in tables]
    return found


@dataclass(frozen=True)
class LongTable:
    """Table in the appendix, which may be longer than a page.

    Attributes:
        title: Title of the table's section.
        columns: Fractions of the line width that the columns have, keyed by the title of the
            column. They sum to 1.
        rows: Cells of each row, as plain text. A cell that begins with "$" is a formula.
    """

    title: str
    columns: Mapping[str, float]
    rows: Sequence[Sequence[str]]

    def latex(self) -> str:
        """Return the table as LaTeX that may continue over several pages."""
        kinds = "".join(
            rf">{{\raggedright\arraybackslash}}p{{\dimexpr{share:g}\linewidth-2\tabcolsep}}"
            for share in self.columns.values()
        )
        head = rf"\toprule {_line(self.columns)} \midrule"
        body = "\n".join(map(_line, self.rows))
        return (
            f"\\section{{{latex_escaped(self.title)}}}\n{{\\fontsize{{8}}{{10}}\\selectfont\n"
            f"\\begin{{longtable}}{{{kinds}}}\n{head}\n\\endhead\n\\bottomrule\n\\endfoot\n{body}\n"
            "\\end{longtable}}\n"
        )


def _line(cells: Iterable[str]) -> str:
    return " & ".join(c if c.startswith("$") else breakable(c) for c in cells) + r" \\"


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Content of the files that `bench paper` writes.

    Attributes:
        models: Names of the models. The first one is compared with the others.
        tables: Tables of the leaderboards.
        appendix: Tables of the appendix.
        figures: PDF files of the figures, keyed by their captions.
        missing: Sentences about missing results.
    """

    models: Sequence[str]
    tables: Sequence[PaperTable]
    appendix: Sequence[LongTable]
    figures: Mapping[str, bytes]
    missing: Sequence[str]

    def files(self) -> dict[str, bytes]:
        """Return the content of each file, keyed by file name."""
        suites = list(dict.fromkeys(each.board.suite for each in self.tables))
        texts = {
            f"{suite}.tex": "\n".join(t.latex() for t in self.tables if t.board.suite == suite)
            for suite in suites
        }
        shown = "".join(
            f"\\begin{{figure}}[t]\n\\includegraphics[width=\\linewidth]{{figure-{number}}}\n"
            f"\\caption{{{latex_escaped(caption)}.}}\n\\end{{figure}}\n"
            for number, caption in enumerate(self.figures, start=1)
        )
        inputs = "".join(f"\\input{{{suite}}}\n" for suite in suites)
        texts |= {
            "main.tex": _MAIN % f"{inputs}\\clearpage\n{shown}",
            "appendix.tex": "\\onecolumn\n" + "\n".join(t.latex() for t in self.appendix if t.rows),
            "references.bib": "\n".join(citations(suites).values()) + "\n",
            "README.md": self._readme(suites),
            RUNS: self._runs(),
        }
        drawn = enumerate(self.figures.values(), start=1)
        return {name: text.encode("utf-8") for name, text in texts.items()} | {
            f"figure-{number}.pdf": content for number, content in drawn
        }

    def _runs(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("table", "row", "column", "value", "flags", "runs"))
        for each in self.tables:
            titles = [title.replace("\n", " ") for title in each.table.columns]
            for row, (name, entry) in zip(each.table.rows, each.rows, strict=False):
                for column, title, cell in zip(each.table.names, titles, row.cells, strict=True):
                    cells = [c for t, c in entry.cells.items() if column in (t, SCORE)]
                    keys = sorted({run.key[:12] for c in cells for run in c.runs})
                    flags = "; ".join(cell.flags)
                    said = (each.label, inert(name), title, cell.value, flags, " ".join(keys))
                    writer.writerows([said] if cell.value else [])
        return text.getvalue()

    def _readme(self, suites: Sequence[str]) -> str:
        cited = {suite: ", ".join(citations([suite])) or SUITES[suite].cite for suite in suites}
        rows = [row for each in self.tables for row in each.table.rows if row.source]
        parts = {
            f"# {self.models[0]} against {', '.join(self.models[1:])}": [_ABOUT],
            "## Citations, by their keys in references.bib": [
                f"* {SUITES[suite].title}: {found}" for suite, found in cited.items()
            ],
            "## Published rows": sorted({f"* {row.official}: {row.source}" for row in rows}),
            "## Missing results": [f"* {sentence}" for sentence in self.missing],
        }
        found = ("\n".join((head, "", *lines)) for head, lines in parts.items() if lines)
        return "\n\n".join(found) + "\n"


_MAIN = r"""\documentclass[twocolumn]{article}
\usepackage{array,booktabs,graphicx,longtable}
\begin{document}
%s\bibliographystyle{plain}
\nocite{*}
\bibliography{references}
\appendix
\input{appendix}
\end{document}
"""

_ABOUT = f"""`bench paper` wrote these files. Files you have edited are not overwritten.

* `main.tex` includes all files: `pdflatex main; bibtex main; pdflatex main; pdflatex main`.
  In your paper, use `\\input{{glue}}` and so on, and the packages in the preamble of `main.tex`.
* `{RUNS}` lists the keys of the runs behind each number. `bench show KEY` shows a run.
* `appendix.tex` has every hyperparameter with its source, the seeds, data and compute,
  and a comparison of measured with published numbers.

To create the same tables elsewhere, use `bench export --all`, then `bench db import`.
"""


def citations(suites: Iterable[str]) -> dict[str, str]:
    """Return the BibTeX entries of suites and their tasks, keyed by citation key.

    They are in the order of the suites, and for each suite in the order of the file suites.bib.
    """
    text = (files("benchharness.extensions.paper") / "suites.bib").read_text(encoding="utf-8")
    found = {}
    for suite in suites:
        for line in text.splitlines():
            # A line looks like this: @article{wang2019glue, keywords={glue}, title={...}, ...}
            key, keywords = re.findall(r"\{(\w+), keywords=\{([\w, ]+)\}", line)[0]
            if suite in keywords.split(", "):
                found[key] = line
    return found
