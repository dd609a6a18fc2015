"""Languages by any of their usual names, as ISO 639-3 codes."""

from __future__ import annotations

import re

from supclap.schema import UserError

_TWO = (
    "ar:ara bg:bul bn:ben ca:cat cs:ces da:dan de:deu el:ell en:eng es:spa et:est eu:eus fa:fas fi:fin fr:fra ga:gle "
    "gl:glg gu:guj he:heb hi:hin hr:hrv hu:hun hy:hye id:ind is:isl it:ita ja:jpn ka:kat kk:kaz km:khm kn:kan ko:kor "
    "lo:lao lt:lit lv:lav mk:mkd ml:mal mn:mon mr:mar ms:msa my:mya nb:nob ne:nep nl:nld nn:nno no:nor pa:pan pl:pol "
    "ps:pus pt:por ro:ron ru:rus si:sin sk:slk sl:slv so:som sq:sqi sr:srp sv:swe sw:swa ta:tam te:tel th:tha tl:tgl "
    "tr:tur uk:ukr ur:urd uz:uzb vi:vie yo:yor zh:zho zu:zul"
)
# The other codes and names in use for the same languages.
_OTHER = (
    "fre:fra ger:deu dut:nld chi:zho cmn:zho per:fas gre:ell cze:ces rum:ron slo:slk may:msa baq:eus arb:ara "
    "english:eng french:fra german:deu spanish:spa dutch:nld catalan:cat japanese:jpn chinese:zho italian:ita "
    "portuguese:por russian:rus korean:kor arabic:ara hindi:hin mandarin:zho"
)
CODES: dict[str, str] = {short: code for short, _, code in (pair.partition(":") for pair in f"{_TWO} {_OTHER}".split())}

KNOWN = frozenset(CODES) | frozenset(CODES.values())


def language(name: str) -> str:
    """``en``, ``en-US``, ``English``, ``eng_Latn`` and ``eng`` are all ``eng``."""
    word = re.split(r"[-_]", name.strip().lower())[0]
    if word in CODES:
        return CODES[word]
    if re.fullmatch(r"[a-z]{3}", word):
        return word
    raise UserError(f"language={name!r} is no language code; write ISO 639-3, such as eng, fra or zho")
