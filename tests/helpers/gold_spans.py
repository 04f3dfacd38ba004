"""Texts in many scripts with a marked answer, composed and decomposed."""

import unicodedata

_MARKED = (
    "Anna went to the [café] by train.",
    "The [Émile Zola museum], of Paris, is closed.",
    "[Élan] was the name of it.",
    "It cost [€5] at the market, not $7.",
    "He lives in [São Paulo], Brazil.",
    "“[Œuvre]” is a word of French origin.",
    "El niño comió [ñoquis] en Málaga.",
    "Pojechał do [Łodzi] w maju, bez żony.",
    "Znal [Příliš žluťoučký kůň] dobře.",
    "[İstanbul]'da ışık vardı.",
    "Ông sống ở [Hà Nội] từ nhỏ.",
    "Der Fluss heißt [Weiße Elster] und ist lang.",
    "Он жил в [Санкт-Петербурге], а не в Москве.",
    "[Ёлка] стоит в углу.",
    "Ο [Οδυσσέας] γύρισε στην Ιθάκη.",
    "הוא גר ב[ירושלים] שנים רבות.",
    "אמר [שָׁלוֹם] לכולם.",
    "ذهب إلى [القاهرة] في الصيف.",
    "قال [السَّلَامُ عَلَيْكُم] للجميع.",
    "او [می‌خواهم] را گفت.",
    "वह [नई दिल्ली] में रहता है।",
    "अध्यापक ने [हिन्दी] पढ़ाई।",
    "அவர் [சென்னை] நகரில் வாழ்கிறார்.",
    "เขาอยู่ที่ [กรุงเทพฯ] มานาน",
    "彼は[東京]に住んでいる。",
    "他住在[北京大学]附近。",
    "그는 [서울]에 살았다.",
    "[대한민국]의 수도는 서울이다.",
    "The unit is [½ ﬂuid ounce], as said.",
    "The bird 🐦 sat on [Ångström Street] 👍🏽 all day.",
    "ის [თბილისში] ცხოვრობდა.",
    "Նա [Երևանում] էր ապրում։",
)


def _parted(marked: str, form: str) -> tuple[str, str, int]:
    before, _, rest = marked.partition("[")
    answer, _, after = rest.partition("]")
    parts = [unicodedata.normalize(form, part) for part in (before, answer, after)]
    return "".join(parts), parts[1], len(parts[0])


SPANS = tuple(dict.fromkeys(_parted(marked, form) for marked in _MARKED for form in ("NFC", "NFD")))
"""Texts, their answers, and the first character of each answer."""

GOLD = tuple((text, answer) for text, answer, _ in SPANS)
