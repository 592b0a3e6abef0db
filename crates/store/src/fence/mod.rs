//! Exclusive use of a volume by one writer: conditional creation, epochs, and their owners.
pub(crate) mod epoch;
pub(crate) mod owner;
pub(crate) mod probe;
