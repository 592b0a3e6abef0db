//! Destination of the objects of an epoch: the store, or local disk first.
use crate::ids::Seq;
use crate::local::spool::Spool;
use crate::log::upload::writeback::Writeback;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::wire::remote::Remote;
use crate::{Result, StoreError};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct Backing {
    pub remote: Arc<Remote>,
    /// Present for a mount with write-back.
    pub writeback: Option<Arc<Writeback>>,
    /// Objects that are part of the volume and may be missing in the store.
    pub spool: Option<Arc<dyn Spool>>,
}

impl Backing {
    /// Stores a data object or a commit; it is durable when this returns.
    pub(crate) async fn put(&self, id: ObjectId, bytes: Bytes, cause: Cause) -> Result<()> {
        match &self.writeback {
            Some(writeback) => writeback.put(id, bytes, cause).await,
            None => self.remote.put_object(id, bytes, cause).await,
        }
    }

    /// Reads a part of an object up to its end.
    pub(crate) async fn get_range(&self, id: ObjectId, range: Range<u64>, cause: Cause) -> Result<Bytes> {
        if let Some(writeback) = &self.writeback
            && let Some(bytes) = writeback.get_range(id, range.clone()).await?
        {
            return Ok(bytes);
        }
        let name = Name::Object(id);
        if let Some(spool) = &self.spool {
            let read = spool.read(id, Some(range.clone())).await;
            if let Some(bytes) = read.map_err(|e| StoreError::unreadable(id, &e))? {
                return Ok(bytes);
            }
        }
        let found = self.remote.get_range(name, range, cause).await?;
        found.ok_or_else(|| StoreError::Missing { object: name.to_string() })
    }

    /// The commit up to which all are in the store. Without write-back these are the acknowledged ones.
    pub(crate) fn stored(&self, acknowledged: Seq) -> Seq {
        self.writeback.as_ref().map_or(acknowledged, |writeback| writeback.stored())
    }

    /// Announces that a map will name the objects of commits up to this one as they are now.
    pub(crate) fn fix(&self, upto: Seq) {
        if let Some(writeback) = &self.writeback {
            writeback.fix(upto);
        }
    }

    /// Waits until the store has all commits up to this one. Maps and deletions that rely on them may follow.
    pub(crate) async fn settled(&self, seq: Seq) -> Result<()> {
        match &self.writeback {
            Some(writeback) => writeback.settled(seq).await,
            None => Ok(()),
        }
    }

    /// Like [`Self::settled`], but a failing store stops the volume.
    pub(crate) async fn drain(&self, seq: Seq) -> Result<()> {
        match &self.writeback {
            Some(writeback) => writeback.drain(seq).await,
            None => Ok(()),
        }
    }
}
