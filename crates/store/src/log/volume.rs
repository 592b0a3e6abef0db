//! The object `volume`.
use crate::fence::epoch::Session;
use crate::ids::Epoch;
use crate::log::map::Geometry;
use crate::stats::Cause;
use crate::wire::codec::{Decoder, Encoder, bytes_of};
use crate::wire::names::Name;
use crate::wire::remote::Remote;
use crate::{Result, StoreError};
use bytes::Bytes;

/// Programs that do not know commits with marks refuse volumes that have them.
const VOLUME: &[u8; 8] = b"SEGNOVO2";
const VOLUME_UNMARKED: &[u8; 8] = b"SEGNOVO1";

/// Identity and geometry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    pub id: [u8; 16],
    pub geometry: Geometry,
    /// The store has no conditional creation, which was accepted.
    pub unfenced: bool,
    /// Commits have marks, which volumes of earlier versions do not.
    pub marked: bool,
}

impl Volume {
    /// A session that writes in an epoch.
    pub(crate) fn session(&self, epoch: Epoch, id: [u8; 16]) -> Session {
        Session { volume: self.id, id, epoch, marked: self.marked }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut e = Encoder::new(if self.marked { VOLUME } else { VOLUME_UNMARKED });
        e.raw(&self.id);
        e.u16(self.geometry.zone_blocks);
        e.u32(self.geometry.zones);
        e.u32(self.geometry.conventional);
        e.u8(self.unfenced.into());
        bytes_of(e)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let marked = !bytes.starts_with(VOLUME_UNMARKED);
        let magic = if marked { VOLUME } else { VOLUME_UNMARKED };
        let mut d = Decoder::new(Name::Volume, magic, bytes)?;
        let id = d.array()?;
        let geometry = Geometry { zone_blocks: d.u16()?, zones: d.u32()?, conventional: d.u32()? };
        let unfenced = d.u8()? != 0;
        geometry.check().map_err(|why| d.bad(why))?;
        d.end()?;
        Ok(Self { id, geometry, unfenced, marked })
    }
}

/// Reads the object of a volume.
pub(crate) async fn read(remote: &Remote) -> Result<Volume> {
    let bytes = remote.get(Name::Volume, Cause::Open).await?.ok_or(StoreError::NoVolume)?;
    let volume = Volume::decode(&bytes)?;
    remote.set_unfenced(volume.unfenced);
    Ok(volume)
}
