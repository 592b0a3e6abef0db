//! Which nodes belong to the checkpoint in force, by who wrote them.
use super::fixture::{features, look, volume};
use segno_rescue::Volume;
use segno_rescue::scan::Candidate;

#[test]
fn nodes_belong_to_the_checkpoint_by_version_checksum_and_link() {
    let (device, v) = volume(64, features());
    v.write("file", "content").unwrap();
    v.close().unwrap();
    let volume = Volume::find(&*device, look(&*device).unwrap(), false);
    let pack = volume.pack.as_ref().unwrap();
    let (version, stamp) = (pack.version(), pack.stamp().value());
    assert_ne!(version, stamp, "the pack asks for its checksum in nodes");
    let node = *volume.nodes.all().last().unwrap();
    let linked = node.addr + 1;
    for (who, cp_ver, next, expected) in [
        ("Linux or Segno, before the checkpoint", stamp - 1, linked, true),
        ("Linux or Segno, before, without checksums", version - 1, linked, true),
        ("Linux or Segno, after the checkpoint", stamp, linked, false),
        ("Linux, after a checkpoint without CRC_RECOVERY", version, linked, false),
        ("sload.f2fs", version, 0, true),
        ("sload.f2fs, before the checkpoint", version - 1, 0, true),
        ("a node of a later checkpoint that is lost", version + 1, 0, false),
        ("mkfs.f2fs", 1, linked, true),
    ] {
        let node = Candidate { cp_ver, next, ..node };
        assert_eq!(volume.promised(&node), expected, "{who}");
    }
}
