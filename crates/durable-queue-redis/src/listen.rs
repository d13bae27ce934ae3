//! The listening session on Redis, and the meaning of its messages.
//!
//! `durable_queue::internals` contains the listener; the scripts decide what to announce
//! (`lua/announce.lua`).

use std::time::Duration;

use durable_queue::StoreTime;
use durable_queue::internals::{Hub, Lost, Messages, Probe, Received, Server, Session};
use durable_queue::store::Result;
use redis::{Connection, Msg, PubSub, RedisResult, Value};

use crate::failure::no_session;
use crate::shared::Shared;

impl Server for Shared {
    type Session = Listens;

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn connect(&self) -> Result<Listens> {
        let mut connection = self.sessions.listen()?;
        // Sent manually: the client's own call ignores an error response.
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(&self.channel);
        let subscribed = subscribe.query::<Value>(&mut connection);
        subscribed.map_err(|error| no_session(&error))?;
        Ok(Listens(connection))
    }

    /// `DUE ORIGIN QUEUE`, as sent by `lua/announce.lua`.
    fn read(&self, message: &[u8]) -> Option<(String, StoreTime)> {
        let mut words = std::str::from_utf8(message).ok()?.splitn(3, ' ');
        let due = words.next()?.parse().ok()?;
        let (origin, queue) = (words.next()?, words.next()?);
        let is_anothers = origin != self.hub.origin();
        is_anothers.then(|| (queue.to_owned(), crate::values::time_of(due)))
    }
}

pub(crate) struct Listens(Connection);

impl Session for Listens {
    type Messages<'s> = Subscribed<'s>;

    fn messages(&mut self) -> Subscribed<'_> {
        Subscribed(self.0.as_pubsub())
    }
}

pub(crate) struct Subscribed<'s>(PubSub<'s>);

impl Messages for Subscribed<'_> {
    fn next(&mut self, limit: Duration) -> std::result::Result<Received, Lost> {
        let next = self
            .0
            .set_read_timeout(Some(limit))
            .and_then(|()| self.0.get_message());
        match next {
            Ok(message) => Ok(Received::Message(Msg::get_payload_bytes(&message).into())),
            Err(error) if error.is_timeout() => Ok(Received::Silence),
            Err(_) => Err(Lost),
        }
    }

    fn probe(&mut self, limit: Duration) -> std::result::Result<Probe, Lost> {
        let mut ping = || -> RedisResult<Value> {
            self.0.set_read_timeout(Some(limit))?;
            self.0.ping()
        };
        ping().map_err(|_| Lost)?;
        Ok(Probe::Answered)
    }
}
