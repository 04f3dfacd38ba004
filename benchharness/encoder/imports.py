"""transformers' code of networks, imported without what no encoder uses."""

import sys
from importlib import import_module
from typing import Any


def import_networks() -> None:
    """Imports what all networks share, without scipy.

    transformers imports `scipy.optimize` for losses of object detection: a quarter of a second of
    processor time in every process that loads an encoder. There it is imported when it is called.
    """
    if "transformers.modeling_utils" in sys.modules:
        return
    utils: Any = import_module("transformers.utils")
    known = utils.is_scipy_available
    utils.is_scipy_available = lambda: False
    try:
        import_module("transformers.modeling_utils")
    finally:
        utils.is_scipy_available = known
    if matching := sys.modules.get("transformers.loss.loss_for_object_detection"):
        matching.linear_sum_assignment = _linear_sum_assignment  # type: ignore[attr-defined]


def _linear_sum_assignment(*values: Any, **options: Any) -> Any:
    found = import_module("scipy.optimize").linear_sum_assignment
    return found(*values, **options)


import_networks()  # whoever imports this module first
