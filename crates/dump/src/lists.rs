//! Orphans, quota, the roll-forward chain, the metadata journal.
use crate::fields;
use crate::{DumpError, Image};
use segno_format::node::RawNode;
use segno_format::quota::QuotaTable;
use segno_format::sit::LogType;
use segno_journal::{About, Area};
use segno_layout::{Chain, ChainEnd, certain};
use segno_rescue::content;
use serde_json::{Map, Value, json};

/// The largest quota file that is read: 64 MiB hold a million ids.
const QUOTA_BYTES: usize = 64 << 20;
const KINDS: [&str; 3] = ["user", "group", "project"];

impl Image<'_> {
    pub(crate) fn orphans(&self) -> Result<Value, DumpError> {
        let pack = self.volume.pack.as_ref().ok_or(DumpError::Missing("checkpoint pack"))?;
        Ok(pack.orphans().filter_map(Result::ok).flatten().map(|nid| json!(nid.0)).collect())
    }

    pub(crate) fn quota(&self) -> Result<Value, DumpError> {
        let sb = self.superblocks.in_force().ok_or(DumpError::Missing("superblock"))?;
        let mut map = Map::new();
        for ((kind, name), ino) in KINDS.into_iter().enumerate().zip(sb.quota_inos()) {
            let Some(ino) = ino else { continue };
            let shown = match self.quota_file(kind, ino) {
                Ok(value) => value,
                Err(e) => json!({ "ino": ino, "error": e.to_string() }),
            };
            map.insert(name.into(), shown);
        }
        Ok(Value::Object(map))
    }

    fn quota_file(&self, kind: usize, ino: u32) -> Result<Value, DumpError> {
        let file = self.opened(ino)?;
        let size = usize::try_from(file.raw().i_size.get()).unwrap_or(usize::MAX).min(QUOTA_BYTES);
        let mut bytes = vec![0; size];
        let read = content::read(&self.volume, &file, &|_| true, &mut |offset, part| {
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            if let Some(to) = at.checked_add(part.len()).and_then(|end| bytes.get_mut(at..end)) {
                to.copy_from_slice(part);
            }
            Ok(())
        });
        let holes = read.map_err(|e| DumpError::NotFound(e.to_string()))?;
        let table = QuotaTable::parse(&bytes, kind, ino).map_err(|e| DumpError::NotFound(e.to_string()))?;
        let entries = table.entries.iter().map(|(id, e)| {
            json!({ "id": id, "inodes": e.inodes, "bytes": e.bytes, "inode_limits": e.inode_limits,
                    "space_limits": e.space_limits, "times": e.times })
        });
        Ok(
            json!({ "ino": ino, "grace": table.grace, "flags": table.flags, "unreadable_blocks": holes.unreadable,
                   "entries": entries.collect::<Vec<_>>() }),
        )
    }

    /// The nodes of the roll-forward chain, in order.
    pub(crate) fn chain(&self) -> Result<Value, DumpError> {
        let (geo, pack) =
            (self.geo()?, self.volume.pack.as_ref().ok_or(DumpError::Missing("checkpoint pack"))?);
        let start = pack.next_of(LogType::WarmNode, geo);
        let (mut chain, mut list) = (Chain::new(geo, pack.stamp(), start), Vec::new());
        let end = loop {
            match certain(chain.next(&self.volume.reader)) {
                Ok((addr, block)) => {
                    let mut map = fields::footer(&block.view::<RawNode>().footer);
                    map.insert("blkaddr".into(), json!(addr.0));
                    list.push(Value::Object(map));
                }
                Err(ChainEnd::Stamp) => break "the next block has another stamp",
                Err(ChainEnd::Circle(_)) => break "the chain runs in a circle",
                Err(ChainEnd::Missing) => break "the next block is outside the main area or cannot be read",
            }
        };
        Ok(json!({ "start": start.map(|a| a.0), "end": end, "nodes": list }))
    }

    pub(crate) fn journal(&self) -> Result<Value, DumpError> {
        let sb = self.superblocks.in_force().ok_or(DumpError::Missing("superblock"))?;
        let area = Area::tail(self.device.clone(), sb.geo.block_count);
        let area = area
            .ok_or_else(|| DumpError::NotFound("there is no room for a journal behind the volume".into()))?;
        let about = About::read(&area).map_err(|e| DumpError::NotFound(e.to_string()))?;
        Ok(
            json!({ "start_byte": area.start() * 4096, "volume": fields::hex(&about.volume), "bytes": about.bytes,
                   "clean": about.clean, "checkpoint": about.checkpoint, "mounts": about.mounts,
                   "of_this_volume": about.volume == sb.raw.uuid }),
        )
    }
}
