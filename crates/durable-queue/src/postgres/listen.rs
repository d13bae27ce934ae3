//! The session that listens: what it is on a server of `PostgreSQL`, and what its notifications mean.
//!
//! Not for: what is done with them (`crate::listen`), nor for deciding who is notified: the functions of
//! the schema do (`sql/enqueue.sql`).

use std::time::Duration;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;
use sync_shim::Mutex;

use super::Shared;
use super::failure::no_session;
use super::session::{abandon, within};
use crate::listen::{Hub, Lost, Messages, Probe, Received, Server, Session};
use crate::store::Result;
use crate::time::StoreTime;

/// The queues that are watched, or were, by their numbers in the database.
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

/// A session, and what it listens to.
pub(super) struct Listens {
    /// Absent once a probe has lost it.
    client: Option<Client>,
    /// A channel of its own, to receive its own notifications.
    probe: String,
}

impl Server for Shared {
    type Session = Listens;

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn connect(&self) -> Result<Listens> {
        let (mut client, _) = self.sessions.connector().client()?;
        let channel = self.sessions.schema().channel();
        let probe = format!("durable_probe_{}", self.hub.origin());
        let listening = client.batch_execute(&format!("LISTEN \"{channel}\"; LISTEN \"{probe}\""));
        listening.map_err(|error| no_session(&error))?;
        let client = Some(client);
        Ok(Listens { client, probe })
    }

    /// `QUEUE DUE ORIGIN`, as the function `notify` writes it.
    fn read(&self, message: &[u8]) -> Option<(String, StoreTime)> {
        let mut words = std::str::from_utf8(message).ok()?.split(' ');
        let mut number = || words.next()?.parse::<i64>().ok();
        let (id, due) = (number()?, number()?);
        if words.next() == Some(self.hub.origin()) {
            return None;
        }
        Some((self.queues.name(id)?, StoreTime::from_micros(due)))
    }
}

impl Session for Listens {
    type Messages<'s> = &'s mut Self;

    fn messages(&mut self) -> &mut Self {
        self
    }

    fn abandon(self) {
        if let Some(client) = self.client {
            abandon(client);
        }
    }
}

impl Messages for &mut Listens {
    fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost> {
        let Listens { client, probe } = &mut **self;
        let client = client.as_mut().ok_or(Lost)?;
        let next = client.notifications().timeout_iter(limit).next();
        match next.map_err(|_| Lost)? {
            Some(it) if it.channel() == probe => Ok(Received::Answer),
            Some(it) => Ok(Received::Message(it.payload().into())),
            None if client.is_closed() => Err(Lost),
            None => Ok(Received::Silence),
        }
    }

    /// A notification to itself: a pooler may have forgotten who listens.
    fn probe(&mut self, limit: Duration) -> std::result::Result<Probe, Lost> {
        let mut client = self.client.take().ok_or(Lost)?;
        let probe = self.probe.clone();
        let answered = within(limit, move || {
            let notify = "SELECT pg_notify($1, '')";
            client.execute(notify, &[&probe]).map(|_| client)
        });
        self.client = answered.and_then(std::result::Result::ok);
        let is_there = self.client.is_some();
        is_there.then_some(Probe::Sent).ok_or(Lost)
    }
}
