//! Android sparse output.
use super::layouts::with;
use super::{Yard, assert_clean, noise};
use segno_format::Features;
use segno_image::BuildOptions;
use std::process::Command;

#[test]
fn a_sparse_image_is_the_raw_one() {
    let yard = Yard::new();
    std::fs::write(yard.dir("tree").join("noise"), noise(5_000_000, 1)).unwrap();
    for features in [Features::empty(), Features::RO] {
        yard.build(&yard.of_dir("tree"), "raw", &with(features));
        yard.build(&yard.of_dir("tree"), "sparse", &BuildOptions { sparse: true, ..with(features) });
        assert!(yard.path("sparse").metadata().unwrap().len() < 8_000_000);
        let (sparse, back) = (yard.path("sparse"), yard.path("back"));
        let made = Command::new("simg2img").args([&sparse, &back]).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        yard.assert_same("raw", "back");
        // Flash keeps what it had where nothing is stored.
        let index = segno_sparse::Index::read(&std::fs::File::open(&sparse).unwrap()).unwrap();
        let mut dirty = yard.bytes("raw");
        for extent in index.extents.iter().filter(|e| e.kind == segno_sparse::Kind::DontCare) {
            let range = extent.start as usize..(extent.start + extent.len) as usize;
            dirty[range.clone()].copy_from_slice(&noise(range.len(), 9));
        }
        std::fs::write(yard.path("dirty"), dirty).unwrap();
        assert_clean(&yard.path("dirty"));
    }
}
