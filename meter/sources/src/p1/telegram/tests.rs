use super::*;

/// Puts lines between an identification and an end, with the checksum of DSMR 4 and later.
fn with_checksum(lines: &[&str]) -> Vec<u8> {
    let mut telegram = format!("/TST5METER\r\n\r\n{}\r\n!", lines.join("\r\n"));
    let crc = crc::arc(telegram.as_bytes());
    telegram += &format!("{crc:04X}\r\n");
    telegram.into_bytes()
}

fn without_checksum(lines: &[&str]) -> Vec<u8> {
    format!("/TST\r\n\r\n{}\r\n!\r\n", lines.join("\r\n")).into_bytes()
}

fn values(telegram: &[u8]) -> Result<[Option<i64>; 4], TelegramError> {
    let values = parse(telegram, Checksum::Check)?.values;
    Ok([values.import, values.export, values.power, values.step])
}

#[test]
fn tariffs_are_added_and_power_is_import_less_export() {
    let telegram = with_checksum(&[
        "1-3:0.2.8(50)",
        "0-0:1.0.0(190320181403W)",
        "1-0:1.8.1(000576.239*kWh)",
        "1-0:1.8.2(000465.162*kWh)",
        "1-0:2.8.1(000010.001*kWh)",
        "1-0:2.8.2(000000.000*kWh)",
        "1-0:1.7.0(00.193*kW)",
        "1-0:2.7.0(01.000*kW)",
        "0-1:24.2.1(190320181003W)(00304.089*m3)",
    ]);
    assert_eq!(values(&telegram), Ok([Some(1_041_401_000), Some(10_001_000), Some(-807_000), Some(1000)]));
    let found = parse(&telegram, Checksum::Check).unwrap();
    assert_eq!((found.identification.as_str(), found.has_checksum), ("/TST5METER", true));
}

#[test]
fn luxembourg_and_sweden_send_totals() {
    let telegram = with_checksum(&[
        "1-3:0.2.8(42)",
        "1-0:1.8.0(00006136.867*kWh)",
        "1-0:2.8.0(00000012.000*kWh)",
        "1-0:3.8.0(00000001.020*kVArh)",
        "1-0:1.7.0(0001.727*kW)",
        "1-0:2.7.0(0000.000*kW)",
        "1-0:21.7.0(0001.023*kW)",
    ]);
    assert_eq!(values(&telegram), Ok([Some(6_136_867_000), Some(12_000_000), Some(1_727_000), Some(1000)]));
}

#[test]
fn a_total_comes_before_its_tariffs() {
    let lines = ["1-0:1.8.0*255(00010.5*kWh)", "1-0:1.8.1*255(00010.0*kWh)", "1-0:1.8.2*255(00000.5*kWh)"];
    assert_eq!(values(&without_checksum(&lines)), Ok([Some(10_500_000), None, None, Some(100_000)]));
}

#[test]
fn a_unit_is_taken_from_its_line() {
    let easymeter =
        without_checksum(&["1-0:1.8.0*255(00012345.6789012*kWh)", "1-0:1.7.0*255(001234.56*W)", "1-0:96.5.5*255(80)"]);
    assert_eq!(values(&easymeter), Ok([Some(12_345_678_901), None, Some(1_234_560), Some(1)]));
    assert_eq!(values(&without_checksum(&["16.7.0(-12*W)"])), Ok([None, None, Some(-12_000), None]));
    let unit = TelegramError::Value { code: "1-0:1.7.0".to_owned(), expected: "power (kW or W)" };
    assert_eq!(values(&without_checksum(&["1-0:1.7.0(01.193)"])), Err(unit.clone()));
    assert_eq!(values(&without_checksum(&["1-0:1.7.0(01.193*kVA)"])), Err(unit));
}

#[test]
fn what_belongs_to_other_meters_is_left_out() {
    let lines = ["0-2:1.8.0(99999*kWh)", "1-0:1.8.0(00001.000*kWh)", "0-1:24.3.0(120517020000)(08)(60)", "(00001.234)"];
    assert_eq!(values(&without_checksum(&lines)), Ok([Some(1_000_000), None, None, Some(1000)]));
}

#[test]
fn a_wrong_or_missing_checksum_is_refused() {
    let mut telegram = with_checksum(&["1-3:0.2.8(50)", "1-0:1.7.0(00.193*kW)"]);
    let position = telegram.windows(3).position(|bytes| bytes == b"193").unwrap();
    telegram[position] = b'2';
    assert!(matches!(values(&telegram), Err(TelegramError::Checksum { .. })));
    assert_eq!(parse(&telegram, Checksum::Ignore).unwrap().values.power, Some(293_000));
    let cut = without_checksum(&["1-3:0.2.8(50)", "1-0:1.7.0(00.193*kW)"]);
    assert_eq!(values(&cut), Err(TelegramError::NoChecksum));
    assert_eq!(values(b"/A\r\n1-0:1.7.0(00.193*kW)\r\n!12\r\n"), Err(TelegramError::Digits(2)));
    assert_eq!(values(b"/A\r\n1-0:1.7.0(00.193*kW)\r\n"), Err(TelegramError::End));
}

#[test]
fn a_code_that_contradicts_itself_is_refused() {
    let lines = ["1-0:1.7.0(00.193*kW)", "1-0:1.7.0(00.194*kW)"];
    assert_eq!(values(&without_checksum(&lines)), Err(TelegramError::Twice { code: "1-0:1.7.0".to_owned() }));
    assert_eq!(values(&without_checksum(&["0-0:96.1.1(00)"])), Err(TelegramError::Nothing));
}

#[test]
fn parity_in_the_eighth_bit_is_taken_off() {
    let telegram = without_checksum(&["1-0:1.8.1(00001.001*kWh)", "1-0:1.7.0(0001.01*kW)"]);
    let even = telegram.iter().map(|byte| if byte.count_ones() % 2 == 1 { byte | 0x80 } else { *byte });
    assert_eq!(values(&even.collect::<Vec<_>>()), values(&telegram));
}

#[test]
fn what_a_bridge_did_to_a_telegram_is_named() {
    let telegram = String::from_utf8(with_checksum(&["1-3:0.2.8(50)", "1-0:1.7.0(00.193*kW)"])).unwrap();
    let with_line_feeds = telegram.replace('\r', "");
    assert_eq!(values(with_line_feeds.as_bytes()), Err(TelegramError::LineEnds));
    let (text, _) = telegram.split_once('!').unwrap();
    let three = format!("{text}!A4F\r\n");
    assert_eq!(values(three.as_bytes()), Err(TelegramError::Digits(3)));
    assert_eq!(values(format!("{text}!A4FG\r\n").as_bytes()), Err(TelegramError::End));
    for changed in [with_line_feeds, three] {
        let telegram = parse(changed.as_bytes(), Checksum::Ignore).unwrap();
        assert_eq!(telegram.values.power, Some(193_000));
    }
}
