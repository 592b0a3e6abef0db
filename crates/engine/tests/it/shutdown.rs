//! After a forced shutdown the volume writes nothing more.
use crate::common::{assert_clean, fresh, quiet};
use segno_engine::lab::Probe;
use segno_engine::options::JournalMode;
use segno_engine::{MountOptions, Owner, Shutdown, Volume};
use segno_format::Ino;
use segno_mkfs::MkfsOptions;
use segno_testkit::RecordDevice;
use std::sync::Arc;

#[test]
fn nothing_is_written_after_a_shutdown() {
    for journal in [JournalMode::Off, JournalMode::On] {
        let mem = fresh(96, &MkfsOptions { gap_blocks: 1024, ..MkfsOptions::default() });
        let device = Arc::new(RecordDevice::new(mem.clone()));
        let options = MountOptions { journal: journal.clone(), ..quiet() };
        let v = Volume::mount(device.clone(), options.clone()).unwrap();
        let file = |name: &[u8]| {
            let ino = v.mknod(Ino::ROOT, name, 0o100_644, (0, 0), Owner::default()).unwrap().ino;
            v.write(ino, 0, &[9; 5000]).unwrap();
            ino
        };
        v.fsync(file(b"fsynced"), false).unwrap();
        let other = file(b"other");
        v.shut_down(Shutdown::NoSync).unwrap();
        let events = device.log().len();
        assert!(v.fsync(other, false).is_err() && v.sync().is_err() && Probe(&v).tick().is_err());
        assert!(
            v.write(other, 0, b"x").is_err()
                && Probe(&v).write_aged().is_err()
                && Probe(&v).checkpoint().is_err()
        );
        assert!(v.set_label("label").is_err());
        v.unmount().unwrap();
        assert_eq!(device.log().len(), events);
        drop(v);
        let v = Volume::mount(mem.clone(), options).unwrap();
        assert_eq!(v.lookup(Ino::ROOT, b"fsynced").unwrap().size, 5000);
        assert!(v.lookup(Ino::ROOT, b"other").is_err());
        v.unmount().unwrap();
        assert_clean(&*mem);
    }
}
