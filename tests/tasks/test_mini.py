"""Tests that the bundled data equal the output of their generator."""

from pathlib import Path

import pytest

from benchharness.tasks.sources.files import mini_folder
from tests.helpers.mini_data.__main__ import write
from tests.helpers.mini_data.grammar import (
    article,
    draw_distinct,
    draw_scene,
    hypernym,
    other,
    seeded,
    sentence,
)
from tests.helpers.mini_data.lexicon import DOMAINS, HELD_OUT, HYPERNYMS, VERBS, opposite


def data_files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if path.suffix not in {".py", ".pyc"}
    }


def test_data_generator_reproduces_the_committed_files(tmp_path: Path) -> None:
    write(tmp_path)
    written, committed = data_files(tmp_path), data_files(mini_folder())
    assert sorted(written) == sorted(committed)
    assert [name for name in written if written[name] != committed[name]] == []


def test_bundled_data_files_are_under_5_megabytes() -> None:
    files = data_files(mini_folder())
    assert sum(map(len, files.values())) < 5_000_000
    assert sum(len(data) for name, data in files.items() if name.startswith("glue/")) < 1_500_000


def test_generated_rows_are_distinct_and_reproducible() -> None:
    rows = draw_distinct("a name", 50, lambda rng: rng.randrange(60))
    assert len(set(rows)) == 50
    assert rows == draw_distinct("a name", 50, lambda rng: rng.randrange(60))
    assert rows != draw_distinct("another name", 50, lambda rng: rng.randrange(60))


def test_generator_with_too_few_distinct_rows_is_an_error() -> None:
    with pytest.raises(ValueError, match="of few gives only 3 different rows of 4"):
        draw_distinct("few", 4, lambda rng: rng.randrange(3))


def test_verb_antonyms_are_symmetric() -> None:
    assert all(opposite(opposite(verb)) == verb for verb in VERBS)


def test_held_out_domains_share_no_nouns_with_the_others() -> None:
    seen = {word for domain in DOMAINS for word in domain.people + domain.things}
    unseen = {word for domain in HELD_OUT for word in domain.people + domain.things}
    assert not seen & unseen


def test_every_generated_object_has_exactly_one_hypernym() -> None:
    things = [thing for domain in DOMAINS + HELD_OUT for thing in domain.things]
    assert len(set(things)) == len(things)
    assert {hypernym(thing) for thing in things} == set(HYPERNYMS)


def test_generated_scene_uses_words_of_a_single_domain() -> None:
    scene = draw_scene(seeded("scene"))
    assert scene.person in scene.domain.people
    assert scene.thing in scene.domain.things
    assert scene.place in scene.domain.places


def test_generated_scene_can_be_worded_in_five_sentence_forms() -> None:
    scene = draw_scene(seeded("scene"))
    who, verb, what, where = scene.person, scene.verb, scene.thing, scene.place
    assert scene.active() == sentence(f"the {who} {verb.past} the {what} {where}")
    assert scene.formal() == sentence(f"the {who} {verb.formal} the {what} {where}")
    assert scene.fronted() == sentence(f"{where} the {who} {verb.past} the {what}")
    assert scene.passive() == sentence(f"the {what} was {verb.participle} by the {who} {where}")
    assert scene.negated() == sentence(f"the {who} did not {verb.base} the {what} {where}")


def test_sentence_is_capitalised_and_article_agrees_with_its_noun() -> None:
    assert sentence("the end") == "The end."
    assert sentence("why?") == "Why?"
    assert article("apple") == "an apple"
    assert article("pear") == "a pear"


def test_random_alternative_differs_from_the_given_option() -> None:
    rng = seeded("other")
    assert {other(rng, ("a", "b", "c"), "a") for _ in range(50)} == {"b", "c"}
