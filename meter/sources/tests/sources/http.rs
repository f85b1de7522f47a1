//! A device that answers over HTTP, made of a socket.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::run::{Running, mistake, numbers};

const HOMEWIZARD: &str = r#"{"smr_version":50,"meter_model":"XS210","total_power_import_t1_kwh":1477.206,"total_power_import_t2_kwh":1992.399,"total_power_export_t1_kwh":610.769,"total_power_export_t2_kwh":357.748,"active_power_w":-83,"active_power_l1_w":83}"#;

/// Answers one request after the other, and returns their first lines.
async fn answer(listener: &TcpListener, answers: &[String]) -> Vec<String> {
    let mut asked = Vec::new();
    for answer in answers {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.expect("a request"));
        }
        asked.push(String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned());
        stream.write_all(answer.as_bytes()).await.expect("written");
    }
    asked
}

fn ok(document: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{document}", document.len())
}

#[tokio::test]
async fn a_homewizard_is_asked_again_and_again_and_after_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = format!("kind = 'http'\nurl = 'http://{address}'\npreset = 'homewizard'\ninterval_seconds = 1");
    let mut source = Running::start(&config);
    let newer = HOMEWIZARD.replace("\"smr_version\"", "\"total_power_import_kwh\":3469.605,\"smr_version\"");
    let answers = [ok(HOMEWIZARD), ok(&newer), "HTTP/1.1 503 Busy\r\n\r\n".to_owned(), ok(HOMEWIZARD)];
    let device = tokio::spawn(async move { answer(&listener, &answers).await });
    let expected = (Some(3_469_605_000), Some(968_517_000), Some(-83_000));
    assert_eq!(numbers(&source.sample().await), expected);
    assert_eq!(numbers(&source.sample().await), expected);
    assert!(source.lost().await.contains("status 503"));
    assert_eq!(numbers(&source.sample().await), expected);
    let asked = device.await.expect("the device ends");
    assert!(asked.iter().all(|line| line == "GET /api/v1/data HTTP/1.1"), "{asked:?}");
}

#[tokio::test]
async fn any_document_is_read_by_pointers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut source = Running::start(&format!(
        "kind = 'http'\nurl = 'http://{address}/rpc/EM.GetStatus?id=0'\n\
         power = [{{ pointer = '/phases/0/p', unit = 'kW' }}, {{ pointer = '/phases/1/p', unit = 'kW', sign = 'export' }}]"
    ));
    let answers = [ok(r#"{"phases":[{"p":"1.5"},{"p":0.25}]}"#), ok(r#"{"phases":[]}"#)];
    tokio::spawn(async move { answer(&listener, &answers).await });
    assert_eq!(numbers(&source.sample().await), (None, None, Some(1_250_000)));
}

#[test]
fn a_mistake_is_named_with_what_to_do() {
    assert!(
        mistake("kind = 'http'\nurl = 'https://x/'\npreset = 'homewizard'")
            .contains("source:2: url: \"https://x/\": not an address; use http://HOST")
    );
    assert!(mistake("kind = 'http'\nurl = 'http://x/'").contains("nothing to read; name a `preset`"));
    assert!(mistake("kind = 'http'\nurl = 'http://x:99999/'\npreset = 'homewizard'").contains("HOST:PORT"));
}
