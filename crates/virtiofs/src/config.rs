//! The device's configuration space, for monitors that read it from here.
use std::str::FromStr;

/// Request queues offered, in addition to the high-priority queue. Linux 6.1 uses one of them, newer kernels
/// use as many as the monitor announces.
pub(crate) const REQUEST_QUEUES: u8 = 8;
const TAG_MAX: usize = 36;

/// The name by which a guest mounts the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag([u8; TAG_MAX]);

/// A name that no device can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tag has 1 to {TAG_MAX} bytes")]
pub struct TagError;

impl FromStr for Tag {
    type Err = TagError;

    fn from_str(tag: &str) -> Result<Self, TagError> {
        let mut padded = [0; TAG_MAX];
        let place = padded.get_mut(..tag.len()).filter(|p| !p.is_empty()).ok_or(TagError)?;
        place.copy_from_slice(tag.as_bytes());
        Ok(Self(padded))
    }
}

impl Tag {
    /// Part of `struct virtio_fs_config`; empty if it is not within.
    pub(crate) fn config(&self, offset: u32, size: u32) -> Vec<u8> {
        let whole = [&self.0[..], &u32::from(REQUEST_QUEUES).to_le_bytes()].concat();
        let start = offset as usize;
        whole.get(start..start.saturating_add(size as usize)).unwrap_or_default().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_has_the_tag_and_the_number_of_queues() {
        let tag: Tag = "segno".parse().unwrap();
        let whole = tag.config(0, 40);
        assert_eq!((&whole[..6], &whole[36..]), (&b"segno\0"[..], &[REQUEST_QUEUES, 0, 0, 0][..]));
        assert_eq!(tag.config(1, 3), b"egn");
        assert_eq!((tag.config(0, 41), tag.config(u32::MAX, u32::MAX)), (vec![], vec![]));
        assert_eq!("".parse::<Tag>(), Err(TagError));
        assert_eq!("x".repeat(37).parse::<Tag>(), Err(TagError));
        assert!("x".repeat(36).parse::<Tag>().is_ok());
    }
}
