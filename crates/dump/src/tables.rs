//! Superblock, checkpoint packs, NAT, SIT and SSA.
use crate::fields;
use crate::{DumpError, Image};
use segno_format::nat::nat_index;
use segno_format::sit::LogType;
use segno_format::summary::RawSummaryBlock;
use segno_format::superblock::RawSuperblock;
use segno_format::{BlockAddr, Nid, SegNo};
use segno_layout::{NatState, Pack, Summaries};
use serde_json::{Map, Value, json};
use std::ops::Range;

impl Image<'_> {
    pub(crate) fn superblocks(&self, only: Option<usize>) -> Value {
        let each = |i: usize, raw: &Option<RawSuperblock>| {
            let mut map = raw.as_ref().map(fields::superblock).unwrap_or_default();
            map.insert("copy".into(), json!(i + 1));
            match self.superblocks.parsed.get(i) {
                Some(Err(e)) => map.insert("error".into(), fields::error(e)),
                _ => map.insert("valid".into(), json!(true)),
            };
            Value::Object(map)
        };
        let copies: Vec<Value> =
            self.superblocks.raw().iter().enumerate().map(|(i, raw)| each(i, raw)).collect();
        let names =
            |v: &Value| v.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
        let differ: Vec<String> = match copies.as_slice() {
            [a, b] => names(a).into_iter().filter(|k| k != "copy" && a.get(k) != b.get(k)).collect(),
            _ => Vec::new(),
        };
        let in_force = self.superblocks.parsed.iter().position(Result::is_ok).map(|i| i + 1);
        let copies: Vec<Value> = copies
            .into_iter()
            .enumerate()
            .filter(|(i, _)| only.is_none_or(|o| o == *i))
            .map(|(_, v)| v)
            .collect();
        json!({ "in_force": in_force, "differing": differ, "copies": copies })
    }

    pub(crate) fn checkpoints(&self, only: Option<usize>) -> Result<Value, DumpError> {
        let packs = self.packs.as_ref().ok_or(DumpError::Missing("superblock"))?;
        let geo = self.geo()?;
        let each = |i: usize, pack: &Result<Pack, segno_format::Corrupt>| {
            let mut map = Map::new();
            map.insert("pack".into(), json!(i + 1));
            map.insert("blkaddr".into(), json!(geo.pack_addr(i).0));
            match pack {
                Ok(pack) => {
                    map.insert("valid".into(), json!(true));
                    map.extend(fields::checkpoint(pack.cp()));
                    map.insert("checksum".into(), json!(pack.crc));
                }
                Err(e) => {
                    map.insert("error".into(), fields::error(e));
                    if let Some(block) = self.volume.reader.block(geo.pack_addr(i)) {
                        map.extend(fields::checkpoint(block.view()));
                    }
                }
            }
            Value::Object(map)
        };
        let wanted = packs.0.iter().enumerate().filter(|(i, _)| only.is_none_or(|o| o == *i));
        let list: Vec<Value> = wanted.map(|(i, p)| each(i, p)).collect();
        Ok(json!({ "in_force": packs.newer().map(|i| i + 1), "packs": list }))
    }

    pub(crate) fn nat(&self, range: &Range<u32>) -> Result<Value, DumpError> {
        let (geo, pack) =
            (self.geo()?, self.volume.pack.as_ref().ok_or(DumpError::Missing("checkpoint pack"))?);
        let nat = self.volume.nat.as_ref().ok_or(DumpError::Missing("NAT"))?;
        let all = range.end == u32::MAX;
        let mut out = Vec::new();
        for nid in range.start..range.end.min(geo.max_nid()) {
            let (state, entry) = match nat.get(Nid(nid)) {
                NatState::Used(e) => ("used", e),
                NatState::Free(e) => ("free", e),
                NatState::Unknown => ("unreadable", segno_format::nat::RawNatEntry::default()),
            };
            if all && state == "free" {
                continue;
            }
            let (b, _) = nat_index(Nid(nid));
            let copy = 1 + u32::from(pack.nat_copy(b));
            out.push(json!({
                "nid": nid, "state": state, "ino": entry.ino.get(), "version": entry.version,
                "block_addr": entry.block_addr.get(), "copy": copy, "journal": nat.in_journal(Nid(nid)),
            }));
        }
        Ok(Value::from(out))
    }

    pub(crate) fn sit(&self, range: &Range<u32>) -> Result<Value, DumpError> {
        let geo = self.geo()?;
        let mut out = Vec::new();
        for seg in range.start..range.end.min(geo.segment_count_main) {
            out.push(self.sit_entry(SegNo(seg))?);
        }
        Ok(Value::from(out))
    }

    pub(crate) fn sit_entry(&self, seg: SegNo) -> Result<Value, DumpError> {
        let pack = self.volume.pack.as_ref().ok_or(DumpError::Missing("checkpoint pack"))?;
        let sit = self.volume.sit.as_ref().ok_or(DumpError::Missing("SIT"))?;
        let Some(entry) = sit.get(seg) else {
            return Ok(json!({ "segno": seg.0, "error": "the SIT block cannot be read" }));
        };
        let mut map = json!({
            "segno": seg.0, "vblocks": entry.valid(), "type": entry.vblocks.get() >> 10,
            "valid_map": fields::hex(&entry.valid_map), "mtime": entry.mtime.get(),
            "copy": 1 + u32::from(pack.sit_copy(seg.0 / 55)), "journal": sit.in_journal(seg),
        });
        if let (Err(e), Some(map)) = (entry.parse(seg), map.as_object_mut()) {
            map.insert("error".into(), fields::error(&e));
        }
        Ok(map)
    }

    pub(crate) fn ssa(&self, range: &Range<u32>) -> Result<Value, DumpError> {
        let geo = self.geo()?;
        if !geo.has_ssa {
            return Err(DumpError::NotFound("a read-only volume has no summaries".into()));
        }
        Ok((range.start..range.end.min(geo.segment_count_main))
            .map(|seg| self.ssa_block(SegNo(seg)))
            .collect())
    }

    pub(crate) fn ssa_block(&self, seg: SegNo) -> Value {
        let Ok(geo) = self.geo() else { return Value::Null };
        let log = LogType::ALL
            .into_iter()
            .find(|&log| self.volume.pack.as_ref().is_some_and(|p| p.cp().position(log).seg == seg));
        let kept = log.and_then(|log| {
            let summaries = Summaries::load(self.volume.pack.as_ref()?);
            summaries.of(log).copied()
        });
        let at = geo.ssa_addr(seg);
        let block = kept.or_else(|| self.volume.reader.block(at).map(|b| *b.view::<RawSummaryBlock>()));
        let Some(block) = block else {
            return json!({ "segno": seg.0, "blkaddr": at.0, "error": "the block cannot be read" });
        };
        let entries = (0u32..).zip(&block.entries).filter(|(_, e)| e.nid.get() != 0).map(|(off, e)| {
            json!({ "blkaddr": geo.seg_start(seg).offset(off).0, "nid": e.nid.get(), "version": e.version,
                    "ofs_in_node": e.ofs_in_node.get() })
        });
        let mut map = json!({
            "segno": seg.0, "blkaddr": at.0, "in_pack": kept.is_some(), "log": log.map(|l| format!("{l:?}")),
            "entry_type": block.entry_type, "entries": entries.collect::<Vec<_>>(),
        });
        if let (Err(e), Some(map)) = (block.parse_type(at.0.into()), map.as_object_mut()) {
            map.insert("error".into(), fields::error(&e));
        }
        map
    }

    /// Whether the SIT has a block in use.
    pub(crate) fn in_use(&self, addr: BlockAddr) -> Option<bool> {
        self.volume.sit.as_ref()?.is_valid(self.volume.geo.as_ref()?, addr)
    }
}
