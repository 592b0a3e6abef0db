//! `segno report`.
use super::{Scratch, json, output, refusal};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

#[test]
fn a_new_volume_needs_nothing() {
    let scratch = Scratch::new();
    assert_eq!(output(&["report", &scratch.image()]), "nothing needs to be done\n");
    assert_eq!(json(&["report", "--json", &scratch.image()]), serde_json::json!([]));
}

/// Filled until nothing more fits, which leaves what put had open.
#[test]
fn a_full_volume_is_told_what_to_do() {
    let scratch = Scratch::new();
    let image = scratch.image();
    let free = json(&["info", "--json", &image])["usage"]["free_bytes"].as_u64().unwrap();
    std::fs::write(scratch.path("file"), vec![7; usize::try_from(free / 100 * 95).unwrap()]).unwrap();
    output(&["put", &image, scratch.path("file").to_str().unwrap()]);
    let found = json(&["report", "--json", &image]);
    assert_eq!((&found[0]["level"], found.as_array().unwrap().len()), (&"serious".into(), 1), "{found}");
    let percent = json(&["info", "--json", &image])["usage"]["utilization_percent"].as_u64().unwrap();
    assert_eq!(found[0]["fact"], format!("{percent} % of the space for files is in use"));
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
    for text in
        ["<svg", "prefers-color-scheme: dark", "Nothing needs to be done", "unmounted cleanly", "scratch"]
    {
        assert!(html.contains(text), "{text}");
    }
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http") && !outside.contains("<script"), "the page refers to something else");
    let (code, said) = refusal(&["report", "-o", page, &image]);
    assert!(code == 1 && said.contains("overwrite it with -f"), "{said}");
}
