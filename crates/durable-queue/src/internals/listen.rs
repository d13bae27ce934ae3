//! The listener: a thread that receives announcements of other processes from a server and calls the
//! notifiers.
//!
//! The servers' scripts decide which queues to announce. Sessions and message formats are in each store's own
//! `listen.rs`.
//!
//! # Invariants
//! 1. A watch begins only after the server has confirmed that the session listens.
//! 2. When a lost session is replaced, all notifiers are called with [`ANYTHING`], because announcements may
//!    have been missed.
//! 3. Notifiers are called with no lock held, and their panics end here.
//! 4. A silent session is probed, and replaced if it does not answer, because a connection may be cut without
//!    a sign.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, spawn_service};
use sync_shim::{Clock as _, Mutex, Parker};

use super::Own;
use crate::engine::pump::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::error::StoreError;
use crate::store::job::Token;
use crate::store::notify::{ANYTHING, Notifier, Notifiers, Registration};
use crate::store::time::StoreTime;
use crate::store::{Result, Watch};
use crate::threads::clock::SharedClock;

/// Time of silence after which the listening session is probed. A connection may be cut, or lead through a
/// pooler that loses subscriptions, without a sign.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);
/// Time limit of the answer to a probe. After it, the session is lost.
pub const PROBE_ANSWER: Duration = Duration::from_secs(10);

/// The server of a store, as the listener sees it.
pub trait Server: Send + Sync + 'static {
    /// A session that listens.
    type Session: Session;

    /// Returns the notifiers of this store.
    fn hub(&self) -> &Hub;

    /// Starts a session that listens. Returns after the server has confirmed it.
    ///
    /// # Errors
    /// The server's error.
    fn connect(&self) -> Result<Self::Session>;

    /// Parses a message into a queue and a due time. Any client may write to a channel, so unknown messages
    /// give `None`. So do this store's own announcements.
    fn read(&self, message: &[u8]) -> Option<(String, StoreTime)>;
}

/// A session that listens.
pub trait Session: Send + 'static {
    /// The received messages.
    type Messages<'s>: Messages
    where
        Self: 's;

    /// Returns the messages that the session receives from now on.
    fn messages(&mut self) -> Self::Messages<'_>;

    /// Abandons a lost session without waiting for the server.
    fn abandon(self)
    where
        Self: Sized,
    {
    }
}

/// Messages that a session receives.
pub trait Messages {
    /// Waits for the next message, up to `limit`.
    ///
    /// # Errors
    /// The session is lost.
    fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost>;

    /// Sends a probe, and waits up to `limit` if necessary.
    ///
    /// # Errors
    /// The session is lost.
    fn probe(&mut self, limit: Duration) -> std::result::Result<Probe, Lost>;
}

/// A message from the server.
#[derive(Debug)]
pub enum Received {
    /// An announcement, or another program's message.
    Message(Vec<u8>),
    /// The answer to a probe.
    Answer,
    /// No message until the limit.
    Silence,
}

/// Result of sending a probe, which depends on the store.
#[derive(Debug)]
pub enum Probe {
    /// The server has answered.
    Answered,
    /// The answer will be [received](Received::Answer), perhaps after other messages.
    Sent,
}

/// The session is lost.
#[derive(Debug)]
pub struct Lost;

/// Times of probes, and the clock of the pauses between reconnects.
#[derive(Clone, Debug)]
pub struct Timing {
    /// [`PROBE_EVERY`], except in tests.
    pub probe_every: Duration,
    /// [`PROBE_ANSWER`], except in tests.
    pub probe_answer: Duration,
    /// The clock of the pauses.
    pub clock: SharedClock,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            probe_every: PROBE_EVERY,
            probe_answer: PROBE_ANSWER,
            clock: SharedClock::default(),
        }
    }
}

/// The notifiers of this process, and the listener's state.
pub struct Hub {
    notifiers: Notifiers,
    /// Whether the thread is running.
    is_listening: Mutex<bool>,
    /// Identifies this store in its announcements, because it has already called its own notifiers.
    origin: String,
    timing: Timing,
    /// The process that has started the thread.
    process: Own<()>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// Creates a hub without notifiers and without a thread.
    pub fn new(timing: Timing) -> Self {
        let origin = u128::from_le_bytes(*Token::random().as_bytes());
        Self {
            notifiers: Notifiers::new(),
            is_listening: Mutex::new(false),
            origin: format!("{origin:032x}"),
            timing,
            process: Own::new(()),
        }
    }

    /// Returns this store's identifier in announcements.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Calls the notifiers of this process, after a call of its own.
    pub fn notify(&self, queue: &str, due: StoreTime) {
        self.notifiers.notify(queue, due);
    }
}

/// A watch that need not be polled: the listener calls its notifier.
struct Listening(#[expect(dead_code, reason = "held for its Drop")] Registration);

impl Watch for Listening {
    fn every(&self) -> Option<Duration> {
        None
    }

    fn look(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// A watch on a server whose announcements this process cannot receive.
struct Polling {
    _registration: Registration,
    every: Duration,
}

impl Watch for Polling {
    fn every(&self) -> Option<Duration> {
        Some(self.every)
    }

    /// There may be a change: a search for one would cost as much as the claim that follows.
    fn look(&mut self) -> Result<bool> {
        Ok(true)
    }
}

/// Adds a notifier that is called only after calls of this process. The changes of other processes are found
/// by claims in intervals of `every`.
///
/// # Errors
/// In a forked child.
pub fn poll(hub: &Hub, queue: &str, notifier: Notifier, every: Duration) -> Result<Box<dyn Watch>> {
    hub.process.get()?; // Before any lock, which the fork may have left held.
    Ok(Box::new(Polling {
        _registration: hub.notifiers.add(queue, notifier),
        every,
    }))
}

/// Adds a notifier, and starts the thread if necessary. Returns when the server has confirmed that the
/// session listens.
///
/// # Errors
/// In a forked child, if the server cannot be reached, or if no thread can be started.
pub fn watch<S: Server>(
    server: &Arc<S>,
    queue: &str,
    notifier: Notifier,
    no_thread: impl FnOnce(&std::io::Error) -> StoreError,
) -> Result<Box<dyn Watch>> {
    let hub = server.hub();
    hub.process.get()?; // Before any lock, which the fork may have left held.
    let watch = Listening(hub.notifiers.add(queue, notifier));
    let mut is_listening = hub.is_listening.lock();
    if !*is_listening {
        let session = server.connect()?;
        let listener = Listener(Arc::downgrade(server));
        let options = ThreadOptions {
            name: Some("durable-listen"),
            ..ThreadOptions::default()
        };
        spawn_service(options, move || listener.run(session)).map_err(|error| no_thread(&error))?;
        *is_listening = true;
    }
    Ok(Box::new(watch))
}

/// The thread's body. It ends after the store is dropped, at its next message or probe.
struct Listener<S: Server>(Weak<S>);

/// Why the listener leaves a session.
enum End {
    /// The session is lost.
    Lost,
    /// The store was dropped.
    Over,
}

/// Lets the next watch start another thread, also if this one panics.
struct Ended<S: Server>(Weak<S>);

impl<S: Server> Drop for Ended<S> {
    fn drop(&mut self) {
        if let Some(server) = self.0.upgrade() {
            *server.hub().is_listening.lock() = false;
        }
    }
}

impl<S: Server> Listener<S> {
    fn run(self, mut session: S::Session) {
        let _ended = Ended(Weak::clone(&self.0));
        loop {
            let end = self.listen(&mut session.messages());
            match end {
                End::Over => return,
                End::Lost => session.abandon(),
            }
            let Some(next) = self.reconnect() else { return };
            session = next;
            if let Some(server) = self.0.upgrade() {
                called(|| server.hub().notifiers.notify_all(ANYTHING));
            }
        }
    }

    /// Returns `None` if the store was dropped.
    fn reconnect(&self) -> Option<S::Session> {
        let parker = Parker::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let server = self.0.upgrade()?;
            if let Ok(session) = server.connect() {
                return Some(session);
            }
            let clock = server.hub().timing.clock.clone();
            drop(server);
            clock.park_until(&parker, clock.now() + pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn listen(&self, messages: &mut impl Messages) -> End {
        let Some(server) = self.0.upgrade() else {
            return End::Over;
        };
        let Timing {
            probe_every,
            probe_answer,
            ..
        } = server.hub().timing;
        drop(server);
        let mut is_probed = false;
        loop {
            let limit = if is_probed { probe_answer } else { probe_every };
            match messages.next(limit) {
                Ok(Received::Message(message)) => {
                    let Some(server) = self.0.upgrade() else {
                        return End::Over;
                    };
                    if let Some((queue, due)) = server.read(&message) {
                        called(|| server.hub().notifiers.notify(&queue, due));
                    }
                }
                Ok(Received::Answer) => is_probed = false,
                Ok(Received::Silence) if self.0.strong_count() == 0 => return End::Over,
                Ok(Received::Silence) if is_probed => return End::Lost,
                Ok(Received::Silence) => match messages.probe(probe_answer) {
                    Ok(Probe::Answered) => {}
                    Ok(Probe::Sent) => is_probed = true,
                    Err(Lost) => return End::Lost,
                },
                Err(Lost) => return End::Lost,
            }
        }
    }
}

fn called(notify: impl FnOnce()) {
    // USER CODE: notifiers. A panic ends here, or it would end the thread that listens.
    if let Err(payload) = guarded(notify) {
        discard(payload);
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use sync_shim::ManualClock;

    use super::*;
    use crate::error::ErrorKind;

    /// A request of the listener to the server. The test answers as if the time had passed.
    #[derive(Debug, PartialEq)]
    enum Asked {
        Connect,
        Next(Duration),
        Probe(Duration),
    }

    enum Answer {
        Yes,
        No,
        Message(&'static str),
        ToProbe,
    }

    struct Script {
        asks: Sender<Asked>,
        answers: Mutex<Receiver<Answer>>,
    }

    impl Script {
        /// If the test is gone, so is the store.
        fn ask(&self, asked: Asked) -> Answer {
            self.asks.send(asked).ok();
            self.answers.lock().recv().unwrap_or(Answer::No)
        }
    }

    struct Fake {
        hub: Hub,
        script: Arc<Script>,
    }

    impl Server for Fake {
        type Session = Arc<Script>;

        fn hub(&self) -> &Hub {
            &self.hub
        }

        fn connect(&self) -> Result<Arc<Script>> {
            match self.script.ask(Asked::Connect) {
                Answer::Yes => Ok(Arc::clone(&self.script)),
                _ => Err(StoreError::new(ErrorKind::Unavailable)),
            }
        }

        fn read(&self, message: &[u8]) -> Option<(String, StoreTime)> {
            let micros = std::str::from_utf8(message).ok()?.parse().ok()?;
            Some(("queue".to_owned(), StoreTime::from_micros(micros)))
        }
    }

    impl Session for Arc<Script> {
        type Messages<'s> = &'s Script;

        fn messages(&mut self) -> &Script {
            self
        }
    }

    impl Messages for &Script {
        fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost> {
            match self.ask(Asked::Next(limit)) {
                Answer::Message(text) => Ok(Received::Message(text.into())),
                Answer::ToProbe => Ok(Received::Answer),
                Answer::Yes => Ok(Received::Silence),
                Answer::No => Err(Lost),
            }
        }

        fn probe(&mut self, limit: Duration) -> std::result::Result<Probe, Lost> {
            match self.ask(Asked::Probe(limit)) {
                Answer::ToProbe => Ok(Probe::Answered),
                Answer::Yes => Ok(Probe::Sent),
                _ => Err(Lost),
            }
        }
    }

    /// A watched store, and both ends of its listener's requests.
    struct Watched {
        /// Dropped first, so that a listener without an answer finds it gone and ends.
        _server: Arc<Fake>,
        _watch: Box<dyn Watch>,
        clock: ManualClock,
        asked: Receiver<Asked>,
        answers: Sender<Answer>,
        times: Receiver<StoreTime>,
    }

    impl Watched {
        fn new() -> Self {
            let clock = ManualClock::new();
            let ((asks, asked), (answers, script)) = (channel(), channel());
            let (sender, times) = channel();
            let server = Arc::new(Fake {
                hub: Hub::new(Timing {
                    clock: SharedClock::new(clock.clone()),
                    ..Timing::default()
                }),
                script: Arc::new(Script {
                    asks,
                    answers: Mutex::new(script),
                }),
            });
            answers.send(Answer::Yes).expect("the script takes it");
            let notifier = Notifier::new(move |due| _ = sender.send(due));
            let watch = watch(&server, "queue", notifier, |_| {
                StoreError::new(ErrorKind::Other)
            });
            let watched = Self {
                _watch: watch.expect("there are threads"),
                _server: server,
                clock,
                asked,
                answers,
                times,
            };
            assert_eq!(watched.asked(), Asked::Connect);
            watched
        }

        fn asked(&self) -> Asked {
            self.asked.recv().expect("it goes on")
        }

        /// Checks the listener's next request, and answers it.
        #[track_caller]
        fn expect(&self, asked: &Asked, answer: Answer) {
            assert_eq!(self.asked(), *asked);
            self.answers.send(answer).expect("it waits");
        }
    }

    fn watchdog(test: impl FnOnce(&Watched)) {
        testkit::watchdog(testkit::LIMIT, || test(&Watched::new()));
    }

    const SILENCE: Answer = Answer::Yes;
    const WAIT: Asked = Asked::Next(PROBE_EVERY);
    const WAIT_FOR_ANSWER: Asked = Asked::Next(PROBE_ANSWER);
    const PROBE: Asked = Asked::Probe(PROBE_ANSWER);

    #[test]
    fn a_session_that_is_silent_is_probed_and_kept_if_it_answers() {
        watchdog(|watched| {
            for _ in 0..3 {
                watched.expect(&WAIT, SILENCE);
                watched.expect(&PROBE, Answer::Yes);
                // A message that comes before the answer is not lost.
                watched.expect(&WAIT_FOR_ANSWER, Answer::Message("7"));
                assert_eq!(watched.times.recv(), Ok(StoreTime::from_micros(7)));
                watched.expect(&WAIT_FOR_ANSWER, Answer::ToProbe);
                watched.expect(&WAIT, SILENCE);
                watched.expect(&PROBE, Answer::ToProbe);
            }
            watched.expect(&WAIT, Answer::Message("8"));
            assert_eq!(watched.times.recv(), Ok(StoreTime::from_micros(8)));
        });
    }

    #[test]
    fn a_session_that_does_not_answer_a_probe_is_replaced_and_all_notifiers_are_called() {
        watchdog(|watched| {
            for was_sent in [true, false] {
                watched.expect(&WAIT, SILENCE);
                if was_sent {
                    watched.expect(&PROBE, Answer::Yes);
                    watched.expect(&WAIT_FOR_ANSWER, SILENCE);
                } else {
                    watched.expect(&PROBE, Answer::No);
                }
                watched.expect(&Asked::Connect, Answer::Yes);
                assert_eq!(watched.times.recv(), Ok(ANYTHING));
            }
        });
    }

    #[test]
    fn a_server_that_is_gone_is_tried_again_after_pauses_that_grow() {
        watchdog(|watched| {
            watched.expect(&WAIT, Answer::No);
            let mut pause = FIRST_PAUSE;
            for _ in 0..10 {
                watched.expect(&Asked::Connect, Answer::No);
                watched.clock.wait_for_sleepers(1);
                let due = watched.clock.now() + pause;
                assert_eq!(watched.clock.next_due(), Some(due));
                watched.clock.advance(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            watched.expect(&Asked::Connect, Answer::Yes);
            assert_eq!(watched.times.recv(), Ok(ANYTHING));
            assert_eq!(watched.asked(), WAIT);
        });
    }
}
