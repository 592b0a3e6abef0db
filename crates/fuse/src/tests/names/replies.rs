//! Replies as bytes, to this machine's kernel and to a guest's, which receives no notifications.
use super::folding_volume;
use crate::attr::FOREVER;
use crate::name_cache::FOLDING_VOLUME;
use crate::server::Server;
use crate::tests::protocol::call;
use crate::tests::volume;
use crate::wire::*;
use segno_engine::Owner;
use segno_format::inode::InodeFlags;
use zerocopy::{FromBytes, IntoBytes};

const ENOENT: i32 = -2;
const ESTALE: i32 = -116;

/// A server of each kind for a volume with a directory that ignores case, and the node of that directory.
fn servers() -> [(Server, u64); 2] {
    [Server::new(folding_volume()), Server::new(folding_volume()).for_guest()].map(|server| {
        let volume = &server.volume;
        let dir = volume.mkdir(volume.root(), b"g", 0o755, Owner::default()).unwrap().ino;
        volume.set_flags(dir, InodeFlags::CASEFOLD).unwrap();
        (server, dir.0.into())
    })
}

/// Error of the reply, and node and time limit of the entry in it.
fn entry((error, body): (i32, Vec<u8>)) -> (i32, u64, u64) {
    EntryOut::read_from_prefix(&body).map_or((error, 0, 0), |(e, _)| (error, e.nodeid, e.entry_valid))
}

fn rename(server: &Server, from: (u64, &str), to: (u64, &str), flags: u32) -> i32 {
    let arg = Rename2In { newdir: to.0, flags, padding: 0 };
    call(server, Opcode::Rename2, from.0, &arg, format!("{}\0{}\0", from.1, to.1).as_bytes()).0
}

#[test]
fn each_reply_with_a_name_expires_at_once_where_case_is_ignored() {
    for (server, g) in servers() {
        for (dir, valid) in [(ROOT, FOLDING_VOLUME), (g, 0)] {
            let made = |op, arg: &[u8], rest: &[u8]| {
                let (error, node, limit) = entry(call(&server, op, dir, arg, rest));
                assert_eq!((error, limit), (0, valid), "{op:?} in {dir}");
                node
            };
            let create = CreateIn { mode: 0o100_644, ..CreateIn::default() };
            let file = made(Opcode::Create, create.as_bytes(), b"Create\0");
            assert_eq!(made(Opcode::Lookup, &[], b"Create\0"), file);
            made(Opcode::Mknod, MknodIn { mode: 0o100_644, ..MknodIn::default() }.as_bytes(), b"Mknod\0");
            made(Opcode::Mkdir, MkdirIn { mode: 0o755, ..MkdirIn::default() }.as_bytes(), b"Mkdir\0");
            made(Opcode::Symlink, &[], b"Symlink\0target\0");
            assert_eq!(made(Opcode::Link, LinkIn { oldnodeid: file }.as_bytes(), b"Link\0"), file);
            listed(&server, dir, valid);
        }
        for spelling in ["create", "MKDIR", "LiNK"] {
            let (error, node, valid) =
                entry(call(&server, Opcode::Lookup, g, &(), format!("{spelling}\0").as_bytes()));
            assert_eq!((error, node > 0, valid), (0, true, 0), "{spelling}");
        }
    }
}

/// Asserts the time limit of each entry of READDIRPLUS.
fn listed(server: &Server, dir: u64, valid: u64) {
    let (mut offset, mut seen) = (0, 0);
    loop {
        // A listing from its beginning omits attributes of inodes that are not cached.
        let read = ReadIn { size: 4096, offset, ..ReadIn::default() };
        let (_, mut page) = call(server, Opcode::ReadDirPlus, dir, &read, b"");
        if page.is_empty() {
            break;
        }
        while let Ok((entry, rest)) = EntryOut::read_from_prefix(&page) {
            let (dirent, rest) = Dirent::read_from_prefix(rest).unwrap();
            let is_dots = rest.starts_with(b".\0") || rest.starts_with(b"..\0");
            assert!(entry.nodeid > 0 && (is_dots || entry.entry_valid == valid));
            (offset, seen) = (dirent.off, seen + 1);
            page = rest[(dirent.namelen as usize).next_multiple_of(8)..].to_vec();
        }
    }
    assert!(seen >= 7, "{seen} entries");
}

#[test]
fn a_missing_name_is_cached_only_on_a_volume_without_casefolding() {
    let missing = |server: &Server, dir| entry(call(server, Opcode::Lookup, dir, &(), b"missing\0"));
    assert_eq!(missing(&Server::new(volume()), ROOT), (0, 0, FOREVER));
    for (server, g) in servers() {
        assert_eq!(missing(&server, g).0, ENOENT);
        assert_eq!(missing(&server, ROOT).0, ENOENT);
    }
}

/// The reply to RENAME cannot shorten the time limit of a name that the kernel has cached. On ESTALE the kernel looks the
/// path up once more.
#[test]
fn a_cached_name_moves_only_after_it_has_expired() {
    const EXCHANGE: u32 = 2;
    for (server, g) in servers() {
        let lookup =
            |dir, name: &str| entry(call(&server, Opcode::Lookup, dir, &(), format!("{name}\0").as_bytes()));
        let make = |dir, name: &str| {
            let rest = format!("{name}\0");
            assert_eq!(call(&server, Opcode::Mknod, dir, &MknodIn::default(), rest.as_bytes()).0, 0);
        };
        make(ROOT, "a");
        make(g, "b");
        assert_eq!(lookup(ROOT, "a").2, FOLDING_VOLUME);
        for attempt in 0..3 {
            assert_eq!(rename(&server, (ROOT, "a"), (g, "in"), 0), ESTALE, "{attempt}");
        }
        assert_eq!(lookup(ROOT, "a").2, 0);
        assert_eq!(rename(&server, (ROOT, "a"), (g, "in"), 0), 0);
        // The same name once more: nothing is left of the first move.
        make(ROOT, "a");
        assert_eq!(lookup(ROOT, "a").2, FOLDING_VOLUME);
        // In an exchange either name may be the one that moves in.
        assert_eq!(rename(&server, (g, "b"), (ROOT, "a"), EXCHANGE), ESTALE);
        assert_eq!(lookup(ROOT, "a").2, 0);
        assert_eq!(rename(&server, (g, "b"), (ROOT, "a"), EXCHANGE), 0);
        // Between directories of one kind, and out, a rename is one request.
        make(ROOT, "c");
        assert_eq!(rename(&server, (ROOT, "c"), (ROOT, "d"), 0), 0);
        assert_eq!(rename(&server, (g, "B"), (g, "e"), 0), 0);
        assert_eq!(rename(&server, (g, "E"), (ROOT, "out"), 0), 0);
    }
}
