//! Requests a link with tokio's sockets.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) enum Answer {
    Good,
    Broken(String),
    /// The server asks for another attempt.
    Later(String),
}

/// Requests the head of a page.
///
/// # Errors
/// Those of the connection.
pub(crate) async fn request(server: SocketAddr, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    let request = format!("HEAD {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let line = response.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.1 ").unwrap_or("no status");
    Ok(match status.as_bytes().first() {
        Some(b'2' | b'3') => Answer::Good,
        Some(b'4') => Answer::Broken(status.to_owned()),
        _ => Answer::Later(status.to_owned()),
    })
}
