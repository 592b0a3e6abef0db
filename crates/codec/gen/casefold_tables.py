#!/usr/bin/env python3.8
"""Writes src/casefold/unicode-12.1.txt; see README.md beside this file."""

import sys
import unicodedata
import zlib

UNICODE = "12.1.0"
SURROGATES = range(0xD800, 0xE000)

# Default_Ignorable_Code_Point of DerivedCoreProperties.txt 12.1.0, the one property Python does not know.
IGNORABLE = [
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180E),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]


def is_ignorable(char):
    return any(first <= ord(char) <= last for first, last in IGNORABLE)


def step(char):
    """One round for one character: dropped, folded, or decomposed, in this order."""
    if is_ignorable(char):
        return ""
    folded = char.casefold()
    return folded if folded != char else unicodedata.normalize("NFD", char)


def mapping(char):
    text = step(char)
    while True:
        again = "".join(map(step, text))
        if again == text:
            return text
        text = again


def changed(start):
    """Each character of a range that does not stay what it is, with its mapping and combining class."""
    for code in range(max(start, 1), start + 256):
        if code not in SURROGATES:
            char, ccc = chr(code), unicodedata.combining(chr(code))
            text = mapping(char)
            if text != char or ccc:
                yield char.encode() + text.encode() + bytes([ccc])


def main():
    if unicodedata.unidata_version != UNICODE:
        sys.exit(f"this Python has Unicode {unicodedata.unidata_version}; run it with one that has {UNICODE} (3.8)")
    for start in range(0, 0x110000, 256):
        data = b"".join(changed(start))
        if data:
            print(f"{start:x} {zlib.crc32(data):08x}")


main()
