"""Import transformers' network code without dependencies that no encoder uses."""

import sys
from importlib import import_module
from typing import Any


def import_networks() -> None:
    """Import the transformers code that all networks share, without importing scipy.

    transformers imports `scipy.optimize` for losses of object detection. This import costs a
    quarter of a second of processor time in every process that loads an encoder, so this function
    delays the import until such a loss is computed. In a worker, which has a placeholder for
    torch's compiler, torch's distributed tensors are not imported either.
    """
    if "transformers.modeling_utils" in sys.modules:
        return
    places = [vars(import_module(f"transformers.utils{name}")) for name in ("", ".import_utils")]
    unused = {"is_scipy_available": places[0]["is_scipy_available"]}
    compiler = sys.modules.get("torch._dynamo")
    if compiler is not None and compiler.__spec__ is None:  # the placeholder that workers install
        name = "is_torch_distributed_available"
        unused[name] = places[0][name]
    for place in places:
        place.update(dict.fromkeys(unused, lambda: False))
    try:
        import_module("transformers.modeling_utils")
    finally:
        for place in places:
            place.update(unused)
    if matching := sys.modules.get("transformers.loss.loss_for_object_detection"):
        matching.linear_sum_assignment = _linear_sum_assignment  # type: ignore[attr-defined]


def _linear_sum_assignment(*values: Any, **options: Any) -> Any:
    found = import_module("scipy.optimize").linear_sum_assignment
    return found(*values, **options)


import_networks()  # runs once, when this module is first imported
