//! A discrete simulation of producers and workers that share the locks of pools.
//!
//! A pool has two locks. A producer holds the second one while it pushes a task; a worker holds the first one while it
//! takes its next task, and both while it moves the tasks of the inbox to its own half. A thread that gets a lock from
//! another core pays for the lines that come with it, and a worker pays for the line of a task that another core has
//! written. The producers of several pools take turns by a counter, whose line moves from one to the other.
//!
//! A pool of futures has one lock. A worker takes it once in a round: it counts the ends of the last round and takes its share
//! of the inbox, which it then runs from a queue of its own. A worker without futures takes half of another one's queue.
//!
//! Not simulated: threads without a core, sleeps (an idle worker polls), the spinning that slows down a lock's holder.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time of the sections with all lines in the core's cache, ns.
pub struct Sections {
    pub push: f64,
    pub pop: f64,
}

/// The same for a pool of futures.
pub struct Rounds {
    /// What a producer does for each future before its section.
    pub make: f64,
    pub push: f64,
    /// A worker's section, however many futures it is about.
    pub round: f64,
    /// What each future adds to the section that takes it, and to the section that counts its end.
    pub each: f64,
    /// What the worker does for each future outside of the section.
    pub run: f64,
}

pub struct Machine {
    pub name: &'static str,
    /// Cost of a cache line that another core has written last, ns.
    pub transfer: f64,
}

/// How producers spread their tasks over several pools.
#[derive(Clone, Copy, PartialEq)]
pub enum Choice {
    /// In turn, by a counter of all producers.
    RoundRobin,
    /// Each producer has its pool.
    ByThread,
}

#[derive(Clone, Copy)]
pub struct Setup {
    pub workers: usize,
    pub producers: usize,
    pub pools: usize,
    pub choice: Choice,
    /// Length of a task, ns.
    pub task: f64,
}

/// A counter of the strategy that all producers of several pools write.
const COUNT: f64 = 5.0;
/// Lines that a lock's new holder takes over: the lock with its half's counters, and the end of the queue.
const LINES: f64 = 2.0;
/// A producer waits while so many tasks of a pool wait.
const DEPTH: usize = 1_024;
/// How often a thread without work asks again.
const POLL: f64 = 200.0;
/// Futures that all workers together take from the inbox, and how long a worker's round takes, ns.
const MOST_NEW: usize = 64;
const ROUND: f64 = 200_000.0;
/// Simulated time, ns.
const WARM: f64 = 200_000.0;
const END: f64 = 2_000_000.0;

#[derive(Clone, Default)]
struct Lock {
    free_at: f64,
    last: Option<usize>,
}

impl Lock {
    /// Takes the lock at `now`, or as soon as it is free; returns when the section begins. `moving` is the cost of its lines
    /// if another core had it.
    fn take(&mut self, now: f64, core: usize, moving: f64) -> f64 {
        let moves = self.last.replace(core) != Some(core);
        now.max(self.free_at) + if moves { moving } else { 0.0 }
    }
}

#[derive(Clone, Default)]
struct Pool {
    first: Lock,
    second: Lock,
    own: usize,
    inbox: usize,
}

/// Times as keys: they are not negative, so their bits have their order.
fn key(time: f64) -> u64 {
    time.to_bits()
}

/// Lets `cores` act in the order of their times. `act` returns when the core acts next.
fn play(cores: usize, mut act: impl FnMut(f64, usize) -> f64) {
    let mut events: BinaryHeap<_> = (0..cores)
        .map(|core| Reverse((key(0.0), core, core)))
        .collect();
    let mut asked = cores;
    while let Some(Reverse((at, _, core))) = events.pop() {
        let now = f64::from_bits(at);
        if now >= END {
            break;
        }
        let next = act(now, core);
        asked += 1;
        events.push(Reverse((key(next), asked, core)));
    }
}

/// The share of their time that `workers` have spent in `done` tasks of `task` ns.
fn share(done: usize, task: f64, workers: usize) -> f64 {
    cast(done) * task / ((END - WARM) * cast(workers))
}

/// Returns the share of their time that the workers spend in tasks.
pub fn efficiency(sections: &Sections, transfer: f64, setup: &Setup) -> f64 {
    let mut pools = vec![Pool::default(); setup.pools];
    let lines = LINES * transfer;
    let mut turn = Lock::default();
    let mut turns = 0;
    let mut done = 0;
    // Cores 0 to `workers` run workers, the others producers. Each asks for a lock when its time has come.
    play(setup.workers + setup.producers, |now, core| {
        if core < setup.workers {
            let pool = &mut pools[core % setup.pools];
            if pool.own + pool.inbox == 0 {
                now + POLL // A flag says so, without the lock.
            } else if pool.first.free_at > now {
                pool.first.free_at // Asks again then; whoever asked before comes first.
            } else {
                let mut begin = pool.first.take(now, core, lines);
                if pool.own == 0 {
                    begin = pool.second.take(begin, core, lines);
                    pool.own = std::mem::take(&mut pool.inbox);
                    pool.second.free_at = begin;
                }
                pool.own -= 1;
                done += usize::from(now > WARM);
                pool.first.free_at = begin + sections.pop + transfer;
                pool.first.free_at + setup.task
            }
        } else {
            let in_turn = setup.pools > 1 && setup.choice == Choice::RoundRobin;
            let index = if in_turn { turns } else { core };
            let pool = &mut pools[index % setup.pools];
            if pool.own + pool.inbox >= DEPTH {
                now + POLL
            } else if pool.second.free_at > now {
                pool.second.free_at
            } else {
                turns += 1;
                let mut begin = now;
                if in_turn {
                    begin = turn.take(begin, core, transfer) + COUNT;
                    turn.free_at = begin;
                }
                let end = pool.second.take(begin, core, lines) + sections.push;
                pool.second.free_at = end;
                pool.inbox += 1;
                end
            }
        }
    });
    share(done, setup.task, setup.workers)
}

/// Returns the share of their time that the workers of a pool of futures spend in futures that end at their first poll.
pub fn efficiency_of_futures(rounds: &Rounds, transfer: f64, setup: &Setup) -> f64 {
    let lines = LINES * transfer;
    let mut lock = Lock::default();
    let mut inbox = 0;
    // Of each worker: futures in its queue, and those that have ended and are not counted.
    let mut queues = vec![(0_usize, 0_usize); setup.workers];
    let mut live = 0;
    let mut done = 0;
    play(setup.workers + setup.producers, |now, core| {
        let stolen_from = || (0..setup.workers).find(|other| queues[*other].0 > 0);
        let is_idle = core < setup.workers && inbox == 0 && queues[core] == (0, 0);
        let waits = core >= setup.workers && live >= DEPTH;
        if is_idle {
            let Some(other) = stolen_from() else {
                return now + POLL;
            };
            let half = queues[other].0.div_ceil(2);
            queues[other].0 -= half;
            queues[core].0 = half;
            return now + lines;
        }
        if waits {
            return now + POLL;
        }
        if lock.free_at > now {
            return lock.free_at; // Asks again then; whoever asked before comes first.
        }
        let begin = lock.take(now, core, lines);
        if core >= setup.workers {
            inbox += 1;
            live += 1;
            lock.free_at = begin + rounds.push;
            return lock.free_at + rounds.make;
        }
        let (queue, ended) = &mut queues[core];
        let new = MOST_NEW.min(inbox).div_ceil(setup.workers);
        inbox -= new;
        live -= *ended;
        lock.free_at = begin + rounds.round + rounds.each * cast(new + *ended);
        *queue += new;
        // A round ends after so much time.
        let each = rounds.run + transfer + setup.task;
        let mut until = lock.free_at;
        *ended = 0;
        while *queue > 0 && until < lock.free_at + ROUND {
            *queue -= 1;
            *ended += 1;
            done += usize::from(WARM < until && until < END);
            until += each;
        }
        until
    });
    share(done, setup.task, setup.workers)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn cast(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTIONS: Sections = Sections {
        push: 20.0,
        pop: 20.0,
    };

    fn run(workers: usize, producers: usize, pools: usize, task: f64, transfer: f64) -> f64 {
        let choice = Choice::ByThread;
        run_by(choice, workers, producers, pools, task, transfer)
    }

    fn run_by(
        choice: Choice,
        workers: usize,
        producers: usize,
        pools: usize,
        task: f64,
        transfer: f64,
    ) -> f64 {
        let setup = Setup {
            workers,
            producers,
            pools,
            choice,
            task,
        };
        efficiency(&SECTIONS, transfer, &setup)
    }

    #[test]
    fn one_worker_needs_its_task_and_its_section() {
        let share = run(1, 1, 1, 1_000.0, 0.0);
        assert!((share - 1_000.0 / 1_020.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn a_lock_that_all_workers_need_is_the_limit() {
        // The section takes 20 + 3 * 50 ns, for 64 workers.
        let share = run(64, 2, 1, 1_000.0, 50.0);
        let limit = 1_000.0 / (64.0 * 170.0);
        assert!((share - limit).abs() < 0.1 * limit, "{share} of {limit}");
    }

    #[test]
    fn producers_that_are_too_slow_are_the_limit() {
        let share = run(64, 1, 1, 2_000.0, 0.0);
        let limit = 2_000.0 / (64.0 * 20.0);
        assert!(limit > 1.0 && share > 0.9, "{share}");
        let share = run(64, 1, 1, 500.0, 0.0);
        let limit = 500.0 / (64.0 * 20.0);
        assert!((share - limit).abs() < 0.1 * limit, "{share} of {limit}");
    }

    #[test]
    fn several_pools_have_several_locks() {
        let one = run(64, 16, 1, 1_000.0, 50.0);
        let four = run(64, 16, 4, 1_000.0, 50.0);
        assert!(four > 3.0 * one, "{four}, {one}");
        let in_turn = run_by(Choice::RoundRobin, 64, 16, 4, 1_000.0, 50.0);
        assert!(one < in_turn && in_turn < four, "{in_turn}, {four}");
    }

    fn run_futures(workers: usize, producers: usize, task: f64, transfer: f64) -> f64 {
        let rounds = Rounds {
            make: 0.0,
            push: 50.0,
            round: 40.0,
            each: 10.0,
            run: 30.0,
        };
        let setup = Setup {
            workers,
            producers,
            pools: 1,
            choice: Choice::ByThread,
            task,
        };
        efficiency_of_futures(&rounds, transfer, &setup)
    }

    #[test]
    fn a_worker_of_futures_shares_its_section_among_those_of_a_round() {
        // Its producer is as fast: 50 ns.
        let share = run_futures(1, 4, 1_000.0, 0.0);
        let limit = 1_000.0 / (1_000.0 + 30.0 + 2.0 * 10.0 + 40.0 / 64.0);
        assert!((share - limit).abs() < 0.01, "{share} of {limit}");
    }

    #[test]
    fn the_lock_of_all_workers_and_producers_limits_a_pool_of_futures() {
        // For each of 64 workers, 1 future in a round: its push and its round with two lines, and two lines for a push after
        // another producer's.
        let share = run_futures(64, 16, 1_000.0, 50.0);
        let limit = |lines: f64| 1_000.0 / (64.0 * (50.0 + 40.0 + 20.0 + lines * 50.0));
        let (least, most) = (limit(4.0), limit(2.0));
        assert!(
            least < share && share < most,
            "{share} of {least} to {most}"
        );
        assert!(run_futures(64, 16, 100_000.0, 50.0) > 0.97);
    }

    #[test]
    fn long_tasks_need_no_second_pool() {
        assert!(run(64, 16, 1, 100_000.0, 110.0) > 0.97);
    }
}
