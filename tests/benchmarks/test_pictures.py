"""The pictures of the documentation: each is shown, and `make pictures` can create it again."""

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.helpers import ROOT

pytest.importorskip("PIL.Image")

from PIL import Image

from benchmarks.growth_figure import growth_figure
from benchmarks.pictures import DOCS, PICTURES, STORES, Drawing, Photo, make
from benchmarks.record import load

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
SHOWN = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\"")
ENDINGS = {".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp"}
SVG = "{http://www.w3.org/2000/svg}"


def shown() -> "set[Path]":
    """Return the paths of all pictures that pages show."""
    return {
        (page.parent / (found[1] or found[2])).resolve()
        for page in PAGES
        for found in SHOWN.finditer(page.read_text(encoding="utf-8"))
        if not (found[1] or found[2]).startswith("http")
    }


def size_of(path: "Path") -> tuple[int, int]:
    """Return the width and height of a PNG in pixels, or those of an SVG's view box."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            return image.size
    *corner, width, height = map(int, ET.parse(path).getroot().attrib["viewBox"].split())
    assert corner == [0, 0]
    return width, height


def is_blank(path: "Path") -> bool:
    """Return whether a picture has a single colour or, if it is an SVG, no line or no text."""
    if path.suffix == ".png":
        with Image.open(path) as image:
            colours = image.convert("RGB").getcolors(image.width * image.height) or []
        return max(count for count, _ in colours) > 0.99 * image.width * image.height
    root = ET.parse(path).getroot()
    return any(root.find(f".//{SVG}{name}") is None for name in ("polyline", "text"))


def test_every_picture_on_a_page_is_made_by_make_pictures() -> None:
    assert shown() == {DOCS / name for name in PICTURES}


def test_every_picture_file_of_the_documentation_is_made_by_make_pictures() -> None:
    files = {path for path in DOCS.rglob("*") if path.suffix in ENDINGS}
    assert files == {DOCS / name for name in PICTURES}


@pytest.mark.parametrize("name", PICTURES)
def test_stored_pictures_are_small_and_have_the_stated_size(name: str) -> None:
    path = DOCS / name
    assert size_of(path) == PICTURES[name].size
    assert path.stat().st_size < 150_000
    assert not is_blank(path)


def test_every_store_for_screenshots_is_used_by_a_picture() -> None:
    assert {each.store for each in PICTURES.values() if isinstance(each, Photo)} == set(STORES)


def test_stored_growth_figure_is_drawn_from_the_stored_record() -> None:
    record = load("growth")
    assert record is not None
    assert (DOCS / "growth.svg").read_text(encoding="utf-8") == growth_figure(record["points"])


def test_blank_pictures_are_detected(tmp_path: "Path") -> None:
    image = Image.new("RGB", (30, 20), "white")
    image.save(tmp_path / "a.png")
    assert is_blank(tmp_path / "a.png")
    image.paste("black", (0, 0, 10, 10))
    image.save(tmp_path / "a.png")
    assert not is_blank(tmp_path / "a.png")
    assert size_of(tmp_path / "a.png") == (30, 20)
    empty = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 30 20"><text>a</text></svg>'
    (tmp_path / "a.svg").write_text(empty)
    assert is_blank(tmp_path / "a.svg")
    assert size_of(tmp_path / "a.svg") == (30, 20)


@pytest.mark.soak  # takes some minutes on two cores
@pytest.mark.browser
@pytest.mark.timeout(3600)
def test_every_picture_can_be_made(browser: "Browser", tmp_path: "Path") -> None:
    make(browser, PICTURES, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(PICTURES)
    for name, picture in PICTURES.items():
        assert size_of(tmp_path / name) == picture.size, name
        assert not is_blank(tmp_path / name), name
        if isinstance(picture, Drawing):
            assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes(), name
