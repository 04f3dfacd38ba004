import json
from dataclasses import replace

import numpy as np
import pytest

from benchharness.errors import StoreError
from benchharness.leaderboard.job import Setting, recipe_digest
from benchharness.leaderboard.text import digest, plain, storable, to_text
from tests.helpers.results import make_job


def test_canonical_json_is_compact_ascii_in_the_given_order() -> None:
    assert to_text({"b": [1, 2.5, None], "a": "é\0\udc80"}) == (
        '{"b":[1,2.5,null],"a":"\\u00e9\\u0000\\udc80"}'
    )


def test_digests_of_equal_data_are_equal() -> None:
    assert digest({"a": 1, "b": (2.5,)}) == digest({"b": [2.5], "a": np.int64(1)})
    assert digest({"a": 1}) != digest({"a": 2}) != digest({"b": 2})
    # SHA-256 of the two bytes "{}"
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize(
    ("value", "kind"), [(np.int64(3), int), (np.float32(0.5), float), (np.float64(0.1), float)]
)
def test_numpy_numbers_are_converted_to_python_numbers(value: object, kind: type) -> None:
    assert type(plain([value])[0]) is kind
    assert plain([value])[0] == value


def test_canonical_json_keeps_floats_exactly() -> None:
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 2]
    assert plain(values) == values


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"scores": {"f1": float("nan")}}, r"value\.scores\.f1 is nan"),
        ([1.0, float("-inf")], r"value\[1\] is -inf"),
        ({"loss": np.float32("nan")}, r"value\.loss is nan"),
        ({"rows": [{"logits": np.zeros(2)}]}, r"value\.rows\[0\]\.logits is a ndarray"),
        ([{1, 2}], r"value\[0\] is a set"),
        ({(1, 2): 3}, "keys must be str"),
    ],
)
def test_value_without_a_json_form_is_an_error_that_names_its_path(
    data: object, place: str
) -> None:
    with pytest.raises(StoreError, match=place):
        to_text(data)


def test_characters_that_databases_refuse_are_escaped() -> None:
    assert storable("plain é \n\t \N{PILE OF POO}") == "plain é \n\t \N{PILE OF POO}"
    assert storable("a\0b\udc80") == r"a\x00b\udc80"
    assert json.loads(to_text(storable("\ud800"))) == r"\ud800"


def test_recipe_digest_depends_only_on_values() -> None:
    job = make_job(settings={"learning_rate": 2e-5, "epochs": 3})
    reordered = make_job(settings={"epochs": 3, "learning_rate": 2e-5}, model="b", seed=4)
    sourced = {name: Setting(value=s.value, source="--set") for name, s in job.settings.items()}
    assert recipe_digest(job) == recipe_digest(reordered)
    assert recipe_digest(job) == recipe_digest(replace(job, settings=sourced))
    assert recipe_digest(job) != recipe_digest(make_job(settings={"epochs": 4}))
