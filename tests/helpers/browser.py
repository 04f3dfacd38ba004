"""Headless Chromium, driven by playwright, for the tests of the report."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchharness.leaderboard.result import Failure, Result
from benchharness.models import MODELS
from tests.helpers.boards import TASKS, learned, make_job, make_runs
from tests.helpers.results import make_cost, make_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.report.addition import Background
from benchharness.leaderboard.report.write import render_report, write_page
from benchharness.stored.report import known_sizes
from tests.helpers.boards import GLUE, row_of
from tests.helpers.report_page import WHEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

PATIENCE = 120_000
"""Milliseconds until a step fails; long, because busy machines are slow."""

Scheme = Literal["light", "dark"]


@dataclass
class Opened:
    """Page opened from disk, with its requests and console errors."""

    page: "Page"
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    meter: Any = None

    def run(self, script: str, argument: Any = None) -> Any:
        """Return the result of a JavaScript function in the page."""
        return self.page.evaluate(script, argument)

    def processor_seconds(self) -> float:
        """Return the processor time of the page's main thread, if it was opened with `timed`."""
        found = self.meter.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))

    def names(self, kind: str = "measured") -> list[str]:
        """Return the displayed names of the rows of a kind, from top to bottom."""
        return self.page.locator(f"tbody.{kind} tr:visible .name").all_inner_texts()


@contextmanager
def running_browser() -> Iterator["Browser"]:
    """Start Chromium; skip the test if it or playwright is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
        )
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: "Browser",
    path: Path,
    *,
    scheme: Scheme = "light",
    width: int = 1200,
    scripts: bool = True,
    anchor: str = "",
    scale: int = 1,
    ready: str = "performance.getEntriesByName('ready').length > 0",
    timed: bool = False,
) -> Iterator[Opened]:
    """Open the file in a new window and wait for its scripts (a report sets `ready`).

    With `timed`, the processor time of the page's main thread is measured. `scale` is the number of
    pixels of a screenshot per CSS pixel.
    """
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": 800},
        device_scale_factor=scale,
        java_script_enabled=scripts,
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE)
    found = Opened(context.new_page())
    if timed:
        found.meter = context.new_cdp_session(found.page)
        found.meter.send("Performance.enable", {"timeDomain": "threadTicks"})

    def asked(request: "Request") -> None:
        found.requests.append(request.url)

    found.page.on("request", asked)
    found.page.on("console", lambda message: found.complaints.append(message.text))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.goto(path.as_uri() + anchor)
    if scripts:
        found.page.wait_for_function(ready)
    yield found
    context.close()


def faults(page: Opened) -> list[tuple[str, str, list[str]]]:
    """Return the faults that axe-core finds, each with the first affected elements.

    `preload` is off, because it would fetch style sheets, which is impossible from disk.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found: dict[str, Any] = axe.Axe().run(page.page, options={"preload": False}).response
    return [
        (fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"][:3]])
        for fault in found["violations"]
    ]


def save(
    folder: Path, runs: list[Result | Failure], details: list[Result | Failure] | None = None
) -> Path:
    """Write a report of these runs, with a section for each of `details` (default: all)."""
    path = folder / "report.html"
    boards = build_boards([row_of(run) for run in runs], GLUE)
    background = Background(sizes=known_sizes())
    write_page(path, render_report(boards, runs if details is None else details, WHEN, background))
    return path


def many_models(number: int = 24, seeds: int = 5) -> list[Result | Failure]:
    """Return runs of many models on the full data: all GLUE tasks, all seeds.

    The models are known ones, so that they have families and sizes.
    """
    specs = [spec for spec in MODELS.values() if spec.parameters and not spec.is_baseline]
    return [
        replace(
            learned(make_job(model=spec.name, task=task, seed=seed, data="hub"), shift),
            cost=make_cost(parameters=int((spec.parameters or 0) * 1e6)),
        )
        for place, spec in enumerate(specs[:number])
        for shift in [0.06 - place / 200]
        for task in TASKS
        for seed in range(seeds)
    ]


OTHER_KINDS = {
    "majority": {"kind": "baseline", "weights": "baseline:majority@1", "recipe": "baseline"},
    "minilm x3": {"kind": "ensemble", "weights": "ensemble:minilm x3", "recipe": "ensemble"},
    "theirs": {"kind": "scored", "weights": "sha256:ab", "recipe": "scored here"},
}


def runs_of_every_kind() -> list[Result | Failure]:
    """Return runs of each kind on the full data, as published scores are."""
    others = [
        make_result(replace(make_job(model=model, task=task), **fields))  # type: ignore[arg-type]
        for model, fields in OTHER_KINDS.items()
        for task in TASKS
    ]
    runs = [*make_runs(), *others]
    return [replace(run, job=replace(run.job, data="hub")) for run in runs]


def save_report(folder: Path) -> Path:
    """Write a report of runs of every kind, with few run sections, so that it opens fast."""
    runs = runs_of_every_kind()
    few = [run for run in runs if run.job.model in ("roberta-base", "distilbert-base")]
    return save(folder, runs, [run for run in few if run.job.seed == 0])


def choose(report: Opened, *names: str) -> None:
    for name in names:
        report.page.locator("tr:visible", has_text=name).first.get_by_role("checkbox").check()
