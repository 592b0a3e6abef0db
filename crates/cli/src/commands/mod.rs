//! Subcommands. Each is a file here, with `Args`, whose doc comment is the help text, and `run`; and a line below.
//! Those on the files of a volume implement [`FileCommand`] in place of `run`, and are commands of `segno shell` too.
//! `cargo fmt` does not find modules that a macro declares: `make fmt` formats them.
mod external;

use crate::exit::Outcome;
use crate::files::{FileCommand, OnImage};
use std::process::Termination;

/// Declares the modules, the enum that is parsed and run, and that of the commands on the files of a volume.
macro_rules! commands {
    (
        first { $($(#[$when:meta])? $name:ident,)* }
        on files { $($file:ident,)* }
        last { $($(#[$later:meta])? $last:ident,)* }
    ) => {
        $($(#[$when])? pub mod $name;)*
        $(pub mod $file;)*
        $($(#[$later])? pub mod $last;)*

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
