//! A server of Redis, in which the jobs are too: one hash of orders and what their e-mails say.
//!
//! It has no transaction that enters a job and changes an order. So each promise of two things is kept
//! by the order in which they are done, and by a job that makes up for the second if the process is
//! killed after the first:
//!
//! 1. A time-out is entered before its order. One that finds no order makes it void, and an order that
//!    comes after that is refused: none is there without a time-out.
//! 2. An order changes before its e-mail is entered, and its time-out is cancelled after that. A
//!    time-out that finds the order changed enters the e-mail once more, which is written once more with
//!    the same text.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use durable_queue::{Merge, When};
use durable_queue_redis::RedisStore;
use durable_queue_redis::redis::{Client, Connection, FromRedisValue, Script, cmd};

use super::{Books, Change, Queues};
use crate::shop::Failure;

const ORDERS: &str = "orders";
const NUMBERS: &str = "orders:numbers";
const OPEN: &str = "open";
const VOID: &str = "void";

/// What the order's state is after it, or nothing if there is no such order, and whether this has changed
/// it: from open, or, for a time-out, from nothing.
const CHANGE: &str = "
    local state = redis.call('HGET', KEYS[1], ARGV[1])
    if state == 'open' then
        redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
        return {ARGV[2], 1}
    elseif not state and ARGV[3] == '1' then
        redis.call('HSET', KEYS[1], ARGV[1], 'void')
        return {'void', 0}
    end
    return {state, 0}";

pub(crate) struct Redis {
    queues: Queues<RedisStore>,
    client: Client,
    /// The shop's own session.
    orders: Mutex<Connection>,
    change: Script,
}

impl Redis {
    pub(crate) fn open(address: &str) -> Result<Self, Failure> {
        let client = Client::open(address)?;
        Ok(Self {
            queues: Queues::new(RedisStore::open(address)?),
            orders: Mutex::new(client.get_connection()?),
            client,
            change: Script::new(CHANGE),
        })
    }

    /// On a session that is there: a server may have been started anew.
    fn with<R: FromRedisValue>(
        &self,
        call: impl FnOnce(&mut Connection) -> durable_queue_redis::redis::RedisResult<R>,
    ) -> Result<R, Failure> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = call(&mut orders);
        if answer.is_err() {
            *orders = self.client.get_connection()?;
        }
        Ok(answer?)
    }
}

impl Books for Redis {
    type Store = RedisStore;

    fn queues(&self) -> &Queues<RedisStore> {
        &self.queues
    }

    fn order(&self, time_to_pay: Duration) -> Result<i64, Failure> {
        let order: i64 = self.with(|orders| cmd("INCR").arg(NUMBERS).query(orders))?;
        let text = order.to_string();
        let time_outs = &self.queues.time_outs;
        time_outs.push_keyed(&text, text.clone(), time_to_pay, Merge::Keep)?;
        let mut create = cmd("HSETNX");
        create.arg(ORDERS).arg(order).arg(OPEN);
        if self.with(|orders| create.query(orders))? {
            Ok(order)
        } else {
            Err("it took longer than there is time to pay".into())
        }
    }

    fn settle(&self, order: i64, change: &Change) -> Result<bool, Failure> {
        let is_time_out = !matches!(change, Change::Paid);
        let mut script = self.change.key(ORDERS);
        script
            .arg(order)
            .arg(change.text())
            .arg(u8::from(is_time_out));
        let (state, was_open): (Option<String>, bool) = self.with(|it| script.invoke(it))?;
        if let Some(state) = state.filter(|state| state != VOID)
            && (was_open || is_time_out)
        {
            let mail = format!("{order} {state}");
            let mails = &self.queues.mails;
            mails.push_keyed(order.to_string(), mail, When::NOW, Merge::Keep)?;
        }
        Ok(was_open)
    }

    fn state(&self, order: i64) -> Result<Option<String>, Failure> {
        let mut get = cmd("HGET");
        get.arg(ORDERS).arg(order);
        let state: Option<String> = self.with(|orders| get.query(orders))?;
        Ok(state.and_then(|state| state.split(' ').next().map(str::to_owned)))
    }
}
