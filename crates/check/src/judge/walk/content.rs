//! Content of compressed clusters: length, checksum, and that it unpacks to the size of the cluster.
use super::Walk;
use super::file::{File, Packed};
use crate::CheckError;
use segno_codec::{CodecError, decompress};
use segno_format::cluster::compressed_data;
use segno_format::{BLOCK_SIZE, BlockAddr, Corrupt, Structure, Unit};

impl Walk<'_, '_> {
    /// Reads the stored blocks of a cluster of `blocks` blocks, which begins at file block `first`.
    pub(super) fn cluster_content(
        &mut self,
        file: &File,
        first: u64,
        blocks: usize,
        stored: &[BlockAddr],
    ) -> Result<(), CheckError> {
        let (Some(names), Some(packed)) = (&self.names, file.packed) else { return Ok(()) };
        let Some(start) = stored.first().filter(|_| stored.iter().all(|a| self.volume.geo.in_main(*a)))
        else {
            return Ok(());
        };
        let mut data = Vec::with_capacity(stored.len() * BLOCK_SIZE);
        for run in stored.chunk_by(|a, b| a.offset(1) == *b) {
            let Some(&addr) = run.first() else { break };
            let read = self.volume.reader.blocks(addr, run.len() as u32)?;
            read.iter().for_each(|block| data.extend_from_slice(&block.0));
        }
        if let Err(e) = judge(file.ino, packed, &data, blocks * BLOCK_SIZE) {
            let e = Corrupt { unit: Unit::Block, at: start.0.into(), ..e };
            self.sink.add_content(file.ino, names.path(), first / u64::from(file.cluster.max(1)), e);
        }
        Ok(())
    }
}

fn judge(ino: u32, packed: Packed, stored: &[u8], size: usize) -> Result<(), Corrupt> {
    let data = compressed_data(ino, stored, packed.checksum)?;
    let mut out = vec![0; size];
    decompress(packed.algorithm, data, &mut out).map_err(|e| {
        let bad = |why, found: usize, expected: usize| {
            Corrupt::nid(Structure::Cluster, ino, why, found as u64, expected as u64)
        };
        match e {
            CodecError::TooShort { len, expected } => bad("size when decompressed", len, expected),
            _ => bad("compressed stream", 0, 1),
        }
    })
}
