"""Tests that the table of docs/faults.md and the tests have the same fault numbers."""

import re
from pathlib import Path

from tests.helpers.extensions import with_all_extensions

HERE = Path(__file__).parent
TABLE = (HERE.parents[1] / "docs" / "faults.md").read_text(encoding="utf-8")
NUMBERS = re.findall(r"(?m)^\| (\d+) \|", TABLE)


def test_documented_table_of_faults_has_every_number_once() -> None:
    assert [str(number) for number in range(1, 53)] == NUMBERS


@with_all_extensions
def test_documented_faults_are_exactly_the_tested_faults() -> None:
    tested = set()
    own = HERE.parent.glob("extensions/*/test_[0-9]*.py")
    for path in (*HERE.glob("test_[0-9]*.py"), *own):
        text = path.read_text(encoding="utf-8")
        for number in re.findall(r"(\d\d)_", path.name):
            assert re.search(rf"(?m)^def test_(\d\d_)?{number}_", text), (path.name, number)
            tested.add(str(int(number)))
    assert tested == set(NUMBERS)
