//! The `segno` program; all of it is in the library, which the generator of manual pages reads too.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    segno_cli::main()
}
