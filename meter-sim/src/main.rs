//! The `meter-sim` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    dream_meter_sim::cli::main()
}
