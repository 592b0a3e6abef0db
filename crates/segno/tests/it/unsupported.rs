//! Volumes of kinds that this version does not support: neither opened nor checked, but formatted on demand.
use segno::{CheckOptions, Device, FormatOptions, MountOptions, Volume};
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use segno_format::superblock::RawSuperblock;
use std::sync::Arc;

const EOPNOTSUPP: i32 = 95;

type Change = fn(&mut RawSuperblock);

#[test]
fn an_unsupported_volume_is_named_and_can_be_formatted() {
    let cases: [(&str, Change); 4] = [
        ("log_blocksize 14", |sb| sb.log_blocksize.set(14)),
        ("device_alias", |sb| sb.feature.set(0x8000)),
        ("packed_ssa", |sb| sb.feature.set(0x1_0000)),
        ("0x40000", |sb| sb.feature.set(0x4_0000)),
    ];
    for (name, change) in cases {
        let storage = Arc::new(MemDevice::new(16 << 10));
        let device = Device::from(storage.clone() as Arc<dyn BlockDevice>);
        segno::format(&device, &FormatOptions::default()).unwrap();
        for copy in 0..2 {
            let mut one = [Block::zeroed()];
            storage.read(copy, &mut one).unwrap();
            let mut sb = RawSuperblock::from_block(&one[0].0);
            change(&mut sb);
            sb.seal();
            sb.store(&mut one[0].0);
            storage.write(copy, &[&one[0]]).unwrap();
        }
        let all = || {
            let mut blocks = vec![Block::zeroed(); 16 << 10];
            storage.read(0, &mut blocks).unwrap();
            blocks.iter().flat_map(|b| b.0).collect::<Vec<u8>>()
        };
        let before = all();
        let read_only = MountOptions::new().read_only(true);
        let refusals = [
            Volume::open(&device).map(drop).unwrap_err(),
            Volume::open_with(&device, &read_only).map(drop).unwrap_err(),
            segno::check(&device).map(drop).unwrap_err(),
            segno::check_with(&device, &CheckOptions { data: true, ..Default::default() }, |_| ())
                .map(drop)
                .unwrap_err(),
        ];
        for e in refusals {
            assert_eq!(e.errno(), EOPNOTSUPP, "{name}: {e}");
            assert!(e.to_string().contains(name), "{e}");
        }
        assert!(
            segno::format(&device, &FormatOptions::default()).is_err(),
            "{name} was overwritten without force"
        );
        assert!(before == all(), "{name} was written to");
        segno::format(&device, &FormatOptions { force: true, ..Default::default() }).unwrap();
        Volume::open(&device).unwrap().close().unwrap();
    }
}
