"""Technique in which all tokens of a decoder attend to each other, as in an encoder."""

from dataclasses import dataclass
from typing import Any

from benchharness.encoder import Encoder
from benchharness.encoder.network import is_foreign
from benchharness.encoder.padding import try_out
from benchharness.errors import ModelError
from benchharness.worker.technique import Technique


@dataclass(kw_only=True)
class FullAttention(Technique):
    """Technique that removes the causal mask of a decoder, for training and for prediction.

    Texts are still classified at their last token, and separators stay the same.
    """

    def on_encoder(self, encoder: Encoder) -> None:
        """Let all tokens of a decoder attend to each other.

        Raises:
            ModelError: The network is no decoder, or its causal mask cannot be removed.
        """
        if not encoder.is_causal:
            raise ModelError(
                f"attention=full is for decoders, but in {encoder.family} all tokens attend to "
                "each other already: omit this setting."
            )
        let_see_all(encoder.network)
        # A trained network that is loaded for prediction has no weights yet. It was tested when it
        # was trained.
        if self.work.trains and _is_still_causal(encoder):
            raise ModelError(
                f"attention=full does not work for {encoder.family}: its code in transformers "
                "contains a causal mask that cannot be removed. Omit this setting."
            )


def let_see_all(network: Any) -> None:
    """Remove the causal mask of a network of transformers.

    The functions of transformers that create masks read `is_causal` from the config, and the
    kernels read it from the attention modules. Sliding windows are kept, in both directions.
    """
    network.config.is_causal = False
    for module in network.modules():
        if isinstance(getattr(module, "is_causal", None), bool):
            module.is_causal = False


def _is_still_causal(encoder: Encoder) -> bool:
    network, config = encoder.network, encoder.config
    return is_foreign(network) or try_out(network, config, encoder.family).is_causal
