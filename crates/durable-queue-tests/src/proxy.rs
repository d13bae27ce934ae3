//! A proxy in front of a server that disturbs its connections: a plan decides the fate of each piece of a
//! message.
//!
//! Plans decide when to disturb: [`Losing`] loses responses on request, [`SilentAfter`] loses responses to
//! one kind of request, and `disturbed/plan.rs` disturbs at random.
//!
//! # Invariants
//! 1. Bytes of one direction pass in order. After lost bytes, no more pass.
//! 2. Bytes that have not passed when a connection is cut never pass.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Forwards connections. Its threads end with the connections, or with the tests.
pub struct Proxy<P = Losing> {
    pub address: SocketAddr,
    shared: Arc<Shared<P>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Request,
    Answer,
}

/// Fate of a piece that was read from one side.
pub enum Fate {
    Passes,
    /// It is delayed.
    IsLate(Duration),
    /// This many bytes pass, then the connection is cut.
    IsCut(usize),
    /// This many bytes pass, then this direction is closed. The other one continues.
    IsLast(usize),
    /// This many bytes pass, then nothing in either direction. After the given time the connection is cut.
    Hangs(usize, Duration),
    /// All connections are cut.
    CutsAll,
    /// It is lost, and so are all later pieces of this direction.
    IsSwallowed,
}

pub trait Plan: Send + Sync + 'static {
    /// Returns whether to accept a new connection.
    fn admits(&self) -> bool {
        true
    }

    fn fate(&self, connection: u32, way: Way, bytes: &[u8]) -> Fate;
}

struct Shared<P> {
    plan: P,
    begun: AtomicU32,
    /// Open connections, with both ends.
    open: Mutex<BTreeMap<u32, [TcpStream; 2]>>,
}

impl<P: Plan> Proxy<P> {
    pub fn with(server: SocketAddr, plan: P) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            plan,
            begun: AtomicU32::new(0),
            open: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.plan.admits()
                    && let Ok(upstream) = TcpStream::connect(server)
                {
                    Connection::begin(&accepting, client, upstream);
                }
            }
        });
        Self { address, shared }
    }

    pub fn plan(&self) -> &P {
        &self.shared.plan
    }

    /// Cuts all open connections.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> u32 {
        self.shared.begun.load(SeqCst)
    }
}

impl<P> Shared<P> {
    fn cut(&self) {
        for ends in self.open.lock().unwrap().values() {
            cut(ends);
        }
    }
}

/// Shared by the two threads of a connection, one per direction.
struct Connection<P> {
    shared: Arc<Shared<P>>,
    number: u32,
    hangs: AtomicBool,
}

impl<P: Plan> Connection<P> {
    fn begin(shared: &Arc<Shared<P>>, client: TcpStream, upstream: TcpStream) {
        for end in [&client, &upstream] {
            end.set_nodelay(true).unwrap(); // Pieces must leave as they were cut.
        }
        let number = shared.begun.fetch_add(1, SeqCst);
        let [to_client, to_upstream] = [&client, &upstream].map(|end| end.try_clone().unwrap());
        let ends = [&client, &upstream].map(|end| end.try_clone().unwrap());
        shared.open.lock().unwrap().insert(number, ends);
        let connection = Arc::new(Self {
            shared: Arc::clone(shared),
            number,
            hangs: AtomicBool::new(false),
        });
        let answers = Arc::clone(&connection);
        thread::spawn(move || connection.pass(Way::Request, client, to_upstream));
        thread::spawn(move || answers.pass(Way::Answer, upstream, to_client));
    }

    /// Forwards until either side or the plan ends it.
    fn pass(&self, way: Way, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 1 << 14];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let bytes = &bytes[..count];
            let fate = if self.hangs.load(SeqCst) {
                Fate::IsSwallowed
            } else {
                self.shared.plan.fate(self.number, way, bytes)
            };
            let passed = match fate {
                Fate::Passes => to.write_all(bytes),
                Fate::IsLate(delay) => {
                    pause(delay);
                    to.write_all(bytes)
                }
                Fate::IsCut(passing) => {
                    to.write_all(&bytes[..passing]).ok();
                    break;
                }
                Fate::IsLast(passing) => {
                    to.write_all(&bytes[..passing]).ok();
                    to.shutdown(Shutdown::Write).ok();
                    return; // The end of the other direction has ended both.
                }
                Fate::Hangs(passing, time) => {
                    self.hangs.store(true, SeqCst);
                    to.write_all(&bytes[..passing]).ok();
                    pause(time);
                    break;
                }
                Fate::CutsAll => {
                    self.shared.cut();
                    break;
                }
                Fate::IsSwallowed => Ok(()),
            };
            if passed.is_err() {
                break;
            }
        }
        cut(&[from, to]);
        self.shared.open.lock().unwrap().remove(&self.number);
    }
}

fn cut(ends: &[TcpStream; 2]) {
    for end in ends {
        end.shutdown(Shutdown::Both).ok();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the delay is what is done to the connection, and orders nothing"
)]
fn pause(time: Duration) {
    thread::sleep(time);
}

/// After the last matching request, no response passes on its connection.
pub struct SilentAfter {
    request: &'static [u8],
    seen: AtomicU32,
    silent: AtomicU32,
}

impl SilentAfter {
    pub fn new(request: &'static [u8]) -> Self {
        Self {
            request,
            seen: AtomicU32::new(0),
            silent: AtomicU32::new(u32::MAX),
        }
    }

    /// Returns the number of matching requests.
    pub fn seen(&self) -> u32 {
        self.seen.load(SeqCst)
    }
}

impl Plan for SilentAfter {
    fn fate(&self, connection: u32, way: Way, bytes: &[u8]) -> Fate {
        let mut parts = bytes.windows(self.request.len());
        if way == Way::Request && parts.any(|part| part == self.request) {
            self.silent.store(connection, SeqCst);
            self.seen.fetch_add(1, SeqCst);
        }
        if way == Way::Answer && self.silent.load(SeqCst) == connection {
            Fate::IsSwallowed
        } else {
            Fate::Passes
        }
    }
}

/// Loses responses: requests are forwarded, but not answered. The connection is cut, or stays open and
/// silent.
#[derive(Default)]
pub struct Losing {
    /// Loses the server's next response, and cuts its connection.
    lose_next: AtomicBool,
    /// Loses every n-th response; 0 disables this.
    lose_each: AtomicU32,
    answers: AtomicU32,
    lost: AtomicU32,
    /// Connections with lower numbers are silent.
    leading: AtomicU32,
}

impl Plan for Losing {
    fn fate(&self, connection: u32, way: Way, _: &[u8]) -> Fate {
        if way == Way::Request {
            Fate::Passes
        } else if connection < self.leading.load(SeqCst) {
            Fate::IsSwallowed
        } else if self.loses() {
            Fate::IsCut(0)
        } else {
            Fate::Passes
        }
    }
}

impl Losing {
    fn loses(&self) -> bool {
        let each = self.lose_each.load(SeqCst);
        let number = self.answers.fetch_add(1, SeqCst) + 1;
        let loses = self.lose_next.swap(false, SeqCst) || each != 0 && number.is_multiple_of(each);
        self.lost.fetch_add(u32::from(loses), SeqCst);
        loses
    }
}

impl Proxy {
    pub fn new(server: SocketAddr) -> Self {
        Self::with(server, Losing::default())
    }

    pub fn lose_next(&self) {
        self.plan().lose_next.store(true, SeqCst);
    }

    /// Loses every n-th response from now on; 0 disables this.
    pub fn lose_each(&self, number: u32) {
        self.plan().lose_each.store(number, SeqCst);
    }

    pub fn lost(&self) -> u32 {
        self.plan().lost.load(SeqCst)
    }

    /// Makes all open connections silent. New ones work.
    pub fn swallow(&self) {
        let connections = self.connections();
        self.plan().leading.store(connections, SeqCst);
    }

    pub fn answers(&self) -> u32 {
        self.plan().answers.load(SeqCst)
    }
}
