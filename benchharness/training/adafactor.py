"""T5's optimizer without a wait for the device at each weight."""

from typing import Any

import torch
import transformers.optimization


class Adafactor(transformers.optimization.Adafactor):
    """transformers' without a wait for the device at each weight, to the same bits."""

    @staticmethod
    def _get_lr(group: dict[str, Any], state: dict[str, Any]) -> Any:
        """The rate of a weight: the group's times the weight's scale, if that is not too small."""
        # A decay takes the rate to the host in any case.
        if group["weight_decay"] or not group["scale_parameter"] or group["relative_step"]:
            return transformers.optimization.Adafactor._get_lr(group, state)  # type: ignore[no-untyped-call]
        least, scale, rate = group["eps"][1], state["RMS"], group["lr"]
        # max(least, scale) * rate looks at the scale; both products are rounded as there.
        return torch.where(scale > least, scale * rate, least * rate)
