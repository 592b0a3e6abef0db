//! Fuzz target: rings and chains of descriptors in the memory of a guest.
use crate::chain::read;
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;
use std::sync::Arc;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The guest's memory, and the parts of it: the tables are 16 bytes for each descriptor.
const START: u64 = 0x1_0000;
const LEN: usize = 0x1_0000;
const SIZE: u16 = 8;
const TABLE: u64 = START;
const AVAIL: u64 = START + 0x400;
const USED: u64 = START + 0x800;
const INDIRECT: u64 = START + 0xc00;
const REQUEST: u64 = START + 0x1000;
const REPLY: u64 = START + 0x8000;
/// Where those parts are in an input.
const PARTS: [(usize, u64); 4] = [(0, TABLE), (128, AVAIL), (152, INDIRECT), (216, REQUEST)];
/// Longest request.
const MOST: usize = 0x2000;

fn descriptor(addr: u64, len: u32, flags: u16, next: u16) -> Vec<u8> {
    [&addr.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let chain = [
        descriptor(REQUEST, 40, 1, 1),
        descriptor(REQUEST + 40, 24, 1, 2),
        descriptor(REPLY, 4096, 3, 3),
        descriptor(REPLY + 4096, 96, 2, 0),
    ]
    .concat();
    let avail = [&[0, 0, 1, 0][..], &[0; 20]].concat();
    let request: Vec<u8> = (0..64).collect();
    let table = |first: &[u8]| {
        let mut table = first.to_vec();
        table.resize(usize::from(SIZE) * 16, 0);
        table
    };
    let direct = [table(&chain), avail.clone(), table(&[])[..64].to_vec(), request.clone()].concat();
    let indirect = [table(&descriptor(INDIRECT, 64, 4, 0)), avail, chain, request].concat();
    vec![direct, indirect]
}

/// A parsed chain has bytes and room in the guest's memory only.
fn take(memory: &Arc<GuestMemoryMmap>, input: &[u8]) -> Outcome {
    let text = |e: vm_memory::GuestMemoryError| e.to_string();
    memory.write_slice(&[0; 0x2000], GuestAddress(START)).map_err(text)?;
    for (i, (at, to)) in PARTS.into_iter().enumerate() {
        let end = PARTS.get(i + 1).map_or(input.len(), |next| next.0);
        let part = input.get(at..end.min(input.len())).unwrap_or_default();
        memory.write_slice(part, GuestAddress(to)).map_err(text)?;
    }
    let mut queue = Queue::new(SIZE).map_err(|e| e.to_string())?;
    queue.set_size(SIZE);
    queue.try_set_desc_table_address(GuestAddress(TABLE)).map_err(|e| e.to_string())?;
    queue.try_set_avail_ring_address(GuestAddress(AVAIL)).map_err(|e| e.to_string())?;
    queue.try_set_used_ring_address(GuestAddress(USED)).map_err(|e| e.to_string())?;
    queue.set_ready(true);
    let Ok(mut chains) = queue.iter(memory.clone()) else { return Ok(false) };
    let Some(chain) = chains.next() else { return Ok(false) };
    let mut into = vec![0; MOST];
    let Ok((len, room)) = read(&chain, &mut into) else { return Ok(true) };
    if len > MOST || room.bytes > LEN * usize::from(SIZE) {
        return Err(format!("a request of {len} bytes, and room of {}", room.bytes));
    }
    let reply = vec![0xaa; room.bytes];
    room.write(&**memory, &reply).map_err(|e| format!("room that cannot be written: {e}"))?;
    // A descriptor of the chain cannot be empty.
    if len == 0 && room.bytes == 0 { Err("an empty chain was read".into()) } else { Ok(true) }
}

#[test]
fn fuzz_chains() {
    let memory = Arc::new(GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(START), LEN)]).unwrap());
    let before = memory.num_regions();
    let mutator = Mutator { seeds: seeds(), resized: 0, ..Mutator::default() };
    let run = |i: &Vec<u8>| take(&memory, i);
    let target = Target { name: "chains", runs: 3_000, draw: &|rng| mutator.draw(rng), run: &run };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(memory.num_regions(), before);
}
