//! A server's stand-in that loses answers: what it passes on is carried out, and not answered. A connection
//! is cut with the answer, or stays and leads nowhere.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

/// Passes connections on. Its threads end with the connections, or with the tests.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    /// The next answer of the server is lost, and its connection with it.
    lose_next: AtomicBool,
    /// Each answer with such a number is lost; 0: none.
    lose_each: AtomicU32,
    answers: AtomicU32,
    lost: AtomicU32,
    connections: AtomicU32,
    /// Those with lower numbers lead nowhere.
    leading: AtomicU32,
}

/// What becomes of an answer.
enum Fate {
    Passes,
    /// And its connection with it.
    IsLost,
    IsSwallowed,
}

impl Proxy {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            lose_next: AtomicBool::new(false),
            lose_each: AtomicU32::new(0),
            answers: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            connections: AtomicU32::new(0),
            leading: AtomicU32::new(0),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(server) else {
                    continue;
                };
                let [from, to] = [&client, &upstream].map(|it| it.try_clone().unwrap());
                thread::spawn(move || pass(from, to, || Fate::Passes));
                let state = Arc::clone(&shared);
                let number = state.connections.fetch_add(1, SeqCst);
                thread::spawn(move || pass(upstream, client, || state.fate(number)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn lose_next(&self) {
        self.state.lose_next.store(true, SeqCst);
    }

    /// From now on; 0: none any more.
    pub(crate) fn lose_each(&self, number: u32) {
        self.state.lose_each.store(number, SeqCst);
    }

    pub(crate) fn lost(&self) -> u32 {
        self.state.lost.load(SeqCst)
    }

    /// No answer passes any more on the connections that are there; new ones are as ever.
    pub(crate) fn swallow(&self) {
        let connections = self.connections();
        self.state.leading.store(connections, SeqCst);
    }

    /// So many were begun.
    pub(crate) fn connections(&self) -> u32 {
        self.state.connections.load(SeqCst)
    }

    pub(crate) fn answers(&self) -> u32 {
        self.state.answers.load(SeqCst)
    }
}

impl State {
    fn fate(&self, connection: u32) -> Fate {
        if connection < self.leading.load(SeqCst) {
            Fate::IsSwallowed
        } else if self.loses() {
            Fate::IsLost
        } else {
            Fate::Passes
        }
    }

    fn loses(&self) -> bool {
        let each = self.lose_each.load(SeqCst);
        let number = self.answers.fetch_add(1, SeqCst) + 1;
        let loses = self.lose_next.swap(false, SeqCst) || each != 0 && number.is_multiple_of(each);
        self.lost.fetch_add(u32::from(loses), SeqCst);
        loses
    }
}

/// Until an end, or until something is lost.
fn pass(mut from: TcpStream, mut to: TcpStream, fate: impl Fn() -> Fate) {
    let mut bytes = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let goes_on = match fate() {
            Fate::Passes => to.write_all(&bytes[..count]).is_ok(),
            Fate::IsLost => false,
            Fate::IsSwallowed => true,
        };
        if !goes_on {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
