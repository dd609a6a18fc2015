"""Language codes: ISO 639-3, optionally with a script ("zho_Hans"), the 202 of NLLB and SONAR."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from supclap.schema import UserError

CODES = frozenset(
    """
    ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn als_Latn amh_Ethi apc_Arab arb_Arab
    ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn
    bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn
    ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn
    epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gaz_Latn
    gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn
    hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda
    kas_Arab kas_Deva kat_Geor kaz_Cyrl kbp_Latn kea_Latn khk_Cyrl khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn
    kmr_Latn knc_Arab knc_Latn kon_Latn kor_Hang lao_Laoo lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn
    ltz_Latn lua_Latn lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl
    mlt_Latn mni_Beng mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn
    oci_Latn ory_Orya pag_Latn pan_Guru pap_Latn pbt_Arab pes_Arab plt_Latn pol_Latn por_Latn prs_Arab quy_Latn
    ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn
    sna_Latn snd_Arab som_Latn sot_Latn spa_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn
    tam_Taml taq_Latn taq_Tfng tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi tpi_Latn tsn_Latn tso_Latn
    tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn
    war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn
    """.split()
)
# Codes with more than one script, and the one that is meant when none is said.
_USUAL = {
    "zho": "zho_Hans",
    "ace": "ace_Latn",
    "arb": "arb_Arab",
    "bjn": "bjn_Latn",
    "kas": "kas_Deva",
    "knc": "knc_Latn",
    "min": "min_Latn",
    "taq": "taq_Latn",
}
_BY_LANGUAGE = {code[:3]: code for code in sorted(CODES)} | {key: code for key, code in _USUAL.items() if code in CODES}
_SHORT = {"en": "eng", "fr": "fra", "de": "deu", "es": "spa", "nl": "nld", "ca": "cat", "ja": "jpn", "zh": "zho"}


def full(code: str) -> str:
    """The code with its script: "eng" -> "eng_Latn"; UserError for a code that is none."""
    if code in CODES:
        return code
    if code in _BY_LANGUAGE:
        return _BY_LANGUAGE[code]
    low = code.lower()
    near = _SHORT.get(low[:2] if low[2:3] in ("-", "_") else low) or next(
        iter(get_close_matches(low, _BY_LANGUAGE, n=1)), "eng"
    )
    raise UserError(f"language={code!r} is not an ISO 639-3 code; did you mean {near!r}?")


def check(languages: Sequence[str], count: int) -> None:
    """UserError unless there is one known code for each text."""
    if len(languages) != count:
        raise UserError(f"languages has {len(languages)} entries for {count} texts; give one each")
    for code in set(languages):
        full(code)


class Once:
    """Warnings that are given once."""

    def __init__(self) -> None:
        self.given: set[str] = set()

    def __call__(self, key: str, text: str) -> None:
        """Warn, unless the key was warned of before."""
        if key not in self.given:
            self.given.add(key)
            warnings.warn(text, stacklevel=4)

    def foreign(self, languages: Iterable[str], known: frozenset[str] | None, tower: str) -> None:
        """Warn of languages that a tower was not trained on."""
        for code in sorted(set(languages)):
            if known is not None and code[:3] not in known:
                self(f"language {code}", f"{tower} was not trained on language={code!r}: its rows mean little")
