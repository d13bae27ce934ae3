//! The listening session on `PostgreSQL`, and the meaning of its notifications.
//!
//! `durable_queue::internals` contains the listener; the functions in `sql/enqueue.sql` decide whom to
//! notify.

use std::time::Duration;

use durable_queue::internals::{
    Hub, Lost, Messages, Probe, Received, Server, Session, SharedClock,
};
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError, StoreTime};
use sync_shim::{Clock as _, Mutex};

use super::Shared;
use super::driver::{Limit, Link};
use super::failure::no_session;
use super::session::Connector;

/// How a store learns of other processes' jobs.
#[derive(Debug)]
pub(super) enum Source {
    /// A session with the store's own address listens.
    Here,
    /// A session with another address listens.
    At(Box<Connector>),
    /// By claims in intervals.
    Polls(Duration),
}

/// Queues that are or were watched, by their ids in the database.
#[derive(Debug)]
pub(super) struct Queues(Mutex<Vec<(i64, String)>>);

impl Queues {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(super) fn add(&self, id: i64, queue: &str) {
        let mut queues = self.0.lock();
        if !queues.iter().any(|(known, _)| *known == id) {
            queues.push((id, queue.to_owned()));
        }
    }

    fn name(&self, id: i64) -> Option<String> {
        let queues = self.0.lock();
        let known = queues.iter().find(|(known, _)| *known == id);
        known.map(|(_, name)| name.clone())
    }
}

/// A session, and its channels.
pub(super) struct Listens {
    link: Link,
    /// Its own channel, to receive its own notifications.
    probe: String,
    clock: SharedClock,
}

/// Time limit for the server to confirm that the session listens.
const LISTEN_ANSWER: Duration = Duration::from_secs(15);

impl Server for Shared {
    type Session = Listens;

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn connect(&self) -> Result<Listens> {
        let direct = match &self.source {
            Source::At(connector) => Some(&**connector),
            _ => None,
        };
        let mut link = self.sessions.begin(direct)?;
        let channel = self.sessions.schema().channel();
        let probe = format!("durable_probe_{}", self.hub.origin());
        let listen = format!("LISTEN \"{channel}\"; LISTEN \"{probe}\"");
        let clock = self.sessions.clock().clone();
        let answer = link.call(Limit::until(clock.after(LISTEN_ANSWER)), async |client| {
            client.batch_execute(&listen).await
        });
        let answer = answer.ok_or(StoreError::new(ErrorKind::Unavailable))?;
        answer.map_err(|error| no_session(&error))?;
        self.floors.lower_all(); // It may have missed announcements.
        Ok(Listens { link, probe, clock })
    }

    /// `QUEUE DUE ORIGIN`, as sent by the function `notify`.
    fn read(&self, message: &[u8]) -> Option<(String, StoreTime)> {
        let mut words = std::str::from_utf8(message).ok()?.split(' ');
        let mut number = || words.next()?.parse::<i64>().ok();
        let (id, due) = (number()?, number()?);
        if words.next() == Some(self.hub.origin()) {
            return None;
        }
        let (queue, due) = (self.queues.name(id)?, StoreTime::from_micros(due));
        self.floors.lower(&queue, due);
        Some((queue, due))
    }
}

impl Session for Listens {
    type Messages<'s> = &'s mut Self;

    fn messages(&mut self) -> &mut Self {
        self
    }

    fn abandon(self) {
        self.link.cut();
    }
}

impl Messages for &mut Listens {
    fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost> {
        match self.link.next(limit) {
            Some(Ok(it)) if it.channel() == self.probe => Ok(Received::Answer),
            Some(Ok(it)) => Ok(Received::Message(it.payload().into())),
            Some(Err(_)) => Err(Lost),
            None if self.link.is_closed() => Err(Lost),
            None => Ok(Received::Silence),
        }
    }

    /// Notifies itself, because a pooler may have lost the subscription.
    fn probe(&mut self, limit: Duration) -> std::result::Result<Probe, Lost> {
        let Listens { link, probe, clock } = &mut **self;
        let notify = "SELECT pg_notify($1, '')";
        let answer = link.call(Limit::until(clock.after(limit)), async |client| {
            client.execute(notify, &[probe]).await
        });
        match answer {
            Some(Ok(_)) => Ok(Probe::Sent),
            _ => Err(Lost),
        }
    }
}
