//! Repairs where two of NAT, SIT and SSA are lost: all files are there afterwards, or nothing was written.
use super::super::segno;
use super::commands::Wiped;
use super::tools::{SETS, Volume};
use super::{chosen, none};

const SIT: u8 = 1 << 2;
const NAT: u8 = 1 << 3;
const SSA: u8 = 1 << 4;

/// Areas, the byte that fills them, and whether a repair is possible. A SIT of ones has every block in use, so all nodes are found.
const CASES: [(&str, u8, u8, bool); 9] = [
    ("SIT", SIT, 0, true),
    ("NAT", NAT, 0, true),
    ("SSA", SSA, 0, true),
    ("NAT and SSA", NAT | SSA, 0, true),
    ("SIT and NAT", SIT | NAT, 0, false),
    ("SIT and SSA", SIT | SSA, 0, false),
    ("SIT, NAT and SSA", SIT | NAT | SSA, 0, false),
    ("SIT and NAT, filled with ones", SIT | NAT, 0xff, true),
    ("SIT and SSA, filled with ones", SIT | SSA, 0xff, true),
];

#[test]
fn a_repair_without_two_tables_returns_all_files_or_writes_nothing() {
    let chosen = SETS.iter().filter(|set| chosen(set.name, &["sections"]).is_some());
    none(&chosen.flat_map(|set| faults(set.name, &set.make())).collect::<Vec<_>>());
}

fn faults(set: &str, volume: &Volume) -> Vec<String> {
    let whole = volume.snapshot();
    let each = CASES.iter().filter_map(|&(name, areas, fill, possible)| {
        let repaired = Wiped::new(volume, areas, fill).repaired();
        let refusal = segno(&["check", "-y", volume.first()]);
        volume.restore(&whole);
        let text = String::from_utf8([refusal.stdout, refusal.stderr].concat()).unwrap();
        let advised = text.matches("segno rescue IMAGE DIRECTORY").count();
        let expected = if possible { (Some(0), 0) } else { (Some(4), 1) };
        let found = (refusal.status.code(), advised);
        let right = (&repaired, found) == (&Ok(possible), expected);
        (!right).then(|| format!("{set}, without {name}: {repaired:?}, then {found:?}: {text}"))
    });
    each.collect()
}
