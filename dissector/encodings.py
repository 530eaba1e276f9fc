"""PostgreSQL's names of client encodings and Python's codecs for them.

Source: the manual's "Character Set Support". An encoding that Python has no codec for is read as
UTF-8, and the bytes that do not decode are shown as escapes.
"""

from __future__ import annotations

_CODECS = {
    "big5": "big5", "euccn": "gb2312", "eucjis2004": "euc_jis_2004", "eucjp": "euc_jp",
    "euckr": "euc_kr", "gb18030": "gb18030", "gbk": "gbk", "iso88595": "iso8859_5",
    "iso88596": "iso8859_6", "iso88597": "iso8859_7", "iso88598": "iso8859_8", "johab": "johab",
    "koi8": "koi8_r", "koi8r": "koi8_r", "koi8u": "koi8_u", "latin1": "iso8859_1",
    "latin2": "iso8859_2", "latin3": "iso8859_3", "latin4": "iso8859_4", "latin5": "iso8859_9",
    "latin6": "iso8859_10", "latin7": "iso8859_13", "latin8": "iso8859_14", "latin9": "iso8859_15",
    "latin10": "iso8859_16", "shiftjis2004": "shift_jis_2004", "sjis": "cp932", "mskanji": "cp932",
    "shiftjis": "cp932", "windows932": "cp932", "uhc": "cp949", "windows949": "cp949",
    "utf8": "utf-8", "unicode": "utf-8", "win866": "cp866", "win874": "cp874", "win1250": "cp1250",
    "win1251": "cp1251", "win1252": "cp1252", "win1253": "cp1253", "win1254": "cp1254",
    "win1255": "cp1255", "win1256": "cp1256", "win1257": "cp1257", "win1258": "cp1258",
    "windows936": "gbk", "windows950": "big5", "alt": "cp866", "win": "cp1251", "sqlascii": "utf-8",
    "tcvn": "cp1258", "vscii": "cp1258", "abc": "cp1258", "tcvn5712": "cp1258",
    "iso88591": "iso8859_1", "iso88592": "iso8859_2", "iso88593": "iso8859_3",
    "iso88594": "iso8859_4", "iso88599": "iso8859_9", "iso885910": "iso8859_10",
    "iso885913": "iso8859_13", "iso885914": "iso8859_14", "iso885915": "iso8859_15",
    "iso885916": "iso8859_16",
}  # fmt: skip


def codec(name: str) -> str:
    """Python's codec for the client encoding `name`, as ParameterStatus or SET writes it.

    The server ignores case and everything that is not a letter or a digit, and so does this.
    """
    plain = "".join(c for c in name.lower() if c.isalnum())
    return _CODECS.get(plain, "utf-8")
