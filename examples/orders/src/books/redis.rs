//! A Redis server with the jobs and a hash of the orders and the texts of their e-mails.
//!
//! No transaction enters a job and changes an order. Instead, two steps are made in a fixed order, and
//! a job completes the second if the process is killed after the first:
//!
//! 1. A timeout is entered before its order. A timeout without an order makes it void, and the order is
//!    refused if it is created later: no order exists without a timeout.
//! 2. An order changes before its e-mail is entered, and its timeout is cancelled after that. A timeout
//!    that finds the order changed enters the e-mail again, which is written again with the same text.

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

/// Returns the order's new state, or nothing if there is no such order, and whether this call has
/// changed it. A timeout also changes a missing order.
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

    /// Reconnects first if the session was lost, for example by a restart of the server.
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
        let timeouts = &self.queues.timeouts;
        timeouts.push_keyed(&text, text.clone(), time_to_pay, Merge::Keep)?;
        let mut create = cmd("HSETNX");
        create.arg(ORDERS).arg(order).arg(OPEN);
        if self.with(|orders| create.query(orders))? {
            Ok(order)
        } else {
            Err("it took longer than there is time to pay".into())
        }
    }

    fn settle(&self, order: i64, change: &Change) -> Result<bool, Failure> {
        let is_timeout = !matches!(change, Change::Paid);
        let mut script = self.change.key(ORDERS);
        script
            .arg(order)
            .arg(change.text())
            .arg(u8::from(is_timeout));
        let (state, was_open): (Option<String>, bool) = self.with(|it| script.invoke(it))?;
        if let Some(state) = state.filter(|state| state != VOID)
            && (was_open || is_timeout)
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
