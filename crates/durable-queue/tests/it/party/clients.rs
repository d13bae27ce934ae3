//! The parties that push, cancel, reset, pause and redrive.

use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use durable_queue::store::JobState;
use durable_queue::{Cancelled, CarriedOut, Put, StoreError, When};
use durable_queue_testing::Fault;

use super::program::{Fate, Op, Policy, Program};
use super::world::{DOUBLED, LAST, Queue, World, lineage};

/// How often to check whether a job is claimed.
const LOOKS: u32 = 100;

impl World {
    /// Returns a time `delay` from now, at which jobs of the lineage may be due.
    pub(super) fn at(&self, lineage: &str, delay: Duration) -> When {
        let at = self.ledger.now().after(delay);
        self.ledger.may_be_due(lineage, at);
        When::At(at)
    }

    /// Returns a job's number and its payload.
    fn job(&self, lineage: &str, fate: Fate) -> (u64, String, String) {
        let number = self.numbers.fetch_add(1, SeqCst) + 1;
        let lineage = if lineage.is_empty() {
            format!("n{number}")
        } else {
            lineage.to_owned()
        };
        self.ledger.push(number, &lineage);
        let payload = format!("{number} {lineage} {}", fate.name());
        (number, lineage, payload)
    }

    pub(super) fn put_in(&self, program: Program) {
        let queues = self.parties.iter().map(|(_, queue)| queue);
        for (op, queue) in program.0.into_iter().zip(queues.cycle()) {
            self.carry_out(op, queue);
        }
        // Retried, because a call may be lost, and the pause must end.
        while self.parties[0].1.pause(false).is_err() {}
    }

    fn carry_out(&self, op: Op, queue: &Queue) {
        let ledger = &self.ledger;
        match op {
            Op::Push {
                delay,
                urgent,
                fate,
            } => self.push(queue, delay, urgent, fate),
            Op::Batch { delays, fate } => self.push_batch(queue, delays, fate),
            Op::Keyed {
                key,
                delay,
                merge,
                fate,
            } => self.push_keyed(queue, &lineage('k', key), delay, merge, fate),
            Op::Repeating(key) => self.repeat(&lineage('r', key), queue),
            Op::CancelKey(key) => {
                let key = lineage('k', key);
                let cancelled = queue.cancel(&*key);
                ledger.may_be_marked(&key, self.numbers.load(SeqCst));
                if LAST.get() == Fault::Twice {
                    ledger.perhaps_gone(&key); // The answer may be about another job.
                }
                match cancelled {
                    Ok(Cancelled::Gone { payload, attempts }) => {
                        let number = payload.split(' ').next().unwrap().parse().unwrap();
                        ledger.number_is_gone(number, attempts);
                    }
                    Ok(_) => {}
                    Err(_) => ledger.perhaps_gone(&key),
                }
            }
            Op::CancelSome(number) => {
                let Some((id, lineage)) = ledger.one_of(number) else {
                    return;
                };
                ledger.may_not_repeat(&lineage);
                match queue.cancel(id) {
                    Ok(Cancelled::Gone { attempts, .. }) => ledger.gone(id, attempts),
                    Ok(Cancelled::Taken) => ledger.perhaps_over(id),
                    Ok(_) if LAST.get() != Fault::Twice => {}
                    Ok(_) | Err(_) => ledger.perhaps_gone(&lineage),
                }
            }
            Op::ResetKey(key, delay) => {
                let key = lineage('k', key);
                queue.reset(&*key, self.at(&key, delay)).ok();
            }
            Op::ResetSome(number, delay) => {
                if let Some((id, lineage)) = ledger.one_of(number) {
                    queue.reset(id, self.at(&lineage, delay)).ok();
                }
            }
            Op::Pause => _ = queue.pause(true),
            Op::Resume => _ = queue.pause(false),
            Op::Redrive => _ = queue.redrive(&ledger.redrives()),
            Op::Wait(span) => self.wait(ledger.now().after(span), || false),
            Op::WaitForClaim => {
                for _ in 0..LOOKS {
                    let listed = queue.list(None, 100).unwrap_or_default();
                    if listed.iter().any(|job| job.state == JobState::Claimed) {
                        break;
                    }
                    thread::yield_now();
                }
            }
            Op::Close => self.parties.last().unwrap().1.close(),
        }
    }

    fn push(&self, queue: &Queue, delay: Duration, urgent: bool, fate: Fate) {
        let ledger = &self.ledger;
        let (number, lineage, payload) = self.job("", fate);
        let (queue, when) = if urgent {
            (queue.urgent(), self.at(&lineage, delay))
        } else {
            ledger.may_be_due_from(&lineage, ledger.now().after(delay));
            (queue.clone(), When::After(delay))
        };
        match queue.push(payload, when) {
            Ok(id) => ledger.pushed(number, Put::New(id)),
            Err(refused) => self.refused(number, &refused.error),
        }
    }

    fn push_batch(&self, queue: &Queue, delays: Vec<Duration>, fate: Fate) {
        let ledger = &self.ledger;
        let jobs: Vec<_> = delays
            .into_iter()
            .map(|delay| {
                let (number, lineage, payload) = self.job("", fate);
                (number, (payload, self.at(&lineage, delay)))
            })
            .collect();
        let (numbers, values): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        match queue.push_batch(values) {
            Ok(ids) => {
                for (number, id) in numbers.into_iter().zip(ids) {
                    ledger.pushed(number, Put::New(id));
                }
            }
            Err(refused) => {
                for number in numbers {
                    self.refused(number, &refused.error);
                }
            }
        }
    }

    fn push_keyed(&self, queue: &Queue, key: &str, delay: Duration, merge: Policy, fate: Fate) {
        let ledger = &self.ledger;
        let _in_order = self.keys.lock().unwrap();
        let (number, _, payload) = self.job(key, fate);
        let merge = merge.merge(|most| {
            let most = ledger.now().after(most);
            ledger.may_be_due(key, most);
            most
        });
        let when = self.at(key, delay);
        match queue.group(key).push_keyed(key, payload, when, merge) {
            Ok(put) => ledger.pushed(number, put),
            Err(refused) => self.refused(number, &refused.error),
        }
    }

    fn refused(&self, number: u64, error: &StoreError) {
        if error.carried_out() == CarriedOut::No {
            self.ledger.refused(number);
        }
    }

    #[cfg(feature = "cron")]
    fn repeat(&self, key: &str, queue: &Queue) {
        let each_second = "* * * * * *".parse().unwrap();
        let (number, _, payload) = self.job(key, Fate::Ack);
        self.ledger.may_be_due_from(key, self.ledger.now());
        let doubled = DOUBLED.get();
        match queue.group(key).push_repeating(key, &each_second, payload) {
            Ok(put) => {
                self.ledger.pushed(number, put);
                self.ledger.repeats_from_now(key);
            }
            // The second response may say that the time had passed and no job was changed. Then the queue pushes
            // again, and the error is of that call, although the first one has created the job.
            Err(_) if DOUBLED.get() > doubled => {}
            Err(refused) => self.refused(number, &refused.error),
        }
    }

    #[cfg(not(feature = "cron"))]
    fn repeat(&self, _: &str, _: &Queue) {}
}
