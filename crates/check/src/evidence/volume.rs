//! All tables of a volume as of its checkpoint.
use crate::CheckError;
use crate::evidence::{Nat, Tables};
use crate::report::Sink;
use std::ops::Deref;

pub(crate) struct Volume<'a> {
    tables: Tables<'a>,
    /// The NAT, its journal included.
    pub nat: Nat,
}

impl<'a> Deref for Volume<'a> {
    type Target = Tables<'a>;

    fn deref(&self) -> &Tables<'a> {
        &self.tables
    }
}

impl<'a> Volume<'a> {
    pub(crate) fn load(tables: Tables<'a>, sink: &mut Sink) -> Result<Self, CheckError> {
        let Tables { reader, geo, pack, summaries, .. } = &tables;
        let nat = Nat::load(reader, geo, pack, &summaries.nat_journal, sink)?;
        Ok(Self { tables, nat })
    }
}
