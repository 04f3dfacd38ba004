"""What mkdocs does not do by itself for the site of this folder; mkdocs.yml names this file.

The pages are written for GitHub, and the site takes them as they are. Here it gets the rest: the
README as its first page, the changelog, the reference from docstrings, and GitHub's address for
links that lead out of the folder.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/benchharness/benchharness/blob/main/"

PYTHON = """# Python API

`import benchharness as bh` offers these names and no others; [From Python](../python.md) shows them
in use. `bench` is the same from a shell: [The command line](../cli.md).
"""

PLUGINS = """# API for plugins

What a plugin's tables are made of. [Your own models, tasks, metrics and loggers](../plugins.md) and
[Add a task](../add-task.md) show them in use.
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
"""What plugins import, below `benchharness`, by the part of the page that has it."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made here."""
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
    """Gives links that lead out of the folder GitHub's address of the same file."""
    if page.file.abs_src_path is None:  # made above
        return markdown
    here = Path(page.file.abs_src_path).parent

    def mended(found: re.Match[str]) -> str:
        link, _, anchor = found[1].partition("#")
        target = (here / link).resolve()
        if target.is_relative_to(config.docs_dir):
            return found[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri}: the link {found[1]} leads nowhere.")
        return f"]({github_address(target, anchor)})"

    return re.sub(r"\]\((\.\./[^)\s]+)\)", mended, markdown)


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001
    """Names the search for those who hear the page: the theme's dialog has no name."""
    dialog = 'data-md-component="search" role="dialog"'
    if dialog not in output:
        raise PluginError(f"{page.file.src_uri}: the theme's search is made otherwise by now.")
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def github_address(path: Path, anchor: str = "") -> str:
    """Where a file of the repository is to be read."""
    return f"{REPOSITORY}{path.relative_to(ROOT)}{anchor and '#'}{anchor}"


def first_page(text: str) -> str:
    """A file of the repository's top, with the links of a page in this folder."""

    def mended(found: re.Match[str]) -> str:
        link = found[1]
        if link.startswith("docs/"):
            return f"]({link.removeprefix('docs/')})"
        return f"]({github_address(ROOT / link)})"

    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", mended, text)


def python_page() -> str:
    """The names of `import benchharness`, also of extensions, and the columns of its frames."""
    import benchharness  # noqa: PLC0415  (only to build, and without torch)
    from benchharness.discovery import places  # noqa: PLC0415

    names = [name for name in benchharness.__all__ if not name.startswith("__")]
    names.sort(key=lambda name: name[0].isupper())  # what is called before what it gives
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
    """Everything that plugins import."""
    lines = [PLUGINS]
    for title, names in FOR_PLUGINS.items():
        lines += [f"## {title}\n", *(f"::: benchharness.{name}\n" for name in names)]
    return "\n".join(lines)
