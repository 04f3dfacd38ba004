"""Create the pictures of the documentation with the current program (`make pictures`).

    python -m benchmarks.pictures [NAME ...]

`PICTURES` has all pictures, keyed by their file names in docs/. A photo shows a page of the program
in headless Chromium: the commands of a store run in an empty folder, and write the page. A drawing
is an SVG that another module of benchmarks/ draws. Without names, all pictures are made.
"""

import argparse
import io
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PIL import Image

from benchmarks.growth_figure import growth_figure
from benchmarks.record import ROOT, load
from benchmarks.regression_power import figure as power_figure
from tests.helpers.browser import (
    CHROMIUM,
    Opened,
    Scheme,
    choose,
    many_models,
    opened,
    running_browser,
    save,
)
from tests.helpers.pages import Block, Session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["DOCS", "PICTURES", "STORES", "Drawing", "Photo", "make"]

DOCS = ROOT / "docs"
COLOURS = 128
"""Number of colours of a photo; more make files larger without a visible difference."""

View = Callable[[Opened], None]
"""Function that brings an opened page into the state that the picture shows."""


def _board_of_24_models(folder: Path) -> None:
    """Write the report that the tests draw: synthetic scores, with the runs of four models."""
    runs = many_models()
    save(folder, runs, runs[: 4 * 9 * 5])


STORES: Mapping[str, str | Callable[[Path], None]] = {
    "24 models": _board_of_24_models,
    "demo": "bench run --model tiny --suite glue --data mini --seeds 2",
    "tutorial": """
bench run --model tiny --suite glue --data mini --seeds 1
bench run --model tiny --suite glue --task cola --task mrpc --task rte --data mini --seeds 3
bench run --model tiny --suite glue --task cola --task mrpc --task rte --data mini --seeds 3 \
    --set learning_rate=2e-4
""",
    "predictions": """
bench run --model tiny --task squad/v2.0 --data mini --seeds 2
bench report predictions tiny bag-of-words --task squad/v2.0
""",
    "checkpoints": """
python -m benchmarks.pretrain --data mini --out mini-bert --steps 3000 --keep 9 --width 64 \
    --vocabulary 2000
bench run --model 'mini-bert/step-*' --task glue/qnli --task glue/rte --data mini --seeds 5 \
    --set learning_rate=3e-4 --no-baselines
""",
    "layers": """
python -m benchmarks.pretrain --data mini --out pretrained --steps 600 --keep 2 --width 64 \
    --layers 4 --vocabulary 2000
bench run --model small=pretrained/step-600 --task cola --data mini --seeds 3 \
    --set features=each --set learning_rate=1e-3 --set epochs=6 --no-baselines
""",
}
"""Commands that write a page into an empty folder, or a function that writes it, keyed by name."""


def _as_opened(_: Opened) -> None:
    """Leave the page as it is."""


def _note_of(model: str, column: str) -> View:
    """Return a view that shows the note of a model's score."""

    def point(found: Opened) -> None:
        heads = found.page.locator(".scroll > .rows thead th").all_text_contents()
        place = [head.strip() for head in heads].index(column)
        name = found.page.get_by_text(model, exact=True)
        row = found.page.locator("tbody.measured tr").filter(has=name).first
        row.locator("> *").nth(place).hover()

    return point


def _compared(*models: str) -> View:
    """Return a view in which the rows of some models are compared."""

    def select(found: Opened) -> None:
        choose(found, *models)
        found.page.get_by_role("button", name="Compare", exact=True).click()

    return select


def _partly_right(found: Opened) -> None:
    """Show only examples that are answered correctly with some of the seeds."""
    found.page.locator("select.show").select_option("some")


@dataclass(frozen=True, kw_only=True)
class Photo:
    """Part of a page of the program as a browser shows it."""

    store: str
    """Name of the commands in `STORES` that write the page."""

    page: str = "results/leaderboard.html"
    """Path of the page in the folder of the store, or a pattern of it."""

    width: int
    """Width of the window in CSS pixels."""

    height: int
    """Height of the window in CSS pixels."""

    anchor: str = "body"
    """CSS selector of the element to which the page is scrolled."""

    above: int = 0
    """CSS pixels that are shown above the anchor."""

    view: View = _as_opened
    theme: Scheme = "light"
    scale: int = 1
    """Pixels of the picture per CSS pixel."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        return self.width * self.scale, self.height * self.scale


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """SVG that a module of benchmarks/ draws."""

    draw: Callable[[], str]
    width: int
    height: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture's view box."""
        return self.width, self.height


def _growth() -> str:
    record = load("growth")
    if record is None:
        raise SystemExit("benchmarks/results/growth.json is missing: run make benchmark-growth.")
    return growth_figure(record["points"])


PICTURES: Mapping[str, Photo | Drawing] = {
    "curve.png": Photo(
        store="checkpoints", width=700, height=500, anchor=".plots .stages .plot", above=24, scale=2
    ),
    "growth.svg": Drawing(draw=_growth, width=690, height=560),
    "layers.png": Photo(
        store="layers", width=700, height=500, anchor=".plots .layers .plot", above=24, scale=2
    ),
    "predictions.png": Photo(
        store="predictions",
        page="results/predictions/*/*.html",
        width=1200,
        height=800,
        anchor="#examples",
        view=_partly_right,
    ),
    "regression.svg": Drawing(draw=power_figure, width=640, height=330),
    "report.png": Photo(store="demo", width=1280, height=560, view=_note_of("tiny", "QQP")),
    "report-board.png": Photo(
        store="24 models",
        page="report.html",
        width=1440,
        height=760,
        view=_note_of("albert-xlarge-v2", "WNLI"),
    ),
    "report-compare.png": Photo(
        store="24 models",
        page="report.html",
        width=1000,
        height=840,
        anchor=".compare",
        above=64,
        view=_compared("albert-base-v2", "albert-large-v2", "bart-large"),
    ),
    "tutorial-mini.png": Photo(store="tutorial", width=1280, height=620),
}
"""Pictures of the documentation, keyed by their file names in docs/."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(PICTURES)}; default: all")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder for the pictures")
    options = parser.parse_args()
    if unknown := set(options.name) - set(PICTURES):
        parser.error(f"unknown picture: {', '.join(sorted(unknown))}")
    if CHROMIUM is None:
        parser.error("Chromium is missing: install it with apt-get install chromium")
    with running_browser() as browser:
        make(browser, options.name or PICTURES, options.out)


def make(browser: "Browser", names: Collection[str], out: Path) -> None:
    """Write the named pictures into a folder.

    Raises:
        BlockError: A command of a store fails.
    """
    photos: dict[str, dict[str, Photo]] = {}
    for name in names:
        picture = PICTURES[name]
        if isinstance(picture, Photo):
            photos.setdefault(picture.store, {})[name] = picture
        else:
            began = time.monotonic()
            (out / name).write_text(picture.draw(), encoding="utf-8")
            _report(name, began)
    for store, of_store in photos.items():
        began = time.monotonic()
        with TemporaryDirectory(prefix="pictures-") as scratch:
            folder = _run(store, Path(scratch))
            for name, photo in of_store.items():
                (out / name).write_bytes(_photograph(browser, folder, photo))
        _report(", ".join(of_store), began)


def _report(names: str, began: float) -> None:
    print(f"{names}: {time.monotonic() - began:.0f} s", flush=True)


def _run(store: str, scratch: Path) -> Path:
    """Make a store in an empty folder; return the folder."""
    commands = STORES[store]
    if not isinstance(commands, str):
        commands(scratch)
        return scratch
    path = f"export PYTHONPATH={shlex.quote(str(ROOT))}\n"  # where `benchmarks` is found
    with Session(scratch) as session:
        session.run(Block(line=0, text=path + commands, kind="command"))
    return session.folder


def _photograph(browser: "Browser", folder: Path, photo: Photo) -> bytes:
    """Return the picture of a page as a PNG."""
    (path,) = folder.glob(photo.page)
    with opened(browser, path, scheme=photo.theme, width=photo.width, scale=photo.scale) as found:
        found.page.set_viewport_size({"width": photo.width, "height": photo.height})
        photo.view(found)
        found.run("(anchor) => document.querySelector(anchor).scrollIntoView()", photo.anchor)
        found.run("(above) => scrollBy(0, -above)", photo.above)
        png = found.page.screenshot()
    return _smaller(png)


def _smaller(png: bytes) -> bytes:
    """Return a PNG with fewer colours."""
    made = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(COLOURS).save(made, "PNG", optimize=True)
    return made.getvalue()


if __name__ == "__main__":
    main()
