"""Fixed texts by which two tokenizers are compared: ten scripts and what else splits them."""

import unicodedata

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
    """A text in capitals, in small letters, and taken apart into letters and marks."""
    return text, text.upper(), text.lower(), unicodedata.normalize("NFD", text)


PROBES = tuple(
    dict.fromkeys((*_PLAIN, *(form for text in _SCRIPTS for form in _forms(text)), *_MIXED))
)
