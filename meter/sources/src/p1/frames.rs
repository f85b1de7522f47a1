//! Cuts a stream of bytes into telegrams.

/// A telegram has about 1000 bytes; what is longer has lost its end.
const LONGEST: usize = 16 << 10;

/// Gathers bytes, and gives out what lies between `/` at the start of a line and the line of the `!`.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole telegram.
    pub fn next_frame(&mut self) -> Option<Vec<u8>> {
        let start = self.position(0, |byte| byte == b'/');
        self.buffer.drain(..start.unwrap_or(self.buffer.len()));
        // A slash at the start of a later line: the end of the telegram before it got lost.
        let mut from = 1;
        while let Some(slash) = self.position(from, |byte| byte == b'/') {
            if self.position(1, |byte| byte == b'!').is_some_and(|end| end < slash) {
                break;
            }
            if is_line_end(self.buffer[slash - 1]) {
                self.buffer.drain(..slash);
                from = 1;
            } else {
                from = slash + 1;
            }
        }
        let mark = self.position(1, |byte| byte == b'!');
        let end = mark.and_then(|mark| self.position(mark, |byte| byte == b'\n' || byte == b'\r'));
        if end.is_none() && self.buffer.len() > LONGEST {
            self.buffer.clear();
        }
        Some(self.buffer.drain(..=end?).collect())
    }

    fn position(&self, from: usize, wanted: impl Fn(u8) -> bool) -> Option<usize> {
        let found = self.buffer.iter().skip(from).position(|byte| wanted(byte & 0x7f));
        found.map(|found| found + from)
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte & 0x7f, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(chunks: &[&str]) -> Vec<String> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for chunk in chunks {
            frames.push(chunk.as_bytes());
            while let Some(frame) = frames.next_frame() {
                found.push(String::from_utf8(frame).unwrap());
            }
        }
        found
    }

    #[test]
    fn telegrams_are_found_in_whatever_pieces_they_come() {
        let stream = "rest of one!12AB\r\n/A\r\n\r\n1-0:1.7.0(1*kW)\r\n!\r\n\r\n/B/C\r\n!1234\r\n/D";
        let expected = ["/A\r\n\r\n1-0:1.7.0(1*kW)\r\n!\r", "/B/C\r\n!1234\r"];
        assert_eq!(frames(&[stream]), expected);
        let bytes: Vec<String> = stream.chars().map(String::from).collect();
        assert_eq!(frames(&bytes.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn a_telegram_without_an_end_does_not_swallow_the_next() {
        assert_eq!(frames(&["/A\r\n1-0:1.7.0(1*k/B\r\n", "\r\n/C\r\n!\n"]), ["/C\r\n!\n"]);
        assert_eq!(frames(&["/", &"x".repeat(LONGEST + 1), "/B\r\n!\n"]), ["/B\r\n!\n"]);
    }
}
