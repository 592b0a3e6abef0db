//! Subcommands. Each is a file here, with `Args`, whose doc comment is the help text, and `run`; and a line below.
//! `cargo fmt` does not find modules that a macro declares: `make fmt` formats them.
mod external;

use crate::exit::Outcome;
use std::process::Termination;

/// Declares the modules, and the enum that is parsed and run.
macro_rules! commands {
    ($($(#[$when:meta])? $name:ident,)*) => {
        $($(#[$when])? pub mod $name;)*

        #[derive(clap::Subcommand)]
        #[expect(non_camel_case_types, reason = "a variant has the name of its module")]
        pub enum Command {
            $($(#[$when])? $name(Box<$name::Args>),)*
        }

        impl Command {
            pub fn run(&self) -> Outcome {
                match self {
                    $($(#[$when])? Self::$name(args) => $name::run(args).map(Termination::report),)*
                }
            }
        }
    };
}

// In the order of `segno --help`.
commands! {
    mkfs,
    build,
    extract,
    mount,
    umount,
    mounts,
    #[cfg(feature = "vhost")]
    export,
    check,
    crashtest,
    find,
    info,
    map,
    report,
    journal,
    label,
    ls,
    cat,
    stat,
    get,
    put,
    extents,
    sparse,
    #[cfg(feature = "store")]
    store,
    rescue,
    undelete,
    dump,
    stats,
    top,
    metrics,
    sync,
    ctl,
    bench,
    install_helper,
}
