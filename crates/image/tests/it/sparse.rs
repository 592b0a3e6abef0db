//! Android sparse output.
use super::layouts::with;
use super::{TestDir, assert_clean, noise};
use segno_format::Features;
use segno_image::BuildOptions;
use std::process::Command;

#[test]
fn a_sparse_image_is_the_raw_one() {
    let temp = TestDir::new();
    std::fs::write(temp.dir("tree").join("noise"), noise(5_000_000, 1)).unwrap();
    for features in [Features::empty(), Features::RO] {
        temp.build(&temp.of_dir("tree"), "raw", &with(features));
        temp.build(&temp.of_dir("tree"), "sparse", &BuildOptions { sparse: true, ..with(features) });
        assert!(temp.path("sparse").metadata().unwrap().len() < 8_000_000);
        let (sparse, back) = (temp.path("sparse"), temp.path("back"));
        let made = Command::new("simg2img").args([&sparse, &back]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        temp.assert_same("raw", "back");
        // Flash keeps what it had where nothing is stored.
        let index = segno_sparse::Index::read(&std::fs::File::open(&sparse).unwrap()).unwrap();
        let mut dirty = temp.bytes("raw");
        for extent in index.extents.iter().filter(|e| e.kind == segno_sparse::Kind::DontCare) {
            let range = extent.start as usize..(extent.start + extent.len) as usize;
            dirty[range.clone()].copy_from_slice(&noise(range.len(), 9));
        }
        std::fs::write(temp.path("dirty"), dirty).unwrap();
        assert_clean(&temp.path("dirty"));
    }
}
