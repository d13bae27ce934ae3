//! The session that listens: what other processes announce reaches the notifiers.
//!
//! Not for: deciding who is notified. The functions of the schema do (`sql/enqueue.sql`).
//!
//! # What always holds
//! 1. A watch begins only when the server has said that the session listens.
//! 2. When a session that was lost is replaced, every notifier is called with the beginning of time:
//!    anything may have been announced meanwhile.
//! 3. Notifiers are called with no lock held, and their panics end here.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::{Client, Notification};
use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, spawn_thread};
use sync_shim::{Clock as _, Mutex, Parker};

use super::failure::{no_session, no_thread};
use super::session::Sessions;
use super::{ANYTHING, Shared};
use crate::clock::SharedClock;
use crate::job::Token;
use crate::notify::{Notifier, Notifiers, Registration};
use crate::pump::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::store::Result;
use crate::time::StoreTime;

/// After so long a silence the session sends a notification to itself: a connection may be cut, or led
/// through a pooler that forgets who listens, without a sign.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);
/// A session that does not hear itself within this is lost.
pub const PROBE_ANSWER: Duration = Duration::from_secs(10);

/// Who is called about what, in this process.
pub(super) struct Hub {
    notifiers: Notifiers,
    /// The queues that are watched, or were, by their numbers in the database.
    queues: Mutex<Vec<(i64, String)>>,
    /// Whether the thread is there.
    is_listening: Mutex<bool>,
    /// Names this store in its notifications: it has called its own notifiers already.
    origin: String,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Hub {
    pub(super) fn new() -> Self {
        let origin = u128::from_le_bytes(*Token::random().as_bytes());
        Self {
            notifiers: Notifiers::new(),
            queues: Mutex::new(Vec::new()),
            is_listening: Mutex::new(false),
            origin: format!("{origin:032x}"),
        }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    pub(super) fn add(&self, queue: &str, notifier: Notifier) -> Registration {
        self.notifiers.add(queue, notifier)
    }

    pub(super) fn knows(&self, id: i64, queue: &str) {
        let mut queues = self.queues.lock();
        if !queues.iter().any(|(known, _)| *known == id) {
            queues.push((id, queue.to_owned()));
        }
    }

    pub(super) fn notify(&self, queue: &str, due: StoreTime) {
        self.notifiers.notify(queue, due);
    }

    fn notify_all(&self) {
        let queues: Vec<String> = self
            .queues
            .lock()
            .iter()
            .map(|(_, name)| name.clone())
            .collect();
        for queue in queues {
            self.called(&queue, ANYTHING);
        }
    }

    fn called(&self, queue: &str, due: StoreTime) {
        if let Err(payload) = guarded(|| self.notifiers.notify(queue, due)) {
            discard(payload);
        }
    }

    /// `QUEUE DUE ORIGIN`, as the function `tell` writes it. Anyone may write to the channel: what is
    /// not understood is nothing.
    fn heard(&self, payload: &str) {
        let mut words = payload.split(' ');
        let mut number = || words.next()?.parse::<i64>().ok();
        let (Some(id), Some(due)) = (number(), number()) else {
            return;
        };
        if words.next() == Some(&self.origin) {
            return;
        }
        let queue = {
            let queues = self.queues.lock();
            let known = queues.iter().find(|(known, _)| *known == id);
            known.map(|(_, name)| name.clone())
        };
        if let Some(queue) = queue {
            self.called(&queue, StoreTime::from_micros(due));
        }
    }
}

/// Begins to listen, unless the thread is there. Answers when the server has said so.
pub(super) fn ensure(shared: &Arc<Shared>) -> Result<()> {
    let mut is_listening = shared.hub.is_listening.lock();
    if *is_listening {
        return Ok(());
    }
    let mut ear = Ear::new(shared);
    let client = ear.connect(&shared.sessions)?;
    let options = ThreadOptions {
        name: Some("durable-listen"),
        ..ThreadOptions::default()
    };
    spawn_thread(options, move || ear.run(client)).map_err(|error| no_thread(&error))?;
    *is_listening = true;
    Ok(())
}

/// The thread. It ends with the store, within [`PROBE_EVERY`].
struct Ear {
    shared: Weak<Shared>,
    channel: String,
    /// A channel of its own, to hear itself.
    probe: String,
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
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::downgrade(shared),
            channel: shared.sessions.schema().channel(),
            probe: format!("durable_probe_{}", shared.hub.origin),
        }
    }

    fn connect(&mut self, sessions: &Sessions) -> Result<Client> {
        let mut client = sessions.connector().client()?;
        let listen = format!("LISTEN \"{}\"; LISTEN \"{}\"", self.channel, self.probe);
        client
            .batch_execute(&listen)
            .map_err(|error| no_session(&error))?;
        Ok(client)
    }

    fn run(mut self, mut client: Client) {
        let _ended = Ended(Weak::clone(&self.shared));
        loop {
            match self.listen(&mut client) {
                End::Over => return,
                End::Lost => drop(client),
            }
            let Some(next) = self.reconnect() else { return };
            client = next;
            if let Some(shared) = self.shared.upgrade() {
                shared.hub.notify_all();
            }
        }
    }

    /// `None`: the store is dropped.
    fn reconnect(&mut self) -> Option<Client> {
        let clock = SharedClock::default();
        let parker = Parker::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let shared = self.shared.upgrade()?;
            if let Ok(client) = self.connect(&shared.sessions) {
                return Some(client);
            }
            drop(shared);
            clock.park_until(&parker, clock.now() + pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn listen(&self, client: &mut Client) -> End {
        loop {
            let heard = client.notifications().timeout_iter(PROBE_EVERY).next();
            match heard {
                Ok(Some(notification)) => {
                    let Some(shared) = self.shared.upgrade() else {
                        return End::Over;
                    };
                    self.heard(&shared, &notification);
                }
                Ok(None) if self.shared.strong_count() == 0 => return End::Over,
                Ok(None) if !client.is_closed() && self.is_heard(client) => {}
                Ok(None) | Err(_) => return End::Lost,
            }
        }
    }

    fn heard(&self, shared: &Shared, notification: &Notification) {
        if notification.channel() == self.channel {
            shared.hub.heard(notification.payload());
        }
    }

    /// Whether a notification to oneself comes back.
    fn is_heard(&self, client: &mut Client) -> bool {
        // The first has a limit: a connection may be there and lead nowhere.
        let is_there = client.is_valid(PROBE_ANSWER).is_ok();
        let notify = "SELECT pg_notify($1, '')";
        if !is_there || client.execute(notify, &[&self.probe]).is_err() {
            return false;
        }
        loop {
            match client.notifications().timeout_iter(PROBE_ANSWER).next() {
                Ok(Some(notification)) if notification.channel() == self.probe => return true,
                Ok(Some(notification)) => {
                    if let Some(shared) = self.shared.upgrade() {
                        self.heard(&shared, &notification);
                    }
                }
                Ok(None) | Err(_) => return false,
            }
        }
    }
}
