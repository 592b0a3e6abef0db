//! What was written and acknowledged: the promises that every later state is compared with.
use super::network::Network;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::log::map::{Geometry, Map, Object};
use crate::wire::names::{Name, ObjectId};
use crate::wire::pieces;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

pub(super) const GEOMETRY: Geometry = Geometry { zone_blocks: 4, zones: 6, conventional: 2 };
pub(super) const VOLUME: [u8; 16] = [7; 16];

/// The value of each block; 0 if it was never written.
pub(super) type Values = Vec<u64>;

struct Commit {
    place: LogPlace,
    /// The commit before it.
    parent: usize,
    values: Values,
    acknowledged: bool,
}

/// All commits, each with the state before it. They are a tree: commits that were not acknowledged may be left
/// out by the next mount.
pub(super) struct History {
    commits: Vec<Commit>,
    places: HashMap<LogPlace, usize>,
    /// The last commit that each mount found, by its epoch.
    found: Vec<(Epoch, usize)>,
    value: u64,
}

impl History {
    pub(super) fn new() -> Self {
        let values = vec![0; GEOMETRY.blocks() as usize];
        let root = Commit { place: LogPlace::default(), parent: 0, values, acknowledged: true };
        Self { commits: vec![root], places: HashMap::new(), found: Vec::new(), value: 0 }
    }

    /// A value that no block has.
    pub(super) fn value(&mut self) -> u64 {
        self.value += 1;
        self.value
    }

    /// Records a commit that is about to be stored.
    pub(super) fn close(&mut self, place: LogPlace, parent: usize, values: Values) -> usize {
        let commit = self.commits.len();
        self.commits.push(Commit { place, parent, values, acknowledged: false });
        assert!(self.places.insert(place, commit).is_none(), "two commits for {place}");
        commit
    }

    pub(super) fn values(&self, commit: usize) -> Values {
        self.commits[commit].values.clone()
    }

    fn includes(&self, mut tip: usize, commit: usize) -> bool {
        while tip > commit {
            tip = self.commits[tip].parent;
        }
        tip == commit
    }

    /// A mount acknowledges all commits of its epoch up to this one.
    pub(super) fn acknowledge(&mut self, upto: LogPlace) -> Result<u64, String> {
        let mut new = 0;
        let mut at = self.places.get(&upto).copied().unwrap_or(0);
        while !self.commits[at].acknowledged && self.commits[at].place.epoch == upto.epoch {
            for &(epoch, tip) in self.found.iter().filter(|(epoch, _)| *epoch > upto.epoch) {
                if !self.includes(tip, at) {
                    let place = self.commits[at].place;
                    return Err(format!(
                        "{place} is acknowledged, and the mount of epoch {epoch} left it out"
                    ));
                }
            }
            self.commits[at].acknowledged = true;
            (new, at) = (new + 1, self.commits[at].parent);
        }
        Ok(new)
    }

    /// The last commit of a state: the one before the end of the last epoch that has any.
    fn tip(&self, seals: &BTreeMap<Epoch, Seq>, next: LogPlace) -> Result<usize, String> {
        let ends = seals.iter().map(|(&epoch, &seq)| LogPlace::new(epoch, seq)).chain([next]);
        let last = ends.filter(|end| end.seq > Seq::FIRST).max();
        let Some(end) = last else { return Ok(0) };
        let place = LogPlace::new(end.epoch, end.seq.previous());
        self.places.get(&place).copied().ok_or(format!("nothing was written in {place}"))
    }

    /// Checks a state that was found, and returns its last commit. It has all commits that were acknowledged in
    /// epochs before `epoch`.
    pub(super) fn check(&self, map: &Map, next: LogPlace, epoch: Option<Epoch>) -> Result<usize, String> {
        let tip = self.tip(&map.seals, next)?;
        let promised = (0..self.commits.len()).filter(|&commit| {
            let Commit { place, acknowledged, .. } = &self.commits[commit];
            *acknowledged && epoch.is_none_or(|epoch| place.epoch < epoch)
        });
        for commit in promised {
            if !self.includes(tip, commit) {
                let (lost, last) = (self.commits[commit].place, self.commits[tip].place);
                return Err(format!("{lost} was acknowledged, and the state of {last} does not have it"));
            }
        }
        Ok(tip)
    }

    /// Records that a mount has found a state.
    pub(super) fn found(&mut self, epoch: Epoch, tip: usize) {
        self.found.push((epoch, tip));
    }

    /// Checks the content of all blocks.
    pub(super) fn compare(&self, map: &Map, network: &Network, tip: usize) -> Result<(), String> {
        let found = read(map, network)?;
        let last = self.commits[tip].place;
        match found == self.commits[tip].values {
            true => Ok(()),
            false => Err(format!("{found:?} is not the state of {last}: {:?}", self.commits[tip].values)),
        }
    }
}

/// The blocks of an object.
fn blocks(object: &Object, network: &Network) -> Result<Vec<u8>, String> {
    let name = Name::Object(object.id);
    let bytes = network.get(name).ok_or(format!("{name} was deleted"))?;
    let len = match object.id {
        ObjectId::Data { .. } => bytes.len(),
        ObjectId::Log(_) => pieces::encoded_len(object.blocks.into()).min(bytes.len()),
    };
    let blocks = pieces::decode(&VOLUME, object.id, 0, &bytes.slice(..len));
    Ok(blocks.ok_or(format!("the blocks of {name} are damaged"))?.concat())
}

fn read(map: &Map, network: &Network) -> Result<Values, String> {
    let mut values = vec![0; GEOMETRY.blocks() as usize];
    let mut objects = HashMap::<ObjectId, Vec<u8>>::new();
    for (number, zone) in map.zones() {
        for extent in zone.extents.iter() {
            let object = map.object(extent.object).ok_or("an extent of no object")?;
            let content = match objects.entry(object.id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(blocks(object, network)?),
            };
            for n in 0..extent.len {
                let at = usize::from(object.base + extent.offset + n) * segno_format::BLOCK_SIZE;
                let bytes = content.get(at..at + 8).ok_or("an extent beyond its object")?;
                let place = GEOMETRY.start_of(number) + u64::from(extent.start + n);
                values[place as usize] = u64::from_le_bytes(bytes.try_into().unwrap());
            }
        }
    }
    Ok(values)
}
