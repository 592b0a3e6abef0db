//! Subcommands. Each is a file here, with `Args`, whose doc comment is the help text, and `run`; and two lines below.
//! Those on the files of a volume implement [`FileCommand`] in place of `run`, and are commands of `segno shell` too.
pub mod bench;
pub mod build;
pub mod cat;
pub mod check;
pub mod chmod;
pub mod chown;
pub mod crashtest;
pub mod ctl;
pub mod dump;
#[cfg(feature = "vhost")]
pub mod export;
pub mod extents;
mod external;
pub mod extract;
pub mod find;
pub mod get;
pub mod getfattr;
pub mod info;
pub mod install_helper;
pub mod journal;
pub mod label;
pub mod ln;
pub mod ls;
pub mod map;
pub mod metrics;
pub mod mkdir;
pub mod mkfs;
pub mod mount;
pub mod mounts;
pub mod mv;
pub mod put;
pub mod report;
pub mod rescue;
pub mod rm;
pub mod setfattr;
pub mod shell;
pub mod sparse;
pub mod stat;
pub mod stats;
#[cfg(feature = "store")]
pub mod store;
pub mod sync;
pub mod top;
pub mod touch;
pub mod umount;
pub mod undelete;

use crate::exit::Outcome;
use crate::files::{FileCommand, OnImage};
use std::process::Termination;

/// Declares the enum that is parsed and run, and that of the commands on the files of a volume.
macro_rules! commands {
    (
        first { $($(#[$when:meta])? $name:ident,)* }
        on files { $($file:ident,)* }
        last { $($(#[$later:meta])? $last:ident,)* }
    ) => {
        #[derive(clap::Subcommand)]
        #[expect(non_camel_case_types, reason = "a variant has the name of its module")]
        pub enum Command {
            $($(#[$when])? $name(Box<$name::Args>),)*
            $($file(Box<OnImage<$file::Args>>),)*
            $($(#[$later])? $last(Box<$last::Args>),)*
        }

        impl Command {
            pub fn run(&self) -> Outcome {
                match self {
                    $($(#[$when])? Self::$name(args) => $name::run(args).map(Termination::report),)*
                    $(Self::$file(args) => args.run(),)*
                    $($(#[$later])? Self::$last(args) => $last::run(args).map(Termination::report),)*
                }
            }
        }

        #[derive(clap::Subcommand)]
        #[expect(non_camel_case_types, reason = "a variant has the name of its module")]
        pub enum OnFiles {
            $($file(Box<$file::Args>),)*
        }

        impl OnFiles {
            pub fn command(&self) -> &(dyn FileCommand + Sync) {
                match self {
                    $(Self::$file(args) => &**args,)*
                }
            }
        }
    };
}

// In the order of `segno --help`.
commands! {
    first {
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
    }
    on files {
        ls,
        cat,
        stat,
        get,
        put,
        rm,
        mv,
        mkdir,
        ln,
        chmod,
        chown,
        touch,
        setfattr,
        getfattr,
    }
    last {
        shell,
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
}
