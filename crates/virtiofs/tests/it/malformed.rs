//! Guests that break the rules: the session ends with the reason, and the volume stays clean.
use crate::client::*;
use crate::fuse::*;
use crate::{Rig, Running};
use vm_memory::{Bytes, GuestAddress};

const GETATTR_LEN: usize = HEAD + 16;

/// A violation by a guest that has mounted the volume and written a request for attributes.
type ProtocolViolation = fn(&mut Client);

fn offer(guest: &mut Client, chain: &[Descriptor]) {
    guest.offer(REQUESTS, chain);
}

/// A correct chain for the request, changed.
fn with(guest: &mut Client, change: impl FnOnce(&mut Vec<Descriptor>)) {
    let mut chain = chain(GETATTR_LEN, 200);
    change(&mut chain);
    offer(guest, &chain);
}

const VIOLATIONS: &[(&str, &str, ProtocolViolation)] = &[
    ("a loop", "does not end", |g| with(g, |c| c[1] = Descriptor { flags: NEXT, next: 0, ..c[1] })),
    ("a loop of one", "does not end", |g| {
        with(g, |c| c[3] = Descriptor { flags: NEXT | WRITABLE, next: 3, ..c[3] });
    }),
    ("a next outside the table", "does not end", |g| with(g, |c| c[0].next = SIZE)),
    ("a head outside the table", "does not end", |g| g.publish(REQUESTS, SIZE)),
    ("a buffer outside memory", "not in the guest's memory", |g| with(g, |c| c[0].addr = 0)),
    ("a buffer that wraps", "not in the guest's memory", |g| with(g, |c| c[0].addr = u64::MAX - 10)),
    ("a buffer that leaves memory", "not in the guest's memory", |g| {
        with(g, |c| c[0].addr = MEMORY + MEMORY_LEN - 20);
    }),
    ("room outside memory", "not in the guest's memory", |g| with(g, |c| c[2].addr = MEMORY - 1)),
    ("room beyond memory", "not in the guest's memory", |g| with(g, |c| c[3].len = MEMORY_LEN as u32)),
    ("a request of all memory", "longer than the maximum", |g| {
        with(g, |c| c[0] = Descriptor { addr: MEMORY, len: MEMORY_LEN as u32, ..c[0] });
    }),
    ("an empty buffer", "no bytes", |g| with(g, |c| c[0].len = 0)),
    ("empty room", "no bytes", |g| with(g, |c| c[3].len = 0)),
    ("room first", "follows one to be written", |g| with(g, |c| c[0].flags |= WRITABLE)),
    ("room between", "follows one to be written", |g| {
        with(g, |c| {
            let last = c[3];
            c[2] = Descriptor { flags: WRITABLE | NEXT, ..c[2] };
            c[3] = Descriptor { flags: NEXT, addr: REQUEST, ..last };
            c.push(Descriptor { flags: WRITABLE, ..last });
        });
    }),
    ("only room", "shorter than its header", |g| {
        offer(g, &[Descriptor { addr: REPLY, len: 4096, flags: WRITABLE, next: 0 }]);
    }),
    ("half a header", "shorter than its header", |g| {
        let request = Descriptor { addr: REQUEST, len: 20, flags: NEXT, next: 1 };
        offer(g, &[request, Descriptor { addr: REPLY, len: 4096, flags: WRITABLE, next: 0 }]);
    }),
    ("a length that is too long", "length in the header", |g| with(g, |c| c[1].len -= 1)),
    ("a length that is too short", "length in the header", |g| with(g, |c| c[1].len += 1)),
    ("no room", "no room for the reply", |g| {
        with(g, |c| {
            c.truncate(2);
            c[1].flags = 0;
        })
    }),
    ("little room", "no room for the reply", |g| {
        with(g, |c| {
            c.truncate(3);
            c[2] = Descriptor { len: 15, flags: WRITABLE, ..c[2] };
        })
    }),
    ("INIT with little room", "no room for the reply to INIT", |g| {
        let message = init();
        g.memory.write_slice(&message, GuestAddress(REQUEST)).unwrap();
        let room = chain(message.len(), 40);
        offer(g, &room);
    }),
    ("a table in a table", "does not end", |g| {
        g.store(TABLE, &[Descriptor { addr: TABLE, len: 16, flags: INDIRECT, next: 0 }]);
        offer(g, &[Descriptor { addr: TABLE, len: 16, flags: INDIRECT, next: 0 }]);
    }),
    ("a table of odd length", "does not end", |g| {
        offer(g, &[Descriptor { addr: TABLE, len: 17, flags: INDIRECT, next: 0 }]);
    }),
    ("an empty table", "does not end", |g| {
        offer(g, &[Descriptor { addr: TABLE, len: 0, flags: INDIRECT, next: 0 }]);
    }),
    ("a table outside memory", "does not end", |g| {
        offer(g, &[Descriptor { addr: 16, len: 64, flags: INDIRECT, next: 0 }]);
    }),
    ("a table without an end", "does not end", |g| {
        let piece = |next| Descriptor { addr: REPLY, len: 16, flags: NEXT | WRITABLE, next };
        g.store(TABLE, &[piece(1), piece(0)]);
        offer(g, &[Descriptor { addr: TABLE, len: 32, flags: INDIRECT, next: 0 }]);
    }),
    ("an index far ahead", "ring: ", |g| g.set_avail(REQUESTS, 40_000)),
];

fn mounted(rig: &Rig) -> (Running, Client) {
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    guest.memory.write_slice(&getattr(ROOT), GuestAddress(REQUEST)).unwrap();
    (export, guest)
}

#[test]
fn each_offence_ends_the_session_with_its_reason() {
    let rig = Rig::new();
    for (what, reason, offend) in VIOLATIONS {
        let (export, mut guest) = mounted(&rig);
        offend(&mut guest);
        let why = export.failure();
        assert!(why.contains(reason), "{what}: {why}");
        assert!(why.starts_with("queue 1: "), "{why}");
    }
    rig.assert_clean();
}

/// The offences change correct chains, so a correct one must be served.
#[test]
fn a_correct_chain_is_served() {
    let rig = Rig::new();
    let (export, mut guest) = mounted(&rig);
    with(&mut guest, |_| {});
    assert_eq!(guest.wait(REQUESTS), (REPLY_HEAD + 104) as u32);
    drop(guest);
    export.end();
    rig.assert_clean();
}

/// One thread, so that all but one request wait.
#[test]
fn a_ring_has_only_so_many_requests() {
    let rig = Rig::new();
    let (export, mut guest) = mounted(&rig);
    let message = chain(GETATTR_LEN, 200);
    guest.store(Client::table(REQUESTS), &message);
    // More than the ring has entries at once is an error of the index, however fast they are served.
    guest.set_avail(REQUESTS, 1 + SIZE + 1);
    assert!(export.failure().contains("ring: "));
    rig.assert_clean();
}
