//! The pools by name, one file each.

mod affinitypool;
mod anthill;
mod blocking;
mod channel;
mod executors;
mod rayon;
mod rusty_pool;
mod thread;
mod threadpool;
mod tokio;

use std::error::Error;

use crate::peer::{Elastic, ElasticJob, Job, Peer, Refusing, RefusingJob, Shape};

pub use anthill::{Anthill, queue_depth};
pub use channel::{Channel, Crossbeam, Crossfire, Kanal, Mpmc};
pub use rayon::pool as rayon_pool;

/// Pools with an unbounded queue or none.
pub const ALL: &[&str] = &[
    "anthill",
    "crossbeam",
    "crossfire",
    "kanal",
    "rayon",
    "threadpool",
    "rusty_pool",
    "tokio spawn",
    "tokio spawn_blocking",
    "blocking",
    "affinitypool",
    "executors workstealing",
    "executors channel",
    "thread per task",
];

/// Pools with a bounded queue, then well-known ones that have none.
pub const BOUNDED: &[&str] = &[
    "anthill",
    "crossbeam",
    "crossfire",
    "kanal",
    "rayon",
    "tokio spawn",
    "tokio spawn_blocking",
];

/// Pools that can hand a task over without a queue.
pub const RENDEZVOUS: &[&str] = &["anthill", "crossbeam", "kanal"];

/// The most popular pools, for cases in which the others would only lengthen the run.
pub const COMMON: &[&str] = &[
    "anthill",
    "crossbeam",
    "crossfire",
    "rayon",
    "threadpool",
    "rusty_pool",
    "tokio spawn",
    "tokio spawn_blocking",
    "blocking",
];

/// Pools that can have thousands of threads.
pub const MANY_THREADS: &[&str] = &[
    "anthill",
    "crossbeam",
    "crossfire",
    "threadpool",
    "rusty_pool",
    "tokio spawn_blocking",
    "blocking",
];

/// Pools of the quick version.
pub const QUICK: &[&str] = &[
    "anthill",
    "crossbeam",
    "rayon",
    "tokio spawn_blocking",
    "bare mailbox",
    "bare futex wake",
    "bare loop",
];

/// Pools that can refuse a task.
pub const REFUSING: &[&str] = &["anthill", "crossbeam", "crossfire", "kanal"];

/// Pools that grow and shrink. `blocking` grows too, but ends only threads above its limit.
pub const ELASTIC: &[&str] = &["anthill", "rusty_pool", "tokio spawn_blocking"];

fn started<P: Peer>(shape: Shape) -> &'static P {
    Box::leak(Box::new(P::start(shape)))
}

/// Starts the pool of that name and runs the job with it. The pool is never released.
pub fn with<J: Job>(name: &str, shape: Shape, job: J) -> Result<J::Out, Box<dyn Error>> {
    Ok(match name {
        "anthill" => job.run(started::<Anthill>(shape)),
        "crossbeam" => job.run(started::<Channel<Crossbeam>>(shape)),
        "crossfire" => job.run(started::<Channel<Crossfire>>(shape)),
        "kanal" => job.run(started::<Channel<Kanal>>(shape)),
        "rayon" => job.run(started::<rayon::Rayon>(shape)),
        "threadpool" => job.run(started::<threadpool::Threadpool>(shape)),
        "rusty_pool" => job.run(started::<rusty_pool::RustyPool>(shape)),
        "tokio spawn" => job.run(started::<tokio::Spawn>(shape)),
        "tokio spawn_blocking" => job.run(started::<tokio::SpawnBlocking>(shape)),
        "blocking" => job.run(started::<blocking::Blocking>(shape)),
        "affinitypool" => job.run(started::<affinitypool::Affinitypool>(shape)),
        "executors workstealing" => job.run(started::<executors::Workstealing>(shape)),
        "executors channel" => job.run(started::<executors::Channel>(shape)),
        "thread per task" => job.run(started::<thread::Thread>(shape)),
        other => return Err(unknown(other)),
    })
}

pub fn with_refusing<J: RefusingJob>(
    name: &str,
    shape: Shape,
    job: J,
) -> Result<J::Out, Box<dyn Error>> {
    fn started_refusing<P: Refusing>(shape: Shape) -> &'static P {
        started(shape)
    }
    Ok(match name {
        "anthill" => job.run(started_refusing::<Anthill>(shape)),
        "crossbeam" => job.run(started_refusing::<Channel<Crossbeam>>(shape)),
        "crossfire" => job.run(started_refusing::<Channel<Crossfire>>(shape)),
        "kanal" => job.run(started_refusing::<Channel<Kanal>>(shape)),
        other => return Err(unknown(other)),
    })
}

pub fn with_elastic<J: ElasticJob>(name: &str, job: J) -> Result<J::Out, Box<dyn Error>> {
    fn run<P: Elastic, J: ElasticJob>(job: J) -> J::Out {
        job.run::<P>()
    }
    Ok(match name {
        "anthill" => run::<Anthill, J>(job),
        "rusty_pool" => run::<rusty_pool::RustyPool, J>(job),
        "tokio spawn_blocking" => run::<tokio::SpawnBlocking, J>(job),
        other => return Err(unknown(other)),
    })
}

/// The error for a name that a case offers and that cannot be started.
pub fn unknown(name: &str) -> Box<dyn Error> {
    format!("unknown pool `{name}` for this case").into()
}

/// All names except these.
pub fn without(pools: &[&'static str], these: &[&str]) -> Vec<&'static str> {
    let mut pools = pools.to_vec();
    pools.retain(|pool| !these.contains(pool));
    pools
}

/// `pools` followed by one more.
pub fn and(pools: &[&'static str], one: &'static str) -> Vec<&'static str> {
    let mut pools = pools.to_vec();
    pools.push(one);
    pools
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Six;

    impl Job for Six {
        type Out = u32;
        fn run<P: Peer>(self, peer: &'static P) -> u32 {
            let nested = peer.inner();
            let (sender, receiver) = crossbeam_channel::bounded(1);
            peer.submit(move || {
                P::submit_inner(&nested, move || sender.send(4).expect("it is awaited"));
            });
            peer.ask(|| 2) + receiver.recv().expect("it is sent")
        }
    }

    #[test]
    fn every_pool_runs_tasks_and_nested_tasks_and_returns_values() {
        for pool in ALL {
            assert_eq!(with(pool, Shape::unlimited(2), Six).unwrap(), 6, "{pool}");
        }
    }
}
