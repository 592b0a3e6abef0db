//! In place of compression, where it is not built in: clusters are stored plain.
use crate::Algorithm;

/// Compression is not built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compression is not built in")]
pub struct LevelError;

/// Compresses clusters. It has no variants, because compression is not built in.
#[derive(Debug)]
pub enum ClusterEncoder {}

/// No algorithm can be chosen.
pub fn check_level(_: Algorithm, _: u8) -> Result<(), LevelError> {
    Err(LevelError)
}

impl ClusterEncoder {
    /// Always an error.
    pub fn new(_: Algorithm, _: u8, _: u8, _: bool) -> Result<Self, LevelError> {
        Err(LevelError)
    }

    /// The whole blocks to store for a cluster.
    pub fn encode(&mut self, _: &[u8]) -> Option<&[u8]> {
        match *self {}
    }
}
