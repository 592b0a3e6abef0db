//! Random chains: correct ones with a few bytes changed, in the ring, the table and the request. Whatever the device makes of
//! them, it neither panics nor hangs, and the volume stays clean.
use crate::Rig;
use crate::client::*;
use crate::fuse::*;
use segno_testkit::Rng;
use segno_virtiofs::End;
use vm_memory::{Bytes, GuestAddress};

/// `SEED` and `SESSIONS` choose others.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_chains() {
    let (first, sessions) = (number("SEED", 1), number("SESSIONS", 100));
    let rig = Rig::new();
    let (mut failed, mut survived) = (0, 0);
    for seed in first..first + sessions {
        println!("again: SEED={seed} SESSIONS=1 cargo test -p segno-virtiofs random_chains");
        let mut rng = Rng::new(seed);
        let (export, mut guest) = rig.export();
        body(&guest.call(&init()));
        let name = format!("file{seed}");
        let file = node(&guest.call(&create(&name, 0o100_644)));
        for _ in 0..rng.between(1, 20) {
            offend(&mut guest, &mut rng, file, &name);
        }
        // The device may be at any of them, or have given up.
        drop(guest);
        match export.end() {
            End::Failed(why) => {
                assert!(!why.contains("panic"), "seed {seed}: {why}");
                failed += 1;
            }
            End::Disconnected => survived += 1,
            End::Stopped => panic!("seed {seed}: nobody stopped it"),
        }
    }
    println!("{failed} sessions failed, {survived} did not");
    assert!(sessions < 50 || (failed > 0 && survived > 0), "{failed} {survived}");
    rig.assert_clean();
}

fn offend(guest: &mut Client, rng: &mut Rng, file: u64, name: &str) {
    let data = vec![rng.draw() as u8; rng.below(10_000) as usize];
    let messages = [
        write(file, rng.below(1 << 20), &data),
        read(file, rng.below(1 << 20), rng.below(100_000) as u32),
        getattr(file),
        create(name, 0o100_644),
        named(LOOKUP, name),
        named(UNLINK, name),
        forget(file, rng.below(3)),
        request(FSYNC, file, &[&[0; 16]]),
        init(),
        request(rng.below(60) as u32, file, &[&data]),
    ];
    let mut message = messages[rng.index(messages.len())].clone();
    for _ in 0..rng.below(3) {
        let at = rng.index(message.len().min(100));
        // The length in the header is checked first, so it mostly stays.
        if at >= 4 || rng.one_in(10) {
            message[at] = rng.draw() as u8;
        }
    }
    guest.memory.write_slice(&message, GuestAddress(REQUEST)).unwrap();
    let mut chain = chain(message.len(), rng.below(120_000) as usize + 16);
    if rng.one_in(4) {
        let index = rng.index(chain.len());
        mutate(&mut chain[index], rng);
    }
    guest.indirect = rng.one_in(3);
    guest.offer(if rng.one_in(5) { HIPRIO } else { REQUESTS }, &chain);
    if rng.one_in(50) {
        guest.set_avail(REQUESTS, rng.draw() as u16);
    }
    if rng.one_in(3) {
        // While the device reads it.
        let at = REQUEST + rng.below(message.len() as u64);
        guest.memory.write_obj(rng.draw() as u8, GuestAddress(at)).unwrap();
    }
}

fn mutate(descriptor: &mut Descriptor, rng: &mut Rng) {
    match rng.below(6) {
        0 => descriptor.addr = rng.draw(),
        1 => descriptor.addr = MEMORY + rng.below(MEMORY_LEN),
        2 => descriptor.len = rng.draw() as u32,
        3 => descriptor.len = rng.below(64) as u32,
        4 => descriptor.flags = rng.below(8) as u16,
        _ => descriptor.next = rng.draw() as u16,
    }
}
