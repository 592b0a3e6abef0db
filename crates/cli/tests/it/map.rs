//! `segno map`.
use super::{Scratch, json, output, refusal};
use serde_json::Value;
use std::process::Command;

fn sum(map: &Value, of: impl Fn(&str) -> bool, field: &str) -> u64 {
    let totals = map["totals"].as_array().unwrap();
    totals.iter().filter(|t| of(t["type"].as_str().unwrap())).map(|t| t[field].as_u64().unwrap()).sum()
}

/// The checkpoint has the same totals, which are counted independently.
#[test]
fn totals_are_those_of_info() {
    let scratch = Scratch::new();
    let image = scratch.image();
    std::fs::write(scratch.path("file"), vec![7; 5 << 20]).unwrap();
    output(&["put", &image, scratch.path("file").to_str().unwrap()]);
    let (map, info) = (json(&["map", "--json", &image]), json(&["info", "--json", &image]));
    let checkpoint = &info["checkpoint"];
    assert_eq!(sum(&map, |t| t == "free", "segments"), checkpoint["free_segment_count"].as_u64().unwrap());
    assert_eq!(sum(&map, |_| true, "valid_blocks"), checkpoint["valid_block_count"].as_u64().unwrap());
    assert_eq!(
        sum(&map, |t| t.ends_with("node"), "valid_blocks"),
        checkpoint["valid_node_count"].as_u64().unwrap()
    );
    assert_eq!(sum(&map, |_| true, "segments"), info["superblock"]["segment_count_main"].as_u64().unwrap());
    assert_eq!(map["checkpoint_ver"], checkpoint["checkpoint_ver"]);
    let logs = map["segments"].as_array().unwrap().iter().filter(|s| !s["log"].is_null());
    assert_eq!(logs.count(), 6);
    let text = output(&["map", &image]);
    assert_eq!(text.matches('▲').count(), 7, "{text}");
    assert!(text.contains("\nfree ") && !text.contains('\x1b'), "{text}");
}

/// The output of a program that checks the format of a file.
fn judged(program: &str, args: &[&str]) -> String {
    let out =
        Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program} is needed: {e}"));
    assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Width, height, squares of all paths, then the lines of text.
const READ_SVG: &str = "
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
name = '{http://www.w3.org/2000/svg}'
print(root.get('width'), root.get('height'), sum(p.get('d').count('M') for p in root.iter(name + 'path')))
for text in root.iter(name + 'text'): print(text.text)
";

#[test]
fn pictures_name_the_volume_its_fill_the_scale_and_what_made_them() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let [svg, png, gif] = ["a.svg", "a.png", "a.gif"].map(|n| scratch.path(n).to_str().unwrap().to_owned());
    output(&["map", "-o", &svg, &image]);
    let said = judged("python3", &["-c", READ_SVG, &svg]);
    let (size, text) = said.split_once('\n').unwrap();
    let numbers: Vec<u64> = size.split(' ').map(|n| n.parse().unwrap()).collect();
    let info = json(&["info", "--json", &image]);
    let segments = info["superblock"]["segment_count_main"].as_u64().unwrap();
    let map = json(&["map", "--json", &image]);
    let types = map["totals"].as_array().unwrap().iter().filter(|t| t["segments"] != 0).count() as u64;
    // A square for each segment, an outline for each log, and the colours of the legend.
    assert_eq!(numbers[2], segments + 6 + types, "{said}");
    assert!(numbers[0] >= 1200, "{said}");
    let text = text.replace('\n', " ");
    let main = info["superblock"]["main_blkaddr"].as_u64().unwrap() * 4096 / (1 << 20);
    let percent = info["usage"]["utilization_percent"].as_u64().unwrap();
    for part in [
        "scratch: ",
        "64.0 MiB: ",
        &format!("({percent} %)"),
        "A cell is a segment (2.0 MiB)",
        &format!("{main}.0 MiB"),
        "hot data: 1, 0 % full",
        &format!("free: {}", segments - 6),
        concat!("segno ", env!("CARGO_PKG_VERSION")),
        " map -o ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    output(&["map", "-o", &png, &image]);
    let height = numbers[1];
    let size = format!("PNG image data, {} x {height}, 8-bit/color RGB", numbers[0]);
    assert!(judged("file", &[&png]).contains(&size), "{size}");
    let (code, said) = refusal(&["map", "-o", &gif, &image]);
    assert!(code == 2 && said.contains("ends in .svg or .png"), "{said}");
    let (code, said) = refusal(&["map", "-o", &png, &image]);
    assert!(code == 1 && said.contains("overwrite it with -f"), "{said}");
    output(&["map", "-f", "-o", &png, &image]);
}

#[test]
fn a_segment_without_a_time_has_no_age() {
    let scratch = Scratch::new();
    let map = json(&["map", "--json", &scratch.image()]);
    let segments = map["segments"].as_array().unwrap();
    assert!(segments.iter().all(|s| s["age_seconds"].is_null()), "{map}");
}

#[test]
fn what_is_no_volume_is_refused_with_advice() {
    let scratch = Scratch::new();
    let dir = scratch.dir.path().to_str().unwrap();
    let (code, said) = refusal(&["map", dir]);
    assert!(code == 1 && said.contains("not on a mount of segno"), "{said}");
    std::fs::write(scratch.path("noise"), [9; 8192]).unwrap();
    let (code, said) = refusal(&["map", scratch.path("noise").to_str().unwrap()]);
    assert!(code == 1 && said.contains("holds data that is not recognised, not an F2FS volume"), "{said}");
}
