//! Names and labels, as they are printed.
use segno_format::superblock::RawSuperblock;
use segno_format::text;
use segno_testkit::fuzz::{Mutator, Outcome, Target};

/// The bytes of a name that was written for people: `\xNN`, `\uNNNN` and `\\`.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let number = |len: usize| rest.get(2..2 + len).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let len = match (c, rest.as_bytes().get(1)) {
            ('\\', Some(b'x')) => {
                bytes.push(number(2).unwrap() as u8);
                4
            }
            ('\\', Some(b'u')) => {
                let c = char::from_u32(number(4).unwrap()).unwrap();
                bytes.extend_from_slice(c.to_string().as_bytes());
                6
            }
            ('\\', _) => {
                bytes.push(b'\\');
                2
            }
            _ => {
                bytes.extend_from_slice(c.to_string().as_bytes());
                c.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    bytes
}

/// Controls of ASCII and of Latin-1, of direction, and separators of lines.
fn is_obeyed(c: char) -> bool {
    let direction = ['\u{61c}', '\u{200e}', '\u{200f}'].contains(&c);
    c.is_control()
        || direction
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// Nothing that a terminal obeys is printed, and the text of a name leads back to its bytes. Names that are no plain ASCII count.
fn print(bytes: &[u8]) -> Outcome {
    let name = text::name(bytes);
    if bytes_of(&name) != bytes {
        return Err(format!("{name} is the text of another name"));
    }
    let lines = text::lines(bytes);
    let mut sb = RawSuperblock::from_block(&[0; 4096]);
    let units = bytes.chunks(2).map(|c| u16::from_le_bytes([c[0], *c.get(1).unwrap_or(&0)]));
    sb.volume_name.iter_mut().zip(units).for_each(|(place, unit)| place.set(unit));
    let label = text::name(sb.label().as_bytes());
    let (field, hex) = text::field(bytes);
    let shown = text::of_field(&field, hex.is_some());
    let all = [&name, &label, &shown, &text::line(bytes)];
    if all.iter().any(|text| text.contains(is_obeyed)) || lines.contains(|c| c != '\n' && is_obeyed(c)) {
        return Err(format!("{all:?} {lines:?}"));
    }
    Ok(!bytes.iter().all(|b| matches!(b, b' '..=b'~')))
}

#[test]
fn fuzz_names() {
    let seeds =
        ["Grüße 日本.txt", "a\\x1b\\u202e\\\\", "\u{1b}[2J\u{9b}31m\u{202e}gnp.exe", "line\nline\u{2028}"];
    let seeds = seeds.map(|s| s.as_bytes().to_vec()).to_vec();
    let words: &[&[u8]] = &[
        b"\\",
        b"\\x",
        b"\\u",
        b"\xe2\x80\xae",
        b"\xc2\x9b",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\x1b",
        b"\x7f",
    ];
    let mutator = Mutator { seeds, words, resized: 2, ..Mutator::default() };
    let target =
        Target { name: "names", runs: 5_000, draw: &|rng| mutator.draw(rng), run: &|i: &Vec<u8>| print(i) };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
