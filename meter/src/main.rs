//! The `dream-meter` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    dream_meter::cmd::main()
}
