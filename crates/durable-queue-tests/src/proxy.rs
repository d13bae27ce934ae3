//! A server's stand-in that disturbs what passes: a plan says what becomes of each piece of a message.
//!
//! Not for: deciding when to disturb, which is the plans' work: [`Losing`] loses answers on request,
//! [`SilentAfter`] those to one request, `disturbed/plan.rs` does its worst at random.
//!
//! # What always holds
//! 1. The bytes of one way pass in their order, and none after one that did not.
//! 2. What has not passed when a connection is cut never passes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Passes connections on. Its threads end with the connections, or with the tests.
pub struct Proxy<P = Losing> {
    pub address: SocketAddr,
    shared: Arc<Shared<P>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Request,
    Answer,
}

/// What becomes of what was read from one side.
pub enum Fate {
    Passes,
    /// It passes so much later.
    IsLate(Duration),
    /// So many bytes of it pass, and the connection is cut.
    IsCut(usize),
    /// So many bytes of it pass, and its receiver is told that no more come. The other way goes on.
    IsLast(usize),
    /// So many bytes of it pass, and nothing more on either way. After so long the connection is cut.
    Hangs(usize, Duration),
    /// All connections are cut.
    CutsAll,
    /// It does not pass, nor does what follows on this way.
    IsSwallowed,
}

pub trait Plan: Send + Sync + 'static {
    /// Whether a new connection is taken.
    fn admits(&self) -> bool {
        true
    }

    fn fate(&self, connection: u32, way: Way, bytes: &[u8]) -> Fate;
}

struct Shared<P> {
    plan: P,
    begun: AtomicU32,
    /// Those that are there, with their two ends.
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

    /// Cuts the connections that are there.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// So many were begun.
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

/// What the two threads of a connection, one for each way, have in common.
struct Connection<P> {
    shared: Arc<Shared<P>>,
    number: u32,
    hangs: AtomicBool,
}

impl<P: Plan> Connection<P> {
    fn begin(shared: &Arc<Shared<P>>, client: TcpStream, upstream: TcpStream) {
        for end in [&client, &upstream] {
            end.set_nodelay(true).unwrap(); // What was cut into pieces is to leave as pieces.
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

    /// Until an end, or until the plan makes one.
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
                    return; // The other way's end is that of both.
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

/// No answer passes any more on a connection over which the last such request has gone.
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

    /// How many such requests.
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

/// Loses answers: what it passes on is carried out, and not answered. A connection is cut with the answer,
/// or stays and leads nowhere.
#[derive(Default)]
pub struct Losing {
    /// The next answer of the server is lost, and its connection with it.
    lose_next: AtomicBool,
    /// Each answer with such a number is lost; 0: none.
    lose_each: AtomicU32,
    answers: AtomicU32,
    lost: AtomicU32,
    /// Connections with lower numbers lead nowhere.
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

    /// From now on; 0: none any more.
    pub fn lose_each(&self, number: u32) {
        self.plan().lose_each.store(number, SeqCst);
    }

    pub fn lost(&self) -> u32 {
        self.plan().lost.load(SeqCst)
    }

    /// No answer passes any more on the connections that are there; new ones are as ever.
    pub fn swallow(&self) {
        let connections = self.connections();
        self.plan().leading.store(connections, SeqCst);
    }

    pub fn answers(&self) -> u32 {
        self.plan().answers.load(SeqCst)
    }
}
