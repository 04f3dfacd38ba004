from benchharness.leaderboard.boards.published import systems
from benchharness.models import MODELS
from benchharness.stored.report import NOT_DENSE, known_sizes


def test_model_size_is_found_by_every_name_of_a_checkpoint() -> None:
    sizes = known_sizes()
    bert = sizes["bert-base-uncased"]
    assert (bert.parameters, bert.backbone, bert.is_dense) == (110e6, 85.1e6, True)
    assert sizes["bert-base"] == bert
    assert sizes["bert_uncased_l-2_h-128_a-2"] == sizes["bert-tiny"]


def test_model_families_with_shared_weights_or_pooled_tokens_are_not_dense() -> None:
    sizes = known_sizes()
    assert not sizes["albert-base-v2"].is_dense
    assert set(NOT_DENSE) <= {spec.family for spec in MODELS.values()}


def test_most_published_systems_with_a_registered_model_have_a_size() -> None:
    sizes = known_sizes()
    models = {system.model for system in systems() if system.model}
    assert len(models & sizes.keys()) > 0.9 * len(models)
