//! Homes whose power is known, each with a meter that speaks one of the languages of real ones.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dream_testkit::lab::access::Access;
use rumqttc::{AsyncClient, PublishOptions, QoS};

/// How often a meter speaks.
const PACE: Duration = Duration::from_millis(500);

/// A home that always draws the same.
pub(super) struct Home {
    pub(super) watts: i64,
    /// Its part `[source]` of a configuration.
    pub(super) source: String,
    /// Whether its meter speaks.
    speaks: Arc<AtomicBool>,
    /// Whether the test goes on.
    lives: Arc<AtomicBool>,
}

impl Home {
    /// The number decides what the home draws and how its meter speaks. Call it inside a tokio runtime; without a home's broker
    /// nothing is said over MQTT.
    pub(super) fn start(number: usize, folder: &Path, home_broker: Option<&Access>) -> Self {
        let watts = 100 + 37 * i64::try_from(number).unwrap();
        let (speaks, lives) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let flags = (speaks.clone(), lives.clone());
        let source = match (number % 5, home_broker) {
            (0, _) => lines(watts, folder, flags),
            (1, _) => p1(watts, flags),
            (2, _) => sml(watts, flags),
            (3, _) | (_, None) => http(watts, flags),
            (_, Some(broker)) => mqtt(watts, number, broker, flags),
        };
        Self { watts, source, speaks, lives }
    }

    /// Lets the meter fall silent, or speak again.
    pub(super) fn speak(&self, speaks: bool) {
        self.speaks.store(speaks, Ordering::Relaxed);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.lives.store(false, Ordering::Relaxed);
    }
}

type Flags = (Arc<AtomicBool>, Arc<AtomicBool>);

/// Says something as long as the meter speaks and the test goes on, and as long as somebody listens.
fn repeat((speaks, lives): &Flags, mut say: impl FnMut() -> std::io::Result<()>) {
    while lives.load(Ordering::Relaxed) {
        if speaks.load(Ordering::Relaxed) && say().is_err() {
            return;
        }
        std::thread::sleep(PACE);
    }
}

/// A script of the owner's that adds a line to a file.
fn lines(watts: i64, folder: &Path, flags: Flags) -> String {
    let path = folder.join("samples");
    File::create(&path).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    std::thread::spawn(move || repeat(&flags, || writeln!(file, "{watts}")));
    format!("kind = \"lines\"\npath = \"{}\"\ninterval_seconds = 1\n", path.display())
}

/// A bridge that passes on what the P1 port of a Dutch meter sends.
fn p1(watts: i64, flags: Flags) -> String {
    let body = format!(
        "/TST5\\2METER\r\n\r\n1-3:0.2.8(50)\r\n1-0:1.7.0({:02}.{:03}*kW)\r\n1-0:2.7.0(00.000*kW)\r\n!",
        watts / 1000,
        watts % 1000
    );
    let telegram = format!("{body}{:04X}\r\n", crc16(body.as_bytes()));
    let port = serve(telegram.into_bytes(), flags);
    format!("kind = \"p1\"\ntcp = \"127.0.0.1:{port}\"\ninterval_seconds = 1\n")
}

/// A bridge that passes on what the optical interface of a German meter sends.
fn sml(watts: i64, flags: Flags) -> String {
    let port = serve(sml_file(watts), flags);
    format!("kind = \"sml\"\ntcp = \"127.0.0.1:{port}\"\ninterval_seconds = 1\n")
}

/// A device on the local network that is asked, as HomeWizard's are.
fn http(watts: i64, (speaks, _): Flags) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = format!("{{\"active_power_w\":{watts}}}");
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            // One that does not speak hangs up.
            if speaks.load(Ordering::Relaxed) && stream.read(&mut request).is_ok() {
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    });
    format!(
        "kind = \"http\"\nurl = \"http://127.0.0.1:{port}/api/v1/data\"\ninterval_seconds = 1\n\
         [[source.power]]\npointer = \"/active_power_w\"\nunit = \"W\"\n"
    )
}

/// A bridge that publishes on the home's broker.
fn mqtt(watts: i64, number: usize, broker: &Access, (speaks, lives): Flags) -> String {
    let topic = format!("home/{number}/power");
    let (client, mut eventloop) = AsyncClient::builder(broker.options(&format!("bridge-{number}"))).unbounded().build();
    let said = topic.clone();
    // Only polls.
    tokio::spawn(async move { while eventloop.poll().await.is_ok() {} });
    tokio::spawn(async move {
        while lives.load(Ordering::Relaxed) {
            if speaks.load(Ordering::Relaxed) {
                let options = PublishOptions::new(QoS::AtMostOnce);
                client.try_publish(said.clone(), watts.to_string().into_bytes(), options).unwrap();
            }
            tokio::time::sleep(PACE).await;
        }
    });
    format!(
        "kind = \"mqtt\"\nbroker = \"{}\"\nclient_id = \"home-{number}\"\nspeaks = \"periodic\"\ninterval_seconds = 1\n\
         [[source.power]]\ntopic = \"{topic}\"\nunit = \"W\"\n",
        broker.url()
    )
}

/// Sends the same again and again to every client.
fn serve(bytes: Vec<u8>, flags: Flags) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, flags, bytes) = (stream.unwrap(), flags.clone(), bytes.clone());
            std::thread::spawn(move || repeat(&flags, || stream.write_all(&bytes)));
        }
    });
    port
}

/// CRC-16/ARC, which closes a telegram.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 })
    })
}

/// An SML file with one list, whose only value is the power, and its transport around it.
fn sml_file(watts: i64) -> Vec<u8> {
    let power = [
        // The list's entry of seven: OBIS 1-0:16.7.0*255, no status, no time, unit W, scaler 0, 32-bit value, no signature.
        &[0x77, 0x07, 1, 0, 16, 7, 0, 255, 0x01, 0x01, 0x62, 27, 0x52, 0, 0x55][..],
        &i32::try_from(watts).unwrap().to_be_bytes(),
        &[0x01],
    ]
    .concat();
    // GetList.Res: client, server, list name, sensor time, list of one, signature, gateway time.
    let list = [&[0x77, 0x01, 0x03, 0x0a, 0x01, 0x01, 0x01, 0x71][..], &power, &[0x01, 0x01]].concat();
    let open = [0x76, 0x01, 0x01, 0x02, 0x01, 0x03, 0x0a, 0x01, 0x01, 0x01];
    let close = [0x71, 0x01];
    let messages = [message(1, 0x0101, &open), message(2, 0x0701, &list), message(3, 0x0201, &close)].concat();
    let mut file = [&[0x1b; 4][..], &[0x01; 4], &messages].concat();
    let padding = (4 - file.len() % 4) % 4;
    file.extend(std::iter::repeat_n(0, padding));
    file.extend([0x1b, 0x1b, 0x1b, 0x1b, 0x1a, u8::try_from(padding).unwrap()]);
    let crc = crc_x25(&file);
    file.extend(crc.to_le_bytes());
    file
}

/// One SML message of six: transaction, group, abort, body, checksum, end.
fn message(number: u8, tag: u16, body: &[u8]) -> Vec<u8> {
    let head = [&[0x76, 0x02, number, 0x62, 0, 0x62, 0, 0x72, 0x63][..], &tag.to_be_bytes(), body].concat();
    let crc = crc_x25(&head);
    [&head[..], &[0x63], &crc.to_le_bytes(), &[0x00]].concat()
}

/// CRC-16/X-25.
fn crc_x25(bytes: &[u8]) -> u16 {
    !bytes.iter().fold(0xffff, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x8408 } else { crc >> 1 })
    })
}
