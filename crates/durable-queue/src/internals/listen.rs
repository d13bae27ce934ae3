//! The thread of a store on a server that listens: what other processes announce reaches the notifiers.
//!
//! Not for: deciding who is notified, which the servers' scripts do; nor for what a session is and what
//! its messages mean, which each store's own `listen.rs` knows.
//!
//! # What always holds
//! 1. A watch begins only when the server has said that the session listens.
//! 2. When a session that was lost is replaced, every notifier is called with the beginning of time:
//!    anything may have been announced meanwhile.
//! 3. Notifiers are called with no lock held, and their panics end here.
//! 4. A session that is silent is probed, and one that leaves a probe unanswered is lost: a connection
//!    may be cut without a sign.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, spawn_thread};
use sync_shim::{Clock as _, Mutex, Parker};

use super::Own;
use crate::clock::SharedClock;
use crate::error::StoreError;
use crate::job::Token;
use crate::notify::{ANYTHING, Notifier, Notifiers, Registration};
use crate::pump::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::store::{Result, Watch};
use crate::time::StoreTime;

/// After so long a silence the session that listens is probed: a connection may be cut, or led through a
/// pooler that forgets who listens, without a sign.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);
/// A session that has no answer to a probe within this is lost.
pub const PROBE_ANSWER: Duration = Duration::from_secs(10);

/// A store on a server, as the listener sees it.
pub trait Server: Send + Sync + 'static {
    /// Its session that listens.
    type Session: Session;

    /// The notifiers of this store.
    fn hub(&self) -> &Hub;

    /// Begins a session that listens: the server has said so.
    ///
    /// # Errors
    /// What the server says.
    fn connect(&self) -> Result<Self::Session>;

    /// What a message announces. Anyone may write to a channel: what is not understood is nothing, and
    /// so is what this store has announced itself.
    fn read(&self, message: &[u8]) -> Option<(String, StoreTime)>;
}

/// A session that listens.
pub trait Session: Send + 'static {
    /// What it receives.
    type Messages<'s>: Messages
    where
        Self: 's;

    /// What the session receives from now on.
    fn messages(&mut self) -> Self::Messages<'_>;

    /// Leaves a session that is lost, without waiting for the server.
    fn abandon(self)
    where
        Self: Sized,
    {
    }
}

/// What a session receives.
pub trait Messages {
    /// Waits for the next message, up to `limit`.
    ///
    /// # Errors
    /// The session is lost.
    fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost>;

    /// Sends a probe, and waits up to `limit` if it has to.
    ///
    /// # Errors
    /// The session is lost.
    fn probe(&mut self, limit: Duration) -> std::result::Result<Probe, Lost>;
}

/// What came from the server.
#[derive(Debug)]
pub enum Received {
    /// An announcement, or the message of another program.
    Message(Vec<u8>),
    /// To a probe.
    Answer,
    /// Nothing until the limit.
    Silence,
}

/// How a probe went out: each store has its own way.
#[derive(Debug)]
pub enum Probe {
    /// The server has answered.
    Answered,
    /// The answer is [received](Received::Answer), perhaps after messages.
    Sent,
}

/// The session cannot be used any more.
#[derive(Debug)]
pub struct Lost;

/// When a session is probed, and by which clock the pauses between two tries to replace it pass.
#[derive(Clone, Debug)]
pub struct Timing {
    /// [`PROBE_EVERY`], outside of tests.
    pub probe_every: Duration,
    /// [`PROBE_ANSWER`], outside of tests.
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

/// The notifiers of this process, and what they need.
pub struct Hub {
    notifiers: Notifiers,
    /// Whether the thread is there.
    is_listening: Mutex<bool>,
    /// Names this store in what it announces: it has called its own notifiers already.
    origin: String,
    timing: Timing,
    /// The thread is that of the process that has started it.
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
    /// Without notifiers, and with no thread yet.
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

    /// The name of this store in what it announces.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Calls those of this process, from a call of its own.
    pub fn notify(&self, queue: &str, due: StoreTime) {
        self.notifiers.notify(queue, due);
    }
}

/// A watch that need not look: the listener calls its notifier, until it is dropped.
struct Listening(#[expect(dead_code, reason = "held for its Drop")] Registration);

impl Watch for Listening {
    fn every(&self) -> Option<Duration> {
        None
    }

    fn look(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// Adds a notifier, and starts the thread unless it is there. Answers when the server has said that the
/// session listens.
///
/// # Errors
/// In a forked child, if the server cannot be reached, and if no thread can be started.
pub fn watch<S: Server>(
    server: &Arc<S>,
    queue: &str,
    notifier: Notifier,
    no_thread: impl FnOnce(&std::io::Error) -> StoreError,
) -> Result<Box<dyn Watch>> {
    let hub = server.hub();
    hub.process.get()?; // Before any lock: the fork may have left it held.
    let watch = Listening(hub.notifiers.add(queue, notifier));
    let mut is_listening = hub.is_listening.lock();
    if !*is_listening {
        let session = server.connect()?;
        let listener = Listener(Arc::downgrade(server));
        let options = ThreadOptions {
            name: Some("durable-listen"),
            ..ThreadOptions::default()
        };
        spawn_thread(options, move || listener.run(session)).map_err(|error| no_thread(&error))?;
        *is_listening = true;
    }
    Ok(Box::new(watch))
}

/// The thread. It ends with the store: at its next message, or when it would probe.
struct Listener<S: Server>(Weak<S>);

/// Why a session is left.
enum End {
    /// It is lost.
    Lost,
    /// The store is dropped.
    Over,
}

/// Whatever ends the thread, the next watch starts another.
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

    /// `None`: the store is dropped.
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

    /// What the listener asks of the server. The test answers, as if so much time had passed.
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
        /// A listener that is not asked for any more is one whose store is dropped.
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

    /// A store that is watched, and both ends of what its listener asks.
    struct Watched {
        /// Dropped first: a listener that has no answer any more finds it gone, and ends.
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

        /// The listener asks this, and has that answer.
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
                // What comes before the answer is no answer, and is not lost.
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
