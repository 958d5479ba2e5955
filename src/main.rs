//! The `hlo-opt` command: everything is in the library, this file only connects it to the process.

use std::process::ExitCode;

fn main() -> ExitCode {
    hlo_opt::run(std::env::args_os()).into()
}
