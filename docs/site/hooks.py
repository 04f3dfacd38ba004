"""Hooks for MkDocs that build the site from the pages in docs/; mkdocs.yml names this file.

The pages are written for GitHub. The hooks add the README as the first page, the changelog and the
reference pages, and they change links to files outside docs/ into links to GitHub.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/benchharness/benchharness/blob/main/"

PYTHON = """# Python API

All public names of `import benchharness as bh`. [From Python](../python.md) has examples, and
[The command line](../cli.md) describes the same operations for a shell.
"""

PLUGINS = """# API for plugins

Classes and functions that plugins import.
[Your own models, tasks, metrics and loggers](../plugins.md) and [Add a task](../add-task.md) have
examples.
"""

FOR_PLUGINS = {
    "Extensions": ("extension.Extension", "extension.Command"),
    "Tasks": (
        "tasks.task.Task",
        "tasks.task.PairTask",
        "tasks.task.SpanTask",
        "tasks.task.ChoiceTask",
        "tasks.task.TagTask",
        "tasks.glue.pair_task",
        "tasks.glue.pair",
        "tasks.squad.SQUAD_1",
        "extensions.reading.tasks.quac",
        "extensions.reading.tasks.coqa",
    ),
    "Where rows are": (
        "tasks.sources.Source",
        "tasks.sources.Split",
        "tasks.sources.source.text",
        "tasks.sources.source.texts",
        "tasks.sources.source.number",
    ),
    "Examples and predictions": (
        "tasks.examples.PairExample",
        "tasks.examples.PairPrediction",
        "tasks.examples.SpanExample",
        "tasks.examples.SpanPrediction",
        "tasks.examples.ChoiceExample",
        "tasks.examples.ChoicePrediction",
        "tasks.examples.TagExample",
        "tasks.examples.TagPrediction",
    ),
    "Metrics": (
        "tasks.task.Metric",
        "tasks.metrics.accuracy",
        "tasks.metrics.choice_accuracy",
        "tasks.metrics.entities.entity_f1",
    ),
    "Suites": ("tasks.suite.Suite", "tasks.suite.ScoreRule"),
    "Models": ("models.ModelSpec",),
    "Loggers": ("loggers.Logger",),
    "Errors": (
        "errors.BenchError",
        "errors.DataError",
        "errors.ModelError",
        "errors.JobError",
        "errors.StoreError",
    ),
}
"""Names that plugins import from `benchharness`, by their section of the page."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that have no file in docs/: first page, changelog and reference."""
    made = {
        "index.md": first_page((ROOT / "README.md").read_text(encoding="utf-8")),
        "changelog.md": first_page((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        "reference/python.md": python_page(),
        "reference/plugins.md": plugins_page(),
    }
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """Replace links to files outside docs/ by the addresses of these files on GitHub.

    Raises:
        PluginError: A link has no existing target.
    """
    if page.file.abs_src_path is None:  # one of the pages that `on_files` adds
        return markdown
    here = Path(page.file.abs_src_path).parent

    def replaced(found: re.Match[str]) -> str:
        link, _, anchor = found[1].partition("#")
        target = (here / link).resolve()
        if target.is_relative_to(config.docs_dir):
            return found[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri}: the target of the link {found[1]} is missing.")
        return f"]({github_address(target, anchor)})"

    return re.sub(r"\]\((\.\./[^)\s]+)\)", replaced, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001
    """Give the search dialog an accessible name, which it lacks in the theme.

    Raises:
        PluginError: The page has no such dialog.
    """
    dialog = 'data-md-component="search" role="dialog"'
    if dialog not in output:
        raise PluginError(f"{page.file.src_uri}: the HTML of the theme's search has changed.")
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def github_address(path: Path, anchor: str = "") -> str:
    """Return the address on GitHub of a file of the repository."""
    return f"{REPOSITORY}{path.relative_to(ROOT)}{anchor and '#'}{anchor}"


def first_page(text: str) -> str:
    """Return the text of a Markdown file in the repository's root with its links made for docs/."""

    def replaced(found: re.Match[str]) -> str:
        link = found[1]
        if link.startswith("docs/"):
            return f"]({link.removeprefix('docs/')})"
        return f"]({github_address(ROOT / link)})"

    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", replaced, text)


def python_page() -> str:
    """Return the reference of the public names, the extensions' too, and of the data frames."""
    import benchharness  # noqa: PLC0415  (slow to import)
    from benchharness.discovery import places  # noqa: PLC0415

    names = [name for name in benchharness.__all__ if not name.startswith("__")]
    names.sort(key=lambda name: name[0].isupper())  # functions before classes
    frames = (ROOT / "benchharness" / "stored" / "frames.py").read_text(encoding="utf-8")
    columns = re.findall(r"(?m)^def (\w+_frame)\(", frames)
    return "\n".join(
        [
            PYTHON,
            "## Names\n",
            *(f"::: benchharness.{name}\n" for name in names),
            *(
                f'<a id="benchharness.{name}"></a>\n\n::: {place.replace(":", ".")}\n'
                for name, place in places("calls").items()
            ),
            "## Columns of the data frames\n",
            *(f"::: benchharness.stored.frames.{name}\n" for name in columns),
        ]
    )


def plugins_page() -> str:
    """Return the reference of all names that plugins import."""
    lines = [PLUGINS]
    for title, names in FOR_PLUGINS.items():
        lines += [f"## {title}\n", *(f"::: benchharness.{name}\n" for name in names)]
    return "\n".join(lines)
