//! Meters that send telegrams by themselves: over a terminal that stands for a serial port, and over TCP.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::run::{Running, mistake, numbers};

pub(crate) const TELEGRAM: &str = "/EST5\\253710000_A\r\n\r\n1-0:1.8.0(00006678.394*kWh)\r\n1-0:2.8.0(00000000.000*kWh)\r\n\
                        1-0:1.7.0(0001.023*kW)\r\n1-0:2.7.0(0000.000*kW)\r\n!\r\n";
const NUMBERS: (Option<i64>, Option<i64>, Option<i64>) = (Some(6_678_394_000), Some(0), Some(1_023_000));

/// A terminal: the end that a meter would be at, and the path of the other one.
pub(crate) fn terminal() -> (File, PathBuf) {
    let meter = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&meter).expect("a terminal");
    unlockpt(&meter).expect("a terminal");
    let name = ptsname(&meter, Vec::new()).expect("a terminal").into_string().expect("a path");
    (File::from(meter), PathBuf::from(name))
}

#[tokio::test]
async fn a_serial_port_is_read_and_read_on_after_noise() {
    for line in ["auto", "115200-8n1", "9600-7e1"] {
        let (mut meter, path) = terminal();
        let mut source = Running::start(&format!("kind = 'p1'\nserial = {path:?}\nline = '{line}'"));
        source.connected().await;
        meter.write_all(format!("…tail of one!AAAA\r\n{TELEGRAM}").as_bytes()).expect("written");
        assert_eq!(numbers(&source.sample().await), NUMBERS);
        meter.write_all(TELEGRAM.replace("!", "!0000").as_bytes()).expect("written");
        assert!(source.lost().await.contains("checksum"));
        meter.write_all(TELEGRAM.as_bytes()).expect("written");
        assert_eq!(numbers(&source.sample().await), NUMBERS);
    }
}

#[tokio::test]
async fn a_bridge_is_connected_to_again_and_import_may_be_export() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut source = Running::start(&format!("kind = 'p1'\ntcp = '{address}'\ninvert = true"));
    for _ in 0..2 {
        let (mut bridge, _) = listener.accept().await.expect("a connection");
        bridge.write_all(TELEGRAM.as_bytes()).await.expect("written");
        assert_eq!(numbers(&source.sample().await), (Some(0), Some(6_678_394_000), Some(-1_023_000)));
        drop(bridge);
        assert_eq!(source.lost().await, "the connection was closed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_of_the_wrong_speed_is_tried_at_the_other() {
    // Time passes at once here, so that silence does not have to be waited for.
    let (_meter, path) = terminal();
    let mut source = Running::start(&format!("kind = 'p1'\nserial = {path:?}"));
    for _ in 0..3 {
        source.connected().await;
        assert!(source.lost().await.contains("no telegram came for 35 s"));
    }
}

#[test]
fn a_mistake_is_named_with_what_to_do() {
    assert!(mistake("kind = 'p1'").contains("serial: missing; name the serial port"), "{}", mistake("kind = 'p1'"));
    assert!(mistake("kind = 'sml'\nserial = '/dev/a'\ntcp = 'b:1'").contains("either `serial` or `tcp`"));
    assert!(mistake("kind = 'p1'\ntcp = '192.168.1.20'").contains("not HOST:PORT"));
    assert!(mistake("kind = 'p1'\nserial = 'x'\nline = '300'").contains("use auto, 115200-8n1 or 9600-7e1"));
    assert!(mistake("kind = 'sml'\nserial = 'x'\ncrc = 'any'").contains("use x25 or kermit"));
    assert!(mistake("kind = 'smart'").contains("use p1, sml, mqtt, modbus, http or lines"));
}
