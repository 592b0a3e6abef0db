//! `segno map`.
use super::{Scratch, json, output, refusal};
use serde_json::Value;

fn sum(map: &Value, of: impl Fn(&str) -> bool, field: &str) -> u64 {
    let totals = map["totals"].as_array().unwrap();
    totals.iter().filter(|t| of(t["type"].as_str().unwrap())).map(|t| t[field].as_u64().unwrap()).sum()
}

/// The checkpoint counts the same by itself.
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

#[test]
fn pictures_are_written_by_their_suffix() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let [svg, png, gif] = ["a.svg", "a.png", "a.gif"].map(|n| scratch.path(n).to_str().unwrap().to_owned());
    output(&["map", "-o", &svg, &image]);
    let text = std::fs::read_to_string(&svg).unwrap();
    let segments = json(&["info", "--json", &image])["superblock"]["segment_count_main"].as_u64().unwrap();
    // A square for each segment, and an outline for each log.
    assert_eq!(text.matches('M').count() as u64, segments + 6);
    output(&["map", "-o", &png, &image]);
    let bytes = std::fs::read(&png).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let size = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(size.width, 16 * 8);
    let outlined = pixels.chunks(3).filter(|p| *p == [0x20; 3]).count();
    assert_eq!(outlined, 6 * 24, "the edge of a square has 24 pixels");
    let (code, said) = refusal(&["map", "-o", &gif, &image]);
    assert!(code == 1 && said.contains("ends in .svg or .png"), "{said}");
    let (code, said) = refusal(&["map", "-o", &png, &image]);
    assert!(code == 1 && said.contains("overwrite it with -f"), "{said}");
    output(&["map", "-f", "-o", &png, &image]);
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
