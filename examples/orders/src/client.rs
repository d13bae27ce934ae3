//! A minimal HTTP client: one request per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// # Errors
/// If there was no complete answer. The request may have been executed.
pub(crate) fn post(address: &str, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut off");
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(cut)?;
    let mut length = None;
    loop {
        line.clear();
        if answer.read_line(&mut line)? == 0 {
            return Err(cut());
        }
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok();
        }
    }
    let mut text = vec![0; length.ok_or_else(cut)?];
    answer.read_exact(&mut text)?;
    Ok(Answer {
        status,
        text: String::from_utf8_lossy(&text).into_owned(),
    })
}
