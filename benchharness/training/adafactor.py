"""Adafactor, the optimizer of T5, without waiting for the GPU at every weight."""

from typing import Any

import torch
import transformers.optimization


class Adafactor(transformers.optimization.Adafactor):
    """transformers' Adafactor, except that the CPU does not wait for the GPU at every weight.

    The results are bit-identical to those of transformers' class. With weight decay, with
    `relative_step` or without `scale_parameter`, the CPU waits as in transformers' class.
    """

    @staticmethod
    def _get_lr(group: dict[str, Any], state: dict[str, Any]) -> Any:
        """Return a weight's learning rate: the group's rate times the weight's scale.

        The scale is the root mean square of the weight, but at least the group's second `eps`.
        """
        # With weight decay, the CPU needs the rate in any case.
        if group["weight_decay"] or not group["scale_parameter"] or group["relative_step"]:
            return transformers.optimization.Adafactor._get_lr(group, state)  # type: ignore[no-untyped-call]
        least, scale, rate = group["eps"][1], state["RMS"], group["lr"]
        # Python's max(least, scale) * rate would make the CPU wait. torch.where rounds in the same
        # way.
        return torch.where(scale > least, scale * rate, least * rate)
