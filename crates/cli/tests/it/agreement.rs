//! Figures and defaults that several pages state, or a page and the code, are the same.
use regex::Regex;
use segno_clean::policy::POLICIES;
use segno_engine::MountOptions;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A figure, and the pages with the text around it: `(.+?)` stands for the figure.
struct Figure {
    what: &'static str,
    places: &'static [(&'static str, &'static str)],
}

const FIGURES: &[Figure] = &[
    Figure {
        what: "rate relative to ext4 with up to sixteen threads",
        places: &[
            ("README.md", r"with up to sixteen threads, ([0-9.]+) over 54 rows"),
            ("docs/performance.md", r"over 54 rows with up to sixteen threads it has ([0-9.]+) of ext4"),
            ("lab/results/peers-threads.md", r"\| as they are \| ([0-9.]+) \|"),
        ],
    },
    Figure {
        what: "the same over /dev/fuse",
        places: &[
            ("README.md", r"over 54 rows, ([0-9.]+) over /dev/fuse"),
            ("docs/performance.md", r"with a journal, ([0-9.]+) over /dev/fuse"),
            ("lab/results/peers-threads.md", r"\| as they are \| [0-9.]+ \| [0-9.]+ \| ([0-9.]+) \|"),
        ],
    },
    Figure {
        what: "the same with a journal",
        places: &[
            ("docs/performance.md", r"of ext4, ([0-9.]+) with a journal"),
            ("lab/results/peers-threads.md", r"\| as they are \| [0-9.]+ \| ([0-9.]+) \|"),
        ],
    },
    Figure {
        what: "share of the ceiling",
        places: &[
            ("docs/performance.md", r"geometric mean is ([0-9.]+) of the ceiling"),
            ("lab/results/peers-ceiling.md", r"Segno has ([0-9.]+) of the ceiling"),
        ],
    },
    Figure {
        what: "operations gained by lists of dirty nodes",
        places: &[
            ("README.md", r"([0-9]+) % more operations with 10,000 files"),
            ("docs/performance.md", r"gives ([0-9]+) % more varmail operations with 10,000 files"),
            ("docs/design/fsync.md", r"The list gives \+([0-9]+) % operations a second"),
        ],
    },
    Figure {
        what: "size of the journal that mkfs makes",
        places: &[
            ("docs/guide/journal.md", r"(1/[0-9]+) of the volume's size, between 16 and 256 MiB"),
            ("CHANGELOG.md", r"(1/[0-9]+) of its size, 16 to 256 MiB"),
        ],
    },
    Figure {
        what: "smallest volume with a journal",
        places: &[
            ("README.md", r"\(the default from ([0-9]+ MiB) on\)"),
            ("CHANGELOG.md", r"A volume of ([0-9]+ MiB) or more gets a metadata journal"),
            ("docs/guide/journal.md", r"after every volume of ([0-9]+ MiB) or more"),
            ("docs/guide/formatting.md", r"A volume of ([0-9]+ MiB) or more gets"),
            ("docs/guide/tuning.md", r"which volumes of ([0-9]+ MiB) or more have by default"),
            ("docs/design/journal.md", r"Volumes of `segno mkfs` from ([0-9]+ MiB) on have a journal"),
        ],
    },
];

/// A page with its lines joined.
fn page(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join(path)).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn found(path: &str, pattern: &str) -> String {
    let text = page(path);
    let captured = Regex::new(pattern).unwrap().captures(&text);
    captured.unwrap_or_else(|| panic!("{path} does not have {pattern}"))[1].to_owned()
}

#[test]
fn pages_state_the_same_figures() {
    for figure in FIGURES {
        let stated: BTreeMap<&str, String> =
            figure.places.iter().map(|(path, pattern)| (*path, found(path, pattern))).collect();
        let first = found(figure.places[0].0, figure.places[0].1);
        assert!(stated.values().all(|value| *value == first), "{}: {stated:?}", figure.what);
    }
}

#[test]
fn pages_state_the_defaults_of_the_code() {
    let defaults = MountOptions::default();
    let seconds = found("docs/durability.md", r"within `commit=` seconds \(([0-9]+)\)");
    assert_eq!(seconds, defaults.commit_interval.to_string());
    let words = ["six", "seven", "eight", "nine", "ten"];
    assert_eq!(found("README.md", r"([a-z]+) cleaning policies"), words[POLICIES.len() - 6]);
    let list = page("docs/limits.md");
    let (_, list) = list.split_once("Policies by `gc_policy=`:").unwrap();
    let named = list.split('.').next().unwrap().split(", ").count();
    assert_eq!(named, POLICIES.len(), "docs/limits.md names {named} policies");
}

#[test]
fn the_write_amplification_of_e0_is_the_measured_one() {
    let measured =
        found("lab/results/cleaning-notes.md", r"The whole of E0 in the engine, .*?: ([0-9.]+) \(model");
    let rounded = format!("{:.2}", measured.parse::<f64>().unwrap());
    assert_eq!(found("docs/performance.md", r"random overwrites is ([0-9.]+) \(engine"), rounded);
}

/// Rows of a table whose first cell is a name: the other cells by name.
fn rows(text: &str) -> BTreeMap<String, Vec<String>> {
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let table = text.lines().filter(|line| line.starts_with("| ")).map(cells);
    table.map(|cells| (cells[1].clone(), cells[2..].to_vec())).collect()
}

/// The table of losses has every measured row below its limit.
#[test]
fn losses_are_all_rows_below_their_limit() {
    const LIMIT: f64 = 0.7;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let performance = read("docs/performance.md");
    let (_, losses) = performance.split_once("## Where it loses").unwrap();
    let losses = rows(losses.split("\n## ").next().unwrap());
    let results = read("lab/results/peers-threads.md");
    let (_, all) = results.split_once("| row | unit |").unwrap();
    let all = rows(all.split("\n\n").next().unwrap());
    assert_eq!(all.len(), 54);
    for (row, cells) in &all {
        let Ok(ratio) = cells[5].parse::<f64>() else { continue };
        let stated = losses.get(row).map(|cells| cells[..3].to_vec());
        let expected = (ratio < LIMIT).then(|| cells[5..8].to_vec());
        assert_eq!(stated, expected, "{row}");
    }
}
