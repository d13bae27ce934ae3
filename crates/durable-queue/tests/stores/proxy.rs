//! A server's stand-in that loses answers: what it passes on is carried out, and not answered.

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
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(upstream) = TcpStream::connect(server) else {
                    continue;
                };
                let [from, to] = [&client, &upstream].map(|it| it.try_clone().unwrap());
                thread::spawn(move || pass(from, to, || false));
                let state = Arc::clone(&shared);
                thread::spawn(move || pass(upstream, client, || state.loses()));
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
}

impl State {
    fn loses(&self) -> bool {
        let each = self.lose_each.load(SeqCst);
        let number = self.answers.fetch_add(1, SeqCst) + 1;
        let loses = self.lose_next.swap(false, SeqCst) || each != 0 && number.is_multiple_of(each);
        self.lost.fetch_add(u32::from(loses), SeqCst);
        loses
    }
}

/// Until an end, or until something is lost.
fn pass(mut from: TcpStream, mut to: TcpStream, loses: impl Fn() -> bool) {
    let mut bytes = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if loses() || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
