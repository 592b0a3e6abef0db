#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]
mod cuts;
mod damage;
mod rig;
mod ring;
mod stale;
mod vacant;
mod zones;
