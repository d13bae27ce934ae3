//! What the simulation needs of this machine.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use async_pool::AsyncPool;
use pool_core::{Pool, QueueDepth};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::simulate::{Choice, Rounds, Sections, Setup, efficiency, efficiency_of_futures};

const TASKS: u32 = 400_000;

fn pin(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).expect("the machine has this core");
}

/// Nanoseconds that a line takes from one core to the other.
fn transfer() -> f64 {
    const ROUNDS: u32 = 200_000;
    let turn = AtomicU32::new(0);
    let play = |core: usize, parity: u32| {
        pin(core);
        for round in 0..ROUNDS {
            while turn.load(SeqCst) != 2 * round + parity {
                spin_loop();
            }
            turn.store(2 * round + parity + 1, SeqCst);
        }
    };
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| play(0, 0));
        scope.spawn(|| play(1, 1));
    });
    per(begin, 2 * ROUNDS)
}

#[expect(clippy::cast_precision_loss, reason = "a few seconds")]
fn per(begin: Instant, count: u32) -> f64 {
    begin.elapsed().as_nanos() as f64 / f64::from(count)
}

fn pool(core: usize) -> Pool {
    let builder = Pool::builder().capacity(1).prestart(1);
    let builder = builder.queue_depth(QueueDepth::Unlimited);
    let start = move || pin(core);
    builder.start_hook(start).build().expect("it is valid")
}

/// Nanoseconds per push, and per pop of an empty task, each with nobody else.
fn alone() -> (f64, f64) {
    pin(0);
    let pool = pool(0);
    // The first round gets the memory.
    (0..2).fold((0.0, 0.0), |_, _| {
        let (open, gate) = mpsc::channel::<()>();
        // Fails when the gate opens.
        pool.submit(move || _ = gate.recv()).expect("it is open");
        let begin = Instant::now();
        (0..TASKS).for_each(|_| pool.submit(|| ()).expect("it is open"));
        let push = per(begin, TASKS);
        let begin = Instant::now();
        drop(open);
        pool.wait_idle().expect("it is not released");
        (push, per(begin, TASKS))
    })
}

/// Spins for about this many nanoseconds.
fn spin(nanos: u128) {
    let begin = Instant::now();
    while nanos > 0 && begin.elapsed().as_nanos() < nanos {
        spin_loop();
    }
}

/// Nanoseconds per task alone, and with a producer on one core and a worker on the other.
fn together(nanos: u128) -> (f64, f64) {
    pin(0);
    let count = TASKS / 4;
    let begin = Instant::now();
    (0..count).for_each(|_| spin(nanos));
    let alone = per(begin, count);
    let pool = pool(1);
    let begin = Instant::now();
    (0..count).for_each(|_| pool.submit(move || spin(nanos)).expect("it is open"));
    pool.wait_idle().expect("it is not released");
    (alone, per(begin, count))
}

/// A pool of futures, whose only worker runs on this core.
fn futures(core: usize) -> AsyncPool {
    let builder = AsyncPool::builder().workers(1).capacity(1_024);
    let pool = builder.build().expect("it is valid");
    pool.submit(async move { pin(core) }).expect("it has room");
    pool.wait_idle().expect("it is not released");
    pool
}

/// Like `alone`, for futures that end at their first poll.
fn futures_alone() -> (f64, f64) {
    const BATCH: u32 = 1_000;
    pin(0);
    let pool = futures(0);
    let (mut push, mut run) = (0.0, 0.0);
    for _ in 0..TASKS / BATCH {
        let (open, gate) = mpsc::channel::<()>();
        // Fails when the gate opens.
        pool.submit(async move { _ = gate.recv() })
            .expect("it is open");
        let begin = Instant::now();
        (0..BATCH).for_each(|_| pool.submit(async {}).expect("it is open"));
        push += per(begin, TASKS);
        let begin = Instant::now();
        drop(open);
        pool.wait_idle().expect("it is not released");
        run += per(begin, TASKS);
    }
    (push, run)
}

/// Like `together`, for futures.
fn futures_together(nanos: u128) -> f64 {
    pin(0);
    let count = TASKS / 4;
    let pool = futures(1);
    let begin = Instant::now();
    for _ in 0..count {
        pool.submit(async move { spin(nanos) }).expect("it is open");
    }
    pool.wait_idle().expect("it is not released");
    per(begin, count)
}

pub fn print(sections: &Sections, rounds: &Rounds) {
    let transfer = transfer();
    let (push, pop) = alone();
    println!("a line from core to core: {transfer:.0} ns; push {push:.1} ns, pop {pop:.1} ns");
    let (push, run) = futures_alone();
    println!("futures: submit {push:.1} ns, run {run:.1} ns");
    for nanos in [0, 300, 1_000, 10_000] {
        let (task, measured) = together(nanos);
        let setup = Setup {
            workers: 1,
            producers: 1,
            pools: 1,
            choice: Choice::ByThread,
            task,
        };
        let simulated = task / efficiency(sections, transfer, &setup);
        println!(
            "tasks of {task:.0} ns on two cores: {measured:.0} ns measured, {simulated:.0} simulated"
        );
        let measured = futures_together(nanos);
        let simulated = task / efficiency_of_futures(rounds, transfer, &setup);
        println!("futures: {measured:.0} ns measured, {simulated:.0} simulated");
    }
}
