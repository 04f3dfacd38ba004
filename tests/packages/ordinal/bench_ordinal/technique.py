"""Fresh top layers: they begin with random weights instead of the pretrained ones.

Zhang et al., Revisiting Few-sample BERT Fine-tuning, ICLR 2021, section 5.
"""

from benchharness.encoder import layers_of
from benchharness.worker.technique import Technique


class FreshLayers(Technique):
    """Technique that initializes the top layers of the encoder again, with the job's seed."""

    def on_network(self, prepared):
        """Initialize the layers as the encoder's own class initializes its layers."""
        encoder = prepared.network.encoder
        layers = layers_of(encoder).layers
        count = self.work.recipe.added["fresh_layers"].fresh_layers
        for layer in layers[-count:]:
            for module in layer.modules():
                encoder._init_weights(module)
        self.provenance = {"fresh_layers": min(count, len(layers))}
