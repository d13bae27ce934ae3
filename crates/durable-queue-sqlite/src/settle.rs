//! Settles.

use durable_queue::store::{Act, Keep, Result, Settle, Verdict};
use durable_queue::{StoreError, StoreTime};
use rusqlite::{Connection, params};

use super::groups::{Held, call_all};
use super::limits::call_parked;
use super::statements::{Repeated, execute, find, number};
use super::{Queue, sql};

/// Settles in order. Also returns whether a job that has waited can now be claimed.
pub(super) fn settle_all(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    settles: &[Settle<'_>],
) -> Result<(Vec<Verdict>, bool)> {
    let (mut calls, mut left) = (false, Vec::new());
    let mut verdicts = Vec::with_capacity(settles.len());
    let mut end = Repeated::new(connection, sql::DELETE_STARTED);
    for each in settles {
        let held = Held::find(connection, queue, each)?;
        let verdict = settle(connection, &mut end, now, queue.paused, each)?;
        if let Some(held) = held.filter(|_| verdict == Verdict::Done) {
            left.extend(held.leave(connection, queue, each)?);
        }
        if let Act::Again { when } = each.act
            && verdict == Verdict::Done
        {
            // A push during the run may have set an earlier time than the holder knows.
            let known = params![number(each.id), when.resolve(now).as_micros()];
            calls |= find(connection, sql::IS_DUE_BEFORE, known, |_| Ok(()))?.is_some();
        }
        verdicts.push(verdict);
    }
    if queue.has_limits && settles.iter().any(|each| each.act.ends_lease()) {
        calls |= call_parked(connection, now, queue)?;
    }
    calls |= call_all(connection, now, queue, left)?;
    Ok((verdicts, calls))
}

/// `end` is [`sql::DELETE_STARTED`].
fn settle(
    connection: &Connection,
    end: &mut Repeated<'_>,
    now: StoreTime,
    paused: bool,
    settle: &Settle<'_>,
) -> Result<Verdict> {
    let id = number(settle.id);
    let token = settle.token.as_bytes();
    let held = params![id, token];
    let is_held =
        || Ok::<_, StoreError>(find(connection, sql::IS_HELD, held, |_| Ok(()))?.is_some());
    // A marked job is not returned.
    let or_delete_marked = |returned: usize, unstarted: bool| match returned {
        0 => execute(
            connection,
            sql::DELETE_MARKED,
            params![id, token, unstarted],
        ),
        _ => Ok(returned),
    };
    let changed = match settle.act {
        Act::Start { .. } if paused => 0,
        Act::Start { lease } => {
            let until = now.after(lease).as_micros();
            execute(
                connection,
                sql::START,
                params![id, token, until, now.as_micros()],
            )?
        }
        Act::Extend { lease } => {
            let until = now.after(lease).as_micros();
            execute(connection, sql::EXTEND, params![id, token, until])?
        }
        Act::Ack => end.execute(held)?,
        Act::Keep(Keep { span, took, result }) => {
            let until = now.after(span).as_micros();
            let took = StoreTime::from_micros(0).after(took).as_micros();
            let kept = params![id, token, until, now.as_micros(), took, result];
            execute(connection, sql::KEEP, kept)?;
            end.execute(held)?
        }
        Act::Again { when } => {
            let [at, most] = [when.resolve(now), StoreTime::NEVER].map(StoreTime::as_micros);
            match execute(connection, sql::AGAIN, params![id, token, at, most])? {
                0 => end.execute(held)?,
                changed => changed,
            }
        }
        Act::Retry {
            when,
            failures,
            counts,
        } => {
            let at = when.resolve(now).as_micros();
            let retried = params![id, token, at, failures, !counts];
            or_delete_marked(execute(connection, sql::RETRY, retried)?, false)?
        }
        Act::Bury {
            error,
            failures,
            counts,
        } => {
            let buried = params![id, token, now.as_micros(), error, !counts, failures];
            execute(connection, sql::BURY, buried)?;
            end.execute(held)?
        }
        Act::Release => or_delete_marked(execute(connection, sql::RELEASE, held)?, true)?,
    };
    if changed != 0 {
        return Ok(Verdict::Done);
    }
    let is_early = matches!(settle.act, Act::Start { .. }) && is_held()?;
    Ok(if is_early {
        Verdict::NotDue
    } else {
        Verdict::Stale
    })
}
