//! Reads the accepted epochs and merges the records of each inode. Replay ends in one checkpoint, so only the final
//! state matters, and an inode created and deleted again leaves nothing.
//!
//! Inodes are independent here, so each thread merges the records of a share of them. The result, or the error, does
//! not depend on the number of shares.
use super::misfit;
use crate::error::{Error, Result};
use crate::recovery::Recovery;
use crate::transaction::{InodeRecords, sections};
use crate::writeback::processors;
use foldhash::HashMap;
use segno_format::{BlockAddr, Geometry, Ino, SegNo};
use segno_journal::record::{Mapping, Run};
use segno_journal::{Payload, PayloadSection, Record, Replay, Section};
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::thread;

/// Bytes of the journal read at a time. Two batches are in memory: one is processed while the next is read.
const BATCH: u64 = 16 << 20;
/// With more shares, threads would mostly skip records of others.
const MAX_SHARES: usize = 8;

/// A share of the inodes, with the merged records so far.
struct Share<'a> {
    geo: &'a Geometry,
    /// The index of this share.
    number: usize,
    of: usize,
    logs: HashMap<Ino, InodeRecords>,
    mapped: MappedRuns,
}

/// Block runs that records name, with their inodes.
type MappedRuns = Vec<(Run, Ino)>;
/// Number of sections before an error.
type Place = usize;

impl Recovery<'_> {
    /// Reads and checks all epochs. Marks the segments of mapped blocks as used, so that replay does not allocate
    /// them, and returns them.
    pub(super) fn read_logged(&self, replay: &Replay) -> Result<(Vec<Section>, BTreeSet<SegNo>)> {
        let bytes: u64 = replay.accepted().iter().map(|a| a.bytes).sum();
        let shares = if bytes > BATCH { processors().min(MAX_SHARES) } else { 1 };
        let (sections, mapped) = gather(replay, &self.base.geo, shares)?;
        Ok((sections, self.hold_mapped(mapped)?))
    }

    fn hold_mapped(&self, mut mapped: MappedRuns) -> Result<BTreeSet<SegNo>> {
        mapped.sort_unstable_by_key(|(run, ino)| (run.addr, *ino));
        let mut segs: BTreeSet<SegNo> = BTreeSet::new();
        let mut free_from = BlockAddr(0);
        for (run, ino) in &mapped {
            for addr in (0..run.count).map(|i| run.addr.offset(i)) {
                if addr < free_from || self.files.space.is_valid(addr) {
                    return Err(misfit(*ino, "block is in use already", addr.0.into()));
                }
                segs.extend(self.base.geo.seg_of(addr).map(|(seg, _)| seg));
            }
            free_from = run.addr.offset(run.count);
        }
        self.files.space.with_table(|t| segs.iter().for_each(|&seg| t.hold_all(seg)));
        Ok(segs)
    }
}

/// The merged records by inode number, and all mapped runs.
fn gather(replay: &Replay, geo: &Geometry, shares: usize) -> Result<(Vec<Section>, MappedRuns)> {
    let mut shares: Vec<Share<'_>> = (0..shares).map(|number| Share::new(geo, number, shares)).collect();
    let mut log = replay.payloads();
    let mut batch = next_batch(&mut log)?;
    while !batch.is_empty() {
        let next = on_each(&mut shares, |share| share.take(&batch), || next_batch(&mut log));
        let (done, next) = next;
        if let Some((_, error)) = done.into_iter().filter_map(std::result::Result::err).min_by_key(|e| e.0) {
            return Err(error);
        }
        batch = next?;
    }
    let epoch = replay.last_epoch();
    let (decoded, ()) = on_each(&mut shares, |share| share.end(epoch), || ());
    let mut all: Vec<Section> = decoded.into_iter().flatten().collect();
    all.sort_unstable_by_key(|s| s.ino);
    Ok((all, shares.into_iter().flat_map(|s| s.mapped).collect()))
}

/// The next batch of groups; empty at the end.
fn next_batch(log: &mut impl Iterator<Item = segno_journal::Result<Payload>>) -> Result<Vec<Payload>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for payload in log {
        let payload = payload?;
        bytes += payload.bytes();
        batch.push(payload);
        if bytes >= BATCH {
            break;
        }
    }
    Ok(batch)
}

/// Runs `f` on all shares in parallel with `here`; a single share needs no thread.
fn on_each<S: Send, T: Send, U>(
    shares: &mut [S],
    f: impl Fn(&mut S) -> T + Sync,
    here: impl FnOnce() -> U,
) -> (Vec<T>, U) {
    if let [share] = shares {
        return (vec![f(share)], here());
    }
    thread::scope(|scope| {
        let threads: Vec<_> = shares.iter_mut().map(|share| scope.spawn(|| f(share))).collect();
        let beside = here();
        let join = |t: thread::ScopedJoinHandle<'_, T>| {
            t.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
        };
        (threads.into_iter().map(join).collect(), beside)
    })
}

impl<'a> Share<'a> {
    fn new(geo: &'a Geometry, number: usize, of: usize) -> Self {
        Self { geo, number, of, logs: HashMap::default(), mapped: Vec::new() }
    }

    fn take(&mut self, batch: &[Payload]) -> std::result::Result<(), (Place, Error)> {
        for (place, section) in batch.iter().flat_map(Payload::sections).enumerate() {
            section
                .map_err(Error::from)
                .and_then(|section| self.take_section(section))
                .map_err(|e| (place, e))?;
        }
        Ok(())
    }

    fn take_section(&mut self, section: PayloadSection<'_>) -> Result<()> {
        if section.ino.0 as usize % self.of != self.number {
            return Ok(());
        }
        let (log, known) = match self.logs.entry(section.ino) {
            Entry::Occupied(log) => (log.into_mut(), true),
            Entry::Vacant(none) => (none.insert(InodeRecords::default()), false),
        };
        for record in section.records() {
            let record = record?;
            match &record {
                Record::InodeNew(_) if known => {
                    return Err(misfit(section.ino, "a new inode was there before", section.epoch));
                }
                Record::Map(mapping) | Record::Packed(mapping) => {
                    note_mapped(&mut self.mapped, self.geo, section.ino, mapping)?
                }
                _ => {}
            }
            log.fold(record);
        }
        Ok(())
    }

    fn end(&mut self, epoch: u64) -> Vec<Section> {
        sections(std::mem::take(&mut self.logs).into_iter(), epoch, false)
    }
}

fn note_mapped(mapped: &mut MappedRuns, geo: &Geometry, ino: Ino, mapping: &Mapping) -> Result<()> {
    for run in &mapping.runs {
        let last = run.addr.offset(run.count.saturating_sub(1));
        if let Some(addr) = [run.addr, last].into_iter().find(|&addr| geo.seg_of(addr).is_none()) {
            return Err(misfit(ino, "block outside the main area", addr.0.into()));
        }
        mapped.push((*run, ino));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::test_geometry;
    use segno_device::MemDevice;
    use segno_format::SegNo;
    use segno_journal::record::{InodeNew, Time};
    use segno_journal::{Area, Checkpoint, Group, Journal, Kind, Opened};
    use std::sync::Arc;

    /// Epochs of 1 MiB, for more than one batch.
    const EPOCHS: u64 = 41;

    /// Names that alternate, values that grow, blocks of many inodes.
    fn epoch(n: u64, geo: &Geometry) -> Group {
        let section = |i: u64| {
            let (ino, here) = (Ino(100 + i as u32 * 3), n.is_multiple_of(2));
            let name = |s: &str| format!("{s}{}", i % 7).into_bytes().into_boxed_slice();
            let addr = geo.seg_start(SegNo(1)).offset((n * 300 + i) as u32);
            let records = vec![
                Record::DentryAdd {
                    ino,
                    file_type: 1,
                    hash: None,
                    primary: true,
                    name: name(if here { "a" } else { "b" }),
                },
                Record::XattrSet { index: 1, name: name("x"), value: vec![n as u8; 3500].into() },
                Record::Map(Mapping {
                    runs: vec![Run { page: n, addr, count: 1 }],
                    crcs: Vec::new(),
                    moved: false,
                }),
                Record::DentryDel { ino, hash: None, name: name(if here { "b" } else { "a" }) },
                Record::DirTouch(Time { secs: n as i64, nsec: i as u32 }),
            ];
            Section { ino, epoch: n, records }
        };
        Group { kind: Kind::Epoch, epoch: n, sections: (0..300).map(section).collect() }
    }

    fn log(groups: impl Iterator<Item = Group>) -> Box<Replay> {
        let (area, cp) = (
            Area::whole(Arc::new(MemDevice::new(16_384))),
            Checkpoint { volume: [7; 16], version: 1, crc: 2, is_first: true },
        );
        let journal = Journal::create(area.clone().vacant(&cp.volume).unwrap(), &cp, [9; 16]).unwrap();
        groups.for_each(|g| _ = journal.append(&g).unwrap());
        journal.flush().unwrap();
        match Journal::open(area, &cp, &MemDevice::new(8)).unwrap() {
            Opened::Usable(replay) => replay,
            Opened::Stale(why) => panic!("{why}"),
        }
    }

    #[test]
    fn the_number_of_shares_changes_nothing() {
        let geo = test_geometry();
        let replay = log((1..=EPOCHS).map(|n| epoch(n, &geo)));
        let found = |shares| {
            let (sections, mut mapped) = gather(&replay, &geo, shares).unwrap();
            mapped.sort_unstable_by_key(|(run, _)| run.addr);
            (sections, mapped)
        };
        let one = found(1);
        assert_eq!((one.0.len(), one.1.len()), (300, 300 * EPOCHS as usize));
        // A removed name, an added name, a value and times; and all mapped runs, in order.
        assert!(one.0.iter().all(|s| s.records.len() == 4 + EPOCHS as usize));
        for shares in [2, 3, 7] {
            assert!(found(shares) == one, "{shares} shares");
        }
    }

    #[test]
    fn the_first_of_several_errors_is_reported() {
        let geo = test_geometry();
        let again = |ino: u32| {
            let records =
                vec![Record::InodeNew(InodeNew { mode: 0o100_644, pino: Ino(3), ..InodeNew::default() })];
            Section { ino: Ino(ino), epoch: EPOCHS, records }
        };
        let bad = Group { kind: Kind::Epoch, epoch: EPOCHS, sections: [106, 103, 109].map(again).into() };
        let replay = log((1..EPOCHS).map(|n| epoch(n, &geo)).chain([bad]));
        for shares in [1, 2, 3, 7] {
            let error = gather(&replay, &geo, shares).unwrap_err().to_string();
            assert!(
                error.contains("a new inode was there before") && error.contains("106"),
                "{shares}: {error}"
            );
        }
    }
}
