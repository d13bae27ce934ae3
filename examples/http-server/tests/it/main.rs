//! The example `http-server`, run as a process, and clients that hold its room: a request whose body is incomplete.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use testkit::Running;

struct Server {
    process: Running,
    address: String,
}

impl Server {
    fn start(capacity: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_http-server"));
        command
            .args(["--work", "0", "--capacity", capacity])
            .stdout(Stdio::piped());
        let mut process = Running::start(&mut command);
        let mut line = String::new();
        let stdout = process.0.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("UTF-8");
        let address = line.trim().strip_prefix("http://").expect("an address");
        Self {
            address: address.to_owned(),
            process,
        }
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    }

    fn get(&self, path: &str) -> String {
        answer(self.send(&format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )))
    }

    /// Sends the first half of a body.
    fn hold(&self) -> TcpStream {
        self.send("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 4\r\n\r\nab")
    }

    fn wait_until_live(&self, requests: usize) {
        let line = format!("live {requests},");
        while !self.get("/stats").contains(&line) {
            std::thread::yield_now();
        }
    }
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    text
}

#[testkit::test]
fn a_full_server_answers_503_until_a_client_goes_away() {
    let server = Server::start("2");
    let (first, second) = (server.hold(), server.hold());
    server.wait_until_live(2);
    let refused = server.get("/");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    drop(first);
    server.wait_until_live(1);
    let served = server.get("/");
    assert!(served.starts_with("HTTP/1.1 200 "), "{served}");
    drop(second);
    server.process.send("KILL");
}

#[testkit::test]
fn after_a_signal_open_requests_are_answered() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut server = Server::start("2");
        let mut open = server.hold();
        server.wait_until_live(1);
        server.process.send(signal);
        let mut line = String::new();
        let stderr = server.process.0.stderr.take().expect("a pipe");
        let mut stderr = BufReader::new(stderr);
        stderr.read_line(&mut line).expect("UTF-8");
        assert_eq!(line, "http-server: stopping; open requests are finished\n");
        open.write_all(b"cd").expect("sent");
        let answer = answer(open);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nabcd"), "{answer}");
        assert_eq!(server.process.end(), code);
    }
}
