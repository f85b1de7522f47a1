//! A client for one question to a server nearby: HTTP/1.1 without TLS, on a connection of its own.
//!
//! It blocks. What asks from a runtime does so on a thread where that is allowed.

use std::time::Duration;

/// What an answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the first packet to the last.
    pub patience: Duration,
    pub body_bytes: u64,
}

/// Asks for a document. Returns the status and the body, whatever the status is; the error says what is wrong.
pub fn get(url: &str, limits: Limits) -> Result<(u16, Vec<u8>), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(limits.patience))
        .http_status_as_error(false)
        .max_redirects(0)
        // The environment's proxy is for the Internet.
        .proxy(None)
        .max_idle_connections(0)
        .user_agent(concat!("dream/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let ask = || {
        let mut answer = agent.get(url).call()?;
        let body = answer.body_mut().with_config().limit(limits.body_bytes).read_to_vec()?;
        Ok((answer.status().as_u16(), body))
    };
    ask().map_err(|error: ureq::Error| {
        let late = matches!(error, ureq::Error::Timeout(_));
        let text = error.to_string();
        let reason = text.strip_prefix("io: ").unwrap_or(&text);
        if late { format!("no answer within {} s", limits.patience.as_secs()) } else { reason.to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    const LIMITS: Limits = Limits { patience: Duration::from_secs(10), body_bytes: 1000 };

    /// Returns what comes of an answer, after which the server hangs up.
    fn taken(answer: &str) -> Result<(u16, Vec<u8>), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/data", listener.local_addr().unwrap());
        let answer = answer.to_owned();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 1000];
            let length = stream.read(&mut question).unwrap();
            assert!(question[..length].starts_with(b"GET /data HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let taken = get(&url, LIMITS);
        server.join().unwrap();
        taken
    }

    #[test]
    fn a_document_is_taken_out_of_an_answer() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}\r\n",
            "HTTP/1.0 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        ] {
            assert_eq!(taken(answer).unwrap(), (200, b"{}".to_vec()), "{answer}");
        }
        assert_eq!(taken("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap().0, 403);
        assert_eq!(taken("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n").unwrap().0, 302);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1001));
        for answer in [
            "nonsense\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nx",
            "",
            &long,
        ] {
            let problem = taken(answer).unwrap_err();
            assert!(!problem.is_empty(), "{answer}");
        }
    }
}
