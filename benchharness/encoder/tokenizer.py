"""Load the tokenizer of a checkpoint so that it follows the checkpoint's own files.

If tokenizer_config.json names a tokenizer class, transformers rebuilds the tokenizer from its
vocabulary and ignores the rest of tokenizer.json: how texts are normalized and split, and which
tokens are added around them. When a checkpoint is loaded, this module compares the rebuilt
tokenizer with tokenizer.json. If they differ, it uses tokenizer.json.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchharness.encoder.network import check_trusted
from benchharness.errors import ModelError, first_line
from benchharness.leaderboard.job import Trust
from benchharness.models.folder import read_object, unsaid_family
from benchharness.models.spec import MODELS, NOTHING, shown

FILE, SETTINGS = "tokenizer.json", "tokenizer_config.json"


@dataclass(frozen=True, kw_only=True)
class TokenizerSource:
    """Description of the file and the class that a tokenizer comes from; stored with each result.

    Attributes:
        reader: Name of the class of the tokenizer.
        file: Name of the file that the tokenizer was read from; empty if the class comes with the
            checkpoint, or if no vocabulary file was found.
        instead_of: Name of the class that `reader` replaces, because that class contradicts
            tokenizer.json; empty if no class is replaced.
        unlike: Parts in which the replaced class differs from tokenizer.json, such as
            "normalizer".
        texts: Number of the fixed test texts that the replaced class tokenizes differently.
        of: Number of fixed test texts that were compared; 0 if no class is replaced.
        case: Note about lower-casing, or empty. There is a note if no file of the tokenizer decides
            whether texts are lower-cased and benchharness has changed transformers' default, or if
            a file contradicts the registry of models.
    """

    reader: str
    file: str = ""
    instead_of: str = ""
    unlike: tuple[str, ...] = ()
    texts: int = 0
    of: int = 0
    case: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not empty or 0, keyed by name, as data for JSON."""
        return {n: list(v) if n == "unlike" else v for n, v in asdict(self).items() if v}


def load_tokenizer(
    folder: Path,
    config: Any,
    trust: Trust = NOTHING,
    checkpoint: str = "",
    *,
    was_kept: bool = False,
) -> Any:
    """Load the tokenizer of a checkpoint, with its TokenizerSource as the attribute `source`.

    The tokenizer returns `token_type_ids` only if the network has learned several token types, and
    if they are among the `model_input_names` in tokenizer_config.json. Without such a list, they
    are not returned for families that were pretrained with one type only (see ZEROS).

    Args:
        folder: Folder of the checkpoint.
        config: Config of the network.
        trust: Permissions that the user grants to the checkpoint.
        checkpoint: Hub id of the checkpoint. For registered models, the registry states whether
            capitals are kept. May be empty.
        was_kept: Whether the folder was saved by a run. The tokenizer then returns `token_type_ids`
            if it did so in that run, whatever its family.

    Raises:
        ModelError: The tokenizer is not usable, or cannot be made to follow its tokenizer.json.
    """
    tokenizer, case = _with_case(_load(folder, config, trust), folder, config, trust, checkpoint)
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ModelError(
            f"the tokenizer in {shown(folder)} is not usable: its model_max_length is "
            f"{tokenizer.model_max_length!r}, expected a number."
        )
    tokenizer, source = _obeying(tokenizer, folder)
    unknown = tokenizer.unk_token
    # If the vocabulary lacks the unknown token, transformers would look for it in an endless loop.
    if tokenizer.is_fast and unknown is not None and str(unknown) not in tokenizer.get_vocab():
        raise ModelError(
            f"the tokenizer in {shown(folder)} is not usable: its unk_token {str(unknown)!r} is "
            "not in its vocabulary."
        )
    tokenizer.source = replace(source, case=case or _against_table(tokenizer, checkpoint))
    gives = _gives_types(tokenizer, config, folder, was_kept=was_kept) and _has_types(config)
    names = [name for name in tokenizer.model_input_names if name != TYPES]
    # The tokenizer returns the values that model_input_names lists.
    tokenizer.model_input_names = [*names, TYPES] if gives else names
    # init_kwargs are saved with the tokenizer.
    tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
    return tokenizer


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer so that it behaves the same when transformers loads it without benchharness.

    The folder must already contain config.json. If the class that tokenizer_config.json names would
    behave differently, that name is replaced with PreTrainedTokenizerFast, which uses
    tokenizer.json unchanged and exists in both transformers 4 and 5. A tokenizer that is slow (pure
    Python), or whose class comes with its checkpoint, is saved without this comparison.
    """
    tokenizer.save_pretrained(folder)
    if not tokenizer.is_fast or _is_foreign(tokenizer):
        return
    again = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if type(tokenizer) is PreTrainedTokenizerFast or any(
        _differences(again.backend_tokenizer, tokenizer.backend_tokenizer)
    ):
        settings = {**read_object(folder / SETTINGS), "tokenizer_class": "PreTrainedTokenizerFast"}
        text = json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        (folder / SETTINGS).write_text(text, encoding="utf-8")


def _load(folder: Path, config: Any, trust: Trust, *, lowers: bool | None = None) -> Any:
    """Load a folder's tokenizer with the class that its files name, or with the fast base class.

    `lowers` is whether texts are lower-cased; None leaves that to the files and transformers.
    """
    code: dict[str, Any] = {"trust_remote_code": trust.remote_code, "local_files_only": True}
    if unsaid_family(folder):
        code["config"] = config
    if lowers is not None:
        code[_CASE] = lowers
    try:
        return AutoTokenizer.from_pretrained(folder, **code)
    except Exception as error:  # a damaged file can make transformers raise anything
        check_trusted(folder, error)
        if isinstance(error, ImportError) or not _needs_no_class(folder):
            raise _unusable(folder, error) from error
    try:
        return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # a damaged file can make transformers raise anything
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: Exception) -> ModelError:
    return ModelError(f"the tokenizer in {shown(folder)} is not usable: {first_line(error)}")


def _needs_no_class(folder: Path) -> bool:
    """Return whether a folder's tokenizer.json can be read without the class in its settings."""
    settings = read_object(folder / SETTINGS)
    if "tokenizer_class" not in settings or "auto_map" in settings:
        return False
    try:
        _read(folder / FILE)
    except ModelError:
        return False
    return True


# Choice between the two definitions: transformers' class and tokenizer.json.

_PARTS = ("normalizer", "pre_tokenizer", "model", "post_processor", "decoder")


def _obeying(tokenizer: Any, folder: Path) -> tuple[Any, TokenizerSource]:
    """Return a tokenizer that follows the folder's tokenizer.json, with its TokenizerSource."""
    reader = type(tokenizer).__name__
    if _is_foreign(tokenizer):
        return tokenizer, TokenizerSource(reader=reader)
    if not (tokenizer.is_fast and (folder / FILE).is_file()):
        names = tokenizer.vocab_files_names.values()
        found = next((name for name in names if (folder / name).is_file()), "")
        return tokenizer, TokenizerSource(reader=reader, file=found)
    if _is_in_python(tokenizer.backend_tokenizer):
        return tokenizer, TokenizerSource(reader=reader, file=FILE)
    told = _read(folder / FILE)
    unlike, texts = _differences(tokenizer.backend_tokenizer, told)
    if not unlike and not texts:
        return tokenizer, TokenizerSource(reader=reader, file=FILE)
    made = _made_of(told, tokenizer, folder)
    still = _count_unlike(made.backend_tokenizer, told)
    if still:
        raise ModelError(
            f"{shown(folder / FILE)} contradicts {SETTINGS}: with the special tokens there, "
            f"{still} of {len(_PAIRS)} fixed texts are tokenized differently. Save both files with "
            f"one call of save_pretrained, or remove {FILE} so that {reader} reads the vocabulary."
        )
    return made, TokenizerSource(
        reader=type(made).__name__,
        file=FILE,
        instead_of=reader,
        unlike=tuple(unlike),
        texts=texts,
        of=len(_PAIRS),
    )


def _is_foreign(tokenizer: Any) -> bool:
    """Return whether a tokenizer's class comes with its checkpoint, as trusted code."""
    return not type(tokenizer).__module__.startswith("transformers.")


def _read(file: Path) -> Tokenizer:
    """Read a tokenizer file with the tokenizers library, without truncation and padding."""
    try:
        told = Tokenizer.from_file(str(file))
    except Exception as error:
        if type(error) is not Exception:  # the tokenizers library raises only Exception itself
            raise
        raise ModelError(
            f"{shown(file)} is not readable ({first_line(error)}): copy the checkpoint again, or "
            "remove the file to use the vocabulary next to it."
        ) from None
    told.no_truncation()
    told.no_padding()
    return told


def _differences(backend: Tokenizer, told: Tokenizer) -> tuple[list[str], int]:
    """Return the names of the parts that differ, and the number of texts encoded differently."""
    unlike = [name for name in _PARTS if _differs(getattr(backend, name), getattr(told, name))]
    added = backend.get_added_tokens_decoder()
    if any(added.get(n) != token for n, token in told.get_added_tokens_decoder().items()):
        unlike.append("added_tokens")
    return unlike, _count_unlike(backend, told)


def _differs(own: Any, told: Any) -> bool:
    # A template that only transformers' tokenizer has counts as equal here. If the template adds
    # tokens around a text, the encodings of the fixed texts will differ.
    is_bare = told is None and isinstance(own, processors.TemplateProcessing)
    return not is_bare and _state(own) != _state(told)


def _state(part: Any) -> bytes | None:
    """Return a part of a tokenizer as JSON; None if it is absent or written in Python."""
    try:
        return None if part is None else bytes(part.__getstate__())
    except Exception as error:
        if type(error) is not Exception:
            raise
        return None


def _is_in_python(backend: Tokenizer) -> bool:
    """Return whether a part is written in Python (as in RoFormer), so no file can store it."""
    # The part "model" is skipped: it is never written in Python, and would be slow to serialize.
    parts = (getattr(backend, name) for name in _PARTS if name != "model")
    return any(part is not None and _state(part) is None for part in parts)


def _count_unlike(backend: Tokenizer, told: Tokenizer) -> int:
    """Return the number of fixed texts and pairs that two tokenizers encode differently."""
    cut, filled = backend.truncation, backend.padding
    backend.no_truncation()
    backend.no_padding()
    own, theirs = _ids_of(backend), _ids_of(told)
    # These settings are saved with the tokenizer, so they are restored.
    if cut is not None:
        backend.enable_truncation(**cut)
    if filled is not None:
        backend.enable_padding(**filled)
    return sum(one != other for one, other in zip(own, theirs, strict=True))


def _ids_of(tokenizer: Tokenizer) -> list[Sequence[int]]:
    """Return the token ids of each fixed text; all are empty if the unknown token is missing.

    Raises ModelError if the tokenizer contradicts itself.
    """
    try:
        return [found.ids for found in tokenizer.encode_batch(list(_PAIRS))]
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # a Rust panic, for an undefined name
            raise ModelError(
                f"the checkpoint's {FILE} contradicts itself ({first_line(error)}): copy the "
                "checkpoint again."
            ) from None
        if type(error) is not Exception:  # the tokenizers library raises only Exception itself
            raise
        return [()] * len(_PAIRS)  # the error will be reported when a text has an unknown word


def _decoder_of(folder: Path) -> Mapping[str, Any]:
    """Return the added tokens of a folder's settings, keyed by their ids as strings."""
    found = read_object(folder / SETTINGS).get("added_tokens_decoder")
    pairs = found.items() if isinstance(found, dict) else ()
    return {n: t for n, t in pairs if n.isdecimal() and isinstance(t, dict) and "content" in t}


def _words_in(value: Any) -> set[str]:
    """Return all keys and strings in a JSON value."""
    if isinstance(value, dict):
        return set().union(value, *map(_words_in, value.values()))
    if isinstance(value, list):
        return set().union(*map(_words_in, value))
    return {value} if isinstance(value, str) else set()


_KEPT = (
    "model_max_length",
    "padding_side",
    "truncation_side",
    "pad_token_type_id",
    "clean_up_tokenization_spaces",
    "model_input_names",
)
"""Attributes of a tokenizer that do not depend on its backend, and are kept when its class is
replaced."""


def _made_of(told: Tokenizer, tokenizer: Any, folder: Path) -> Any:
    """Build a tokenizer from a file's backend and another tokenizer's special tokens and limits."""
    files = (folder / name for name in ("special_tokens_map.json", SETTINGS, "added_tokens.json"))
    given = set().union(*(_words_in(read_object(file)) for file in files))
    # transformers' class adds special tokens of its own. Tokens that no file of the folder contains
    # are dropped.
    special = {
        name: str(token)
        for name, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str | AddedToken)
        if str(token) in given or told.token_to_id(str(token)) is not None
    }
    more = {
        number: token
        for number, token in sorted(tokenizer.added_tokens_decoder.items())
        if token.content in given and told.token_to_id(token.content) is None
    }
    told.add_tokens(list(more.values()))  # tokens of added_tokens.json or of the tokenizer's config
    stated = {token["content"]: int(n) for n, token in _decoder_of(folder).items()}
    words = [(token.content, stated.get(token.content, n)) for n, token in more.items()]
    moved = [word for word, number in words if told.token_to_id(word) != number]
    if moved:
        raise ModelError(
            f"{shown(folder / FILE)} contradicts {SETTINGS}, which gives {moved[0]!r} an id that "
            "does not follow the vocabulary: save both files with one call of save_pretrained."
        )
    extra = [t for t in map(str, tokenizer.extra_special_tokens) if told.token_to_id(t) is not None]
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=told,
        extra_special_tokens=extra,
        **{name: getattr(tokenizer, name) for name in _KEPT if hasattr(tokenizer, name)},
        **special,
    )


# Lower-casing, for checkpoints whose tokenizer files do not state whether capitals are kept.

_CASE = "do_lower_case"

FEWEST_CAPITALS = 0.01
"""Smallest fraction of tokens with capitals at which a vocabulary counts as cased. It is not 0,
because users may have added a few such tokens to an uncased vocabulary."""


def _with_case(
    tokenizer: Any, folder: Path, config: Any, trust: Trust, checkpoint: str
) -> tuple[Any, str]:
    """Return a tokenizer that keeps or lowers capitals as its model does, and the reason.

    If the files do not decide this, the table of known models does; for other models, capitals are
    kept if the vocabulary has them. The reason is empty if the tokenizer is returned unchanged.
    """
    lowers = getattr(tokenizer, _CASE, None)
    decided = (folder / FILE).is_file() or _CASE in read_object(folder / SETTINGS)
    if decided or _is_foreign(tokenizer) or not isinstance(lowers, bool):
        return tokenizer, ""
    keeps, why = _keeps_case(checkpoint), "the table of models states this"
    if keeps is None:
        keeps = _has_capitals(tokenizer.get_vocab())
        why = "its vocabulary has capitals"
        if not keeps:
            return tokenizer, ""  # transformers' own choice is kept
    if keeps is not lowers:
        return tokenizer, ""
    word = "kept" if keeps else "lowered"
    said = f"{word}, because {why} (no file sets {_CASE})"
    return _load(folder, config, trust, lowers=not keeps), said


def _keeps_case(checkpoint: str) -> bool | None:
    """Return whether a hub id keeps case according to the table of models; None if unknown."""
    rows = (s.tokenizer for s in MODELS.values() if s.is_hub and s.checkpoint == checkpoint)
    words = next(rows, "").split(", ")
    return {"cased": True, "uncased": False}.get(words[-1])


def _has_capitals(vocabulary: Mapping[str, int]) -> bool:
    # Special tokens such as [unused1] and <s> do not count.
    pieces = [piece for piece in vocabulary if piece[:1] not in ("[", "<")]
    capitals = sum(piece != piece.lower() for piece in pieces)
    return capitals >= FEWEST_CAPITALS * len(pieces) > 0


def _against_table(tokenizer: Any, checkpoint: str) -> str:
    """Describe how a tokenizer's files contradict the table of models; "" if they do not."""
    keeps = _keeps_case(checkpoint)
    if keeps is None or not tokenizer.is_fast:
        return ""
    normalizer = tokenizer.backend_tokenizer.normalizer
    lowers = normalizer is not None and "abc" in normalizer.normalize_str("ABC")
    if keeps is not lowers:
        return ""
    row = "cased" if keeps else "uncased"
    return f"{'lowered' if lowers else 'kept'} by its files, but {row} in the table of models"


# Token types: which text of a pair a token belongs to.

TYPES = "token_type_ids"

COMPARING = ("funnel", "xlnet")
"""Families without token type embeddings. Their attention compares the types of two tokens
instead."""

ZEROS: Mapping[str, str] = {
    # The hub's tokenizer returns two types, but pretraining used the embedding of the first only.
    "big_bird": "google-research/bigbird@5e7d375, bigbird/pretrain/run_pretraining.py: do_masking "
    "has zeros for segment_ids",
    "nystromformer": "mlpen/Nystromformer@5689313, code/model.py: type_ids of Embeddings are zeros",
    "roformer": "ZhuiyiTechnology/roformer, train.py: single texts alone, whose types are zeros",
}
"""Families with embeddings for several token types that were pretrained with the first type
only, mapped to the source of this fact. Splinter was also pretrained without types, but its
authors' fine-tuning uses them (oriram/splinter@1df4c13, finetuning/run_mrqa.py)."""


TYPED = ("albert", "funnel", "xlnet")
"""Families whose networks received token types in every version of benchharness, although the
`model_input_names` of their tokenizer classes in transformers 5 do not contain them."""


def _has_types(config: Any) -> bool:
    """Return whether a network has learned several token types."""
    # type_vocab_size may be null in the config.
    return config.model_type in COMPARING or (getattr(config, "type_vocab_size", 0) or 0) > 1


def _gives_types(tokenizer: Any, config: Any, folder: Path, *, was_kept: bool) -> bool:
    """Return whether token types are passed to a network that has learned several types."""
    family = config.model_type
    if isinstance(listed := read_object(folder / SETTINGS).get("model_input_names"), list):
        return TYPES in listed  # runs write this list when they save a tokenizer
    if was_kept:  # an old version of benchharness used the list of the tokenizer's class
        return TYPES in tokenizer.model_input_names or family in TYPED
    return family not in ZEROS


# Fixed texts for comparing two tokenizers, in many scripts and with input that is hard to split.

_PLAIN = (
    "The quick brown fox jumps over the lazy dog.",
    "the quick brown fox jumps over the lazy dog",
    "THE PARIS OF THE NORTH IS TROMSØ.",
    "Anna Schmidt went to New York City in 1998; nobody had expected it (least of all they).",
    "iPhone and eBay, McDonald's and O'Neill, don't, I'll, we've, she'd've, rock 'n' roll",
    'He said: "I do not know", and “walked” ‘away’ — who built it… the tower?',
    "state-of-the-art, e-mail, and/or, 10%, #hashtag, @user, a_b, x^2, 5°, §3, №7, ©2020, ™",
    "$3.50 €4,99 £1.000.000 ¥5 ₹9 1/2 3:45 p.m. 2021-03-04 +49 (0)30 1234567",
    "0 1 12 123 1234 12345 1,234,567.89 1e-5 0x1F 007 1st 2nd",
    "U.S.A. Ph.D. e.g. i.e. etc. Dr. Mr. vs. No. 5",
    "Supercalifragilisticexpialidocious antidisestablishmentarianism",
    "internationalization unhappiness rewriting walked walking walks",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z",
    "! \" # $ % & ' ( ) * + , - . / : ; < = > ? @ [ \\ ] ^ _ ` { | } ~",
    "``quoted'' ''text`` --- -- - ... .. . ?! ??? !!!",
    "",
    " ",
    "a",
    ".",
    " leading",
    "trailing ",
    "two  blanks   three    four",
    "tab\tand\ttabs\t\tand new\nlines\n\nand\r\nreturns\r",
    "no\u00a0break\u202fthin\u2009space\u3000wide\u2028line\u2029end",
    "zero\u200bwidth\u200cnon\u200djoiner\ufeffmark\u00adsoft\u2060word",
    "control\x00\x01\x07\x1b\x7f\x85characters\ufffd and \ufffc",
    "left\u200eright\u200fmarks \u202aembedded\u202c \u2066isolated\u2069",
    "https://www.example.org/path?query=1&other=%20#part and name@example.com",
    "def f(x):\n    return x ** 2  # square\n",
    "if (a != b && c >= 0) { return a[i] -> b::c; }",
    '<div class="a">text &amp; more</div> <br/> </p>',
    "SELECT * FROM t WHERE a = 'b' AND c IS NOT NULL;",
    "\\frac{a}{b} + \\sum_{i=0}^{n} x_i ≤ ∞ ≠ ± √2 ∈ ℝ ∀ ∃ → ⇒",
    "C:\\Users\\Name\\file.txt /usr/local/bin snake_case camelCase PascalCase",
    "lol :-) :( ;) <3 xD omg!!1 sooooo goooood",
    "😀 😀😀 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ 🐦 1️⃣ ☺ ★ ♥",
    "x😀y 😀. a👍🏽b",
)

_SCRIPTS = (
    "Müller trinkt süßen Kaffee in Köln, Straße und STRASSE, ÄÖÜ ẞ.",
    "L'été dernier, Noël et Zoë étaient à l'hôtel; ça va? Œuvre, garçon, naïve façade.",
    "El niño comió ñoquis en Málaga. ¿Qué pasó? ¡Nada! Coração, ação, avó, São Paulo.",
    "Zażółć gęślą jaźń. Łódź, Příliš žluťoučký kůň, Đorđe, Ștefan, Győr, Žižek.",
    "İstanbul'da ışık, DIYARBAKIR, ğüşöç; Ísland, Þór, Ærø, Åse, Øystein.",
    "Việt Nam: Nguyễn Thị Ánh đã đến Hà Nội; Phở bò.",
    "Ὀδυσσεύς, Αθήνα, ΚΑΛΗΜΕΡΑ κόσμε, ς σ Σ.",
    "Москва и Санкт-Петербург, ёлка, Ёж, їжак, ЎЗБЕК, Љубав.",
    "שָׁלוֹם עולם, ירושלים; 'יום' טוב׳",
    "السَّلَامُ عَلَيْكُم، القاهرة؟ ١٢٣ ۴۵۶ می‌خواهم ﷽ ﻻ",
    "नमस्ते दुनिया, हिन्दी क़लम १२३। ਪੰਜਾਬੀ বাংলা ગુજરાતી",
    "தமிழ் நாடு, తెలుగు, ಕನ್ನಡ, മലയാളം, සිංහල",
    "สวัสดีชาวโลก กรุงเทพฯ ภาษาไทย ๑๒๓ ລາວ ខ្មែរ မြန်မာ",
    "東京と北京、ひらがな、カタカナ、ｶﾀｶﾅ、ー。「括弧」１２３ＡＢＣ",
    "中文分词很难，繁體字與简体字。你好，世界！",
    "안녕하세요 세계, 한국어 띄어쓰기, ㄱㄴㄷ",
    "ქართული, Հայերեն, አማርኛ, ᏣᎳᎩ, ᠮᠣᠩᠭᠣᠯ, བོད་ཡིག",
    "ﬁne ﬂow ﬀ ĳ Ǆ ½ ¼ ² ³ ₁ ① ⑩ Ⅳ ℃ ㎏ ㍿ Ｆｕｌｌ ｗｉｄｔｈ",
    "𝐁𝐨𝐥𝐝 𝒮cript 𝔉raktur 𠮷野家 𐍈 𓀀",
    "x̄ ỹ ô̂ q̃ a̐éö̲ Z̷a̸l̶g̵o",
    "café résumé coöperate Ångström Ωmega ﬃ ſt",
)

_MIXED = (
    "Tokyo(東京)のAPIはJSONを返す。",
    "naïve-Москва_東京+שלום=1",
    "Der Preis ist 5€/kg—oder?",
    "a.b.c d,e;f g/h",
    "mañana\u0301 e\u0301 E\u0301 n\u0303 N\u0303 \u0301x",
    "word\u0301. word\u0301, (word\u0301)",
    "e\ufe0f \u20e3 9\ufe0f\u20e3",
    "ab" * 60,
    "x" * 150,
    "1" * 40,
    "日" * 40,
)


def _forms(text: str) -> tuple[str, ...]:
    """Return a text, its upper and lower case, and its decomposition into letters and marks."""
    return text, text.upper(), text.lower(), unicodedata.normalize("NFD", text)


PROBES = tuple(
    dict.fromkeys((*_PLAIN, *(form for text in _SCRIPTS for form in _forms(text)), *_MIXED))
)

_PAIRS: tuple[Any, ...] = (*PROBES, *zip(PROBES[::7], PROBES[3::7], strict=False))
"""Fixed single texts, and pairs of some of these texts."""
