//! The clock: compared with the meters' by the running gateway, and with a time server if one is named.

use std::io;
use std::net::{ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Finding, State};

/// From 1900, which the protocol counts from, to 1970, in seconds.
const ERA: f64 = 2_208_988_800.0;

const PATIENCE: Duration = Duration::from_secs(3);

/// `agrees` is what the running gateway says of its clock and the meters'.
pub(super) fn look(server: Option<&str>, skew_seconds: u64, agrees: Option<bool>) -> Finding {
    let to_do = "correct the clock and look at its time service (`chronyc tracking`, `timedatectl`): see \"The clock is in doubt\" in runbooks.md";
    if agrees == Some(false) {
        return Finding::wrong("clock", "the running gateway doubts it: it jumped, or meters have another time", to_do);
    }
    if let Some(server) = server {
        return match offset(server) {
            Ok(seconds) if seconds.abs() > skew_seconds as f64 => {
                let way = if seconds > 0.0 { "behind" } else { "ahead of" };
                Finding::wrong("clock", format!("{:.1} s {way} {server}", seconds.abs()), to_do)
            }
            Ok(seconds) => Finding::ok("clock", format!("within {:.1} s of {server}", seconds.abs())),
            Err(error) => {
                let says = format!("{server} does not say what time it is: {error}");
                Finding::new("clock", State::Unknown, says, "name a server that answers NTP from here")
            }
        };
    }
    match agrees {
        Some(_) => Finding::ok("clock", "the running gateway finds it steady, and in line with its meters"),
        None => {
            let says = "compared with nothing: no gateway answers, and --ntp names no server";
            Finding::new("clock", State::Unknown, says, "compare `date -u` with another machine, or use --ntp HOST")
        }
    }
}

/// Returns how far a time server's clock is ahead of this one, in seconds (RFC 5905, section 14: one question, one answer).
fn offset(server: &str) -> io::Result<f64> {
    let address = server.to_socket_addrs().or_else(|_| (server, 123).to_socket_addrs())?.next();
    let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
    let socket = UdpSocket::bind(if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut packet = [0; 48];
    // Version 4, from a client.
    packet[0] = 0x23;
    // Comes back with the answer, which is therefore one to this question.
    let cookie: [u8; 8] = rand::random();
    packet[40..].copy_from_slice(&cookie);
    let sent = now();
    socket.send(&packet)?;
    let length = socket.recv(&mut packet)?;
    let received = now();
    let is_answer = length == packet.len() && packet[0] & 7 == 4 && packet[1] != 0 && packet[24..32] == cookie;
    if !is_answer {
        return Err(io::Error::other("what answers is no time server, or has no time"));
    }
    let at = |from: usize| {
        let word = |from: usize| {
            f64::from(u32::from_be_bytes([packet[from], packet[from + 1], packet[from + 2], packet[from + 3]]))
        };
        word(from) + word(from + 4) / 4_294_967_296.0 - ERA
    };
    Ok(((at(32) - sent) + (at(40) - received)) / 2.0)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one question with a clock that is so far ahead.
    fn server(ahead: i64, stratum: u8) -> String {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let mut packet = [0; 48];
            let (_, from) = socket.recv_from(&mut packet).unwrap();
            let cookie: [u8; 8] = packet[40..].try_into().unwrap();
            packet[24..32].copy_from_slice(&cookie);
            (packet[0], packet[1]) = (0x24, stratum);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let seconds = (now.as_secs() + 2_208_988_800).checked_add_signed(ahead).unwrap();
            let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
            let bytes = ((seconds << 32) | fraction).to_be_bytes();
            packet[32..40].copy_from_slice(&bytes);
            packet[40..].copy_from_slice(&bytes);
            socket.send_to(&packet, from).unwrap();
        });
        address
    }

    #[test]
    fn a_clock_is_wrong_beyond_the_skew_that_is_allowed() {
        let found = |ahead: i64| look(Some(&server(ahead, 2)), 5, None);
        assert_eq!(found(0).state, State::Ok);
        let behind = found(60);
        assert!(behind.state == State::Wrong && behind.says.contains("s behind 127.0.0.1"), "{behind:?}");
        let ahead = found(-60);
        assert!(ahead.state == State::Wrong && ahead.says.contains("ahead of"), "{ahead:?}");
    }

    #[test]
    fn what_nobody_compared_is_not_called_well() {
        assert_eq!(look(None, 5, None).state, State::Unknown);
        assert_eq!(look(Some(&server(0, 0)), 5, None).state, State::Unknown);
        assert_eq!(look(None, 5, Some(true)).state, State::Ok);
        assert_eq!(look(Some(&server(0, 2)), 5, Some(false)).state, State::Wrong);
    }
}
