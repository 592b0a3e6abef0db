use super::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use segno_format::xattr::index;

prop_compose! {
    fn time()(secs in any::<i64>(), nsec in 0..1_000_000_000u32) -> Time { Time { secs, nsec } }
}
prop_compose! {
    fn ino()(n in any::<u32>()) -> Ino { Ino(n) }
}
fn name() -> impl Strategy<Value = Name> {
    vec(any::<u8>(), 1..=255).prop_map(Into::into)
}
/// Name index and name of an extended attribute.
fn attribute() -> impl Strategy<Value = (u8, Name)> {
    (any::<u8>(), name()).prop_map(|(at, name)| match at {
        index::ACL_ACCESS | index::ACL_DEFAULT => (at, Name::default()),
        _ => (at, name),
    })
}
fn bytes(most: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..=most).prop_map(Into::into)
}
prop_compose! {
    fn inode_new()(
        (mode, inline, advise, uid, gid) in any::<(u16, u8, u8, u32, u32)>(),
        (projid, flags, generation, rdev, inline_xattr_size) in any::<(u32, u32, u32, u32, u16)>(),
        pino in ino(), time in time(), tmpfile in any::<bool>(),
    ) -> InodeNew {
        InodeNew { mode, inline, advise, uid, gid, projid, flags, generation, pino, rdev, inline_xattr_size, time, tmpfile }
    }
}
prop_compose! {
    fn attr()(
        (mode, uid, gid, projid, size) in any::<(Option<u16>, Option<u32>, Option<u32>, Option<u32>, Option<u64>)>(),
        (flags, advise, inline, gc_failures) in any::<(Option<u32>, Option<u8>, Option<u8>, Option<u16>)>(),
        times in [option::of(time()), option::of(time()), option::of(time())],
        pino in option::of(ino()),
    ) -> Attr {
        let [atime, mtime, ctime] = times;
        Attr { mode, uid, gid, projid, size, atime, mtime, ctime, flags, advise, inline, pino, gc_failures }
    }
}
prop_compose! {
    fn mapping()(
        steps in vec((0..1u64 << 40, any::<u32>(), 1..2000u32), 1..20),
        (with_crcs, moved, crc) in any::<(bool, bool, u32)>(),
    ) -> Mapping {
        let mut mapping = Mapping { moved, ..Mapping::default() };
        let mut page = 0;
        for (gap, addr, count) in steps {
            let addr = BlockAddr(addr.min(u32::MAX - count));
            mapping.runs.push(Run { page: page + gap, addr, count });
            page += gap + u64::from(count);
        }
        if with_crcs {
            mapping.crcs = (0..mapping.pages() as u32).map(|i| crc.wrapping_mul(i)).collect();
        }
        mapping
    }
}
fn range(make: fn(u64, u64) -> Record) -> impl Strategy<Value = Record> {
    (0..u64::MAX / 2, 0..u64::MAX / 2).prop_map(move |(page, count)| make(page, count))
}

/// Any record.
pub(super) fn record() -> impl Strategy<Value = Record> {
    let dentry = || (ino(), ino(), any::<u8>(), option::of(any::<u32>()), any::<bool>(), name());
    prop_oneof![
        inode_new().prop_map(Record::InodeNew),
        attr().prop_map(Record::Attr),
        any::<i32>().prop_map(Record::Nlink),
        Just(Record::InodeFree),
        dentry().prop_map(|(ino, _, file_type, hash, primary, name)| Record::DentryAdd {
            ino,
            file_type,
            hash,
            primary,
            name
        }),
        dentry().prop_map(|(ino, _, _, hash, _, name)| Record::DentryDel { ino, hash, name }),
        dentry().prop_map(|(old, new, file_type, hash, primary, name)| Record::DentrySet {
            old,
            new,
            file_type,
            hash,
            primary,
            name
        }),
        ino().prop_map(|parent| Record::DotDot { parent }),
        time().prop_map(Record::DirTouch),
        mapping().prop_map(Record::Map),
        mapping().prop_map(|mapping| Record::Packed(Mapping { moved: false, ..mapping })),
        option::of((any::<u8>(), any::<u8>(), any::<u16>())).prop_map(|how| Record::Compression(
            how.map(|(algorithm, log_cluster, flag)| Compression { algorithm, log_cluster, flag })
        )),
        any::<bool>().prop_map(Record::Released),
        range(|page, count| Record::Reserve { page, count }),
        range(|page, count| Record::Unmap { page, count }),
        range(|page, count| Record::Collapse { page, count }),
        range(|page, count| Record::Insert { page, count }),
        any::<u64>().prop_map(|size| Record::Truncate { size }),
        (any::<u16>(), bytes(3600)).prop_map(|(offset, bytes)| Record::InlineData { offset, bytes }),
        Just(Record::InlineOff),
        (attribute(), bytes(4000)).prop_map(|((index, name), value)| Record::XattrSet { index, name, value }),
        attribute().prop_map(|(index, name)| Record::XattrDel { index, name }),
    ]
}

fn decode_all(mut bytes: &[u8]) -> Result<Vec<Record>, &'static str> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        out.push(Record::decode(&mut bytes)?);
    }
    Ok(out)
}

/// Runs of all mappings joined where a cut lies between them.
fn joined(mappings: &[Record]) -> Mapping {
    let mut out = Mapping::default();
    for record in mappings {
        let (Record::Map(mapping) | Record::Packed(mapping)) = record else { panic!("not a mapping") };
        mapping.runs.iter().for_each(|&r| out.push(r));
        out.crcs.extend(&mapping.crcs);
        out.moved = mapping.moved;
    }
    out
}

proptest! {
    #[test]
    fn what_is_written_is_read(record in record()) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert!(bytes.len() <= record.encoded_bound(), "{} > {}", bytes.len(), record.encoded_bound());
        let found = decode_all(&bytes).unwrap();
        if let Record::Map(_) | Record::Packed(_) = &record {
            prop_assert_eq!(joined(&found), joined(std::slice::from_ref(&record)));
        } else {
            prop_assert_eq!(found, vec![record]);
        }
    }

    /// Any bytes give records or an error, and encoding the records gives the same bytes.
    #[test]
    fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..400), code in 0..0x50u8, words in 0..90u16) {
        let mut bytes = bytes;
        if let Some(header) = bytes.first_chunk_mut::<4>() {
            let [low, high] = words.to_le_bytes();
            *header = [code, header[1] & 7, low, high];
        }
        let mut rest = bytes.as_slice();
        if let Ok(record) = Record::decode(&mut rest) {
            let mut again = Vec::new();
            record.encode(&mut again);
            prop_assert_eq!(again.as_slice(), &bytes[..bytes.len() - rest.len()]);
        }
    }

    #[test]
    fn a_changed_record_is_read_or_refused(record in record(), at: prop::sample::Index, with: u8) {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let _any = decode_all(&bytes);
    }
}

/// An ACL is named by its index alone.
#[test]
fn only_acls_have_no_name() {
    let read = |index, name: &[u8]| {
        let value: Box<[u8]> = [1, 0, 0, 0].into();
        let set = Record::XattrSet { index, name: name.into(), value };
        let records = vec![set, Record::XattrDel { index, name: name.into() }];
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        decode_all(&bytes).map(|found| assert_eq!(found, records))
    };
    for acl in [index::ACL_ACCESS, index::ACL_DEFAULT] {
        assert_eq!(read(acl, b""), Ok(()));
        assert_eq!(read(acl, b"name"), Err("an ACL with a name"));
    }
    for other in [index::USER, index::TRUSTED, index::SECURITY] {
        assert_eq!(read(other, b""), Err("length of a name"));
        assert_eq!(read(other, b"name"), Ok(()));
    }
}

#[test]
fn a_map_of_many_runs_becomes_several_records() {
    let runs = (0..5000).map(|i| Run { page: 2 * i, addr: BlockAddr(i as u32 * 3), count: 1 }).collect();
    let mut bytes = Vec::new();
    Record::Map(Mapping { runs, crcs: Vec::new(), moved: false }).encode(&mut bytes);
    let found = decode_all(&bytes).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(joined(&found).pages(), 5000);
}

/// Size of a create with its share of the directory's section, for which the format was designed.
#[test]
fn a_create_takes_few_bytes() {
    let time = Time { secs: 1_700_000_000, nsec: 5 };
    let new = InodeNew {
        mode: 0o100_644,
        inline: 1,
        advise: 0,
        uid: 1000,
        gid: 1000,
        projid: 0,
        flags: 0,
        generation: 0x1122_3344,
        pino: Ino(3),
        rdev: 0,
        inline_xattr_size: 50,
        time,
        tmpfile: false,
    };
    let name: Name = (*b"file0001").into();
    let add = Record::DentryAdd { ino: Ino(100), file_type: 1, hash: None, primary: true, name };
    let mut bytes = Vec::new();
    Record::InodeNew(new).encode(&mut bytes);
    add.encode(&mut bytes);
    let section = 12;
    assert!(bytes.len() + section <= 80, "{} bytes", bytes.len() + section);
}
