//! The option for properties that files on the host get only on request.
use segno_host::{LeftOut, Preserve};

#[derive(clap::Args)]
pub struct PreserveOption {
    /// Keep what is left out otherwise, as an image may be a stranger's: setid, devices, caps (security.capability), trusted
    /// (trusted.* attributes), or all
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Preserve::parse)]
    preserve: Vec<Preserve>,
}

impl PreserveOption {
    pub fn chosen(&self) -> Preserve {
        self.preserve.iter().fold(Preserve::default(), |all, one| all | *one)
    }
}

/// Prints the properties that were left out, if any, and how to keep them.
pub fn note(left_out: &LeftOut) {
    if !left_out.is_empty() {
        eprintln!("segno: note: left out: {left_out}; --preserve={} keeps them", left_out.words());
    }
}
