//! `segno report`.
use super::{Scratch, can_mount, json, output, refusal};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;

#[test]
fn a_new_volume_needs_nothing() {
    let scratch = Scratch::new();
    assert_eq!(output(&["report", &scratch.image()]), "nothing needs to be done\n");
    let (report, info) =
        (json(&["report", "--json", &scratch.image()]), json(&["info", "--json", &scratch.image()]));
    assert_eq!(report["findings"], serde_json::json!([]));
    assert_eq!(report["last_checkpoint"], info["usage"]);
    assert_eq!(report["space"]["available_bytes"], info["usage"]["free_bytes"]);
    assert_eq!((&report["label"], &report["counters"]), (&"scratch".into(), &serde_json::Value::Null));
    let made_by = report["made_by"].as_str().unwrap();
    assert!(made_by.starts_with(concat!("segno ", env!("CARGO_PKG_VERSION"))), "{made_by}");
    assert!(made_by.contains(" report --json "), "{made_by}");
}

/// Filled until nothing more fits, which leaves what put had open.
#[test]
fn a_full_volume_is_told_what_to_do() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let free = json(&["info", "--json", &image])["usage"]["free_bytes"].as_u64().unwrap();
    std::fs::write(scratch.path("file"), vec![7; usize::try_from(free / 100 * 95).unwrap()]).unwrap();
    output(&["put", &image, scratch.path("file").to_str().unwrap()]);
    let found = json(&["report", "--json", &image])["findings"].take();
    assert_eq!((&found[0]["level"], found.as_array().unwrap().len()), (&"serious".into(), 1), "{found}");
    let percent = json(&["info", "--json", &image])["usage"]["utilization_percent"].as_u64().unwrap();
    let fact = found[0]["fact"].as_str().unwrap();
    assert!(fact.starts_with(&format!("{percent} % of the space for files is in use, ")), "{fact}");
}

/// The reference is statfs(2), called by stat(1): the last checkpoint is older than the file that fills the
/// mount.
#[test]
fn a_mount_is_reported_as_it_is_now() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (image, dir) = (scratch.image(), scratch.path("mnt"));
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.to_str().unwrap();
    output(&["mount", "-o", "fsync_mode=nobarrier,commit=600,shutdown", &image, dir]);
    let filled = fill(&format!("{dir}/file"));
    let report = json(&["report", "--json", dir]);
    let said = Command::new("stat").args(["-f", "-c", "%S %b %f %a", dir]).output().unwrap();
    output(&["umount", dir]);
    let said = String::from_utf8(said.stdout).unwrap();
    let n: Vec<u64> = said.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let expected = serde_json::json!({
        "size_bytes": n[0] * n[1], "used_bytes": n[0] * (n[1] - n[2]), "available_bytes": n[0] * n[3],
    });
    assert_eq!(report["space"], expected);
    assert!(filled > 1 << 20, "{filled}");
    assert_eq!(report["is_mounted"], true);
    assert_eq!(report["counters"]["fsync_mode"], 2);
    let facts: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|f| f["fact"].as_str().unwrap()).collect();
    for start in [
        "100 % of the space for files is in use, 0 B are available",
        "fsync flushes nothing (fsync_mode=nobarrier)",
        "The mount can be stopped as if the power failed (shutdown)",
    ] {
        assert!(facts.iter().any(|f| f.starts_with(start)), "{start}: {facts:?}");
    }
}

/// Writes until nothing more fits; returns the bytes.
fn fill(path: &str) -> u64 {
    let mut file = std::fs::File::create(path).unwrap();
    let mut bytes = 0;
    for piece in [64 << 10, 4 << 10] {
        while let Ok(n) = std::io::Write::write(&mut file, &vec![7; piece]) {
            bytes += n as u64;
        }
    }
    bytes
}

#[test]
fn a_damaged_segment_table_is_told() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let info = json(&["info", "--json", &image]);
    let superblock = &info["superblock"];
    let at = |name: &str| superblock[name].as_u64().unwrap() << 12;
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    let sit = at("nat_blkaddr") - at("sit_blkaddr");
    file.write_all_at(&vec![0xa5; usize::try_from(sit).unwrap()], at("sit_blkaddr")).unwrap();
    let said = output(&["report", &image]);
    assert!(
        said.starts_with("The segment table is damaged for ") && said.contains("`segno check -y "),
        "{said}"
    );
}

#[test]
fn the_page_stands_alone() {
    let scratch = Scratch::new();
    let (image, page) = (scratch.image(), scratch.path("a.html"));
    let page = page.to_str().unwrap();
    output(&["report", "-o", page, &image]);
    let html = std::fs::read_to_string(page).unwrap();
    let version = concat!("segno ", env!("CARGO_PKG_VERSION"));
    for text in [
        "<svg",
        "prefers-color-scheme: dark",
        "Nothing needs to be done",
        "unmounted cleanly",
        "scratch",
        version,
        " report -o ",
    ] {
        assert!(html.contains(text), "{text}");
    }
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http") && !outside.contains("<script"), "the page refers to something else");
    let (code, said) = refusal(&["report", "-o", page, &image]);
    assert!(code == 1 && said.contains("overwrite it with -f"), "{said}");
}
