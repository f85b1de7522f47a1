//! Meters that send telegrams by themselves: over a terminal that stands for a serial port, and over TCP.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use dream_sources::Port;

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
        assert!(source.garbled().await.contains("checksum"));
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

/// Serves bytes to everyone who connects, in pieces, and then stays silent.
async fn bridge(bytes: &'static [u8]) -> Port {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            for piece in bytes.chunks(100) {
                connection.write_all(piece).await.expect("written");
            }
            connections.push(connection);
        }
    });
    Port::Tcp(address.to_string())
}

#[tokio::test]
async fn a_port_is_recognised_past_its_first_broken_telegram() {
    let (mut meter, path) = terminal();
    // The meter speaks on and on, as at the right speed; a terminal has none.
    let speaking = std::thread::spawn(move || {
        let broken = TELEGRAM.replace('!', "!0000");
        while meter.write_all(format!("{broken}{TELEGRAM}").as_bytes()).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let mut tried = Vec::new();
    let port = Port::Serial(path);
    let proposal = port.sniff(|speed| tried.push(speed.to_owned())).await.expect("a meter");
    assert_eq!(tried, ["115200 baud"]);
    assert_eq!(proposal.config, "kind = \"p1\"\nline = \"115200-8n1\"\n");
    let source = format!("{}{}", proposal.config, port.setting());
    assert_eq!(numbers(&Running::start(&source).sample().await), NUMBERS);
    drop(speaking);
}

#[tokio::test(start_paused = true)]
async fn a_silent_port_is_listened_to_at_every_speed_of_meters() {
    let (_meter, path) = terminal();
    let mut tried = Vec::new();
    let none = Port::Serial(path).sniff(|speed| tried.push(speed.to_owned())).await.expect_err("no meter");
    assert_eq!(tried, ["115200 baud", "9600 baud", "2400 baud, 8E1", "2400 baud, 8N1", "1200 baud"]);
    assert_eq!(none.matches("nothing came").count(), 5, "{none}");
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_meters_are_named() {
    let found = bridge(b"/A\n\n1-3:0.2.8(50)\n1-0:1.7.0(1*kW)\n!ABC\n").await.sniff(|_| {}).await;
    assert!(found.expect_err("a bridge that drops zeros").contains("the checksum has 3 digits"));
}

#[tokio::test]
async fn french_one_way_and_encrypted_meters_are_read() {
    let serve = |bytes: Vec<u8>, config: String| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let source = Running::start(&format!("{config}\ntcp = '{}'", listener.local_addr().expect("an address")));
        let (mut meter, _) = listener.accept().await.expect("a connection");
        meter.write_all(&bytes).await.expect("written");
        (source, meter)
    };
    let tic = b"\x02\nEAST\t023591827\t4\r\x03".to_vec();
    let (mut source, _meter) = serve(tic, "kind = 'tic'\nimport_only = true".to_owned()).await;
    assert_eq!(numbers(&source.sample().await), (Some(23_591_827_000), Some(0), None));
    // A meter of one direction says so by what it leaves out.
    let one_way = "/EBZ5\r\n\r\n1-0:1.8.0*255(00012345.678*kWh)\r\n!\r\n".as_bytes().to_vec();
    let (mut source, _meter) = serve(one_way, "kind = 'p1'".to_owned()).await;
    assert_eq!(numbers(&source.sample().await), (Some(12_345_678_000), Some(0), None));
    let keys = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(keys.path(), "07".repeat(16)).expect("written");
    let sealed = dream_sources::ciphered::Keys::known().seal(*b"SAGgPORT", 9, TELEGRAM.as_bytes());
    let config = format!("kind = 'p1'\nkey_file = {:?}", keys.path());
    let (mut source, _meter) = serve(sealed.clone(), config).await;
    assert_eq!(numbers(&source.sample().await), NUMBERS);
    std::fs::write(keys.path(), "08".repeat(16)).expect("written");
    let config = format!("kind = 'p1'\nkey_file = {:?}", keys.path());
    let (mut source, _meter) = serve(sealed, config).await;
    assert!(source.garbled().await.contains("the key does not open the message"));
}

#[test]
fn a_mistake_is_named_with_what_to_do() {
    assert!(mistake("kind = 'p1'").contains("serial: missing; name the serial port"), "{}", mistake("kind = 'p1'"));
    assert!(mistake("kind = 'sml'\nserial = '/dev/a'\ntcp = 'b:1'").contains("either `serial` or `tcp`"));
    assert!(mistake("kind = 'p1'\ntcp = '192.168.1.20'").contains("not HOST:PORT"));
    assert!(mistake("kind = 'p1'\nserial = 'x'\nline = '300'").contains("use auto, 115200-8n1 or 9600-7e1"));
    assert!(mistake("kind = 'sml'\nserial = 'x'\ncrc = 'any'").contains("use x25 or kermit"));
    assert!(mistake("kind = 'smart'").contains("use p1, sml, dlms, tic, mqtt, modbus, http or lines"));
}
