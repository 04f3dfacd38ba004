"""Tests that texts are tokenized by tokenizer.json, not by the class that transformers builds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchharness.encoder.tokenizer import ZEROS, load_tokenizer, save_tokenizer
from benchharness.errors import ModelError
from benchharness.heads import Limits, pair
from benchharness.heads.tokens import Frame, tokenize, tokenize_ids
from benchharness.tasks.examples import PairExample
from tests.helpers.families import FAMILIES, make_config
from tests.helpers.family_tokenizers import make_family_tokenizer
from tests.helpers.gold_spans import GOLD
from tests.helpers.odd_tokenizers import ODD, SPECIAL, odd_tokenizer
from tests.helpers.soak import in_part

TEXTS = [
    *dict.fromkeys(text for text, _ in GOLD),
    "THE CAFÉ OF Élan, 1998; don't!",
    "  blanks\tand\nlines ",
    "zero\u200bwidth\u00adsoft \U0001f600\ufe0f",
    "{x: 'y'} \\n <b>&amp;</b>",
]


def wordpiece(lowercase: bool = True) -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=list(SPECIAL), show_progress=False
    )
    made.train_from_iterator(TEXTS * 2, trainer)
    made.post_processor = template()
    made.decoder = decoders.WordPiece()
    return made


def template(pair: str = "[CLS] $A [SEP] $B:1 [SEP]:1") -> Any:
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )


def byte_pairs(cut: Any = None) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = cut or pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS * 2, trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    made.decoder = decoders.ByteLevel()
    return made


def unigram(normalizer: Any) -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer, made.pre_tokenizer = normalizer, pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=list(SPECIAL), unk_token="[UNK]", show_progress=False
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    made.post_processor, made.decoder = template(), decoders.Metaspace()
    return made


BERT = {f"{n}_token": f"[{n.upper()}]" for n in ("pad", "unk", "cls", "sep", "mask")}
ROBERTA = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}


def changed(part: str, value: Any, made: Tokenizer) -> Tokenizer:
    setattr(made, part, value)
    return made


WAYS: dict[str, tuple[Callable[[], Tokenizer], str, str]] = {
    "accents kept by an uncased BERT": (
        lambda: changed(
            "normalizer",
            normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]),
            wordpiece(),
        ),
        "BertTokenizerFast",
        "normalizer",
    ),
    "capitals kept without do_lower_case": (
        lambda: wordpiece(lowercase=False),
        "BertTokenizer",
        "normalizer",
    ),
    "a letter replaced": (
        lambda: changed(
            "normalizer",
            normalizers.Sequence(
                [normalizers.Replace("ß", "ss"), normalizers.BertNormalizer(lowercase=True)]
            ),
            wordpiece(),
        ),
        "DistilBertTokenizerFast",
        "normalizer",
    ),
    "a letter taken out": (
        lambda: changed(
            "normalizer",
            normalizers.Sequence([normalizers.Replace(Regex("[éü]"), ""), normalizers.NFC()]),
            byte_pairs(),
        ),
        "RobertaTokenizerFast",
        "normalizer",
    ),
    "words cut at blanks alone": (
        lambda: changed("pre_tokenizer", pre_tokenizers.WhitespaceSplit(), wordpiece()),
        "ElectraTokenizerFast",
        "pre_tokenizer",
    ),
    "single digits": (
        lambda: byte_pairs(
            pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel()]
            )
        ),
        "RobertaTokenizerFast",
        "pre_tokenizer",
    ),
    "a template without an end": (
        lambda: changed(
            "post_processor",
            processors.TemplateProcessing(
                single="[CLS] $A",
                pair="[CLS] $A [SEP] $B:1",
                special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
            ),
            wordpiece(),
        ),
        "BertTokenizerFast",
        "post_processor",
    ),
    "two separators": (
        lambda: changed("post_processor", template("[CLS] $A [SEP] [SEP] $B [SEP]"), wordpiece()),
        "BertTokenizerFast",
        "post_processor",
    ),
    "other pieces of a word": (
        lambda: changed(
            "model",
            models.WordPiece(
                vocab=wordpiece().get_vocab(), unk_token="[UNK]", max_input_chars_per_word=4
            ),
            wordpiece(),
        ),
        "BertTokenizerFast",
        "model",
    ),
    "ALBERT with accents and capitals": (
        lambda: unigram(normalizers.NFKC()),
        "AlbertTokenizerFast",
        "normalizer",
    ),
    "XLNet with marks": (
        lambda: unigram(normalizers.NFC()),
        "XLNetTokenizerFast",
        "normalizer",
    ),
    "a token of a user's own": (
        lambda: with_token(AddedToken("café", single_word=True, normalized=False)),
        "BertTokenizerFast",
        "",
    ),
}


def with_token(token: AddedToken) -> Tokenizer:
    made = changed("normalizer", normalizers.NFC(), wordpiece())
    made.add_tokens([token])
    return made


def write(folder: Path, made: Tokenizer, name: str, family: str = "bert", **settings: Any) -> Path:
    folder.mkdir(exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    special = BERT if made.token_to_id("[CLS]") is not None else ROBERTA
    told = {"tokenizer_class": name, "model_max_length": 64, **special, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return folder


def file_ids(folder: Path, *texts: str) -> list[int]:
    told = Tokenizer.from_file(str(folder / "tokenizer.json"))
    told.no_truncation()
    told.no_padding()
    return told.encode(*texts).ids


def assert_reads_as_the_file(tokenizer: Any, folder: Path) -> None:
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == file_ids(folder, text), text
        assert tokenizer(text, TEXTS[3])["input_ids"] == file_ids(folder, text, TEXTS[3]), text


@pytest.mark.parametrize("way", WAYS)
def test_tokenizer_json_has_precedence_over_the_configured_tokenizer_class(
    tmp_path: Path, way: str
):
    make, name, part = WAYS[way]
    family = "roberta" if name.startswith("Roberta") else "bert"
    folder = write(tmp_path / "given", make(), name, family)
    tokenizer = load_tokenizer(folder, make_config(family))
    assert_reads_as_the_file(tokenizer, folder)
    assert part in tokenizer.source.unlike or not part
    assert tokenizer.source.file == "tokenizer.json"
    # BertTokenizer and ElectraTokenizer are the same class.
    kind = name.removesuffix("Fast").replace("Electra", "Bert")
    assert tokenizer.source.instead_of == kind
    side = "left" if "XLNet" in name else "right"
    assert (tokenizer.model_max_length, tokenizer.padding_side) == (64, side)


@pytest.mark.parametrize("way", WAYS)
def test_saved_tokenizer_gives_the_same_tokens_when_loaded_by_transformers(
    tmp_path: Path, way: str
):
    make, name, _ = WAYS[way]
    family = "roberta" if name.startswith("Roberta") else "bert"
    folder = write(tmp_path / "given", make(), name, family)
    tokenizer = load_tokenizer(folder, make_config(family))
    written = tmp_path / "written"
    written.mkdir()
    (written / "config.json").write_text((folder / "config.json").read_text())
    save_tokenizer(tokenizer, written)
    plain = AutoTokenizer.from_pretrained(written)
    assert_reads_as_the_file(plain, folder)
    assert plain.special_tokens_map == tokenizer.special_tokens_map
    ours = tokenizer(TEXTS, TEXTS[::-1])
    assert plain(TEXTS, TEXTS[::-1]).data == ours.data
    again = load_tokenizer(written, make_config(family))
    assert again.source.instead_of == ""


@pytest.mark.parametrize("family", in_part(FAMILIES, [*FAMILIES][::3]))
def test_tokenizer_saved_by_its_own_family_is_not_changed(tmp_path: Path, family: str):
    config = make_config(family)
    given = make_family_tokenizer(family)
    given.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    tokenizer = load_tokenizer(tmp_path, config)
    assert type(tokenizer) is type(given)
    assert tokenizer.source.to_json() == {
        "reader": type(given).__name__,
        "file": "tokenizer.json",
    }
    assert_reads_as_the_file(tokenizer, tmp_path)
    told = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = tokenize_ids(TEXTS, tokenizer)
    for text in TEXTS:
        assert ids[text].tolist() == told.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", ODD)
def test_token_ids_of_unusual_tokenizers_match_their_file(tmp_path: Path, name: str):
    odd_tokenizer(name).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "BertTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = load_tokenizer(tmp_path, make_config("bert"))
    assert_reads_as_the_file(tokenizer, tmp_path)
    told = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text, tokens in tokenize(TEXTS, tokenizer).items():
        assert tokens.ids.tolist() == told.encode(text, add_special_tokens=False).ids


def test_texts_that_do_lower_case_would_tokenize_differently_are_counted(tmp_path: Path):
    folder = write(tmp_path, wordpiece(lowercase=False), "BertTokenizerFast", do_lower_case=True)
    tokenizer = load_tokenizer(folder, make_config("bert"))
    assert_reads_as_the_file(tokenizer, folder)
    assert tokenizer.source.texts > 50
    assert tokenizer.source.of > 100


def test_tokenizer_difference_that_changes_no_text_is_reported_with_0_texts(tmp_path: Path):
    lower = normalizers.Sequence([normalizers.BertNormalizer(lowercase=True)])
    folder = write(tmp_path, changed("normalizer", lower, wordpiece()), "BertTokenizerFast")
    tokenizer = load_tokenizer(folder, make_config("bert"))
    assert (tokenizer.source.texts, tokenizer.source.unlike) == (0, ("normalizer",))
    assert_reads_as_the_file(tokenizer, folder)


def test_truncation_and_padding_in_tokenizer_json_are_disabled(tmp_path: Path):
    made = changed("normalizer", normalizers.NFC(), wordpiece())
    made.enable_truncation(8)
    made.enable_padding(length=8)
    for name in ("BertTokenizerFast", "PreTrainedTokenizerFast"):
        folder = write(tmp_path / name, made, name)
        tokenizer = load_tokenizer(folder, make_config("bert"))
        assert_reads_as_the_file(tokenizer, folder)


def test_tokens_in_added_tokens_json_are_kept(tmp_path: Path):
    made = changed("normalizer", normalizers.NFC(), wordpiece())
    size = made.get_vocab_size()
    folder = write(tmp_path, made, "BertTokenizerFast")
    (folder / "added_tokens.json").write_text(json.dumps({"[E1]": size}))
    tokenizer = load_tokenizer(folder, make_config("bert"))
    assert tokenizer("a [E1]", add_special_tokens=False)["input_ids"][-1] == size
    assert_reads_as_the_file(tokenizer, folder)


def test_tokenizer_class_with_another_vocabulary_type_is_ignored(tmp_path: Path):
    folder = write(tmp_path, wordpiece(), "RemBertTokenizerFast", do_lower_case=True)
    tokenizer = load_tokenizer(folder, make_config("bert"))
    assert_reads_as_the_file(tokenizer, folder)
    assert tokenizer.source.file == "tokenizer.json"
    assert tokenizer.sep_token == "[SEP]"


def test_an_unreadable_tokenizer_json_is_an_error(tmp_path: Path):
    folder = write(tmp_path, unigram(normalizers.NFKC()), "AlbertTokenizerFast")
    told = json.loads((folder / "tokenizer.json").read_text())
    told["normalizer"] = {"type": "NoSuchNormalizer"}
    (folder / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(ModelError, match="tokenizer"):
        load_tokenizer(folder, make_config("bert"))


def test_special_tokens_that_contradict_tokenizer_json_are_an_error(tmp_path: Path):
    made = changed("normalizer", normalizers.NFC(), wordpiece())
    # The padding token "a" is also a common word of the texts.
    folder = write(tmp_path, made, "BertTokenizerFast", pad_token="a")
    with pytest.raises(ModelError, match=r"contradicts tokenizer_config\.json: with the special"):
        load_tokenizer(folder, make_config("bert"))


def test_an_added_token_with_another_id_is_an_error(tmp_path: Path):
    folder = write(
        tmp_path,
        unigram(normalizers.NFC()),
        "XLNetTokenizerFast",
        added_tokens_decoder={"900": {"content": "[E1]", "special": False}},
    )
    with pytest.raises(ModelError, match=r"gives '\[E1\]' an id"):
        load_tokenizer(folder, make_config("bert"))


def test_an_unknown_token_outside_the_vocabulary_is_an_error(tmp_path: Path):
    folder = write(tmp_path, wordpiece(), "BertTokenizerFast", unk_token="")
    with pytest.raises(ModelError, match="its unk_token '' is not in its vocabulary"):
        load_tokenizer(folder, make_config("bert"))


def test_internally_inconsistent_tokenizer_json_is_an_error(tmp_path: Path):
    folder = write(tmp_path, changed("normalizer", normalizers.NFC(), wordpiece()), "BertTokenizer")
    told = json.loads((folder / "tokenizer.json").read_text())
    told["post_processor"]["special_tokens"] = {}
    (folder / "tokenizer.json").write_text(json.dumps(told))
    with pytest.raises(ModelError):
        load_tokenizer(folder, make_config("bert"))


def test_tokenizer_whose_vocabulary_has_no_unknown_token_can_be_loaded(tmp_path: Path):
    made = wordpiece()
    made.model.unk_token = "[NONE]"
    tokenizer = load_tokenizer(write(tmp_path, made, "BertTokenizerFast"), make_config("bert"))
    assert tokenizer.source.file == "tokenizer.json"


# Token types.

TYPED = ("albert", "bert", "convbert", "electra", "ernie", "megatron-bert", "mobilebert")
MORE = {"rembert": "RemBertTokenizer", "splinter": "SplinterTokenizer", "layoutlm": "BertTokenizer"}


@pytest.mark.parametrize("family", [*TYPED, *MORE])
@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "RobertaTokenizer", "own"])
def test_token_types_are_used_if_the_network_has_two_token_types(
    tmp_path: Path, family: str, name: str
):
    config = make_config("bert", type_vocab_size=2)
    config.model_type = family
    # The tokenizer class of the family itself, or the given class.
    named = MORE.get(family, "BertTokenizer") if name == "own" else name
    folder = write(tmp_path, wordpiece(), named, "bert")
    frame = Frame.of(load_tokenizer(folder, config), texts=2)
    assert frame.has_types
    assert frame.texts == (0, 1)


@pytest.mark.parametrize("processor", [None, processors.ByteLevel(trim_offsets=False)])
def test_texts_have_different_token_types_if_tokenizer_json_has_no_template(
    tmp_path: Path, processor: Any
):
    made = wordpiece()
    told = json.loads(made.to_str())
    told["post_processor"] = processor and json.loads(processor.__getstate__())
    folder = write(tmp_path, Tokenizer.from_str(json.dumps(told)), "PreTrainedTokenizerFast")
    tokenizer = load_tokenizer(folder, make_config("bert"))
    examples = [PairExample(id="1", text_a="the café", text_b="was")]
    features = pair.encode(examples, tokenizer, Limits(max_tokens=32))
    sizes = [len(tokenizer(t, add_special_tokens=False)["input_ids"]) for t in ("the café", "was")]
    assert features.token_types is not None
    assert features.token_types.tolist() == np.repeat([0, 1], sizes).tolist()


@pytest.mark.parametrize("types", [0, 1])
def test_token_types_are_omitted_for_a_network_with_one_token_type(tmp_path: Path, types: int):
    folder = write(tmp_path, wordpiece(), "BertTokenizerFast")
    config = make_config("bert", type_vocab_size=2)
    config.type_vocab_size = types
    assert not Frame.of(load_tokenizer(folder, config), texts=2).has_types


@pytest.mark.parametrize("family", ZEROS)
def test_token_types_are_omitted_for_families_pretrained_with_one_token_type(
    tmp_path: Path, family: str
):
    folder = write(tmp_path, wordpiece(), "PreTrainedTokenizerFast")
    config = make_config("bert", type_vocab_size=2)
    config.model_type = family
    assert not Frame.of(load_tokenizer(folder, config), texts=2).has_types


@pytest.mark.parametrize("types", [[], ["token_type_ids"]])
@pytest.mark.parametrize("family", ["bert", "big_bird"])
def test_model_input_names_of_tokenizer_config_decide_about_token_types(
    tmp_path: Path, types: list[str], family: str
):
    names = ["input_ids", "attention_mask", *types]
    folder = write(tmp_path, wordpiece(), "BertTokenizerFast", model_input_names=names)
    config = make_config("bert", type_vocab_size=2)
    config.model_type = family
    assert Frame.of(load_tokenizer(folder, config), texts=2).has_types is bool(types)


def test_a_tokenizer_with_a_custom_python_component_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Halves:
        def pre_tokenize(self, text: Any) -> None:
            text.split(lambda _, piece: [piece[:2], piece[2:]])

    folder = write(tmp_path, wordpiece(), "BertTokenizerFast")
    read = AutoTokenizer.from_pretrained

    def with_halves(*words: Any, **settings: Any) -> Any:
        found = read(*words, **settings)
        found.backend_tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Halves())
        return found

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", with_halves)
    assert load_tokenizer(folder, make_config("bert")).source.instead_of == ""


def test_template_with_one_token_type_gives_both_texts_the_same_type(tmp_path: Path):
    made = changed("post_processor", template("[CLS] $A [SEP] $B [SEP]"), wordpiece())
    folder = write(tmp_path, made, "PreTrainedTokenizerFast")
    assert Frame.of(load_tokenizer(folder, make_config("bert")), texts=2).texts == (0, 0)


def test_a_kept_model_has_the_token_types_of_its_training(tmp_path: Path):
    config = make_config("bert")
    # This class does not list token_type_ids.
    folder = write(tmp_path, wordpiece(), "PreTrainedTokenizerFast")
    before = load_tokenizer(folder, config, was_kept=True)
    assert not Frame.of(before, texts=2).has_types
    given = load_tokenizer(folder, config)
    given.save_pretrained(folder)
    assert Frame.of(load_tokenizer(folder, config, was_kept=True), texts=2).has_types


# Upper and lower case.


def cased(folder: Path, *, vocabulary: bool = True, **settings: Any) -> Path:
    write(folder, wordpiece(lowercase=not vocabulary), "BertTokenizer")
    pieces = sorted((n, piece) for piece, n in wordpiece(not vocabulary).get_vocab().items())
    (folder / "vocab.txt").write_text("\n".join(piece for _, piece in pieces) + "\n")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def keeps_capitals(tokenizer: Any) -> bool:
    return bool(tokenizer("Anna")["input_ids"] != tokenizer("anna")["input_ids"])


@pytest.mark.parametrize(
    "settings", [{}, {"model_max_length": 64}, {"tokenizer_class": "BertTokenizer"}]
)
def test_a_cased_vocabulary_is_not_lowercased_by_default(tmp_path: Path, settings: dict[str, Any]):
    tokenizer = load_tokenizer(cased(tmp_path, **settings), make_config("bert"))
    assert keeps_capitals(tokenizer)
    words = "kept, because its vocabulary has capitals (no file sets do_lower_case)"
    assert tokenizer.source.case == words
    assert tokenizer.source.file == "vocab.txt"


def test_do_lower_case_of_tokenizer_config_applies_to_a_cased_vocabulary(tmp_path: Path):
    tokenizer = load_tokenizer(cased(tmp_path, do_lower_case=True), make_config("bert"))
    assert not keeps_capitals(tokenizer)
    assert tokenizer.source.case == ""


def test_an_uncased_vocabulary_is_lowercased_by_default(tmp_path: Path):
    tokenizer = load_tokenizer(cased(tmp_path, vocabulary=False), make_config("bert"))
    assert not keeps_capitals(tokenizer)
    assert tokenizer.source.case == ""


def test_a_vocabulary_with_few_capitalized_words_is_uncased(tmp_path: Path):
    folder = cased(tmp_path, vocabulary=False)
    with (folder / "vocab.txt").open("a") as file:
        file.write("URL\n[E1]\n[E2]\n")
    assert not keeps_capitals(load_tokenizer(folder, make_config("bert")))


@pytest.mark.parametrize(("model", "row"), [("SpanBERT/spanbert-base-cased", True), ("x/y", False)])
def test_casing_of_a_registered_model_is_used_if_no_file_states_it(
    tmp_path: Path, model: str, row: bool
):
    folder = cased(tmp_path, vocabulary=False)
    tokenizer = load_tokenizer(folder, make_config("bert"), checkpoint=model)
    assert keeps_capitals(tokenizer) is row
    assert ("the table of models states this" in tokenizer.source.case) is row


def test_tokenizer_files_that_contradict_the_casing_of_a_registered_model_are_reported(
    tmp_path: Path,
):
    folder = write(tmp_path, wordpiece(), "BertTokenizer", do_lower_case=True)
    tokenizer = load_tokenizer(
        folder, make_config("bert"), checkpoint="SpanBERT/spanbert-base-cased"
    )
    assert tokenizer.source.case == "lowered by its files, but cased in the table of models"


def test_saved_tokenizer_has_a_class_known_to_every_transformers_version(tmp_path: Path):
    folder = write(tmp_path / "given", WAYS["two separators"][0](), "BertTokenizerFast")
    tokenizer = load_tokenizer(folder, make_config("bert"))
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    save_tokenizer(tokenizer, folder)
    told = json.loads((folder / "tokenizer_config.json").read_text())
    assert told["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_special_tokens_are_added_for_a_cyrillic_vocabulary(tmp_path: Path):
    made = Tokenizer(models.BPE(vocab={"[CLS]": 0, "[SEP]": 1, "м": 2, "и": 3, "р": 4}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 1)],
    )
    folder = write(tmp_path, made, "PreTrainedTokenizerFast", "bert")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    tokenizer = load_tokenizer(folder, make_config("bert"))
    features = pair.encode(
        [PairExample(id="1", text_a="мир", text_b="ир x")], tokenizer, Limits(max_tokens=16)
    )
    assert features.token_ids.tolist() == [0, 2, 3, 4, 1, 3, 4, 1]
