//! Fuzz targets: records of the store, its answers, and the files of profiles.
mod answers;
mod records;

use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The settings of a section are on lines of that section, and it may be named in any file.
fn profile(bytes: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(bytes);
    let found = crate::wire::profile::parse(&text, "profile dev");
    if found != crate::wire::profile::parse(&text, "  profile   dev ") {
        return Err("blanks in the name of a section count".into());
    }
    for (key, value) in &found {
        let last = key.rsplit('.').next().unwrap_or(key);
        if value.is_empty() || value.trim() != value || !text.contains(value) || !text.contains(last) {
            return Err(format!("{key:?} = {value:?} is not in the file"));
        }
    }
    Ok(!found.is_empty())
}

#[test]
fn fuzz_profiles() {
    let seeds = [
        "[default]\naws_access_key_id=a\n[profile dev]\nregion = eu-1\nservices = local\naws_session_token=e==\n",
        "# note\n[profile dev]\ns3 =\n  endpoint_url = http://127.0.0.1:9000\n  x = y\n[services local]\ns3=\n",
    ];
    let seeds = seeds.map(|s| s.as_bytes().to_vec()).to_vec();
    let words: &[&[u8]] =
        &[b"[", b"]", b"=", b"\n", b"\r\n", b" ", b"[profile dev]", b"s3 =\n", b"\xc2\xa0", b".", b"#", b";"];
    let mutator = Mutator { seeds, words, resized: 2, ..Mutator::default() };
    let target = Target {
        name: "profiles",
        runs: 3_000,
        draw: &|rng| mutator.draw(rng),
        run: &|i: &Vec<u8>| profile(i),
    };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
