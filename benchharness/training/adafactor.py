"""Adafactor, T5's optimizer, without a host-device synchronization per weight."""

from typing import Any

import torch
import transformers.optimization


class Adafactor(transformers.optimization.Adafactor):
    """Adafactor of transformers without a synchronization per weight; results are bit-identical."""

    @staticmethod
    def _get_lr(group: dict[str, Any], state: dict[str, Any]) -> Any:
        """Return a weight's learning rate: the group's times the weight's scale, bounded below."""
        # With a weight decay the rate is needed on the host in any case.
        if group["weight_decay"] or not group["scale_parameter"] or group["relative_step"]:
            return transformers.optimization.Adafactor._get_lr(group, state)  # type: ignore[no-untyped-call]
        least, scale, rate = group["eps"][1], state["RMS"], group["lr"]
        # max(least, scale) * rate would wait for the scale; both products round in the same way.
        return torch.where(scale > least, scale * rate, least * rate)
