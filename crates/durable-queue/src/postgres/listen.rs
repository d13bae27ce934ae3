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
use super::session::abandon;
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
    client: Client,
    channel: String,
    /// A channel of its own, to receive its own notifications.
    probe: String,
}

impl Server for Shared {
    type Session = Listens;

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn connect(&self) -> Result<Listens> {
        let mut listens = Listens {
            client: self.sessions.connector().client()?,
            channel: self.sessions.schema().channel(),
            probe: format!("durable_probe_{}", self.hub.origin()),
        };
        let Listens { channel, probe, .. } = &listens;
        let listen = format!("LISTEN \"{channel}\"; LISTEN \"{probe}\"");
        let listening = listens.client.batch_execute(&listen);
        listening.map_err(|error| no_session(&error))?;
        Ok(listens)
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
        abandon(self.client);
    }
}

impl Messages for &mut Listens {
    fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost> {
        let Listens { client, probe, .. } = &mut **self;
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
        // This has a limit, and the statement has none: a connection may be there and lead nowhere.
        self.client.is_valid(limit).map_err(|_| Lost)?;
        let notify = "SELECT pg_notify($1, '')";
        let notified = self.client.execute(notify, &[&self.probe]);
        notified.map_err(|_| Lost)?;
        Ok(Probe::Sent)
    }
}
