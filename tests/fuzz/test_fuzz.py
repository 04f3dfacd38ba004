"""Whatever bytes come from outside, a reader takes them or raises a BenchError; nothing else.

Inputs are real small files with damage to their bytes, lines, fields and JSON, and some that are
no such file at all. They are drawn by hypothesis and the same each time; what fails is shrunk to a
small input before it is shown. Every bug that was found this way has a test of its own beside the
reader's other tests.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from tasks.errors import BenchError
from tests.fuzz.damage import anything, damaged
from tests.fuzz.of_models import MODELS_AND_RECIPES
from tests.fuzz.of_rows import ROWS
from tests.fuzz.of_stores import STORES
from tests.fuzz.reader import Case, Reader

READERS = (*ROWS, *STORES, *MODELS_AND_RECIPES)

QUICK = 12
"""Inputs of each reader, times its share, in the ordinary suite."""

LONG = 6_000
"""Inputs of each reader, times its share, in the soak run: more than 100,000 in all."""

pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
"""Hypothesis says that the inputs are long to print."""

every_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)


def inputs(cases: list[Case]) -> st.SearchStrategy[tuple[Case, bytes]]:
    """Four damaged files to each that is no such file at all."""
    chosen = st.sampled_from(cases)
    damage = chosen.flatmap(lambda case: st.tuples(st.just(case), damaged([case.content])))
    return st.one_of(*[damage] * 4, st.tuples(chosen, anything()))


def fuzz(reader: Reader, count: int, folder: Path) -> tuple[int, int]:
    """Read `count` inputs times the reader's share; how many there were, how many were refused."""
    found = {"read": 0, "refused": 0}

    @settings(
        max_examples=max(4, round(count * reader.share)),
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(drawn=inputs(reader.cases()))
    def read(drawn: tuple[Case, bytes]) -> None:
        case, content = drawn
        found["read"] += 1
        try:
            case.read(content, folder)
        except BenchError:
            found["refused"] += 1
        except BaseException as error:
            error.add_note(f"{len(content)} bytes: {content[:500]!r}")
            raise

    read()
    return found["read"], found["refused"]


@every_reader
def test_valid_files_are_read(reader: Reader, tmp_path: Path) -> None:
    for case in reader.cases():
        case.read(case.content, tmp_path)


@every_reader
def test_only_a_bench_error_comes_out(reader: Reader, tmp_path: Path) -> None:
    fuzz(reader, QUICK, tmp_path)
