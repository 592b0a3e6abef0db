//! The header of a group: 64 bytes at the start of its first block, checked by the group's and the header's checksum.
use crate::bytes::Bytes;
use segno_codec::crc;
use segno_format::Block;

pub(crate) const HEADER: usize = 64;
const MAGIC: u32 = 0x4A47_4553;
pub(crate) const VERSION: u8 = 1;

/// Whether a block begins as a group does.
pub(crate) fn has_magic(block: &Block) -> bool {
    block.u32_at(0) == MAGIC
}

/// What the header says the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadKind {
    Epoch,
    Fsync,
    CpIntent,
}

impl PayloadKind {
    fn code(self) -> u8 {
        match self {
            Self::Epoch => 1,
            Self::Fsync => 2,
            Self::CpIntent => 3,
        }
    }
    fn of(code: u8) -> Option<Self> {
        [Self::Epoch, Self::Fsync, Self::CpIntent].into_iter().find(|k| k.code() == code)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: PayloadKind,
    /// The group goes on in the next one; it counts only together with the last.
    pub more: bool,
    pub seq: u64,
    /// Lowest and highest epoch of its sections, or the boundary of its intent.
    pub epoch: u64,
    pub last_epoch: u64,
    /// Groups up to this one were durable when this one was written, and so was the data that they map.
    pub durable_seq: u64,
    pub blocks: u32,
    pub payload_len: u32,
    /// Which mount wrote it: what a crash left of one never continues another.
    pub mount: u32,
    /// Checksum of the header before: groups form a chain.
    pub prev_crc: u32,
    /// Of all bytes behind the header, up to the end of the last block.
    pub payload_crc: u32,
}

impl Header {
    /// The bytes, and the checksum that the next header carries.
    pub(crate) fn encode(&self, seed: u32) -> ([u8; HEADER], u32) {
        let mut out = Vec::with_capacity(HEADER);
        out.extend(MAGIC.to_le_bytes());
        out.extend([VERSION, self.kind.code(), u8::from(self.more), 0]);
        for v in [self.seq, self.epoch, self.last_epoch, self.durable_seq] {
            out.extend(v.to_le_bytes());
        }
        for v in [self.blocks, self.payload_len, self.mount, self.prev_crc, self.payload_crc] {
            out.extend(v.to_le_bytes());
        }
        let sum = crc(seed, &out);
        out.extend(sum.to_le_bytes());
        let mut bytes = [0; HEADER];
        bytes.iter_mut().zip(out).for_each(|(to, from)| *to = from);
        (bytes, sum)
    }

    /// The header and its checksum, if the bytes are one.
    pub(crate) fn decode(bytes: &[u8], seed: u32) -> Result<(Self, u32), &'static str> {
        let covered = bytes.get(..HEADER - 4).ok_or("header is cut off")?;
        let mut b = Bytes(bytes);
        if b.u32()? != MAGIC {
            return Err("no group");
        }
        let (version, kind, more, zero) = (b.u8()?, b.u8()?, b.u8()?, b.u8()?);
        let (seq, epoch, last_epoch, durable_seq) = (b.u64()?, b.u64()?, b.u64()?, b.u64()?);
        let (blocks, payload_len, mount) = (b.u32()?, b.u32()?, b.u32()?);
        let (prev_crc, payload_crc, sum) = (b.u32()?, b.u32()?, b.u32()?);
        if crc(seed, covered) != sum {
            return Err("checksum of the header");
        }
        if version != VERSION || more > 1 || zero != 0 {
            return Err("version or flags of the header");
        }
        let kind = PayloadKind::of(kind).ok_or("kind of the group")?;
        let header = Self {
            kind,
            more: more == 1,
            seq,
            epoch,
            last_epoch,
            durable_seq,
            blocks,
            payload_len,
            mount,
            prev_crc,
            payload_crc,
        };
        Ok((header, sum))
    }
}
