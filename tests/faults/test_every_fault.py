"""The table of docs/faults.md and the tests of this folder have the same numbers."""

import re
from pathlib import Path

HERE = Path(__file__).parent
TABLE = (HERE.parents[1] / "docs" / "faults.md").read_text(encoding="utf-8")
NUMBERS = [int(number) for number in re.findall(r"(?m)^\| (\d+) \|", TABLE)]


def test_the_table_has_every_number_once() -> None:
    assert list(range(1, 49)) == NUMBERS


def test_every_number_of_the_table_has_a_test_and_the_other_way_round() -> None:
    tested = {
        int(number)
        for path in HERE.glob("test_*.py")
        for names in re.findall(r"(?m)^def test_((?:\d\d_)+)", path.read_text(encoding="utf-8"))
        for number in names.strip("_").split("_")
    }
    assert tested == set(NUMBERS)
