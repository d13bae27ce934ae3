//! The slot of each worker, the name of its thread, and the wrap around its life.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use pool_core::{Pool, SubmitError, current};
use testkit::Gate;

use crate::support::{Journal, end, until};

fn thread_name() -> Option<String> {
    thread::current().name().map(str::to_owned)
}

#[testkit::test]
fn live_workers_have_distinct_slots_and_freed_slots_are_reused() {
    let pool = Pool::builder().capacity(4).keep_alive(None);
    let pool = pool
        .thread_name(|slot| format!("worker {slot}"))
        .build()
        .unwrap();
    for _ in 0..3 {
        let (gate, slots) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
        for _ in 0..4 {
            let (held, slots) = (gate.clone(), Arc::clone(&slots));
            let task = move || {
                let slot = current().worker().unwrap();
                assert_eq!(thread_name().unwrap(), format!("worker {slot}"));
                slots.lock().unwrap().push(slot);
                held.wait();
            };
            pool.try_submit(task).unwrap();
        }
        gate.wait_for_arrivals(4);
        let mut slots = slots.lock().unwrap().clone();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3]);
        gate.open();
        pool.wait_idle().unwrap();
        // Two workers end, and two others start.
        pool.tune(2).unwrap();
        until(|| pool.running() == 2);
        pool.tune(4).unwrap();
    }
    end(&pool);
}

#[testkit::test]
fn a_refused_start_frees_its_slot() {
    let refusals = Arc::new(AtomicUsize::new(2));
    let left = Arc::clone(&refusals);
    let pool = Pool::builder().capacity(2).thread_gate(move || {
        let refuse = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        refuse.map_or(Ok(()), |_| Err(io::ErrorKind::OutOfMemory.into()))
    });
    let pool = pool.build().unwrap();
    for _ in 0..2 {
        assert!(matches!(pool.submit(|| ()), Err(SubmitError::NoThread(..))));
    }
    assert_eq!(
        pool.spawn(|| current().worker()).unwrap().join().unwrap(),
        Some(0)
    );
}

#[testkit::test]
fn a_thread_name_that_panics_or_contains_nul_counts_as_a_refusal() {
    for bad in [|_| panic!("no name"), |_| String::from("a\0b")] {
        let pool = Pool::builder()
            .capacity(1)
            .thread_name(bad)
            .build()
            .unwrap();
        assert!(matches!(pool.submit(|| ()), Err(SubmitError::NoThread(..))));
        assert_eq!(pool.stats().thread_failures, 1);
    }
}

#[testkit::test]
fn hooks_get_the_slot_of_their_worker() {
    let journal = Journal::new();
    let note = |what: &'static str| {
        let journal = journal.clone();
        move || journal.write((what, current().worker()))
    };
    let pool = Pool::builder().capacity(1);
    let pool = pool.start_hook(note("start")).stop_hook(note("stop"));
    let pool = pool.build().unwrap();
    pool.spawn(note("task")).unwrap().join().unwrap();
    end(&pool);
    let expected = [("start", Some(0)), ("task", Some(0)), ("stop", Some(0))];
    assert_eq!(journal.entries(), expected);
    assert_eq!(current().worker(), None);
}

#[testkit::test]
fn a_thread_wrap_encloses_a_workers_hooks_and_tasks_and_delays_the_end() {
    let journal = Journal::new();
    let (wraps, starts, stops) = (journal.clone(), journal.clone(), journal.clone());
    let pool = Pool::builder().capacity(1).worker_wrap(move |run| {
        wraps.write("in");
        run();
        run(); // The worker has lived once.
        wraps.write("out");
    });
    let pool = pool.start_hook(move || starts.write("start"));
    let pool = pool.stop_hook(move || stops.write("stop"));
    let pool = pool.build().unwrap();
    pool.submit(journal.writer("task")).unwrap();
    end(&pool);
    assert_eq!(journal.entries(), ["in", "start", "task", "stop", "out"]);
}

/// The processors of the calling thread.
#[cfg(target_os = "linux")]
fn processors() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed:"));
    line.unwrap().to_owned()
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn a_worker_wrap_resets_what_a_worker_inherits() {
    use std::mem::{size_of, zeroed};

    // SAFETY: for this type all zeros are valid.
    let mut own: libc::cpu_set_t = unsafe { zeroed() };
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: the call writes only to the set.
    unsafe { libc::sched_getaffinity(0, bytes, &raw mut own) };
    let plain = Pool::builder().capacity(1);
    let wrapped = plain.clone().worker_wrap(move |run| {
        // SAFETY: the call reads the set.
        unsafe { libc::sched_setaffinity(0, bytes, &raw const own) };
        run();
    });
    let of_builder = processors();
    for (builder, resets) in [(plain, false), (wrapped, true)] {
        let pool = builder.build().unwrap();
        let of_starter = testkit::on_special_thread(|| {
            pool.spawn(|| ()).unwrap().join().unwrap(); // Starts the worker.
            processors()
        });
        let expected = if resets { &of_builder } else { &of_starter };
        let of_worker = pool.spawn(processors).unwrap().join().unwrap();
        assert_eq!(of_worker, *expected);
        end(&pool);
    }
}

#[testkit::test]
fn workers_run_tasks_although_a_thread_wrap_panics_or_forgets_to_run() {
    for panics in [false, true] {
        let pool = Pool::builder().capacity(1).worker_wrap(move |_| {
            assert!(!panics, "a wrap");
        });
        let pool = pool.build().unwrap();
        assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
        end(&pool);
        assert_eq!(pool.stats().hook_panics, u64::from(panics));
    }
    let pool = Pool::builder().capacity(1).worker_wrap(|run| {
        run();
        panic!("after it");
    });
    let pool = pool.build().unwrap();
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    end(&pool);
    assert_eq!(pool.stats().hook_panics, 1);
}
