//! What logs look like.

use std::io::IsTerminal;

/// Returns whether a stream takes colours: it is a terminal, and nobody has set `NO_COLOR` (<https://no-color.org>).
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && stream.is_terminal()
}
