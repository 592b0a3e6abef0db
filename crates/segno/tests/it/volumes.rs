//! Opening and closing volumes, and dropping them without closing.
use super::{device, finish, volume};
use segno::{BlockDevice, Device, Features, FormatOptions, MountOptions, Volume};
use segno_device::MemDevice;
use std::io::ErrorKind;
use std::sync::Arc;

#[test]
fn a_device_has_one_user_at_a_time() {
    let (volume, device) = volume();
    let busy = [
        Volume::open(&device).unwrap_err(),
        segno::check(&device.clone()).unwrap_err(),
        segno::format(&device, &FormatOptions { force: true, ..Default::default() }).unwrap_err(),
    ];
    assert!(busy.iter().all(|e| e.kind() == ErrorKind::ResourceBusy), "{busy:?}");
    finish(volume, &device);
    Volume::open(&device).unwrap();
}

#[test]
fn a_volume_in_use_is_not_closed() {
    let (volume, device) = volume();
    let mut file = volume.create_file("/open").unwrap();
    let error = volume.close().unwrap_err();
    assert!(error.is_still_open() && error.kind() == ErrorKind::ResourceBusy);
    assert_eq!(
        format!("{error:?}"),
        "cannot close the volume: a file, directory or iterator of it is still open; it is closed when the last one is dropped"
    );
    // The file stays usable; its drop unmounts.
    std::io::Write::write_all(&mut file, b"late").unwrap();
    drop(file);
    let volume = Volume::open(&device).unwrap();
    assert_eq!(volume.read("/open").unwrap(), b"late");
    let root = volume.root();
    assert_eq!(volume.close().unwrap_err().kind(), ErrorKind::ResourceBusy);
    drop(root);
    assert!(segno::check(&device).unwrap().summary.clean_unmount);
}

#[test]
fn a_panic_leaves_a_volume_that_opens() {
    let (volume, device) = volume();
    let panicked = std::thread::spawn(move || {
        let file = volume.create_file("/synced").unwrap();
        file.write_at(b"kept", 0).unwrap();
        file.sync_all().unwrap();
        panic!("as a caller does");
    });
    assert!(panicked.join().is_err());
    let report = segno::check(&device).unwrap();
    assert!(report.is_clean() && report.summary.roll_forward.fsynced > 0);
    let shown = Volume::open_with(&device, &MountOptions::new().read_only(true)).unwrap();
    assert_eq!(shown.read("/synced").unwrap(), b"kept");
    assert_eq!(shown.write("/synced", "x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    shown.close().unwrap();
    assert!(segno::check(&device).unwrap().summary.roll_forward.fsynced > 0, "nothing was written");
    let old = MountOptions::new().read_only(true).skip_recovery(true);
    assert!(!Volume::open_with(&device, &old).unwrap().exists("/synced").unwrap());
    let volume = Volume::open(&device).unwrap();
    assert_eq!(volume.read("/synced").unwrap(), b"kept");
    finish(volume, &device);
}

#[test]
fn formatting_needs_force_where_something_is() {
    let device = device();
    let refused = segno::format(&device, &FormatOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(refused.to_string(), "cannot format: the device holds an F2FS volume; overwrite it with -f");
    let uuid = [7; 16];
    let features = Features::EXTRA_ATTR | Features::INODE_CRTIME;
    let options = FormatOptions {
        force: true,
        label: "new".into(),
        uuid: Some(uuid),
        features,
        root_owner: (5, 6),
        ..Default::default()
    };
    segno::format(&device, &options).unwrap();
    let volume = Volume::open(&device).unwrap();
    assert_eq!((volume.label().as_str(), volume.uuid()), ("new", uuid));
    let root = volume.metadata("/").unwrap();
    assert_eq!((root.uid(), root.gid()), (5, 6));
    volume.write("/file", "").unwrap();
    assert!(volume.metadata("/file").unwrap().created().is_some());
    volume.set_label("newer").unwrap();
    finish(volume, &device);
    assert_eq!(Volume::open(&device).unwrap().label(), "newer");
}

#[test]
fn image_files_are_opened_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let device = Device::create(&path, 64 << 20).unwrap();
    assert_eq!(Device::create(&path, 1).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let refused = Device::open(&path).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
    assert!(
        refused.to_string().ends_with("is in use: this process has it open; close it first"),
        "{refused}"
    );
    drop(device);
    // Not a volume yet.
    let device = Device::open(&path).unwrap();
    let refused = Volume::open(&device).unwrap_err();
    assert!(refused.to_string().starts_with("cannot open the volume on "), "{refused}");
    assert_eq!(refused.path(), Some(path.as_path()));
    segno::format(&device, &FormatOptions::default()).unwrap();
    drop(device);
    let volume = Volume::open(&Device::open_read_only(&path).unwrap()).unwrap();
    let refused = volume.create_dir("/new").unwrap_err();
    assert_eq!(refused.to_string(), "cannot create /new: the volume is mounted read-only");
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    volume.close().unwrap();
    let missing = Device::open("/nonexistent/image").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn storage_of_another_kind_is_wrapped() {
    let storage: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(16 << 10));
    let device = Device::from(storage);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = Volume::open_with(&device, &MountOptions::new().background(false)).unwrap();
    let before = volume.statfs();
    volume.write("/file", vec![1; 1 << 20]).unwrap();
    assert_eq!(before.blocks_free - volume.statfs().blocks_free, 256 + 1);
    finish(volume, &device);
}
