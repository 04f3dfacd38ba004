import subprocess
import sys
from types import ModuleType

import pytest

from benchharness import stored


def test_every_public_name_is_the_one_of_its_module() -> None:
    found = {name: getattr(stored, name) for name in stored.__all__}
    assert not any(isinstance(value, ModuleType) for value in found.values())
    assert sorted(set(found)) == sorted(stored.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'open_stor'"):
        _ = stored.open_stor


def test_the_database_library_is_imported_with_the_first_name() -> None:
    program = (
        "import sys; from benchharness import stored; print('sqlalchemy' in sys.modules); "
        "stored.open_store; print('sqlalchemy' in sys.modules)"
    )
    command = (sys.executable, "-P", "-c", program)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
