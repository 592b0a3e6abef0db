//! The header of a group: 64 bytes at the start of its first block, checked by the group's and the header's
//! checksum.
use crate::bytes::Bytes;
use crate::group::Kind;
use segno_format::{Block, crc};

pub(crate) const HEADER: usize = 64;
const MAGIC: u32 = 0x4A47_4553;
pub(crate) const VERSION: u8 = 1;

/// Whether a block begins as a group does.
pub(crate) fn has_magic(block: &Block) -> bool {
    block.u32_at(0) == MAGIC
}

/// Type of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadKind {
    Group(Kind),
    CpIntent,
}

impl PayloadKind {
    fn code(self) -> u8 {
        match self {
            Self::Group(Kind::Epoch) => 1,
            Self::Group(Kind::Fsync) => 2,
            Self::CpIntent => 3,
        }
    }
    fn of(code: u8) -> Option<Self> {
        let all = [Self::Group(Kind::Epoch), Self::Group(Kind::Fsync), Self::CpIntent];
        all.into_iter().find(|k| k.code() == code)
    }
}

/// Header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub kind: PayloadKind,
    /// The group continues in the next one, and is accepted only together with its last part.
    pub more: bool,
    pub seq: u64,
    /// Lowest and highest epoch of its sections, or the boundary of its intent.
    pub epoch: u64,
    pub last_epoch: u64,
    /// Groups up to this number were durable when this one was written, and so was the data that they map.
    pub durable_seq: u64,
    pub blocks: u32,
    pub payload_len: u32,
    /// Number of the mount that wrote it: remains of one mount never continue the log of another.
    pub mount: u32,
    /// Checksum of the previous header, which makes the groups a chain.
    pub prev_crc: u32,
    /// Checksum of all bytes after the header, up to the end of the last block.
    pub payload_crc: u32,
}

impl Header {
    /// The bytes, and the checksum that the next header carries.
    pub(crate) fn encode(&self, seed: u32) -> (Vec<u8>, u32) {
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
        (out, sum)
    }

    /// Decodes a header, and returns it with its checksum.
    pub(crate) fn decode(bytes: &[u8], seed: u32) -> Result<(Self, u32), &'static str> {
        let (covered, sum) = bytes.split_at_checked(HEADER - 4).ok_or("header is cut off")?;
        let (mut b, sum) = (Bytes(covered), Bytes(sum).u32()?);
        if b.u32()? != MAGIC {
            return Err("no group");
        }
        if crc(seed, covered) != sum {
            return Err("checksum of the header");
        }
        let (version, kind, more, zero) = (b.u8()?, b.u8()?, b.u8()?, b.u8()?);
        if version != VERSION || more > 1 || zero != 0 {
            return Err("version or flags of the header");
        }
        // In the order of the bytes.
        let header = Self {
            kind: PayloadKind::of(kind).ok_or("kind of the group")?,
            more: more == 1,
            seq: b.counter()?,
            epoch: b.counter()?,
            last_epoch: b.counter()?,
            durable_seq: b.counter()?,
            blocks: b.u32()?,
            payload_len: b.u32()?,
            mount: b.u32()?,
            prev_crc: b.u32()?,
            payload_crc: b.u32()?,
        };
        Ok((header, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Header {
        /// Header of the first group, of one epoch, without payload.
        pub(crate) fn sound() -> Self {
            Self {
                kind: PayloadKind::Group(Kind::Epoch),
                more: false,
                seq: 1,
                epoch: 1,
                last_epoch: 1,
                durable_seq: 0,
                blocks: 0,
                payload_len: 0,
                mount: 1,
                prev_crc: 0,
                payload_crc: 0,
            }
        }
    }

    /// Incrementing the largest number would overflow.
    #[test]
    fn a_number_at_its_end_is_no_group() {
        let sound = Header { epoch: 2, last_epoch: 3, blocks: 1, ..Header::sound() };
        let read = |header: Header| Header::decode(&header.encode(7).0, 7).map(|(header, _)| header);
        assert_eq!(read(sound), Ok(sound));
        let damages: [fn(&mut Header); 4] = [
            |h| h.seq = u64::MAX,
            |h| h.epoch = u64::MAX,
            |h| h.last_epoch = u64::MAX,
            |h| h.durable_seq = u64::MAX,
        ];
        for damage in damages {
            let mut damaged = sound;
            damage(&mut damaged);
            assert_eq!(read(damaged), Err("number that is too large"));
        }
    }
}
