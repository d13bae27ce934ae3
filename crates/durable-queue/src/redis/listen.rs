//! The session that listens: what other processes announce reaches the notifiers.
//!
//! Not for: deciding what is announced. The scripts do (`lua/announce.lua`).
//!
//! # What always holds
//! 1. A watch begins only when the server has said that the session listens.
//! 2. When a session that was lost is replaced, every notifier is called with the beginning of time:
//!    anything may have been announced meanwhile.
//! 3. Notifiers are called with no lock held, and their panics end here.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Connection, Msg, Value};
use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, spawn_thread};
use sync_shim::{Clock as _, Mutex, Parker};

use super::failure::{no_session, no_thread};
use super::session::Connector;
use super::{ANYTHING, Shared};
use crate::clock::SharedClock;
use crate::job::Token;
use crate::notify::{Notifier, Notifiers, Registration};
use crate::pump::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::store::Result;
use crate::time::StoreTime;

/// After so long a silence the session asks the server whether it is there: a connection may be cut
/// without a sign.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);
/// A session that has no answer within this is lost.
pub const PROBE_ANSWER: Duration = Duration::from_secs(10);

/// The notifiers of this process, and what they need.
pub(super) struct Hub {
    notifiers: Notifiers,
    /// Whether the thread is there.
    is_listening: Mutex<bool>,
    pub(super) channel: String,
    /// Names this store in its messages: it has called its own notifiers already.
    pub(super) origin: String,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Hub {
    pub(super) fn new(channel: String) -> Self {
        let origin = u128::from_le_bytes(*Token::random().as_bytes());
        Self {
            notifiers: Notifiers::new(),
            is_listening: Mutex::new(false),
            channel,
            origin: format!("{origin:032x}"),
        }
    }

    pub(super) fn add(&self, queue: &str, notifier: Notifier) -> Registration {
        self.notifiers.add(queue, notifier)
    }

    pub(super) fn notify(&self, queue: &str, due: StoreTime) {
        self.notifiers.notify(queue, due);
    }

    /// `DUE ORIGIN QUEUE`, as `lua/announce.lua` writes it. Anyone may write to the channel: what is not
    /// understood is nothing.
    fn heard(&self, message: &[u8]) {
        let Ok(message) = std::str::from_utf8(message) else {
            return;
        };
        let mut words = message.splitn(3, ' ');
        let due = words.next().and_then(|word| word.parse().ok());
        let (Some(due), Some(origin), Some(queue)) = (due, words.next(), words.next()) else {
            return;
        };
        if origin != self.origin {
            let due = super::values::time_of(due);
            called(|| self.notifiers.notify(queue, due));
        }
    }
}

fn called(notify: impl FnOnce()) {
    if let Err(payload) = guarded(notify) {
        discard(payload);
    }
}

/// Begins to listen, unless the thread is there. Answers when the server has said so.
pub(super) fn ensure(shared: &Arc<Shared>) -> Result<()> {
    let mut is_listening = shared.hub.is_listening.lock();
    if *is_listening {
        return Ok(());
    }
    let ear = Ear {
        shared: Arc::downgrade(shared),
        channel: shared.hub.channel.clone(),
    };
    let connection = ear.connect(shared.sessions.connector())?;
    let options = ThreadOptions {
        name: Some("durable-listen"),
        ..ThreadOptions::default()
    };
    spawn_thread(options, move || ear.run(connection)).map_err(|error| no_thread(&error))?;
    *is_listening = true;
    Ok(())
}

/// The thread. It ends with the store, within [`PROBE_EVERY`].
struct Ear {
    shared: Weak<Shared>,
    channel: String,
}

/// Why a wait ended.
enum End {
    /// The session is lost.
    Lost,
    /// The store is dropped.
    Over,
}

/// Whatever ends the thread, the next watch starts another.
struct Ended(Weak<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            *shared.hub.is_listening.lock() = false;
        }
    }
}

impl Ear {
    fn connect(&self, connector: &Connector) -> Result<Connection> {
        let mut connection = connector.connect()?;
        // By hand: the client's own call takes a refusal for a yes.
        let mut subscribe = redis::cmd("SUBSCRIBE");
        let subscribed = subscribe
            .arg(&self.channel)
            .query::<Value>(&mut connection)
            .and_then(|_| connection.set_read_timeout(Some(PROBE_EVERY)));
        subscribed.map_err(|error| no_session(&error))?;
        Ok(connection)
    }

    fn run(self, mut connection: Connection) {
        let _ended = Ended(Weak::clone(&self.shared));
        loop {
            match self.listen(&mut connection) {
                End::Over => return,
                End::Lost => drop(connection),
            }
            let Some(next) = self.reconnect() else { return };
            connection = next;
            if let Some(shared) = self.shared.upgrade() {
                called(|| shared.hub.notifiers.notify_all(ANYTHING));
            }
        }
    }

    /// `None`: the store is dropped.
    fn reconnect(&self) -> Option<Connection> {
        let clock = SharedClock::default();
        let parker = Parker::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let shared = self.shared.upgrade()?;
            if let Ok(connection) = self.connect(shared.sessions.connector()) {
                return Some(connection);
            }
            drop(shared);
            clock.park_until(&parker, clock.now() + pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn listen(&self, connection: &mut Connection) -> End {
        let mut messages = connection.as_pubsub();
        loop {
            match messages.get_message() {
                Ok(message) => {
                    let Some(shared) = self.shared.upgrade() else {
                        return End::Over;
                    };
                    shared.hub.heard(Msg::get_payload_bytes(&message));
                }
                Err(error) if error.is_timeout() => {
                    if self.shared.strong_count() == 0 {
                        return End::Over;
                    }
                    let probed = messages
                        .set_read_timeout(Some(PROBE_ANSWER))
                        .and_then(|()| messages.ping::<Value>())
                        .and_then(|_| messages.set_read_timeout(Some(PROBE_EVERY)));
                    if probed.is_err() {
                        return End::Lost;
                    }
                }
                Err(_) => return End::Lost,
            }
        }
    }
}
