"""Tests of the site of docs/: it is built and read without a network, and has no broken links."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

import benchharness
from tests.helpers.browser import faults, opened, running_browser
from tests.helpers.doc_blocks import DOCS, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

for _package in ("material", "mkdocs", "mkdocstrings_handlers.python"):
    pytest.importorskip(_package)

ROOT = DOCS.parent
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
MADE = ("index", "changelog", "reference/python", "reference/plugins")

BUILD = """
import socket, sys

def refuse(*words):
    raise OSError("the site is built without a network")

socket.socket.connect = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(["build", "--site-dir", sys.argv[1]])
"""


def html(page: str) -> str:
    """Return the path of a page on the site."""
    return page.replace("README.md", "index.md").removesuffix(".md") + ".html"


class Html(HTMLParser):
    """Links, loaded resources, ids and element counts of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = {"", "__top"}
        self.in_article = 0
        self.counts: Counter[str] = Counter()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])
        self.in_article += tag == "article"
        self.counts[tag] += self.in_article > 0

    def handle_endtag(self, tag: str) -> None:
        self.in_article -= tag == "article"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Site, built strictly in a process without a network."""
    folder = tmp_path_factory.mktemp("site")
    ended = subprocess.run(
        (sys.executable, "-c", BUILD, str(folder)),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "WARNING" not in ended.stderr
    return folder


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[str, Html]:
    """Every page of the site by its path."""
    return {str(path.relative_to(site)): Html(path) for path in site.rglob("*.html")}


def test_every_documentation_page_is_on_the_site_and_in_its_navigation(
    parsed: dict[str, Html],
) -> None:
    expected = {html(name) for name in PAGES}
    expected |= {f"{name}.html" for name in MADE}
    assert parsed.keys() == expected | {"404.html"}
    reached = {link.partition("#")[0] for link in parsed["index.html"].links}
    for place, page in parsed.items():
        here = Path(place).parent
        reached |= {os.path.normpath(here / link.partition("#")[0]) for link in page.links}
    assert expected <= reached


def test_every_link_on_the_site_has_an_existing_target(site: Path, parsed: dict[str, Html]) -> None:
    broken = []
    for place, page in parsed.items():
        if place == "404.html":  # its links are relative to the root of the server
            continue
        for link in (*page.links, *page.loaded):
            if re.match("https?:|mailto:|data:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = os.path.normpath(Path(place).parent / path) if path else place
            known = parsed[target].ids if target in parsed else {""}
            if not (site / target).is_file() or anchor not in known:
                broken.append((place, link))
    assert broken == []


def test_links_to_repository_files_have_existing_targets(
    parsed: dict[str, Html],
) -> None:
    ours = "https://github.com/benchharness/benchharness/blob/main/"
    found = {link for page in parsed.values() for link in page.links if link.startswith(ours)}
    assert len(found) > 3
    for link in found:
        assert (ROOT / link.removeprefix(ours).partition("#")[0]).exists(), link


def test_site_loads_no_external_resources(parsed: dict[str, Html]) -> None:
    loaded = {link for page in parsed.values() for link in page.loaded}
    assert [link for link in loaded if link.startswith(("http", "//"))] == []


def test_site_pages_have_the_same_elements_as_on_github(
    parsed: dict[str, Html],
) -> None:
    """Compare with GitHub's Markdown, which differs in the indent of code in lists, for example."""
    parts = ("h1", "h2", "h3", "h4", "li", "ol", "pre", "table", "td", "img", "em", "strong")
    unlike = []
    for name in PAGES:
        text = (DOCS / name).read_text(encoding="utf-8")
        there = Counter(re.findall(r"<(\w+)", MarkdownIt().enable("table").render(text)))
        here = parsed[html(name)].counts
        unlike += [
            (name, part, here[part], there[part]) for part in parts if here[part] != there[part]
        ]
    assert unlike == []


def imported(page: str) -> set[str]:
    """Return the names of benchharness that the plugins on a page import."""
    found = set()
    for block in blocks(page):
        if not block.startswith(("from ", "import ")):
            continue
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("benchharness"):
                found |= {f"{node.module}.{each.name}" for each in node.names}
    return found


def test_python_reference_page_has_every_public_name(parsed: dict[str, Html]) -> None:
    names = {f"benchharness.{name}" for name in dir(benchharness) if name != "__version__"}
    assert names <= parsed["reference/python.html"].ids
    used = set().union(*map(imported, ("plugins.md", "tasks.md", "add-task.md", "loggers.md")))
    assert len(used) > 10
    assert used <= parsed["reference/plugins.html"].ids


def test_readme_begins_with_a_command_and_a_picture() -> None:
    first = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:20]
    assert any(line.startswith("    bench run ") for line in first)
    (picture,) = (found[1] for line in first if (found := re.match(r"!\[.+\]\((.+)\)", line)))
    assert (ROOT / picture).is_file()


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with running_browser() as running:
        yield running


LOADED = "document.readyState === 'complete'"


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        pytest.param("index", 1200, "light", marks=pytest.mark.soak),
        ("tutorial", 390, "dark"),
        pytest.param("reference/plugins", 1200, "dark", marks=pytest.mark.soak),
    ],
)
def test_axe_finds_no_accessibility_fault_on_the_site(
    browser: "Browser", site: Path, name: str, width: int, scheme: Any
) -> None:
    with opened(browser, site / f"{name}.html", scheme=scheme, width=width, ready=LOADED) as found:
        assert faults(found) == []
        assert found.complaints == []
        assert [url for url in found.requests if not url.startswith("file:")] == []


@pytest.mark.soak
@pytest.mark.browser
def test_site_search_works_from_disk(browser: "Browser", site: Path) -> None:
    with opened(browser, site / "reference" / "python.html", ready=LOADED) as found:
        found.page.get_by_role("textbox", name="Search").click()
        found.page.keyboard.type("layer_decay")
        first = found.page.locator(".md-search-result__link").first
        first.wait_for()
        assert "transfer.html" in str(first.get_attribute("href"))
        assert [url for url in found.requests if not url.startswith("file:")] == []
