//! The `dream-gateway` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    dream_gateway::cmd::main()
}
