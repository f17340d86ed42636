"""Languages by the codes and English names that files and columns have."""

import re

# ISO 639-1 and frequent three-letter codes; others work with --pair
_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu
lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr
ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
ara ast bel ben bul cat ceb ces cmn dan deu dsb ell eng epo est eus fas fin fra gla gle grc gsw hau
heb hin hrv hsb hun ibo ilo ind isl ita jpn kab kan kat kor kmr lat lav lit ltz mar mkd mlt mya nds
nld nno nob pol por ron rus san sco slk slv som spa sqi srp swa swe szl tam tel tgl tha tok tur ukr
urd uzb vie wol xho yid yor yue zho zul
"""
LANGUAGES = frozenset(_CODES.split())
_NAMES = """
afrikaans:af albanian:sq amharic:am arabic:ar armenian:hy azerbaijani:az basque:eu belarusian:be
bengali:bn bosnian:bs breton:br bulgarian:bg burmese:my cantonese:yue catalan:ca chinese:zh
croatian:hr czech:cs danish:da dutch:nl english:en esperanto:eo estonian:et faroese:fo finnish:fi
french:fr frisian:fy galician:gl georgian:ka german:de greek:el gujarati:gu hausa:ha hebrew:he
hindi:hi hungarian:hu icelandic:is igbo:ig indonesian:id irish:ga italian:it japanese:ja
javanese:jv kannada:kn kazakh:kk khmer:km korean:ko kurdish:ku kyrgyz:ky lao:lo latin:la latvian:lv
lithuanian:lt luxembourgish:lb macedonian:mk malagasy:mg malay:ms malayalam:ml maltese:mt
mandarin:zh maori:mi marathi:mr mongolian:mn nepali:ne norwegian:no occitan:oc pashto:ps persian:fa
polish:pl portuguese:pt punjabi:pa quechua:qu romanian:ro russian:ru sanskrit:sa serbian:sr
shona:sn sinhala:si slovak:sk slovene:sl slovenian:sl somali:so spanish:es swahili:sw swedish:sv
tagalog:tl tajik:tg tamil:ta tatar:tt telugu:te thai:th tibetan:bo turkish:tr turkmen:tk
ukrainian:uk urdu:ur uyghur:ug uzbek:uz vietnamese:vi welsh:cy xhosa:xh yiddish:yi yoruba:yo
zulu:zu
"""
NAMES = dict(name.split(":") for name in _NAMES.split())


def language_code(name: str) -> str:
    """Return the code of a language, given by its code or its English name; "" if it is none.

    Example:
        >>> language_code("French"), language_code("pt_BR"), language_code("price")
        ('fr', 'pt', '')
    """
    lowered = name.strip().lower()
    code = re.split(r"[-_]", lowered, maxsplit=1)[0]
    return NAMES.get(lowered) or (code if code in LANGUAGES and len(lowered) <= 8 else "")
