//! Nodes, inodes, directories and extended attributes.
use crate::fields;
use crate::{DumpError, Image};
use segno_format::inode::{Inline, RawInode};
use segno_format::node::{NodeKind, RawNode, kind_of_offset};
use segno_format::{Block, BlockAddr, Ino, Nid};
use segno_layout::NatState;
use segno_rescue::file::{File, Opened, choose_live};
use segno_rescue::scan::Candidate;
use segno_rescue::{attrs, dir};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

impl Image<'_> {
    /// Address of a node: from the chain, or else the NAT.
    fn place(&self, nid: u32) -> Result<BlockAddr, DumpError> {
        if let Some(addr) = self.volume.chain.overlay.get(&nid) {
            return Ok(BlockAddr(*addr));
        }
        match self.volume.nat(nid) {
            NatState::Used(e) => Ok(e.addr()),
            NatState::Free(_) => {
                Err(DumpError::NotFound(format!("nid {nid} is free; --versions searches for it")))
            }
            NatState::Unknown => Err(DumpError::NotFound(format!(
                "the NAT does not tell where nid {nid} is; --versions searches for it"
            ))),
        }
    }

    pub(crate) fn node(&self, nid: u32, versions: bool) -> Result<Value, DumpError> {
        if versions {
            return Ok(self.volume.nodes.of(nid).map(|n| self.node_block(n.place())).collect());
        }
        Ok(self.node_block(self.place(nid)?))
    }

    pub(crate) fn inode(&self, ino: u32, versions: bool) -> Result<Value, DumpError> {
        if versions {
            let inodes = self.volume.nodes.of(ino).filter(|n| n.is_inode());
            return Ok(inodes.map(|n| self.node_block(n.place())).collect());
        }
        let shown = self.node_block(self.place(ino)?);
        match shown.get("inode") {
            Some(_) => Ok(shown),
            None => Err(DumpError::NotFound(format!("nid {ino} is no inode; `node {ino}` shows it"))),
        }
    }

    /// Whatever node is at an address.
    pub(crate) fn node_block(&self, at: BlockAddr) -> Value {
        let Some(block) = self.volume.reader.block(at) else {
            return json!({ "blkaddr": at.0, "error": "the block cannot be read" });
        };
        let node: &RawNode = block.view();
        let mut map = Map::new();
        map.insert("blkaddr".into(), json!(at.0));
        map.insert("footer".into(), Value::Object(fields::footer(&node.footer)));
        if let Err(e) = node.footer.check(Nid(node.footer.nid.get()), Ino(node.footer.ino.get())) {
            map.insert("error".into(), fields::error(&e));
        }
        match kind_of_offset(node.footer.node_offset()) {
            Some(NodeKind::Inode) => self.inode_block(&block, &mut map),
            Some(NodeKind::Direct { .. }) => {
                map.insert("slots".into(), fields::runs(node.words.iter().map(|w| BlockAddr(w.get()))));
            }
            Some(NodeKind::Indirect) => {
                map.insert("nids".into(), fields::runs(node.words.iter().map(|w| BlockAddr(w.get()))));
            }
            Some(NodeKind::Xattr) => {
                map.insert("xattr_node".into(), json!(true));
            }
            None => {
                map.insert("error".into(), json!("impossible offset in the footer: no node"));
            }
        }
        Value::Object(map)
    }

    fn inode_block(&self, block: &Block, map: &mut Map<String, Value>) {
        let raw: &RawInode = block.view();
        map.insert("inode".into(), Value::Object(fields::inode(raw)));
        match raw.layout(self.volume.features) {
            Ok(layout) if !raw.inline().intersects(Inline::DATA | Inline::DENTRY) => {
                let slots = (0..layout.slots).map(|i| raw.slot(&layout, i));
                map.insert("slots".into(), fields::runs(slots));
            }
            Ok(_) => {}
            Err(e) => {
                map.insert("error".into(), fields::error(&e));
            }
        }
        if let Some(seed) = self.volume.seed
            && let Err(e) = segno_format::inode::verify_checksum(block, self.volume.features, seed)
        {
            map.insert("error".into(), fields::error(&e));
        }
    }

    /// A live inode and its nodes.
    pub(crate) fn opened(&self, ino: u32) -> Result<Opened, DumpError> {
        Ok(self.file(ino)?.open(&self.volume, &choose_live(&self.volume, ino)))
    }

    /// A live directory and its nodes; `what` names it.
    pub(crate) fn directory(&self, ino: u32, what: &str) -> Result<Opened, DumpError> {
        let dir = self.opened(ino)?;
        match dir.raw().is_dir() {
            true => Ok(dir),
            false => Err(DumpError::NotFound(format!("{what}inode {ino} is no directory"))),
        }
    }

    /// A live inode, read.
    pub(crate) fn file(&self, ino: u32) -> Result<File, DumpError> {
        let at = self.place(ino)?;
        let node = self.volume.node_at(at).filter(|n| n.nid == ino && n.is_inode());
        let file = node.and_then(|n: Candidate| File::read(&self.volume, &n));
        file.ok_or_else(|| DumpError::NotFound(format!("there is no readable inode {ino} at block {at}")))
    }

    pub(crate) fn dentries(&self, ino: u32, cleared: bool) -> Result<Value, DumpError> {
        let dir = self.directory(ino, "")?;
        let mut list = Vec::new();
        let complete = dir::names(&self.volume, &dir, &mut HashSet::new(), |n| {
            if cleared || !n.removed {
                let rest = json!({ "ino": n.ino, "hash": n.hash, "hash_right": n.hash_right,
                                   "file_type": n.file_type, "block": n.block, "slot": n.slot,
                                   "removed": n.removed });
                list.push(named(&[("name", Some(&n.name))], rest));
            }
        });
        Ok(json!({ "ino": ino, "complete": complete, "entries": list }))
    }

    pub(crate) fn xattrs(&self, ino: u32) -> Result<Value, DumpError> {
        let (list, complete) = attrs::xattrs(&self.volume, &self.opened(ino)?);
        let each = |a: &attrs::Attribute| {
            let (full, rest) = (a.full_name(), json!({ "index": a.index, "value": fields::hex(&a.value) }));
            named(&[("name", Some(&a.name)), ("full_name", full.as_deref())], rest)
        };
        Ok(json!({ "ino": ino, "complete": complete, "xattrs": list.iter().map(each).collect::<Vec<_>>() }))
    }
}

/// An object of names and other fields.
fn named(names: &[(&str, Option<&[u8]>)], rest: Value) -> Value {
    let mut map = Map::new();
    for (key, name) in names {
        match name {
            Some(name) => fields::put_name(&mut map, key, name),
            None => _ = map.insert((*key).into(), Value::Null),
        }
    }
    if let Value::Object(rest) = rest {
        map.extend(rest);
    }
    Value::Object(map)
}
