//! A device with registers, made of a socket or a terminal; `tests/foreign` has devices that others wrote.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::run::{Running, mistake, numbers};

/// Registers by function code and address.
type Registers = BTreeMap<(u8, u16), u16>;

fn float(registers: &mut Registers, function: u8, address: u16, value: f32) {
    let [a, b, c, d] = value.to_be_bytes();
    registers.insert((function, address), u16::from_be_bytes([a, b]));
    registers.insert((function, address + 1), u16::from_be_bytes([c, d]));
}

/// Answers requests for registers; those that are not there get exception 2.
async fn serve(mut stream: TcpStream, registers: Registers) -> std::io::Result<()> {
    loop {
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        let (function, address) = (head[7], u16::from_be_bytes([head[8], head[9]]));
        let count = u16::from_be_bytes([head[10], head[11]]);
        let words: Option<Vec<u16>> =
            (0..count).map(|n| registers.get(&(function, address.checked_add(n)?)).copied()).collect();
        let body = match words {
            Some(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                [vec![function, u8::try_from(bytes.len()).expect("few registers")], bytes].concat()
            }
            None => vec![function | 0x80, 2],
        };
        let length = u16::try_from(body.len() + 1).expect("a short answer").to_be_bytes();
        let answer = [&head[..2], &[0, 0], &length, &head[6..7], &body].concat();
        stream.write_all(&answer).await?;
    }
}

/// Starts a device with these registers, and returns its address.
async fn device(registers: Registers) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, registers.clone()));
        }
    });
    address
}

#[tokio::test]
async fn an_eastron_is_read_in_floats_of_input_registers() {
    let mut registers = Registers::new();
    float(&mut registers, 4, 0x34, -1234.5);
    float(&mut registers, 4, 0x48, 7881.115);
    float(&mut registers, 4, 0x4a, 12.0);
    let address = device(registers).await;
    let mut source = Running::start(&format!("kind = 'modbus'\ntcp = '{address}'\npreset = 'eastron-sdm630'"));
    let sample = source.sample().await;
    assert_eq!(numbers(&sample), (Some(7_881_115_000), Some(12_000_000), Some(-1_234_500)));
    assert_eq!(sample.step, Some(1000), "the coarser of the two floats");
}

#[tokio::test]
async fn a_sunspec_meter_is_found_behind_other_models() {
    let mut registers: Registers = (40_000..40_300).map(|address| ((3, address), 0)).collect();
    let common = [(40_000, 0x5375), (40_001, 0x6e53), (40_002, 1), (40_003, 65), (40_069, 203), (40_070, 105)];
    let meter = [(18, 250), (22, 1), (39, 77), (46, 1), (47, 2), (54, 0)].map(|(point, word)| (40_069 + point, word));
    registers.extend(common.into_iter().chain(meter).map(|(address, word)| ((3, address), word)));
    let address = device(registers).await;
    let config = format!("kind = 'modbus'\ntcp = '{address}'\npreset = 'sunspec'\npower_sign = 'export'");
    let mut source = Running::start(&config);
    assert_eq!(numbers(&source.sample().await), (Some(65_538_000), Some(77_000), Some(-2_500_000)));
}

#[tokio::test]
async fn registers_by_hand_have_table_type_order_and_exponent() {
    let registers = Registers::from([((3, 10), 5), ((3, 11), 1), ((3, 12), 9)]);
    let address = device(registers).await;
    let mut source = Running::start(&format!(
        "kind = 'modbus'\ntcp = '{address}'\nimport_only = true\n\
         import = [{{ address = 10, type = 'uint32', word_order = 'little-endian', exponent = -2, unit = 'kWh' }}]\n\
         power = [{{ address = 12, type = 'int16', unit = 'W' }}]"
    ));
    assert_eq!(numbers(&source.sample().await), (Some(655_410_000), Some(0), Some(9_000)));
}

#[tokio::test]
async fn what_a_device_refuses_is_said() {
    let address = device(Registers::new()).await;
    let mut source = Running::start(&format!("kind = 'modbus'\ntcp = '{address}'\npreset = 'eastron-sdm120'"));
    let why = source.lost().await;
    assert!(why.contains("registers 12 to 13: the device refuses them"), "{why}");
    let mut source = Running::start(&format!("kind = 'modbus'\ntcp = '{address}'\npreset = 'sunspec'"));
    assert!(source.lost().await.contains("not a SunSpec device"));
}

#[test]
fn a_mistake_is_named_with_what_to_do() {
    let with = |lines: &str| mistake(&format!("kind = 'modbus'\ntcp = 'a:502'\n{lines}"));
    assert!(with("").contains("nothing to read; name a `preset`"));
    assert!(with("preset = 'sunspec'\npower = []").contains("finds its registers itself"));
    assert!(with("power = [{ address = 1, type = 'int16' }]").contains("power.unit: missing; use W or kW"));
    assert!(with("power = [{ address = 1, type = 'int16', unit = 'W', exponent = 11 }]").contains("-10 to 10"));
    assert!(with("preset = 'sunspec'\nunit_id = 248").contains("source:4: unit_id: 248 is out of range; use 0 to 247"));
    let several = with("baud = '9600'\npower = [{ adress = 1, type = 'int17', unit = 'W' }]");
    assert_eq!(several.lines().count(), 3, "{several}");
    assert!(
        several.contains("source:3: baud: \"9600\" is text") && several.contains("did you mean `address`?"),
        "{several}"
    );
}
